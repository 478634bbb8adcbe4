"""What is carried into a laboratory without a network: ``python -m bundle``, or ``make bundle``.

A bundle is one folder, and the same as one zip file, for one kind of machine and one version of Python:

- `bundle.target`: which machine it is for, what wheels fit there, and what holds there when a package asks;
- `bundle.collect`: the wheels, followed from lindley through all that its packages need *there*, at the versions of
  constraints.txt;
- `bundle.licences`: the licence texts of everything inside;
- `bundle.pack`: the folder with its checksums and its install scripts (``bundle/carried``), and the zip;
- `bundle.proof`: that pip finds everything in it without an index, and that it installs and evaluates a case without a network.
"""
