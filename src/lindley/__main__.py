"""``python -m lindley`` is the command ``lindley``."""

from lindley.cli import main

if __name__ == "__main__":  # a process that is started by this one imports the module too
    main()
