"""lindley inside LiR, the likelihood-ratio toolkit of the Netherlands Forensic Institute (LiR ≥ 1.8, Python ≥ 3.12).

In an experiment file every name here is used by its full name, ``architecture: lindley.adapters.lir.two_level``, or by the
short name that `registry.yaml` gives it::

    data ────▶ architecture ──▶ modules ──▶ output
    table      two_level        calibrators  metrics
    case       saved_system     bounders
    groups

LiR splits its data two ways; what needs sources that a model has not seen gets its own share of the training sources
inside ``fit``.
"""

from __future__ import annotations

from pathlib import Path

try:
    import lir.lrsystems  # noqa: F401 - says whether LiR is there
except ModuleNotFoundError as error:
    if (error.name or "").partition(".")[0] != "lir":
        raise
    raise ModuleNotFoundError(
        'lindley.adapters.lir needs LiR, which is not installed: pip install ".[lir]" in the folder of lindley, with '
        "Python 3.12 or newer",
        name=error.name,
    ) from None

from lindley.adapters.lir.lr_systems import SavedSystem, TwoLevelSystem, saved_system, two_level
from lindley.adapters.lir.pairing import AllPairs, GroupsCrossValidation, GroupsTrainTestSplit
from lindley.adapters.lir.providers import CasePairs, Table, case_pairs
from lindley.adapters.lir.transformers import (
    ElubBounder,
    InvarianceBounder,
    KernelCalibrator,
    LogisticCalibrator,
    PavCalibrator,
    TwoLevelModel,
    cllr,
    cllr_cal,
    cllr_min,
    devpav,
    eer,
    misleading_different,
    misleading_same,
)

__all__ = [
    "REGISTRY",
    "AllPairs",
    "CasePairs",
    "ElubBounder",
    "GroupsCrossValidation",
    "GroupsTrainTestSplit",
    "InvarianceBounder",
    "KernelCalibrator",
    "LogisticCalibrator",
    "PavCalibrator",
    "SavedSystem",
    "Table",
    "TwoLevelModel",
    "TwoLevelSystem",
    "case_pairs",
    "cllr",
    "cllr_cal",
    "cllr_min",
    "devpav",
    "eer",
    "misleading_different",
    "misleading_same",
    "saved_system",
    "two_level",
]

REGISTRY = Path(__file__).with_name("registry.yaml")
"""The file of short names; LiR reads it where the environment variable REGISTRY_CONFIG_FILE names it."""
