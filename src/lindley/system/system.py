"""A trained system: everything that turns the measurements of a case into an LR, in one file that runs no code."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import numpy as np
import torch
from numpy.typing import NDArray

from lindley.calibration import Calibration
from lindley.errors import LindleyError
from lindley.llrs import LN10, Floats
from lindley.models.two_level import score
from lindley.system.storage import KINDS, Model, from_bytes, to_bytes
from lindley.table.export import write_atomically
from lindley.table.scaling import Scaling
from lindley.table.splits import Side
from lindley.table.table import Table
from lindley.table.transform import Transform, TransformKind

if TYPE_CHECKING:
    from lindley.casework.explanation import Explanation

__all__ = ["FORMAT", "KnownSources", "System", "instance_digests", "load", "load_with_about", "row_digests"]

FORMAT = "lindley-system/1"


@dataclass(frozen=True, eq=False)
class KnownSources:
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
    model: Model
    calibration: tuple[Any, ...]
    population: KnownSources
    bounds: tuple[float, float]  # log10 LR: what the validation pairs support
    digests: tuple[str, ...]

    @property
    def runs(self) -> int:
        """The system itself and the bootstrap replicates."""
        return len(self.model.centre)

    @cached_property
    def point(self) -> Model:
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
        """log10 LR of one trace and one ref, as measured: before any logarithm.

        Each is an array or a list of instances × features, in the order of ``features``; one instance may be given as a
        plain list. Columns by name do as well, in any order: a dictionary, or a data frame. A system that divides by a
        reference finds it there under its name, or in arrays as one more column, the last.

        >>> system.llr([[2.90, 2.49, 2.15]], [[2.93, 2.51, 2.17], [2.91, 2.50, 2.16]])  # doctest: +SKIP
        2.31
        >>> system.llr({"K39": [2.90], "Ti49": [2.49], "Mn55": [2.15]}, ref)  # doctest: +SKIP
        2.31
        """
        return float(self.llr_matrix([trace], [ref])[0, 0])

    def llr_matrix(self, traces: Any, refs: Any) -> Floats:
        """log10 LRs of every trace (rows) against every ref (columns): two lists, of what `llr` takes.

        Items may differ in their numbers of instances. An array (items, features) is a list of items measured once.

        >>> system.llr_matrix([trace_1, trace_2], [ref_1, ref_2, ref_3]).shape  # doctest: +SKIP
        (2, 3)
        """
        return self.llr_sides(self.side(traces, "trace"), self.side(refs, "ref"))

    def explain(self, trace: Any, ref: Any) -> Explanation:
        """All that can be said about one trace and one ref, given as in `llr`.

        >>> explained = system.explain(trace, ref)  # doctest: +SKIP
        >>> explained.log10_lr_bounded, explained.log10_similarity, explained.log10_typicality  # doctest: +SKIP
        (2.31, 3.04, 0.73)
        >>> [(share.feature, share.log10_lr) for share in explained.features]  # doctest: +SKIP
        [('K39', 1.12), ('Ti49', 0.31), ('Mn55', 0.88)]
        """
        from lindley.casework.explanation import explain

        return explain(self, self.side([trace], "trace"), self.side([ref], "ref"))

    def side(self, items: Any, name: str, sources: list[str] | None = None) -> Side:
        """Measurements of several items as the model sees them: transformed and standardised."""
        if isinstance(items, Mapping):
            raise LindleyError(f"a list of {name}s is needed, and not a {type(items).__name__}: put it in brackets")
        arrays = [self._instances(item, f"{name} {number}") for number, item in enumerate(items, 1)]
        if not arrays:
            raise LindleyError(f"there is no {name}")
        values = np.concatenate(arrays)
        n = len(self.features)
        transform = Transform(cast(TransformKind, self.transform), self.reference)
        if transform.kind != "none" and (values <= 0).any():
            raise LindleyError(f"{name}: the logarithm needs values above 0, as measured and before any logarithm")
        transformed = transform.apply(values[:, :n], values[:, n] if self.reference is not None else None)
        return self.side_of_transformed(
            transformed, np.repeat(np.arange(len(arrays)), [len(a) for a in arrays]), name, sources
        )

    @property
    def columns(self) -> tuple[str, ...]:
        """What an instance consists of: the features, and the reference that they are divided by, if any."""
        return self.features if self.reference is None else (*self.features, self.reference)

    def _instances(self, item: Any, name: str) -> Floats:
        """One item as an array (instances, columns)."""
        columns = self.columns
        try:
            if hasattr(item, "keys"):  # a dictionary or a data frame
                if missing := [column for column in columns if column not in item.keys()]:  # noqa: SIM118
                    raise LindleyError(f"{name}: there is no {', '.join(missing)} among its columns")
                array = np.column_stack([np.asarray(item[column], dtype=np.float64) for column in columns])
            else:
                array = np.asarray(item, dtype=np.float64)
        except (TypeError, ValueError) as error:
            raise LindleyError(f"{name}: not an array of numbers ({error})") from error
        if array.ndim <= 1:
            array = array.reshape(-1, 1) if len(columns) == 1 else array.reshape(1, -1)
        if array.ndim != 2 or array.shape[1] != len(columns) or not len(array):
            raise LindleyError(
                f"{name}: an array of instances × {len(columns)} columns is needed ({', '.join(columns)}), and it has the "
                f"shape {np.shape(item) or array.shape}"
            )
        if not np.isfinite(array).all():
            raise LindleyError(f"{name}: {np.count_nonzero(~np.isfinite(array))} values are not finite numbers")
        return array

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
    """Read a system that ``lindley train`` wrote. Nothing in the file is executed.

    >>> import lindley
    >>> system = lindley.load("glass.safetensors")  # doctest: +SKIP
    >>> system.features, system.bounds  # doctest: +SKIP
    (('K39', 'Ti49', 'Mn55'), (-2.03, 2.76))
    """
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
    try:
        _require_consistent(system, about)
    except (TypeError, ValueError, AttributeError, IndexError, RuntimeError, LindleyError) as error:
        # Only an intentional forgery gets here: every field of the right name may still be of the wrong kind.
        raise LindleyError(f"{path} does not hold a lindley system: its parts do not fit together ({error})") from error
    return system, {**about, "file_sha256": hashlib.sha256(data).hexdigest()}


def instance_digests(table: Table) -> tuple[str, ...]:
    """A digest of every instance, by its values: tells whether data were seen before, and not what they were."""
    return row_digests(table.values)


def row_digests(values: Floats) -> tuple[str, ...]:
    """One digest a row. Values are rounded to nine digits, so that a number that went through Excel is still the same."""
    return tuple(
        hashlib.sha256(" ".join(f"{value:.9g}" for value in row).encode()).hexdigest()[:16] for row in values.tolist()
    )


def today() -> str:
    """The date, for provenance."""
    return date.today().isoformat()


def _kinds() -> dict[str, type[Any]]:
    return {**KINDS, "System": System, "KnownSources": KnownSources}


def _call(step: Calibration, llr: Floats) -> Floats:
    return step(llr)


def _require_consistent(system: System, about: Mapping[str, Any]) -> None:
    """Refuse a file whose parts are whole and do not fit together."""
    n, model, population = len(system.features), system.model, system.population
    if not isinstance(model, Model) or not isinstance(population, KnownSources):
        raise ValueError("it has no model or no population")
    if not all(isinstance(name, str) and name for name in (system.name, *system.features)):
        raise ValueError("its features have no names")
    if not all(unit is None or isinstance(unit, str) for unit in system.units):
        raise ValueError("its units are no words")
    Transform(cast(TransformKind, system.transform), system.reference)
    shapes = {
        "features": (len(set(system.features)), max(n, 1)),
        "units": (len(system.units), n),
        "mean": (system.mean.shape, (n,)),
        "sd": (system.sd.shape, (n,)),
        "centre": (tuple(model.centre.shape[1:]), (1, n)),
        "projection": (tuple(model.projection.shape[:2]), (system.runs, n)),
        "population": (population.means.shape[1:], (n,)),
        "range": (population.lowest.shape, population.highest.shape),
        "match_information": (population.match_information.shape, (n,)),
    }
    if wrong := [part for part, (found, right) in shapes.items() if found != right]:
        raise ValueError(f"shapes of {', '.join(wrong)}")
    if not (np.isfinite(system.mean).all() and np.isfinite(system.sd).all() and (system.sd > 0).all()):
        raise ValueError("mean and sd")
    if len(system.bounds) != 2 or not -np.inf < system.bounds[0] <= 0 <= system.bounds[1] < np.inf:
        raise ValueError("bounds")
    if not all(isinstance(about.get(key), dict) for key in ("data", "validation", "versions")):
        raise ValueError("nothing about its making")
    centre = torch.from_numpy(population.means.mean(axis=0)).expand(system.runs, 1, -1)
    with torch.inference_mode():
        trial = system.calibrated((model.ln_lr(centre, centre) / LN10).numpy())
    if trial.shape != (system.runs, 1, 1) or not np.isfinite(trial).all():
        raise ValueError("its model gives no LR")
