"""Feature-based likelihood ratios for forensic source comparison.

Data walks through the package in one line::

    table ──▶ split ──▶ model ──▶ LLRs ──▶ calibration ──▶ metrics
    data/     data/     models/   llrs     calibration/    evaluation/
    └──────────────────────── experiment/ ───────────────────────────┘

A *source* (a window) is measured several times; each measurement is an *instance*. A pair sets instances of
unknown origin (the *trace*) beside instances of a known source (the *ref*). The LLR of a pair is

    log10 p(trace, ref | same source) − log10 p(trace) − log10 p(ref).

A system that ``lindley train`` wrote is read by `load`::

    system = lindley.load("glass.safetensors")
    system.llr(trace, ref)              # log10 LR of one trace and one ref
    system.explain(trace, ref)          # similarity, typicality, shares of features, interval, bounds
    system.llr_matrix(traces, refs)     # every trace against every ref

Importing this package is cheap: torch is loaded by the modules that compute with it, when they are used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from lindley.version import __version__

if TYPE_CHECKING:
    from lindley.adapters.sklearn import TwoLevelClassifier as TwoLevelClassifier
    from lindley.system.system import System as System
    from lindley.system.system import load as load

__all__ = ["System", "TwoLevelClassifier", "__version__", "load"]


_HOMES = {
    "load": "lindley.system.system",
    "System": "lindley.system.system",
    "TwoLevelClassifier": "lindley.adapters.sklearn",
}


def __getattr__(name: str) -> Any:
    """Fetch what is computed with torch when it is first asked for."""
    if name not in _HOMES:
        raise AttributeError(f"module 'lindley' has no attribute '{name}'")
    from importlib import import_module

    value = globals()[name] = getattr(import_module(_HOMES[name]), name)
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
