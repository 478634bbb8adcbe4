"""Interfaces for Python: an experiment in one call, and lindley inside scikit-learn and the LiR toolkit."""
