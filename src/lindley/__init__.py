"""Feature-based likelihood ratios for forensic source comparison.

Data walks through the package in one line::

    table ──▶ split ──▶ model ──▶ LLRs ──▶ calibration ──▶ metrics
    data/     data/     models/   llrs     calibration/    evaluation/
    └──────────────────────── experiment/ ───────────────────────────┘

A *source* (a window) is measured several times; each measurement is an *instance*. A pair sets instances of
unknown origin (the *trace*) beside instances of a known source (the *ref*). The LLR of a pair is

    log10 p(trace, ref | same source) − log10 p(trace) − log10 p(ref).

Importing this package is cheap: torch is loaded by the modules that compute with it, when they are used.
"""

__all__ = ["__version__"]

__version__ = "0.1.0"
