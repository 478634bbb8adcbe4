"""Speed, memory and growth of lindley, measured on the machine at hand.

python -m bench                      every section but `paper` and `curves`; prints tables
python -m bench --json FILE          and writes the figures
python -m bench.draw [FILE …]        the page and the picture of the documentation, from such files

torch, NumPy and SciPy are enough: PYTHONPATH=src python -m bench runs from a source tree.
"""
