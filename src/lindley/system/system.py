"""A fitted system: everything that turns measurements into an LR, in one file that runs no code.

    measured ──▶ transform ──▶ scaling ──▶ Gaussianiser ──▶ model ──▶ calibration ──▶ log10 LR
                 log, ratio    standard    if the name      of all    steps behind
                               deviations  has one          runs      the name

``lindley run``, ``train`` and ``case``, scikit-learn and LiR all score through this class, so that equal parts give equal LRs
whichever door they came through.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import numpy as np
from numpy.typing import ArrayLike, NDArray

from lindley.arrays import as_numbers
from lindley.calibration import Chain
from lindley.errors import LindleyError
from lindley.evaluation.pair_grid import compress
from lindley.files import write_atomically
from lindley.llrs import Floats, LLRs
from lindley.models.fitting import require_device
from lindley.models.gaussianise import Gaussianiser
from lindley.models.pairs import distinct_items, score_pairs
from lindley.models.two_level import PairModel, score, score_there, take_runs
from lindley.settings import setting, spoken
from lindley.system.header import FORMAT, OLDEST, may_say_nothing, printable, read_system
from lindley.system.names import ModelName
from lindley.system.signature import verify
from lindley.system.storage import (
    from_bytes,
    require_consistent,
    require_finite,
    require_names,
    stored_classes,
    to_bytes,
)
from lindley.table.findings import TableError, listing, quoted
from lindley.table.frames import columns_of, require_unnamed
from lindley.table.read import read_table
from lindley.table.scaling import Scaling, Transform, TransformKind
from lindley.table.splits import Side
from lindley.table.table import Table

if TYPE_CHECKING:
    from lindley.casework.case import Case
    from lindley.casework.explanation import Explanation
    from lindley.casework.validation import Validation

__all__ = ["Casework", "KnownSources", "System", "load", "row_digests", "squared_distance"]

Shape = tuple[int, int]
Index = NDArray[np.intp]
OF_THE_FILE = ("file", "file_sha256", "signed_by")
"""What ``about`` tells of the file that a system was read from; no file says that of itself."""


@dataclass(frozen=True, eq=False)
class KnownSources:
    """What the training sources looked like, in standardised features: to judge whether a case belongs among them."""

    means: Floats  # of the training sources (sources, feature)
    lowest: Floats  # instance (feature,)
    highest: Floats  # instance (feature,)
    scatter: Floats  # mean square of a source's instances around their mean, on the axes, over the model's (sources,)
    distance: Floats  # squared distance of the source means from the population's, on the axes (sources,), increasing
    match_information: Floats  # ½ log10(1 + between/within variance) of every feature on its own

    def distance_of(self, points: Floats) -> Floats:
        """Squared distance of other points (points, feature) from the population's mean."""
        return squared_distance(points, self.means)


@dataclass(frozen=True, eq=False)
class Casework:
    """What a system needs for cases beside its LRs."""

    bounds: tuple[float, float]  # log10 LR: what the validation pairs support, of one instance against one
    population: KnownSources
    digests: tuple[str, ...]  # of the instances that it was trained and validated on; none of a private system
    shapes: tuple[tuple[Shape, tuple[float, float]], ...] = field(default=(), metadata={"since": 5})
    """Trace and ref instances of further validation pairs, and the bounds of an LR of so many."""


