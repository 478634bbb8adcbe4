"""The one exception whose message is meant for the person at the keyboard."""

__all__ = ["LindleyError"]


class LindleyError(Exception):
    """Something that the user can mend; the message says what, where and how.

    The command line prints the message alone and ends with status 2.
    """
