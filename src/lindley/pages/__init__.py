"""The report of a run: figure data first, drawing second, one self-contained page."""
