r"""A normalising flow in front of the models: features are transformed such that the two-level normal model fits.

With f the flow, u_ij = f(x_ij) the instances j = 1 … n_i of source i, ū_i their mean and d features, f maximises the
likelihood of whole sources under the model that comes after it,

    ln p(x_i1 … x_in) = ln N(ū_i; μ, V) − (d/2) ln n_i + Σ_k ln N(c_ik; 0, W) + Σ_j ln |det ∂f/∂x (x_ij)|

c_ik being the n_i − 1 orthonormal contrasts of the source's replicates. This is the two-level normal model, V = B + W/n, where
all sources have n instances; where they do not, V is the covariance of source means all the same. Given f, the best μ, V and W
are moments of the u, drawn to uncorrelated features a little, so that what is left is to descend in f alone. Instances of one
source are not independent: as a sample of single instances they would make f bend the law of sources into a normal one without
regard to what that does to replicates. Here f pays for a scatter of replicates that differs from place to place.

f is triangular (Knothe and Rosenblatt): feature k goes through a monotone spline whose shape depends on the features before it,

    f_k(x) = s(x_k; φ_k(x_1 … x_{k−1}))

with s rational-quadratic (Durkan et al. 2019) and φ a small masked network (Papamakarios et al. 2017), both from zuko. Features
are standardised first. The splines send the box [−5, 5] onto itself, with slope one at its ends. A value beyond ±5 is shifted
along, slope one, and acts on the splines of other features as ±5 does: far away f is a shift of each feature, finite,
monotone and one-to-one.

The start is the identity, exactly, and a normal prior with its mode there keeps f smooth: with b the shapes of the splines and
w how they depend on the network's units, f pays Σ b²/2s_b² + Σ w²/2s_w² besides. How many steps to descend is seen on a
quarter of the sources, held out of the fit; then the flow of all sources makes as many. Where no step is better than none, f
is the identity, and a classical model gives the LRs that it gives without a flow.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from lindley.errors import LindleyError
from lindley.llrs import Floats
from lindley.models.adam import Adam
from lindley.models.blocks import one_thread, pieces

__all__ = ["Flow", "Law", "Replicates", "fit_flow"]

BOX = 5.0
"""Standard deviations from the centre up to which features are bent."""
BINS, SLOPE = 5, 0.1
"""Pieces of a spline; the slope at its knots is between SLOPE and 1/SLOPE."""
HIDDEN = 32
"""Units of the network that shapes the splines, at least."""
SHAPE_SD, DEPENDENCE_SD = 1.0, 0.03
"""s_b and s_w, of the prior: few sources can tell how one feature looks, and only many how it depends on others."""
RATE = 0.01
"""Of the descent, by Adam: how far a number moves in a step, at most."""
STEPS, PATIENCE = 300, 40
"""The descent ends after so many steps, or after so many without a gain on held-out sources."""
HELD_OUT = 0.25
"""Share of the sources that is held out of the fit, to choose the number of steps."""
MIN_GROUPS = 8
"""Sources, or groups of sources, that a flow is fitted on: two of them are held out."""
SMALLEST = 1e-6
"""Of a variance, the total being one: replicates may agree to the last digit."""
ROWS = 1024
"""Instances that are bent at a time: each takes some 1,000 numbers for every feature on the way."""
WORTH = 3
"""Sources per feature, and contrasts per feature, that uncorrelated features count for in the fit."""


@dataclass(frozen=True, eq=False)
class Replicates:
    """Which instances are of one source."""

    item: Tensor  # (rows,) number of the source
    count: Tensor  # (sources,) instances of each, as a float

    @classmethod
    def of(cls, source: NDArray[Any]) -> Replicates:
        """From the sources of the rows, in any order."""
        _, item, count = np.unique(source, return_inverse=True, return_counts=True)
        return cls(torch.from_numpy(item), torch.from_numpy(count.astype(np.float64)))

    def apart(self, values: Tensor) -> tuple[Tensor, Tensor]:
        """Source means (sources, feature), and what is left of the instances (rows, feature)."""
        means = self.sums(values) / self.count[:, None]
        return means, values - means[self.item]

    def sums(self, values: Tensor) -> Tensor:
        """Sums over the instances of every source, (rows, …) → (sources, …)."""
        return values.new_zeros((len(self.count), *values.shape[1:])).index_add(0, self.item, values)


@dataclass(frozen=True, eq=False)
class Law:
    """What the two-level normal model says of the instances of a source."""

    mean: Tensor  # μ (feature,)
    means: Tensor  # V, covariance of source means (feature, feature)
    within: Tensor  # W (feature, feature)

    @classmethod
    def fit(cls, values: Tensor, rows: Replicates, start: Law, worth: float) -> Law:
        """Moments of instances, with ``start`` counting for so many sources, and for as many contrasts."""
        means, rest = rows.apart(values)
        mean = means.mean(0)
        around = means - mean
        contrasts = len(values) - len(means)
        return cls(
            mean,
            (around.mT @ around + worth * start.means) / (len(means) + worth),
            (rest.mT @ rest + worth * start.within) / (contrasts + worth),
        )

    @classmethod
    def of_features(cls, values: Tensor, rows: Replicates) -> Law:
        """Every feature by itself: a matrix of few sources is drawn to this one, and can be inverted."""
        means, rest = rows.apart(values)
        within = (rest**2).sum(0) / max(len(values) - len(means), 1)
        between, within = (torch.diag(var.clamp_min(SMALLEST)) for var in (means.var(0), within))
        return cls(means.mean(0), between, within)

    def ln_density(self, values: Tensor, rows: Replicates) -> Tensor:
        """ln p of all instances of every source together, (sources,)."""
        means, rest = rows.apart(values)
        ln_means, square_means = _square(means - self.mean, self.means)
        ln_within, squares = _square(rest, self.within)
        n, d = rows.count, values.shape[1]
        ln_volume = d * (n * math.log(2 * math.pi) + n.log()) + ln_means + (n - 1) * ln_within
        return -0.5 * (ln_volume + square_means + rows.sums(squares))


def _square(deviations: Tensor, covariance: Tensor) -> tuple[Tensor, Tensor]:
    """ln |C|, and the squares δᵀ C⁻¹ δ of deviations (rows, feature)."""
    root = torch.linalg.cholesky(covariance)
    scaled = torch.linalg.solve_triangular(root, deviations.mT, upper=False)
    return 2 * root.diagonal().log().sum(), (scaled**2).sum(0)


@dataclass(frozen=True, eq=False)
class Flow:
    """A fitted flow: numbers alone, in float64, and the masks that make the network triangular."""

    centre: Floats  # (feature,)
    scale: Floats  # (feature,)
    names: tuple[str, ...]  # that zuko gives the arrays of its network
    arrays: tuple[NDArray[Any], ...]

    def __call__(self, values: Floats) -> Floats:
        """Values (rows, feature), transformed."""
        x, splines = self._standardised(values), self._splines()
        with torch.inference_mode(), one_thread():
            return torch.cat([_bend(splines, x[some])[0] for some in pieces(len(x), ROWS)]).numpy()

    def _standardised(self, values: Floats) -> Tensor:
        array = np.asarray(values, dtype=np.float64)
        if array.ndim != 2 or array.shape[1] != len(self.centre):
            raise LindleyError(f"a flow of {len(self.centre)} features got values of shape {array.shape}")
        return torch.from_numpy((array - self.centre) / self.scale)

    def _splines(self) -> nn.Module:
        splines = _identity(len(self.centre), 0)
        splines.load_state_dict({n: torch.from_numpy(a) for n, a in zip(self.names, self.arrays, strict=True)})
        return splines


def fit_flow(values: Floats, source: NDArray[Any], *, group: NDArray[Any] | None = None, seed: int = 0) -> Flow:
    """The flow that makes instances (rows, feature) two-level normal, given their sources (rows,).

    Args:
        values: instances (rows, feature).
        source: of every row.
        group: of every row; sources of one group are held out together. By default every source is its own.
        seed: of the held-out sources and of the network's start.

    Raises:
        LindleyError: if zuko is not installed, if there are too few sources, or if a value is not finite.
    """
    if values.ndim != 2 or not np.isfinite(values).all():
        raise LindleyError(f"a flow is fitted on finite values (rows, feature): these have shape {values.shape}")
    held_out = _held_out(source if group is None else group, np.random.default_rng((seed, 9)))
    rows = Replicates.of(source)
    centre, scale = _moments(values, rows)
    x = torch.from_numpy((values - centre) / scale)
    with one_thread():
        splines = _identity(values.shape[1], seed)
        steps = _best_number_of_steps(splines, x, source, torch.from_numpy(held_out))
        splines = _identity(values.shape[1], seed)
        for _ in _descend(splines, x, rows, steps):
            pass
    state = splines.state_dict()
    return Flow(centre, scale, tuple(state), tuple(tensor.numpy() for tensor in state.values()))


def _held_out(group: NDArray[Any], rng: np.random.Generator) -> NDArray[np.bool_]:
    """Which rows are held out: all of a share of the groups."""
    groups, code = np.unique(group, return_inverse=True)
    if len(groups) < MIN_GROUPS:
        raise LindleyError(
            f"a flow needs {MIN_GROUPS} sources (or groups of sources) to fit on, and there are {len(groups)}: give more "
            "sources, or leave 'flow:' out."
        )
    out = np.zeros(len(groups), dtype=np.bool_)
    out[np.argsort(rng.random(len(groups)), kind="stable")[: round(HELD_OUT * len(groups))]] = True
    return out[code]


def _moments(values: Floats, rows: Replicates) -> tuple[Floats, Floats]:
    """Mean and standard deviation of the features, (feature,) each, every source counting the same."""
    weight = 1 / (rows.count[rows.item] * len(rows.count)).numpy()[:, None]
    centre = (weight * values).sum(axis=0)
    scale = np.sqrt((weight * (values - centre) ** 2).sum(axis=0))
    return centre, np.where(scale > 0, scale, 1.0)


def _best_number_of_steps(splines: nn.Module, x: Tensor, source: NDArray[Any], held_out: Tensor) -> int:
    """After how many steps with the other sources the held-out ones are likeliest.

    They are judged by moments as they are, as a model has them: a law drawn to uncorrelated features would like to see them
    bent towards that.
    """
    fitted, unseen = Replicates.of(source[~held_out.numpy()]), Replicates.of(source[held_out.numpy()])
    start = Law.of_features(x[~held_out], fitted)
    best, at = -math.inf, 0
    for step, seen in enumerate(_descend(splines, x[~held_out], fitted, STEPS)):
        with torch.no_grad():
            u, ln_det = _bend(splines, x[held_out])
            ln_density = float(Law.fit(seen, fitted, start, 1).ln_density(u, unseen).sum() + ln_det.sum())
        if ln_density > best:
            best, at = ln_density, step
        elif step - at >= PATIENCE:
            break
    return at


def _descend(splines: nn.Module, x: Tensor, rows: Replicates, steps: int) -> Iterator[Tensor]:
    """Fit the splines in place: before every step, what they make of the instances."""
    start, worth = Law.of_features(x, rows), WORTH * x.shape[1]
    optimiser = Adam(splines.parameters(), RATE)
    for _ in range(steps):
        u, ln_det = _bend(splines, x)
        yield u.detach()
        # The law is at its own maximum, so that it need not be differentiated.
        law = Law.fit(u.detach(), rows, start, worth)
        optimiser.step((_prior(splines) - law.ln_density(u, rows).sum() - ln_det.sum()) / len(rows.count))


def _bend(splines: nn.Module, x: Tensor) -> tuple[Tensor, Tensor]:
    """Standardised values (rows, feature) through the flow, and ln |det| of its derivative, (rows,)."""
    inside = x.clamp(-BOX, BOX)
    u, ln_det = splines().call_and_ladj(inside)
    return u + (x - inside), ln_det


def _identity(features: int, seed: int) -> nn.Module:
    """Splines that change nothing, ready to be fitted."""
    import zuko.flows  # not needed by anything else, and slow to import
    import zuko.transforms

    kind: dict[str, Any] = {
        "univariate": partial(zuko.transforms.MonotonicRQSTransform, bound=BOX, slope=SLOPE),
        "shapes": [(BINS,), (BINS,), (BINS - 1,)],
    }
    splines: nn.Module
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(seed)
        if features == 1:
            splines = zuko.flows.gaussianization.ElementWiseTransform(1, **kind)
        else:
            # Fewer units than features would leave features that nothing depends on.
            splines = zuko.flows.autoregressive.MaskedAutoregressiveTransform(
                features, hidden_features=(max(HIDDEN, features),), activation=nn.Tanh, **kind
            )
    for parameter in itertools.chain(*_shapes_and_dependence(splines)):
        nn.init.zeros_(parameter)
    return splines.double()


def _shapes_and_dependence(splines: Any) -> tuple[list[Tensor], list[Tensor]]:
    """b, the shapes of the splines, and w, how they depend on the network's units; all zero is the identity."""
    if hasattr(splines, "phi"):  # one feature, that depends on no other
        return list(splines.phi), []
    return [splines.hyper[-1].bias], [splines.hyper[-1].weight]


def _prior(splines: nn.Module) -> Tensor:
    """Σ b²/2s_b² + Σ w²/2s_w²."""
    both = zip(_shapes_and_dependence(splines), (SHAPE_SD, DEPENDENCE_SD), strict=True)
    return torch.stack([(parameter**2).sum() / (2 * sd**2) for some, sd in both for parameter in some]).sum()
