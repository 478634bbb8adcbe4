"""``python -m lindley`` is the command ``lindley``."""

from lindley.cli import main

main()