@dataclass(frozen=True, eq=False, repr=False)
class System:
    """A model with all that surrounds it, for one run or for many.

    The runs of a system that was trained for casework are the system itself and replicates of it, which tell how sure it is.
    Those of an experiment are its splits; `for_split` takes one of them out. Items and sides are given as they are after the
    transform, before scaling.
    """

    name: str  # of the model, as in --model
    features: tuple[str, ...]
    units: tuple[str | None, ...]
    transform: str  # none, log10 or ln: what is done to measurements first
    reference: str | None  # the column that they are divided by before the log
    scalings: tuple[Scaling, ...]  # one per run
    gaussianisers: tuple[Gaussianiser, ...]  # one per run, or none
    model: PairModel  # of all runs, on what scaling and Gaussianiser make of the features
    calibrations: tuple[Chain, ...]  # one per run
    casework: Casework | None = None  # of a system that was trained for it
    splits: tuple[int, ...] = ()  # of an experiment, from 0; none of a system for casework
    reference_unit: str | None = field(default=None, metadata={"since": 4})
    about: Mapping[str, Any] = field(default_factory=dict, metadata={"stored": False})  # its making and its validation

    def __repr__(self) -> str:
        features = f"{len(self.features)} feature{'s' * (len(self.features) != 1)}"
        if self.splits:
            return f"<System {self.name}: {features}, {len(self.splits)} splits of an experiment>"
        if self.casework is None:
            return f"<System {self.name}: {features}>"
        lower, upper = self.bounds
        return f"<System {self.name}: {features}, {len(self.population.means)} sources, log10 LR {lower:.2f} to {upper:.2f}>"

    @property
    def spec(self) -> ModelName:
        """The name of the model, read."""
        return ModelName.parse(self.name)

    @property
    def computes(self) -> bool:
        """Whether it has a model: what holds the robust model of lindley 0.2.0 or older is read without it."""
        return cast(Any, self.model) is not None

    @property
    def runs(self) -> int:
        """The system itself and its replicates; or the splits."""
        return len(self.scalings)

    @cached_property
    def point(self) -> PairModel:
        """The model without its replicates."""
        return take_runs(self.model, [0])

    @property
    def scaling(self) -> Scaling:
        """Transformed to standardised features, in the first run."""
        return self.scalings[0]

    @property
    def calibration(self) -> Chain:
        """The post-hoc calibration of the first run; it has no steps where the LR is the model's own."""
        return self.calibrations[0]

    @property
    def doubt(self) -> str:
        """Why it may say nothing, by its own validation, or no text: `lindley.make_case` refuses such a system."""
        validation = self.about.get("validation")
        if not validation or not may_say_nothing(validation):
            return ""
        ends = validation.get("cllr_interval")
        interval = f" (95 % interval {ends[0]:.3f} to {ends[1]:.3f})" if ends else ""
        return spoken(
            f"By its own validation this system may say nothing: Cllr {validation['cllr']:.3f}{interval}, where 1 is that of a "
            f"system that says nothing. No case is evaluated with it unless {setting('force')} asks for that."
        )

    @property
    def bounds(self) -> tuple[float, float]:
        """log10 LR: what the validation pairs support, of one instance against one."""
        return self._for_casework().bounds

    def bounds_for(self, n_trace: int, n_ref: int) -> tuple[tuple[float, float], Shape]:
        """The bounds of an LR of so many instances, and of how many those validation pairs are that they come from.

        These are as many, or the most that were validated of no more of either.
        """
        known = {(1, 1): self.bounds, **dict(self._for_casework().shapes)}
        shape = max((s for s in known if s[0] <= n_trace and s[1] <= n_ref), key=lambda s: (sum(s), min(s)))
        return known[shape], shape

    def bounds_of_pairs(self, n_trace: Index, n_ref: Index) -> Floats:
        """`bounds_for` every pair of traces and refs of so many instances: lower and upper (2, traces, refs)."""
        (trace, i), (ref, j) = (np.unique(counts, return_inverse=True) for counts in (n_trace, n_ref))
        known = np.array([[self.bounds_for(m, n)[0] for n in ref.tolist()] for m in trace.tolist()])
        return np.moveaxis(known[i[:, None], j], -1, 0)

    @property
    def population(self) -> KnownSources:
        """What the training sources looked like."""
        return self._for_casework().population

    @property
    def digests(self) -> tuple[str, ...]:
        """Of the instances that it was trained and validated on; none of a private system."""
        return self._for_casework().digests

    def _for_casework(self) -> Casework:
        if self.casework is None:
            raise LindleyError(
                "this system was not trained for casework, and knows neither its population nor the LRs that its validation "
                "supports: 'lindley train', or lindley.train, makes one that does"
            )
        return self.casework

    @property
    def mates(self) -> float | None:
        """The share of different-source pairs that are of one group, as it was fitted and calibrated for; None: no groups."""
        share = self.about.get("mates", {}).get("share")
        return None if share is None else float(share)

    @property
    def background(self) -> list[Mapping[str, Any]]:
        """The files that it was trained on, as it remembers them: name, SHA-256, rows and sources; none of an older system."""
        files = self.about.get("data", {}).get("files")
        return [each for each in files if isinstance(each, Mapping)] if isinstance(files, list) else []

    @cached_property
    def sha256(self) -> str:
        """Of its file; of what would be its file, if it was not saved yet."""
        return str(self.about.get("file_sha256") or hashlib.sha256(self.to_bytes()).hexdigest())

    @property
    def file(self) -> str:
        """The name of its file, if it has one."""
        return str(self.about.get("file", "not saved"))

    def for_runs(self, runs: Sequence[int]) -> System:
        """Some of the runs, in the order given."""
        return replace(
            self,
            scalings=tuple(self.scalings[run] for run in runs),
            gaussianisers=tuple(self.gaussianisers[run] for run in runs if self.gaussianisers),
            model=take_runs(self.model, runs),
            calibrations=tuple(self.calibrations[run] for run in runs),
            splits=tuple(self.splits[run] for run in runs if self.splits),
            about={**self.about, "bootstrap": len(runs) - 1} if "bootstrap" in self.about else self.about,
        )

    def for_split(self, split: int) -> System:
        """The system of one split of an experiment, from 0."""
        if split not in self.splits:
            raise LindleyError(
                f"there is no split {split} here: there are {', '.join(map(str, self.splits)) or 'none'}"
            )
        return self.for_runs([self.splits.index(split)])

    # What a model sees, and what it says.

    def prepared(self, side: Side, run: int = 0) -> Side:
        """Items as the model of a run sees them: standardised, and Gaussianised if the name says so."""
        return Side(self.prepare(side.values, run), side.item, side.source)

    def prepare(self, values: Floats, run: int = 0) -> Floats:
        """Transformed values (rows, feature) as the model of a run sees them."""
        scaled = self.scalings[run](values)
        return self.gaussianisers[run](scaled) if self.gaussianisers else scaled

    def uncalibrated(self, traces: Sequence[Side], refs: Sequence[Side]) -> list[Floats]:
        """log10 LRs of the model of every run: one (traces, refs) matrix per run."""
        return score(
            self.model, *([self.prepared(side, run) for run, side in enumerate(sides)] for sides in (traces, refs))
        )

    def calibrated(self, llr: Floats, run: int = 0) -> Floats:
        """LLRs of the model of a run sent through its post-hoc calibration, where there is one."""
        return self.calibrations[run](llr)

    def llr_sides(self, trace: Side, ref: Side) -> Floats:
        """log10 LRs of all traces against all refs."""
        self._require_one()
        return self.calibrated(score(self.point, [self.prepared(trace)], [self.prepared(ref)])[0])

    def llrs_sides(self, trace: Side, ref: Side, *, device: str = "cpu") -> LLRs:
        """`llr_sides` by hypothesis, however many they are: a few weighted LLRs that stand for all, see `llrs`."""
        self._require_one()
        require_device(device)
        # With sources in the same order along both sides, few blocks hold same-source pairs, and these are scored twice.
        trace, ref = (_by_source(self.prepared(side)) for side in (trace, ref))
        model = self.point.map(lambda t: t.to(device))

        def block(rows: slice, columns: slice) -> Any:
            found = score_there(model, trace[rows], ref[columns])
            return self.calibrated(found.cpu().numpy()) if self.calibration.steps else found

        return compress(block, trace.source, ref.source)

    def llr_replicates(self, trace: Side, ref: Side) -> Floats:
        """log10 LRs of one trace and one ref by every replicate."""
        self._require_one()
        scores = self.uncalibrated([trace] * self.runs, [ref] * self.runs)
        return np.array([float(self.calibrated(matrix, run)[0, 0]) for run, matrix in enumerate(scores)][1:])

    def llr_pairs(self, trace: ArrayLike, ref: ArrayLike) -> Floats:
        """log10 LRs (pairs,) of traces (pairs, instances, feature) and refs (pairs, instances, feature), transformed.

        An instance with a NaN in it was not measured, and does not count.
        """
        self._require_one()
        (traces, i), (refs, j) = (self._distinct(values) for values in (trace, ref))
        if len(i) != len(j):
            raise LindleyError(f"{len(i)} traces and {len(j)} refs do not make pairs")
        return self.calibrated(score_pairs(self.point, traces, refs, i, j))

    def _distinct(self, values: ArrayLike) -> tuple[Side, NDArray[np.intp]]:
        array, n = as_numbers(values, "pairs"), len(self.features)
        if array.ndim != 3 or array.shape[2] != n:
            raise LindleyError(
                f"pairs of instances with {n} features are needed, in an array (pairs, instances, {n}): this one is "
                f"{array.shape}"
            )
        side, which = distinct_items(array)
        return self.prepared(side), which

    # From measurements, as a person has them.

    def llr(self, trace: Any, ref: Any) -> float:
        """log10 LR of one trace and one ref, as measured: before any logarithm.

        Each is an array or a list of instances × features, in the order of ``features``; one instance may be given as a
        plain list. Columns by name do as well, in any order and in any unit of the same kind: a dictionary, a data frame, or a
        Series with names in its index. A system that divides by a reference finds it there under its name, or in arrays as one
        more column, the last.

        What has names is read as `case` reads it. It may have further columns, which take no part: other features, notes.
        It is one item, however: where a column or an index ``source``, or any other column of labels, says different things in
        its rows, they may be several items, and it is refused. ``frame[list(system.columns)]`` has the columns that are needed
        and no others. Truth values, text and dates in arrays are no numbers, and what a mask hides is missing.

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
        llr = self.llr_sides(self.side(traces, "trace"), self.side(refs, "ref"))
        require_finite(llr)
        return llr

    def llrs(
        self, traces: Any, refs: Any, trace_source: Sequence[str], ref_source: Sequence[str], *, device: str = "cpu"
    ) -> LLRs:
        """log10 LRs of every trace against every ref by hypothesis, for more pairs than memory holds.

        Traces and refs are two lists of what `llr` takes, with the source of each. The result stands for all pairs: same-source
        LLRs as they are, different-source LLRs in some 100,000 fine bins. Cllr_min of it is that of all pairs, Cllr is right to
        4e-8 of itself, and Tippett curves to 1/4096 of a unit (`lindley.evaluation.compress`).

        >>> llrs = system.llrs(traces, refs, of_trace, of_ref)  # doctest: +SKIP
        >>> cllr(llrs), cllr_min(llrs), tippett(llrs)  # doctest: +SKIP
        """
        sides = (traces, "trace", trace_source), (refs, "ref", ref_source)
        for items, name, sources in sides:
            if columns_of(items) is None and len(items) != len(sources):
                raise LindleyError(
                    f"{len(items)} {name}s and {len(sources)} sources: the source of every {name} is needed"
                )
        return self.llrs_sides(*(self.side(*given) for given in sides), device=device)

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

    def case(self, trace: Any, ref: Any, **notes: Any) -> Case:
        """Evaluate a case: one trace and one ref, each a file, a data frame or what `llr` takes.

        ``notes`` are those of `lindley.casework.case.make_case`: ``case``, ``examiner``, ``trace_label``, ``ref_label``,
        ``scale``, ``language``.

        >>> system.case("trace.csv", "ref.csv", case="2026-117").write("report.html")  # doctest: +SKIP
        """
        from lindley.casework.case import make_case

        return make_case(self, trace, ref, **notes)

    def evaluate(self, table: Any, **settings: Any) -> Validation:
        """Validate the system on a table that it has not seen: a `Table`, or what `read_table` takes.

        ``settings`` are those of `lindley.casework.validation.validate`: ``criteria``, ``other``, ``settings``.

        >>> system.evaluate(lindley.read_table("new.csv"))  # doctest: +SKIP
        <Validation of robust on new: 120 sources, Cllr 0.0340 (0.0211 to 0.0514), no criteria>
        """
        from lindley.casework.validation import validate

        return validate(self, table if isinstance(table, Table) else read_table(table, **self.table), **settings)

    def side(self, items: Any, name: str, sources: Sequence[str] | None = None) -> Side:
        """Measurements of several items, transformed."""
        if columns_of(items) is not None:
            raise LindleyError(f"a list of {name}s is needed, and not a {type(items).__name__}: put it in brackets")
        arrays = [self.instances(item, f"{name} {number}") for number, item in enumerate(items, 1)]
        if not arrays:
            raise LindleyError(f"there is no {name}")
        values = np.concatenate(arrays)
        n = len(self.features)
        transform = Transform(cast(TransformKind, self.transform), self.reference)
        if transform.kind != "none" and (values <= 0).any():
            raise LindleyError(f"{name}: the logarithm needs values above 0, as measured and before any logarithm")
        transformed = transform.apply(values[:, :n], values[:, n] if self.reference is not None else None)
        labels = sources if sources is not None else [f"{name} {number}" for number in range(1, len(arrays) + 1)]
        return Side(transformed, np.repeat(np.arange(len(arrays)), [len(a) for a in arrays]), np.array(labels))

    @property
    def columns(self) -> tuple[str, ...]:
        """What an instance consists of: the features, and the reference that they are divided by, if any."""
        return self.features if self.reference is None else (*self.features, self.reference)

    @property
    def column_units(self) -> tuple[str | None, ...]:
        """Of the ``columns``, where they are known."""
        return self.units if self.reference is None else (*self.units, self.reference_unit)

    @property
    def table(self) -> dict[str, Any]:
        """How tables are read for it, by the names of `read_table`."""
        return {
            "features": self.features,
            "units": self.column_units,
            "transform": self.transform,
            "reference": self.reference,
        }

    def instances(self, item: Any, name: str) -> Floats:
        """One item, as `llr` takes it, as an array (instances, columns)."""
        columns = self.columns
        require_unnamed(item, name)
        array = as_numbers(item, name) if columns_of(item) is None else self._measured(item, name)
        if array.ndim <= 1:
            array = array.reshape(-1, 1) if len(columns) == 1 else array.reshape(1, -1)
        if array.ndim != 2 or array.shape[1] != len(columns) or not len(array):
            raise LindleyError(
                f"{name}: an array of instances × {len(columns)} columns is needed ({', '.join(columns)}), and it has the "
                f"shape {np.shape(item) or array.shape}"
            )
        if not np.isfinite(array).all():
            raise LindleyError(
                f"{name}: {np.count_nonzero(~np.isfinite(array))} values are missing or not finite numbers"
            )
        return array

    def _measured(self, item: Any, name: str) -> Floats:
        """The columns of one item with names (instances, columns), read and refused as those of a case are."""
        try:
            table = read_table(item, **self.table, purpose="case", name=name)
        except TableError as error:
            alone = "Give the rows of one item, and if they are, the columns of the system alone: frame[list(system.columns)]"
            raise TableError(
                replace(each, fix=alone) if each.code == "several-items" else each for each in error.findings
            ) from None
        if len(table.labels) > 1:
            some = listing(quoted(table.labels), 4)
            raise LindleyError(f"{name}: its rows are of several items ({some}): give the rows of one item at a time")
        return table.values if table.raw is None else table.raw

    def _require_one(self) -> None:
        if len(self.splits) > 1:
            raise LindleyError(
                f"this file holds the systems of {len(self.splits)} splits of an experiment: take one with "
                f"system.for_split({self.splits[0]})"
            )

    # On disk.

    def to_bytes(self) -> bytes:
        """The content of a system file."""
        require_names(self)
        kept = {key: value for key, value in self.about.items() if key not in OF_THE_FILE}
        return to_bytes(self, FORMAT, kept, stored_classes(System, Casework, KnownSources))

    def save(self, path: str | Path, *, replace: bool = True) -> None:
        """Write the system, with its validation and its provenance, in one step; over another only if ``replace``."""
        write_atomically(Path(path), self.to_bytes(), replace=replace)

    @classmethod
    def from_bytes(cls, data: bytes, path: str, *, old_robust: bool = False) -> System:
        """What `to_bytes` gave; ``path`` is where it was, for messages and for `about`; ``old_robust`` as in `load`."""
        classes = stored_classes(System, Casework, KnownSources)
        system, about = from_bytes(data, path, cls, FORMAT, classes, OLDEST, old_robust=old_robust)
        try:
            require_consistent(system, about, old_robust=old_robust)
        except Exception as error:
            # Only an intentional forgery gets here: every field of the right name may still be of the wrong kind.
            raise LindleyError(
                f"{path} does not hold a lindley system: its parts do not fit together ({printable(str(error))})"
            ) from error
        about = {key: value for key, value in about.items() if key not in OF_THE_FILE}
        about |= {"file": Path(path).name, "file_sha256": hashlib.sha256(data).hexdigest()}
        return replace(system, about=about)


def _by_source(side: Side) -> Side:
    """The items in the order of their sources."""
    order = np.argsort(side.source, kind="stable")
    place = np.empty_like(order)
    place[order] = np.arange(len(order))
    return Side(side.values, place[side.item], side.source[order])


def load(path: str | Path, *, signed_by: str | Path | None = None, old_robust: bool = False) -> System:
    """Read a system that ``lindley train`` or ``lindley run`` wrote. Nothing in the file is executed.

    The digest in the file finds accidents. ``signed_by`` is a public key: a system that was not signed with its private key
    (``lindley sign``), or was changed after that, is refused. So is one with the robust model of lindley 0.2.0 or older, unless
    ``old_robust``: then it has no model and gives no LR, and serves `lindley.update` alone.

    >>> import lindley
    >>> system = lindley.load("glass.safetensors")  # doctest: +SKIP
    >>> system.features, system.bounds  # doctest: +SKIP
    (('K39', 'Ti49', 'Mn55'), (-2.03, 2.76))
    """
    data = read_system(path)
    if signed_by is None:
        return System.from_bytes(data, str(path), old_robust=old_robust)
    key = verify(data, Path(path), Path(signed_by))
    system = System.from_bytes(data, str(path), old_robust=old_robust)
    return replace(system, about={**system.about, "signed_by": key})


def squared_distance(points: Floats, means: Floats) -> Floats:
    """Squared Mahalanobis distance of points from the mean of the source means, with a little of the diagonal added."""
    covariance = np.cov(means, rowvar=False).reshape(means.shape[1], -1)
    covariance += 1e-3 * np.diag(np.diag(covariance))
    centred = points - means.mean(axis=0)
    return cast(Floats, np.einsum("ij,ij->i", centred, np.linalg.solve(covariance, centred.T).T))


def row_digests(values: Floats) -> tuple[str, ...]:
    """A digest of every instance, by its values: tells whether data were seen before, and not what they were.

    Values are rounded to nine digits, so that a number that went through Excel is still the same.
    """
    return tuple(
        hashlib.sha256(" ".join([f"{value:.9g}" for value in row.tolist()]).encode()).hexdigest()[:16] for row in values
    )
