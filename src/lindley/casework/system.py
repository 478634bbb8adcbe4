"""A trained system: everything that turns the measurements of a case into an LR, in one file that runs no code."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from datetime import date
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lindley.calibration import Calibration
from lindley.data.export import write_atomically
from lindley.data.scaling import Scaling
from lindley.data.splits import Side
from lindley.data.table import Table
from lindley.errors import LindleyError
from lindley.llrs import Floats
from lindley.models.two_level import TwoLevel, score
from lindley.storage import KINDS, from_bytes, to_bytes

__all__ = ["FORMAT", "Population", "System", "instance_digests", "load"]

FORMAT = "lindley-system/1"


@dataclass(frozen=True, eq=False)
class Population:
    """What the training sources looked like, in standardised features: to judge whether a case belongs among them."""

    means: Floats  # of the training sources (sources, feature)
    lowest: Floats  # instance (feature,)
    highest: Floats  # instance (feature,)
    scatter: Floats  # mean square of a source's instances around their mean, on the axes, over the model's (sources,)
    distance: Floats  # squared distance of the source means from the population's, on the axes (sources,), increasing
    match_information: Floats  # ½ log10(1 + between/within variance) of every feature on its own


@dataclass(frozen=True, eq=False)
class System:
    """A model with all that surrounds it. Run 0 of the model is the system; the others tell how sure it is.

    ``model`` works on standardised features. ``calibration`` is empty for a feature-based LR, and holds the steps of a
    post-hoc one. ``digests`` are those of the instances that it was trained and validated on.
    """

    name: str  # of the model, as in --model
    features: tuple[str, ...]
    units: tuple[str | None, ...]
    transform: str  # none, log10 or ln: what is done to measurements first
    reference: str | None  # the column that they are divided by before the log
    mean: Floats  # standardisation (feature,)
    sd: Floats
    model: TwoLevel
    calibration: tuple[Any, ...]
    population: Population
    bounds: tuple[float, float]  # log10 LR: what the validation pairs support
    digests: tuple[str, ...]

    @property
    def runs(self) -> int:
        """The system itself and the bootstrap replicates."""
        return len(self.model.centre)

    @cached_property
    def point(self) -> TwoLevel:
        """The model without its replicates."""
        runs = self.runs
        return self.model.map(lambda t: t[:1] if t.ndim > 1 and len(t) == runs else t)

    @property
    def scaling(self) -> Scaling:
        """Raw to standardised."""
        return Scaling(self.mean, self.sd)

    def calibrated(self, llr: Floats) -> Floats:
        """LLRs of the model sent through the post-hoc calibration, where there is one."""
        for step in self.calibration:
            llr = _call(step, llr)
        return llr

    def llr_sides(self, trace: Side, ref: Side) -> Floats:
        """log10 LRs of all traces against all refs, given standardised."""
        return self.calibrated(score(self.point, [trace], [ref])[0])

    def llr_replicates(self, trace: Side, ref: Side) -> Floats:
        """log10 LRs of one trace and one ref by every bootstrap replicate."""
        scores = score(self.model, [trace] * self.runs, [ref] * self.runs)
        return self.calibrated(np.array([matrix[0, 0] for matrix in scores[1:]]))

    def llr(self, trace: Any, ref: Any) -> float:
        """log10 LR of one trace and one ref: arrays (instances, feature) in the system's features, as measured.

        >>> system.llr(trace, ref)  # doctest: +SKIP
        2.31
        """
        return float(self.llr_matrix([trace], [ref])[0, 0])

    def llr_matrix(self, traces: Any, refs: Any) -> Floats:
        """log10 LRs of every trace (rows) against every ref (columns); each is an array (instances, feature)."""
        return self.llr_sides(self.side(traces, "trace"), self.side(refs, "ref"))

    def explain(self, trace: Any, ref: Any) -> Any:
        """All that can be said about one case, see `lindley.casework.case.Explanation`."""
        from lindley.casework.case import explain

        return explain(self, self.side([trace], "trace"), self.side([ref], "ref"))

    def side(self, items: Any, name: str, sources: list[str] | None = None) -> Side:
        """Measurements of several items as the model sees them: transformed and standardised."""
        arrays = [np.atleast_2d(np.asarray(item, dtype=np.float64)) for item in items]
        if not arrays:
            raise LindleyError(f"there is no {name}")
        for number, array in enumerate(arrays, 1):
            if array.ndim != 2 or array.shape[1] != len(self.features) or not len(array):
                raise LindleyError(
                    f"{name} {number}: an array of instances × {len(self.features)} features is needed "
                    f"({', '.join(self.features)}), and it has the shape {array.shape}"
                )
            if not np.isfinite(array).all():
                raise LindleyError(f"{name} {number}: {np.count_nonzero(~np.isfinite(array))} values are not numbers")
        values = np.concatenate(arrays)
        if self.transform != "none":
            if self.reference is not None:
                raise LindleyError(
                    f"this system divides every feature by {self.reference}, which arrays do not hold: give tables, or "
                    "log ratios through System.side_of_transformed"
                )
            if (values <= 0).any():
                raise LindleyError(f"{name}: the logarithm needs values above 0")
            values = np.log10(values) if self.transform == "log10" else np.log(values)
        return self.side_of_transformed(
            values, np.repeat(np.arange(len(arrays)), [len(a) for a in arrays]), name, sources
        )

    def side_of_transformed(
        self, values: Floats, item: NDArray[np.intp], name: str = "item", sources: list[str] | None = None
    ) -> Side:
        """Values that are transformed already, with the item that every row belongs to."""
        labels = np.array(sources if sources is not None else [f"{name} {i + 1}" for i in range(int(item.max()) + 1)])
        return Side(self.scaling(values), item, labels)

    def save(self, path: str | Path, about: dict[str, Any]) -> None:
        """Write the system, with its validation and its provenance, in one step."""
        write_atomically(Path(path), to_bytes(self, FORMAT, about, _kinds()))


def load(path: str | Path) -> System:
    """Read a system that ``lindley train`` wrote. Nothing in the file is executed."""
    return load_with_about(path)[0]


def load_with_about(path: str | Path) -> tuple[System, dict[str, Any]]:
    """The system, and what its file says about its making and its validation."""
    try:
        data = Path(path).read_bytes()
    except FileNotFoundError:
        raise LindleyError(f"there is no file {path}. 'lindley train' writes systems.") from None
    except OSError as error:
        raise LindleyError(f"{path} cannot be read ({error.strerror or error}).") from error
    system, about = from_bytes(data, str(path), System, FORMAT, _kinds())
    _require_consistent(system, str(path))
    return system, {**about, "file_sha256": hashlib.sha256(data).hexdigest()}


def instance_digests(table: Table) -> tuple[str, ...]:
    """A digest of every instance, by its values: tells whether data were seen before, and not what they were.

    Values are rounded to nine digits, so that a number that went through Excel is still the same.
    """
    return tuple(
        hashlib.sha256(" ".join(f"{value:.9g}" for value in row).encode()).hexdigest()[:16]
        for row in table.values.tolist()
    )


def today() -> str:
    """The date, for provenance."""
    return date.today().isoformat()


def _kinds() -> dict[str, type[Any]]:
    return {**KINDS, "System": System, "Population": Population}


def _call(step: Calibration, llr: Floats) -> Floats:
    return step(llr)


def _require_consistent(system: System, name: str) -> None:
    """Refuse a file whose parts are whole and do not fit together."""
    n, model = len(system.features), system.model
    shapes = {
        "units": (len(system.units), n),
        "mean": (system.mean.shape, (n,)),
        "sd": (system.sd.shape, (n,)),
        "centre": (tuple(model.centre.shape[1:]), (1, n)),
        "projection": (model.projection.shape[1], n),
        "population": (system.population.means.shape[1:], (n,)),
    }
    wrong = [part for part, (found, right) in shapes.items() if found != right]
    if wrong or n == 0 or not (system.sd > 0).all() or not system.bounds[0] <= system.bounds[1]:
        raise LindleyError(f"{name} does not hold a lindley system: its parts do not fit together ({', '.join(wrong)})")
