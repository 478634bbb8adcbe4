"""The kinds of models there are: one entry says everything about a kind.

A model is added by writing a module with a function ``fit(task) -> Fitted`` (`lindley.models.fitting`) and one entry here. Its
name then works in ``lindley run``, ``train`` and ``case``, in scikit-learn, in LiR and on disk.

What computes is named as ``"module:function"`` and fetched when it is used, so that ``lindley --help`` loads no torch.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from importlib import import_module
from typing import Any, Literal

from pydantic import Field

from lindley.documents import Section

__all__ = [
    "CALIBRATIONS",
    "DEFAULT_MODEL",
    "GAUSSIANISERS",
    "INTEGRATIONS",
    "KINDS",
    "Ability",
    "Addition",
    "Family",
    "Kind",
    "Options",
    "fetch",
    "register",
]

DEFAULT_MODEL = "robust"
"""What is trained where nobody says what."""
MOST = 10**6
"""Of epochs, of sources in a batch, of draws: more is a slip of the keys."""

Ability = Literal["parts", "shares", "scatter", "integration", "epochs", "gpu"]
"""What a kind can do.

*parts*: its LR is similarity over typicality, two densities, so that it can be explained in a case. *shares*: the LLR is a sum
over axes. *scatter*: how the instances of an item scatter counts, beside their mean. *integration*: its within variance can be
integrated out. *epochs*: it is trained, and stops where it does best on sources that are kept from it. *gpu*: it is fitted
where ``device`` says.
"""


Family = Literal["single", "double", "robust", "benchmark"]
"""How reports mark a kind: by the projection of a network, as robust, or as a benchmark."""


class Options(Section):
    """What can be said about a model beside its name. A kind with options has a class of its own."""

    def given(self) -> tuple[tuple[str, Any], ...]:
        """The options that were given, by name."""
        return tuple(sorted((key, value) for key, value in self.model_dump().items() if value is not None))


class NetworkOptions(Options):
    """Of the paper's networks. What is not given is as the experiment's training says, and as in the paper."""

    epochs: int | None = Field(default=None, ge=1, le=MOST, description="in place of the training's")
    batch: int | None = Field(default=None, ge=1, le=MOST, description="in place of the training's")
    learning_rate: float | None = Field(
        default=None, gt=0, allow_inf_nan=False, description="in place of the training's"
    )
    weight_decay: float | None = Field(
        default=None, ge=0, allow_inf_nan=False, description="in place of the training's"
    )
    components: int | None = Field(
        default=None, ge=1, le=1000, description="of the Gaussian mixture between sources, per axis; default 1"
    )
    orthonormal: Literal["qr", "qr-signed", "exponential", "cayley", "householder"] | None = Field(
        default=None,
        description="how an orthonormal matrix is made of free parameters; default exponential, the paper's is qr",
    )
    start: Literal["random", "maximum-likelihood"] | None = Field(
        default=None, description="where training begins; default random"
    )
    samples: int | None = Field(
        default=None,
        ge=1,
        le=MOST,
        description="of the variance when it is integrated out as varying; default quadrature, the paper's 2000",
    )
    prior: Literal["scaled", "as-printed"] | None = Field(
        default=None,
        description="units of the prior of a varying variance; default scaled (own scatter of an axis), the paper's as-printed",
    )
    pretrain: str | None = Field(
        default=None,
        description="another table, a named data set or a file, to learn from first: a neural model starts with what it "
        "learnt there (the table needs all features of the data), robust takes its scalars as the centre of their prior",
    )


class RobustOptions(Options):
    """Of the robust model."""

    pretrain: str | None = Field(default=None, description=NetworkOptions.model_fields["pretrain"].description)


class NpldaOptions(Options):
    """Of neural PLDA."""

    epochs: int | None = Field(default=None, ge=1, le=MOST, description="of its training; default 300")


@dataclass(frozen=True)
class Kind:
    """One kind of model, before it is fitted."""

    name: str  # as in --models
    label: str  # short, for a figure
    words: str  # what it is, in a line
    fit: str  # "module:function", from a `lindley.models.fitting.Task` to a `Fitted`
    stores: tuple[str, ...]  # "module:class" of what its models are made of: nothing else is ever made from a file
    can: frozenset[Ability] = frozenset({"parts"})
    options: type[Options] = Options
    says: Mapping[str, Any] = field(default_factory=dict)  # options that the name itself stands for
    from_training: tuple[str, ...] = ()  # options that an experiment's training sets for all its models
    family: Family = "benchmark"
    cross_fit: Literal["never", "on request", "always"] = "on request"
    """Whether it can learn from all sources, with pairs held out in turns: not if it stops on sources kept from it."""
    replicates: int = 20  # for the interval of a case, unless told how many
    halves: bool = False  # a replicate is fitted on half of the sources instead of on a bootstrap of them
    weighs: bool = False  # a source that is drawn twice weighs double: replicates need no rows of their own
    of_others: str = "fitted on the others"  # what holds of the model that scores a fold of held-out sources
    effort: float = (
        1.0  # about how many times as long as tlm it takes to fit; for the progress bar and the order of work
    )
    alone: bool = False  # each run is fitted by itself, and for long: together they would take as long as one by one

    @property
    def is_trained(self) -> bool:
        """Whether it needs sources that are kept from it, to know when to stop."""
        return "epochs" in self.can

    @property
    def is_ours(self) -> bool:
        """Whether it comes with lindley: what somebody's program has registered, other processes do not know."""
        return self.fit.startswith("lindley.")


KINDS: dict[str, Kind] = {}
"""By name."""


def _add(*kinds: Kind) -> None:
    KINDS.update({kind.name: kind for kind in kinds})


_TWO_LEVEL = "lindley.models.two_level:TwoLevel"
_NORMAL = "lindley.models.between:NormalBetween"
_NETWORKS = "lindley.models.neural."

