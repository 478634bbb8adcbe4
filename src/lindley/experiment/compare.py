"""Experiments side by side: the same model in several runs, or several models against one, paired split by split."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from statistics import fmean, median
from typing import Any

from lindley.errors import LindleyError
from lindley.experiment.results import ModelResult, mean_and_error, two_sem
from lindley.experiment.saved import SavedRun

__all__ = ["Comparison", "Line", "compare"]


@dataclass(frozen=True)
class Line:
    """One model of one run, and how it differs from what it is compared with; differences are paired per split."""

    run: str
    model: str
    result: ModelResult
    against: str | None  # run and model that it is compared with; nothing for that one itself
    differences: tuple[float, ...] | None  # test Cllr, per split: negative is better than what it is compared with
    why_not: str = ""  # why there are no differences

    @property
    def difference(self) -> str:
        """Mean paired difference ± 2 s.e.m., and in how many splits the model is better."""
        if self.differences is None:
            return self.why_not
        better = sum(d < 0 for d in self.differences)
        error = f" ± {two_sem(self.differences):.4f}" if len(self.differences) > 1 else ""
        return f"{fmean(self.differences):+.4f}{error}, better in {better} of {len(self.differences)}"

    def row(self) -> tuple[str, ...]:
        """As text: run, model, test Cllr, median, Cllr_min, difference."""
        return (
            self.run,
            self.model,
            mean_and_error(self.result.test_cllr),
            f"{median(self.result.test_cllr):.4f}",
            f"{fmean(self.result.test_cllr_min):.4f}",
            self.difference,
        )

    def to_json(self) -> dict[str, Any]:
        """For scripts."""
        paired = self.differences
        return {
            "run": self.run,
            "model": self.model,
            "test_cllr": list(self.result.test_cllr),
            "test_cllr_mean": fmean(self.result.test_cllr),
            "test_cllr_2sem": two_sem(self.result.test_cllr),
            "against": self.against,
            "differences": None if paired is None else list(paired),
            "difference_mean": None if paired is None else fmean(paired),
            "difference_2sem": None if paired is None else two_sem(paired),
            "why_not": self.why_not or None,
        }


@dataclass(frozen=True)
class Comparison:
    """All lines, and what a reader must know about them."""

    lines: tuple[Line, ...]
    remarks: tuple[str, ...]


def compare(runs: Sequence[SavedRun], to: str | None = None) -> Comparison:
    """Every model of every run, against the same model in the first run; or all against model ``to`` of the first run.

    Differences are paired: split p of one run against split p of the other, for as many splits as both have. That needs the
    same data and the same protocol; where they are not, the runs are shown without differences.
    """
    first = runs[0]
    if to is not None:
        first.spec(to)  # says which models there are, if it is not one of them
    if len({run.folder.resolve() for run in runs}) < len(runs):
        raise LindleyError("The same folder is named twice: name each once.")
    if len(runs) < 2 and to is None:
        raise LindleyError(
            "One experiment alone has nothing to be compared with: name two folders, or give --to MODEL to compare its "
            f"models with one of them ({', '.join(first.models)})."
        )
    lines, remarks = [], []
    for run in runs:
        obstacle = _obstacle(first, run)
        if obstacle:
            remarks.append(f"{run.folder}: {obstacle}, so its splits do not pair with those of {first.folder}.")
        for model in run.models:
            other = to if to is not None else model
            itself = run is first and model == other
            result = run.result(model)
            differences, why_not = None, ""
            if itself:
                why_not = "is compared with"
            elif obstacle:
                why_not = "not paired"
            elif other not in first.models:
                why_not = "not in the first"
            else:
                pairs = zip(result.test_cllr, first.result(other).test_cllr, strict=False)  # as many as both have
                differences = tuple(a - b for a, b in pairs)
            against = None if differences is None else f"{other} in {first.folder}"
            lines.append(Line(str(run.folder), model, result, against, differences, why_not))
    return Comparison(tuple(lines), tuple(remarks))


def _obstacle(a: SavedRun, b: SavedRun) -> str:
    """Why two runs do not pair; nothing if they do."""
    if a.content["data"]["sha256"] != b.content["data"]["sha256"]:
        return "it has other data"
    if replace(a.experiment.protocol, splits=1) != replace(b.experiment.protocol, splits=1):
        return "it has another protocol (replicates, shares or seed)"
    return ""
