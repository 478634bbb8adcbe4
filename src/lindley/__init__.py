"""Feature-based likelihood ratios for forensic source comparison.

A *source* (a window) is measured several times; each measurement is an *instance*. A pair sets instances of unknown origin (the
*trace*) beside instances of a known source (the *ref*). The LLR of a pair is

    log10 p(trace, ref | same source) − log10 p(trace) − log10 p(ref).

The whole of it on a card::

    table = lindley.read_table("glass.xlsx", source="item")    # or a data frame, or arrays
    table = lindley.join_tables([table, more])                 # several tables as one background
    system = lindley.train(table)                              # a system for casework, with its validation
    system.save("glass.safetensors")
    system = lindley.load("glass.safetensors")
    system.llr(trace, ref)                                     # log10 LR of one trace and one ref
    system.llr_matrix(traces, refs)                            # every trace against every ref
    case = system.case("trace.csv", "ref.csv")                 # similarity, typicality, interval, bounds, warnings
    case.write("case.html")
    system.evaluate(lindley.read_table("new.xlsx"))            # validation on data that it has not seen
    lindley.run("demo", table, models=["robust", "tlm+logistic"])    # models compared on many splits
    lindley.cllr(same, different)                              # and cllr_min, eer, devpav … of plain arrays
    lindley.plot.tippett(same, different)                      # and pav, ece, det, histogram, on matplotlib axes

Behind it data walks through the package in one line::

    table ──▶ split ──▶ system ──▶ LLRs ──▶ metrics
    table/    table/    system/    llrs     evaluation/
                        models/ · calibration/

Importing this package is cheap: torch is loaded by the modules that compute with it, when they are used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from lindley.version import __version__

if TYPE_CHECKING:
    from lindley import plot as plot
    from lindley.adapters.python import run as run
    from lindley.adapters.sklearn import TwoLevelClassifier as TwoLevelClassifier
    from lindley.evaluation.metrics import (
        cllr as cllr,
        cllr_cal as cllr_cal,
        cllr_min as cllr_min,
        devpav as devpav,
        eer as eer,
        misleading_different as misleading_different,
        misleading_same as misleading_same,
    )
    from lindley.system.system import System as System, load as load
    from lindley.system.train import train as train
    from lindley.table.join import join_tables as join_tables
    from lindley.table.read import read_table as read_table
    from lindley.table.table import Table as Table

_HOMES = {
    "System": "lindley.system.system",
    "Table": "lindley.table.table",
    "TwoLevelClassifier": "lindley.adapters.sklearn",
    **dict.fromkeys(
        ("cllr", "cllr_cal", "cllr_min", "devpav", "eer", "misleading_different", "misleading_same"),
        "lindley.evaluation.metrics",
    ),
    "join_tables": "lindley.table.join",
    "load": "lindley.system.system",
    "plot": "lindley.plot",
    "read_table": "lindley.table.read",
    "run": "lindley.adapters.python",
    "train": "lindley.system.train",
}
__all__ = [*_HOMES, "__version__"]


def __getattr__(name: str) -> Any:
    """Fetch what is computed with torch when it is first asked for."""
    if name not in _HOMES:
        raise AttributeError(f"module 'lindley' has no attribute '{name}'")
    from importlib import import_module

    home = import_module(_HOMES[name])
    value = globals()[name] = home if name == "plot" else getattr(home, name)
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
