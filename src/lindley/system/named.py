"""A model by its name, fitted on instances and their sources: what other programs' interfaces are made of.

An experiment splits a table three ways. Other programs split two ways, and hand over instances to fit on. What needs
sources that the model has not seen (the best epoch of a training, an integrated variance, a calibration) gets a share of
the *sources*, drawn here; a model that needs none is fitted on all of them. So is one that is cross-fitted (``@cv``, and
``robust``): it is calibrated on pairs that were held out of a fit, in turns.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from difflib import get_close_matches
from typing import Any, Literal, Self, cast

import numpy as np
from numpy.typing import ArrayLike, NDArray
from pydantic import Field, ValidationError, field_validator, model_validator

from lindley.calibration import Chain, fit_chain
from lindley.errors import LindleyError
from lindley.experiment.config import ModelConfig, OptionsConfig, TrainingConfig
from lindley.llrs import Floats, LLRs
from lindley.models.flow import Flow
from lindley.models.gaussianise import Gaussianiser, fit_gaussianiser
from lindley.models.pairs import distinct_items, score_pairs
from lindley.models.two_level import PairModel, score
from lindley.system.fitting import Progress, fit_root, integrate, silent
from lindley.system.held_out import held_out_llrs
from lindley.system.names import ModelName
from lindley.table.scaling import Scaling
from lindley.table.splits import MIN_GROUPS_PER_PART, Part, Side

__all__ = ["FittedModel", "ModelChoices", "draw_part", "fit_model"]

Labels = NDArray[Any]


class ModelChoices(ModelConfig):
    """Which model, and how it is fitted."""

    model: str = Field(default="tlm-kde", description=str(ModelConfig.model_fields["model"].description))
    validation: float = Field(
        default=1 / 3,
        ge=0,
        lt=1,
        description="share of the sources that is kept from the model, for what needs sources that it has not seen",
    )
    seed: int = Field(default=0, ge=0, lt=2**32, description="of that share, and of a training")
    device: Literal["cpu", "cuda"] = Field(default="cpu", description="where a neural model is trained")

    @classmethod
    def read(cls, content: Mapping[str, Any], beside: Collection[str] = ()) -> Self:
        """The choices, or what is wrong with them, in plain words.

        ``beside`` names settings that the caller has taken out of the content, so that an error can name them too.
        """
        try:
            return cls.model_validate(dict(content))
        except ValidationError as error:
            raise LindleyError("; ".join(_plain(dict(problem), beside) for problem in error.errors())) from None

    @field_validator("calibration", mode="before")
    @classmethod
    def _one_word(cls, value: Any) -> Any:
        return (value,) if isinstance(value, str) else value

    @property
    def needs_unseen(self) -> bool:
        """Whether the model cannot be fitted without sources that are kept from it."""
        return self.name.is_trained or bool(self.name.calibrations and not self.name.learns_from_all)

    @model_validator(mode="after")
    def _usable(self) -> Self:
        if self.label is not None:
            raise ValueError("a label is for the models of an experiment: leave it out")
        if self.needs_unseen and not self.validation:
            raise ValueError(
                f"model '{self.name}' needs sources that it has not seen, for the best epoch of its training or for its "
                "calibration: give validation a share above 0, such as 0.33"
            )
        return self


HINTS = {
    "validation": "it is a share, such as 0.33",
    "calibration": "it is a list, as in [logistic, elub]",
    "options": "write them as in {epochs: 500, learning_rate: 0.003}",
}
"""What a setting looks like, for whoever wrote something else."""


def _plain(problem: dict[str, Any], beside: Collection[str]) -> str:
    place = problem["loc"]
    message = str(problem["msg"]).removeprefix("Value error, ")
    if problem["type"] == "extra_forbidden":
        message = _no_such_setting(str(place[-1]), place[:-1] == ("options",), problem["input"], beside)
    elif len(place) == 1 and place[0] in HINTS:
        message = f"{message}, and not {problem['input']!r}: {HINTS[place[0]]}"
    return f"{'.'.join(map(str, place))}: {message}" if place else message


def _no_such_setting(name: str, in_options: bool, value: Any, beside: Collection[str]) -> str:
    options = list(OptionsConfig.model_fields)
    if name in options and not in_options:
        return f"it is an option of the model: write it under options, as in 'options: {{{name}: {value}}}'"
    known = options if in_options else [key for key in ModelChoices.model_fields if key != "label"] + list(beside)
    guess = get_close_matches(name, known, n=1)
    meant = f". Did you mean '{guess[0]}'? There" if guess else "; there"
    return f"there is no such setting{meant} are {', '.join(known)}"


@dataclass(eq=False)
class Gaussianising:
    """A transform that can be pickled: it remembers what it was fitted on."""

    kind: Gaussianiser
    values: Floats
    source: NDArray[np.str_]
    group: NDArray[np.str_] | None
    seed: int
    _transform: Callable[[Floats], Floats] | None = field(default=None, repr=False)

    def __call__(self, values: Floats) -> Floats:
        """Values (rows, feature), transformed."""
        if self._transform is None:
            self._transform = fit_gaussianiser(
                self.kind, self.values, source=self.source, group=self.group, seed=self.seed
            )
        return self._transform(values)

    def __getstate__(self) -> dict[str, Any]:
        """A flow is plain arrays and goes along: another machine might train it to other last bits. Others are fitted anew."""
        kept = self._transform if isinstance(self._transform, Flow) else None
        return {**self.__dict__, "_transform": kept}


@dataclass(frozen=True, eq=False)
class FittedModel:
    """A model with all that surrounds it: from instances as they were measured to calibrated log10 LRs."""

    name: ModelName
    scaling: Scaling
    gaussianising: Gaussianising | None
    model: PairModel
    calibration: Chain
    sources: Labels  # that the model was fitted on
    validation_sources: Labels  # that were kept from it

    @property
    def n_features(self) -> int:
        """How many features an instance has."""
        return len(self.scaling.mean)

    def prepared(self, values: Floats) -> Floats:
        """Instances (rows, feature) as the model sees them."""
        scaled = self.scaling(values)
        return scaled if self.gaussianising is None else self.gaussianising(scaled)

    def llr_pairs(self, trace: ArrayLike, ref: ArrayLike) -> Floats:
        """log10 LRs (pairs,) of traces (pairs, instances, feature) and refs (pairs, instances, feature).

        An instance with a NaN in it was not measured, and does not count.
        """
        (traces, i), (refs, j) = (self._distinct(values) for values in (trace, ref))
        if len(i) != len(j):
            raise LindleyError(f"{len(i)} traces and {len(j)} refs do not make pairs")
        return self.calibration(score_pairs(self.model, traces, refs, i, j))

    def llr_matrix(self, traces: Side, refs: Side) -> Floats:
        """log10 LRs of all traces (rows) against all refs (columns), given as measured."""
        sides = [Side(self.prepared(side.values), side.item, side.source) for side in (traces, refs)]
        return self.calibration(score(self.model, sides[:1], sides[1:])[0])

    def _distinct(self, values: ArrayLike) -> tuple[Side, NDArray[np.intp]]:
        array = np.asarray(values, dtype=np.float64)
        if array.ndim != 3 or array.shape[2] != self.n_features:
            raise LindleyError(
                f"pairs of instances with {self.n_features} features are needed, in an array (pairs, instances, "
                f"{self.n_features}): this one is {array.shape}"
            )
        side, which = distinct_items(array)
        return Side(self.prepared(side.values), side.item, side.source), which


def fit_model(
    values: ArrayLike,
    source: ArrayLike,
    choices: ModelChoices,
    *,
    group: ArrayLike | None = None,
    n_trace: int = 1,
    n_ref: int = 1,
    hold_out: bool = False,
    features: Sequence[str] | None = None,
    progress: Progress = silent,
) -> FittedModel:
    """Fit a model on instances (rows, feature) and the sources that they come from (rows,).

    Sources of one ``group`` (rows,) are kept from the model together, or not at all. A calibration is fitted on pairs of
    ``n_trace`` against ``n_ref`` instances, and without sources that have fewer. ``hold_out`` keeps sources from the model
    also where it does not need that itself.

    Raises:
        LindleyError: if there are too few sources, or too few with several instances.
    """
    matrix = np.asarray(values, dtype=np.float64)
    if matrix.ndim != 2 or not np.isfinite(matrix).all():
        where = f"the shape is {matrix.shape}"
        if matrix.ndim == 2:
            where = f"row {int(np.argmin(np.isfinite(matrix).all(axis=1))) + 1} of {len(matrix)} is not"
        raise LindleyError(f"finite numbers are needed to fit on, (rows, features): {where}")
    labels, first, code = np.unique(np.asarray(source), return_index=True, return_inverse=True)
    names = np.array([f"{k:08d}" for k in range(len(labels))])[code]
    rng = np.random.default_rng((choices.seed, 7))
    unseen = np.zeros(len(labels), dtype=np.bool_)
    if choices.validation > 0 and (hold_out or choices.needs_unseen):
        unseen = _unseen(labels if group is None else np.asarray(group)[first], choices.validation, rng)
    rows = unseen[code]
    called = [f"feature {k + 1}" for k in range(matrix.shape[1])] if features is None else list(features)
    scaling = Scaling.fit(matrix[~rows], called, "the sources to fit on")
    name = choices.name
    groups = None if group is None else np.unique(np.asarray(group), return_inverse=True)[1].astype(np.str_)
    gaussianising = None
    scaled = scaling(matrix)
    if name.gaussianiser is not None:
        gaussianising = Gaussianising(
            cast(Gaussianiser, name.gaussianiser),
            scaled[~rows],
            names[~rows],
            None if groups is None else groups[~rows],
            choices.seed,
        )
        scaled = gaussianising(scaled)
    seen, kept = ((scaled[some], names[some], None if groups is None else groups[some]) for some in (~rows, rows))
    model, chain = _fitted(choices, seen, kept, rng, (n_trace, n_ref), features, progress)
    return FittedModel(name, scaling, gaussianising, model, chain, labels[~unseen], labels[unseen])


def draw_part(
    values: Floats,
    source: NDArray[np.str_],
    group: NDArray[np.str_] | None,
    rng: np.random.Generator | None,
    n_trace: int = 1,
    n_ref: int | None = None,
) -> Part:
    """``n_trace`` instances of every source as its trace and ``n_ref`` others (default all) as its ref.

    They are drawn at random, or in their order where there is no ``rng``. A source with fewer instances gives what it has,
    and keeps one for the ref if it has two.
    """
    order = np.arange(len(source)) if rng is None else np.argsort(rng.random(len(source)), kind="stable")
    order = order[np.argsort(source[order], kind="stable")]
    _, start, count = np.unique(source[order], return_index=True, return_counts=True)
    rank = np.arange(len(order)) - np.repeat(start, count)
    taken = count if n_ref is None else np.minimum(count, n_trace + n_ref)
    as_trace = np.where(taken > 1, np.minimum(n_trace, taken - 1), 1)
    drawn = rank < np.repeat(taken, count)
    rows = order[drawn]
    is_trace = (rank < np.repeat(as_trace, count))[drawn]
    return Part(values[rows], source[rows], is_trace, None if group is None else group[rows])


def _unseen(group: Labels, share: float, rng: np.random.Generator) -> NDArray[np.bool_]:
    """Which sources are kept from the model, given the group of each."""
    groups, code = np.unique(group, return_inverse=True)
    least = MIN_GROUPS_PER_PART
    if len(groups) < 2 * least:
        raise LindleyError(
            f"{2 * least} sources (or groups of sources) at least are needed, {least} to fit on and {least} that are kept "
            f"from the model, and there {'is' if len(groups) == 1 else 'are'} {len(groups)}: give more sources"
        )
    n = max(least, round(share * len(groups)))
    if len(groups) - n < least:
        raise LindleyError(
            f"validation: of {len(groups)} sources (or groups of sources) a share of {share:.3g} leaves {len(groups) - n} to "
            f"fit on, and {least} at least are needed: give a smaller share, or more sources"
        )
    unseen = np.zeros(len(groups), dtype=np.bool_)
    unseen[np.argsort(rng.random(len(groups)), kind="stable")[:n]] = True
    return cast(NDArray[np.bool_], unseen[code])


Rows = tuple[Floats, NDArray[np.str_], NDArray[np.str_] | None]
"""Values, sources and groups, if any."""


def _fitted(
    choices: ModelChoices,
    seen: Rows,
    kept: Rows,
    rng: np.random.Generator,
    shape: tuple[int, int],
    features: Sequence[str] | None,
    progress: Progress,
) -> tuple[PairModel, Chain]:
    """The model, from its root over its integration to its calibration."""
    name = choices.name
    seeds = [choices.seed * 1_000_003 % 2**63]
    fit_on = draw_part(*seen, rng)
    validate = [draw_part(*kept, rng)] if name.is_trained else []
    training = TrainingConfig(device=choices.device)
    fitted = fit_root(
        name, [fit_on], validate, seeds, training=training, watched=0, features=features, progress=progress
    )
    model = integrate(name, fitted.model, [fit_on], validate, seeds)
    if not name.calibrations:
        return model, Chain((), ())
    part = draw_part(*(kept if choices.needs_unseen else seen), rng, *shape)
    some = _complete(part, shape, "sources kept for validation" if choices.needs_unseen else "sources")
    if choices.needs_unseen:
        llr = score(model, [some.trace], [some.ref])[0]
        return model, fit_chain(name.calibrations, LLRs.from_matrix(llr, some.trace.source, some.ref.source))
    assert fitted.again is not None
    held_out = held_out_llrs([some], _on_all_others(fitted.again(0), some, part), rng)
    return model, fit_chain(name.calibrations, held_out)


def _complete(part: Part, shape: tuple[int, int], what: str) -> Part:
    """The sources of a part that have all instances of a trace and of a ref."""
    n_trace, n_ref = shape
    _, code, count = np.unique(part.source, return_inverse=True, return_counts=True)
    enough = count >= n_trace + n_ref
    if np.count_nonzero(enough) < 2:
        raise LindleyError(
            f"a calibration needs pairs like those that it is for, of {n_trace} trace and {n_ref} ref "
            f"{'instance' if n_ref == 1 else 'instances'}: {np.count_nonzero(enough)} of the {len(count)} {what} have "
            f"{n_trace + n_ref} instances, and two such sources at least are needed. Give more sources with so many "
            "instances, or ask for fewer instances (n_trace_instances, n_ref_instances)."
        )
    return _rows(part, enough[code])


def _on_all_others(fit: Callable[[Part], PairModel], some: Part, everything: Part) -> Callable[[Part], PairModel]:
    """``fit`` for a cross-fit of ``some`` sources: it learns from the others of ``everything`` too, if no group is held out."""
    if len(some.source) == len(everything.source):
        return fit

    def fit_more(rest: Part) -> PairModel:
        held_out = np.setdiff1d(_groups(some), _groups(rest))
        return fit(_rows(everything, ~np.isin(_groups(everything), held_out)))

    return fit_more


def _groups(part: Part) -> NDArray[np.str_]:
    return part.source if part.group is None else part.group


def _rows(part: Part, which: NDArray[np.bool_]) -> Part:
    group = None if part.group is None else part.group[which]
    return Part(part.values[which], part.source[which], part.is_trace[which], group)
