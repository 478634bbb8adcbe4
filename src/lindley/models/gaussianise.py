"""Bring the data to the model: transforms that make features closer to normal.

The Gaussianising benchmark of the paper (Ramirez et al.). Fitted on the training part only. Two are marginal, one feature at a
time, and scikit-learn's: `QuantileTransformer` sends the empirical quantiles of a feature to those of the standard normal law
and `PowerTransformer` fits Yeo and Johnson's one-parameter family by maximum likelihood. Left alone, the former sends the
smallest and the largest training value, and all beyond them, to ±5.2. Here they go where the extremes of n normal values are
expected, ±Φ⁻¹(1 − 1/2n): a pair beyond the training range looks alike, but not outlandish. The third, ``flow``, bends all
features together, and knows of sources (`lindley.models.flow`).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri

from lindley.models.flow import fit_flow

__all__ = ["GAUSSIANISERS", "Gaussianiser", "fit_gaussianiser"]

Floats = NDArray[np.float64]
Gaussianiser = Literal["quantile", "yeo-johnson", "flow"]
GAUSSIANISERS: tuple[Gaussianiser, ...] = get_args(Gaussianiser)


def fit_gaussianiser(
    kind: Gaussianiser,
    values: Floats,
    *,
    source: NDArray[Any] | None = None,
    group: NDArray[Any] | None = None,
    seed: int = 0,
) -> Callable[[Floats], Floats]:
    """The transform of values (rows, feature), fitted on training instances.

    Args:
        kind: which of them.
        values: instances (rows, feature).
        source: of every row. A flow must know; a marginal transform does not look at it.
        group: of every row, if sources come in groups.
        seed: of what a flow draws; a marginal transform draws nothing.
    """
    if kind != "flow":
        return _fit_marginal(kind, values)
    if source is None:
        raise ValueError("a flow is fitted on sources: say which one every row is of")
    return fit_flow(values, source, group=group, seed=seed)


def _fit_marginal(kind: Literal["quantile", "yeo-johnson"], values: Floats) -> Callable[[Floats], Floats]:
    from sklearn.preprocessing import PowerTransformer, QuantileTransformer  # on demand, for `lindley --help`

    transformer: Any
    if kind == "quantile":
        # All instances are used: `subsample` would draw a random part of more than 10,000.
        transformer = QuantileTransformer(
            n_quantiles=min(1000, len(values)), output_distribution="normal", subsample=None
        )
    else:
        transformer = PowerTransformer(method="yeo-johnson", standardize=True)
    fitted = transformer.fit(values)
    end = ndtri(1 - 0.5 / len(values)) if kind == "quantile" else np.inf

    def transform(new: Floats) -> Floats:
        return np.clip(np.asarray(fitted.transform(new), dtype=np.float64), -end, end)

    return transform