_add(
    Kind(
        name="robust",
        label="robust",
        words="robust model: a plain two-level law and a heavy-tailed one, errors that say nothing, sources that are alike; "
        "fitted on held-out pairs of train and validation sources",
        fit="lindley.models.robust.fit:fit",
        stores=(
            "lindley.models.robust.model:Robust",
            "lindley.models.robust.model:Basis",
            _TWO_LEVEL,
            "lindley.models.heavy_tailed.model:HeavyTailed",
        ),
        can=frozenset({"parts", "scatter"}),
        options=RobustOptions,
        family="robust",
        cross_fit="always",
        replicates=10,
        halves=True,  # a source that is drawn twice would be its own batch mate
        of_others="with densities of the others (its scalars and its coordinates were chosen on all sources, which flatters "
        "these figures a little)",
        effort=60.0,
        alone=True,
    ),
    Kind(
        name="tlm",
        label="TLM",
        words="two-level model, normal between sources",
        fit="lindley.models.classical:fit_tlm",
        stores=(_TWO_LEVEL, _NORMAL),
        can=frozenset({"parts", "shares"}),
        replicates=100,
        weighs=True,
    ),
    Kind(
        name="tlm-kde",
        label="TLM-KDE",
        words="two-level model, kernel density between sources",
        fit="lindley.models.classical:fit_tlm_kde",
        stores=(_TWO_LEVEL, "lindley.models.between:KernelBetween"),
        replicates=100,
        weighs=True,
    ),
    Kind(
        name="tlm-bayes",
        label="TLM-Bayes",
        words="two-level model, its means and covariances integrated out (normal, inverse Wishart)",
        fit="lindley.models.bayes.fit:fit",
        stores=("lindley.models.bayes.averaged:Averaged", _TWO_LEVEL, _NORMAL),
        can=frozenset({"parts", "scatter"}),
        replicates=10,
        effort=30.0,
        alone=True,
    ),
    Kind(
        name="ht-plda",
        label="HT-PLDA",
        words="heavy-tailed PLDA: Student-t within and between sources",
        fit="lindley.models.heavy_tailed.fit:fit",
        stores=(_TWO_LEVEL, "lindley.models.heavy_tailed.model:HeavyTailed"),
        can=frozenset({"parts", "scatter"}),
        effort=10.0,
        alone=True,
    ),
    Kind(
        name="nplda",
        label="NPLDA",
        words="neural PLDA: a quadratic score trained on a soft detection cost",
        fit=f"{_NETWORKS}nplda:fit",
        stores=(_TWO_LEVEL, f"{_NETWORKS}nplda:Quadratic"),
        can=frozenset({"shares", "epochs", "gpu"}),
        options=NpldaOptions,
        cross_fit="never",
        effort=30.0,
    ),
    *(
        Kind(
            name=f"ntlm-{projection}-{mode}-n{within}",
            label=f"{mode}, N={within}",
            words=f"neural two-level model, {projection} projection, trained on {mode}, "
            f"{'one within variance' if within == 1 else 'within variances for trace and ref'}",
            fit=f"{_NETWORKS}fit:fit",
            stores=(
                _TWO_LEVEL,
                _NORMAL,
                f"{_NETWORKS}parameters:MixtureBetween",
                f"{_NETWORKS}integration:CommonVariance",
                f"{_NETWORKS}integration:VaryingVariance",
            ),
            can=frozenset({"parts", "shares", "integration", "epochs", "gpu"}),
            options=NetworkOptions,
            says={"projection": projection, "mode": mode, "within": within},
            from_training=("epochs", "batch", "learning_rate", "weight_decay"),
            family=projection,
            cross_fit="never",
            effort=100.0,
        )
        for projection in ("single", "double")
        for mode in ("pairs", "sources")
        for within in (1, 2)
    ),
)


@dataclass(frozen=True)
class Addition:
    """What can stand in front of a model or behind it."""

    words: str
    label: str
    options: tuple[str, ...] = ()  # of the model that matter only with it
    marginal: bool = True  # of a transform: whether each feature goes by itself
    alone: bool = False  # of a transform: each run is fitted by itself, and for long
    effort: float = 0.0  # of a transform: about how many times as long as tlm it takes to fit


INTEGRATIONS = {
    "common": Addition("the variance, common to all sources, integrated out", "common"),
    "varying": Addition(
        "the within variance, varying between sources, integrated out", "varying", options=("samples", "prior")
    ),
}
GAUSSIANISERS = {
    "log10": Addition("the logarithm of every feature in front", "log10"),
    "quantile": Addition("marginal quantile transform in front", "quantile"),
    "yeo-johnson": Addition("marginal Yeo-Johnson transform in front", "Yeo-Johnson"),
    "flow": Addition(
        "normalising flow in front, of all features together", "flow", marginal=False, alone=True, effort=5.0
    ),
}
CALIBRATIONS = {
    "logistic": Addition("logistic calibration", "logistic"),
    "kde": Addition("kernel density calibration", "KDE"),
    "pav": Addition("pool-adjacent-violators calibration", "PAV"),
    "elub": Addition("empirical lower and upper bounds", "ELUB"),
    "iv": Addition("invariance verification bounds", "IV"),
}


@contextmanager
def register(kind: Kind) -> Iterator[None]:
    """Another kind of model, for as long as the ``with`` block lasts."""
    if kind.name in KINDS:
        raise ValueError(f"there is a kind '{kind.name}' already")
    KINDS[kind.name] = kind
    try:
        yield
    finally:
        del KINDS[kind.name]


def fetch(place: str) -> Any:
    """What is called ``"module:name"``."""
    module, _, name = place.partition(":")
    return getattr(import_module(module), name)
