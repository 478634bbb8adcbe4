"""Whether an LR of this case means anything: checked before anybody reads the number.

A *warning* goes into the report with its reason. A *refusal* means that an LR would be meaningless, and none is given.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass

import numpy as np

from lindley.casework.fit import squared_distance
from lindley.casework.system import System
from lindley.data.items import Items
from lindley.data.splits import Side
from lindley.models.two_level import item_squares

__all__ = ["Remark", "check_items", "check_llr"]

ABSURD_SD = 50.0
"""Standard deviations of the population outside its range beyond which values are in another unit, or of another material."""
MARGIN_SD = 0.5
"""… and within which a value a little outside the range is no news."""
DISAGREE = 10.0
"""Replicates that scatter so many times more than those of any training source are not replicates."""


@dataclass(frozen=True)
class Remark:
    """One thing to know about a case; ``refusal`` if there can be no LR."""

    code: str
    message: str
    refusal: bool = False


def check_items(system: System, side: Side, items: Items, which: str) -> list[Remark]:
    """The trace or the ref on its own: its place in the population, its replicates, its history."""
    remarks = [Remark(finding.code, str(finding)) for finding in items.findings if finding.level == "warning"]
    remarks += _range(system, side, which)
    remarks += _distance(system, side, which)
    remarks += _replicates(system, side, which)
    seen = set(system.digests)
    known = sum(digest in seen for digest in _digests(items))
    if known:
        remarks.append(
            Remark(
                "seen-in-training",
                f"{which}: {known} of {len(items.values)} measurements are among those that the system was trained on. "
                "Its LR of them is flattering: use a system trained without them.",
            )
        )
    return remarks


def check_llr(system: System, llr: float, same_rows: bool) -> list[Remark]:
    """The pair: what validation supports, and what looks like a slip."""
    remarks = []
    lower, upper = system.bounds
    if same_rows:
        remarks.append(
            Remark(
                "same-measurement",
                "A measurement of the trace is identical to one of the ref, to the last digit: was it copied? Two "
                "measurements never agree that well.",
            )
        )
    if llr > upper or llr < lower:
        beyond, bound = ("above", upper) if llr > upper else ("below", lower)
        remarks.append(
            Remark(
                "beyond-bounds",
                f"The log10 LR of the model, {llr:.2f}, is {beyond} {bound:.2f}, the most that the validation pairs "
                "support. Report the bounded LR.",
            )
        )
    return remarks


def _names(system: System, which: np.ndarray) -> str:
    names = [feature for feature, chosen in zip(system.features, which.tolist(), strict=True) if chosen]
    return ", ".join(names[:6]) + (f" and {len(names) - 6} more" if len(names) > 6 else "")


def _range(system: System, side: Side, which: str) -> list[Remark]:
    low = np.maximum(system.population.lowest - side.values, 0).max(axis=0)
    high = np.maximum(side.values - system.population.highest, 0).max(axis=0)
    outside = np.maximum(low, high)
    if (outside > ABSURD_SD).any():
        return [
            Remark(
                "outside-population",
                f"{which}: {_names(system, outside > ABSURD_SD)} lies more than {ABSURD_SD:.0f} standard deviations outside "
                "the range of the population. Values in another unit, another transform, or another material: an LR would "
                "be meaningless.",
                refusal=True,
            )
        ]
    if (outside > MARGIN_SD).any():
        k = int(np.argmax(outside))
        return [
            Remark(
                "outside-range",
                f"{which}: {_names(system, outside > MARGIN_SD)} lies outside the range of the training data "
                f"({system.features[k]} by {outside[k]:.1f} standard deviations). The model extrapolates there.",
            )
        ]
    return []


def _distance(system: System, side: Side, which: str) -> list[Remark]:
    distance = squared_distance(side.mean, system.population.means)
    far = distance > system.population.distance[-1]
    if not far.any():
        return []
    return [
        Remark(
            "unlike-population",
            f"{which}: {_some(side.source[far].tolist())} lies further from the centre of the population than any of the "
            f"{len(system.population.means)} training sources. How typical it is rests on the tails of the model.",
        )
    ]


def _replicates(system: System, side: Side, which: str) -> list[Remark]:
    remarks = []
    single = side.count == 1
    if single.any():
        remarks.append(
            Remark(
                "single-measurement",
                f"{which}: {_some(side.source[single].tolist())} was measured once, so nothing tells whether the "
                "measurement went well. Two or more are better.",
            )
        )
    measured = side.count > 1
    if not measured.any() or not len(system.population.scatter):
        return remarks
    var = (system.point.var_within_trace if which == "trace" else system.point.var_within_ref)[0, 0].numpy()
    squares = item_squares(system.point, side).numpy()[measured]
    scatter = (squares / var).sum(axis=1) / ((side.count[measured] - 1) * len(var))
    labels = side.source[measured]
    most = float(system.population.scatter[-1])
    usual = float(np.quantile(system.population.scatter, 0.99))
    absurd = scatter > DISAGREE * most
    if absurd.any():
        remarks.append(
            Remark(
                "replicates-disagree",
                f"{which}: the measurements of {_some(labels[absurd].tolist())} scatter {scatter.max() / most:.0f} times more "
                "(variance) than those of any training source. They are not of one source, or one went wrong: an LR would "
                "be meaningless.",
                refusal=True,
            )
        )
    elif (scatter > usual).any():
        remarks.append(
            Remark(
                "replicates-disagree",
                f"{which}: the measurements of {_some(labels[scatter > usual].tolist())} scatter more than those of 99 % of "
                "the training sources. Check them for an error or for two sources.",
            )
        )
    return remarks


def _some(labels: list[str]) -> str:
    shown = ", ".join(f"'{label}'" for label in labels[:4])
    return shown + (f" and {len(labels) - 4} more" if len(labels) > 4 else "")


def _digests(items: Items) -> list[str]:
    return [
        hashlib.sha256(" ".join(f"{value:.9g}" for value in row).encode()).hexdigest()[:16]
        for row in items.values.tolist()
    ]
