"""``python -m lindley`` is the command ``lindley``."""

from lindley.cli.commands import main

if __name__ == "__main__":
    main()
