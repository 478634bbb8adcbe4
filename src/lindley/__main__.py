"""``python -m lindley`` is the command ``lindley``."""

from lindley.cli.commands import main

main()
