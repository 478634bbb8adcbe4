"""Bring the data to the model: marginal transforms that make every feature closer to normal.

The Gaussianising benchmark of the paper (Ramirez et al.). Fitted on the training part only. Both are
scikit-learn's: `QuantileTransformer` sends the empirical quantiles of a feature to those of the standard normal law
(values beyond the training range are held at its ends, so a pair out there looks alike), and `PowerTransformer`
fits Yeo and Johnson's one-parameter family by maximum likelihood.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import NDArray

__all__ = ["GAUSSIANISERS", "Gaussianiser", "fit_gaussianiser"]

Floats = NDArray[np.float64]
Gaussianiser = Literal["quantile", "yeo-johnson"]
GAUSSIANISERS: tuple[Gaussianiser, ...] = get_args(Gaussianiser)


def fit_gaussianiser(kind: Gaussianiser, values: Floats) -> Callable[[Floats], Floats]:
    """The transform of values (rows, feature), fitted on training instances."""
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

    def transform(new: Floats) -> Floats:
        return np.asarray(fitted.transform(new), dtype=np.float64)

    return transform
