"""The version, in a module of its own: every other module may import it."""

__all__ = ["__version__"]

__version__ = "0.3.0.dev0"
