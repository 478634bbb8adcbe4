"""The command ``lindley``."""

from lindley.cli.commands import app, main

__all__ = ["app", "main"]
