"""The models as scikit-learn estimators.

``fit`` takes instances and the sources that they come from, as any classifier takes samples and their classes. What comes
after is asked of *pairs*: whether trace and ref come from one source, one that need not have been there in training. A pair
is ``n_trace_instances`` rows followed by ``n_ref_instances`` rows. Several pairs are

* an array (pairs, n_trace_instances + n_ref_instances, features); or
* the same rows below each other, (pairs · (n_trace_instances + n_ref_instances), features): with one instance each, row 0
  is the trace and row 1 the ref of the first pair, row 2 is the trace of the second one, and so on. That is
  ``pairs.reshape(-1, n_features)``, and it goes through a scaler, or anything else in a pipeline, like other rows.
"""

from __future__ import annotations

import math
import numbers
from collections.abc import Mapping
from typing import Any, Self, cast

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import expit
from sklearn.base import BaseEstimator
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted, validate_data

from lindley.arrays import as_numbers
from lindley.errors import LindleyError
from lindley.evaluation.metrics import cllr
from lindley.llrs import LN10, Floats, LLRs
from lindley.system.fit import Settings
from lindley.system.kinds import DEFAULT_MODEL
from lindley.system.names import ModelName
from lindley.system.system import System
from lindley.system.train import VALIDATION, fit_table
from lindley.table.frames import columns_of
from lindley.table.splits import Part, Side
from lindley.table.table import Table

__all__ = ["TwoLevelClassifier"]


class TwoLevelClassifier(BaseEstimator):  # type: ignore[misc]
    """A two-level model that tells whether two sets of instances come from one source.

    Args:
        model: the name of a model as in ``lindley run``: ``tlm``, ``tlm-kde``, ``robust``, ``tlm+logistic+elub@cv``,
            ``ntlm-single-pairs-n1-varying``, ``yeo-johnson:tlm`` ….
        options: of the model, such as ``{"epochs": 500, "learning_rate": 0.003}`` of a network; the same as in an experiment
            file.
        validation: the share of the sources that is kept from a network, to choose the best epoch of its training and to
            calibrate it. Other models are fitted on all sources, and calibrated on pairs that are held out in turns.
        n_trace_instances: rows of a pair that are the trace.
        n_ref_instances: rows of a pair that are the ref; they follow the trace.
        prior: the probability of one source before the evidence, for ``predict_proba`` and ``predict``.
        device: where a neural model is trained, cpu or cuda.
        random_state: a number ≥ 0, for the same model each time; or a generator or None, as in scikit-learn.

    Attributes:
        fitted_: the model with its standardisation and its calibration, a `lindley.system.named.FittedModel`.
        sources_: the sources that the model was fitted on.
        validation_sources_: the sources that were kept from it.
        n_features_in_: the number of features; with ``feature_names_in_`` where a data frame was given. The columns of data
            frames then count by their names, in any order.

    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> source = np.repeat(np.arange(200), 3)
    >>> X = 5 * rng.normal(size=(200, 2))[source] + rng.normal(size=(600, 2))
    >>> classifier = TwoLevelClassifier("tlm").fit(X, source)
    >>> pairs = np.stack([X[[0, 0]], X[[1, 30]]], axis=1)  # (pairs, 2, features): one source, then two
    >>> classifier.decision_function(pairs).round(1)  # log10 LR
    array([ 0.8, -1.7])
    """

    def __init__(
        self,
        model: str = DEFAULT_MODEL,
        *,
        options: Mapping[str, Any] | None = None,
        validation: float = VALIDATION,
        n_trace_instances: int = 1,
        n_ref_instances: int = 1,
        prior: float = 0.5,
        device: str = "cpu",
        random_state: int | np.random.RandomState | None = 0,
    ) -> None:
        self.model = model
        self.options = options
        self.validation = validation
        self.n_trace_instances = n_trace_instances
        self.n_ref_instances = n_ref_instances
        self.prior = prior
        self.device = device
        self.random_state = random_state

    def fit(self, X: ArrayLike, y: ArrayLike) -> Self:
        """Fit on instances (rows, features) and the source of each (rows,).

        Raises:
            ValueError: if the data or the parameters do not do; it says why.
        """
        values, source = validate_data(self, _seen(X), y, dtype=np.float64, ensure_min_samples=4)
        self._require_counts()
        share: Any = self.validation
        if not isinstance(share, numbers.Real) or not 0 < float(share) < 1:
            raise ValueError(f"validation is a share between 0 and 1, such as 0.33, and not {share!r}")
        if self.device not in ("cpu", "cuda"):
            raise ValueError(f"device is cpu or cuda, and not {self.device!r}")
        labels, code = np.unique(source, return_inverse=True)
        table = Table.from_arrays(
            values, _in_order(len(labels))[code], features=getattr(self, "feature_names_in_", None), name="the data"
        )
        try:
            fitted = fit_table(
                table,
                ModelName.of(self.model, options=self.options),
                seed=self._seed(),
                validation=float(share),
                instances=(self.n_trace_instances, self.n_ref_instances),
                settings=Settings(device=self.device),
            )
        except LindleyError as error:
            raise ValueError(str(error)) from error
        kept = np.isin(np.arange(len(labels)), code[fitted.kept])
        self.system_: System = fitted.stage.system
        self.sources_, self.validation_sources_ = labels[~kept], labels[kept]
        return self

    def decision_function(self, X: ArrayLike) -> Floats:
        """log10 LR of every pair (pairs,): above 0 speaks for one source."""
        pairs = self._pairs(X)
        return self.system_.llr_pairs(pairs[:, : self.n_trace_instances], pairs[:, self.n_trace_instances :])

    def predict_proba(self, X: ArrayLike) -> Floats:
        """Probabilities (pairs, 2) of two sources and of one source, given the prior."""
        if not 0 < self.prior < 1:
            raise ValueError(f"the prior is a probability between 0 and 1, and not {self.prior}")
        ln_odds = LN10 * self.decision_function(X) + math.log(self.prior / (1 - self.prior))
        return np.stack([expit(-ln_odds), expit(ln_odds)], axis=1)

    def predict(self, X: ArrayLike) -> NDArray[np.int64]:
        """1 for pairs that more probably have one source than two, given the prior; 0 for others."""
        return (self.predict_proba(X)[:, 1] > 0.5).astype(np.int64)

    def decision_matrix(self, traces: ArrayLike, refs: ArrayLike) -> Floats:
        """log10 LRs of all traces (rows) against all refs (columns): many times faster than pair by pair.

        Each is an array (items, instances, features); or (items, features), or a data frame, of items of one instance.
        """
        check_is_fitted(self)
        return self.system_.llr_sides(self._side(traces), self._side(refs))

    def score(self, X: ArrayLike, y: ArrayLike) -> float:
        """−Cllr on instances and their sources, given as in ``fit``: the higher the better, for a search or a validation.

        The first ``n_trace_instances`` rows of every source are its trace and the next ``n_ref_instances`` are its ref; all
        traces are set against all refs. Sources with fewer rows are left out. Use ``GroupKFold`` with ``groups=y``, so that no
        source is in both parts.
        """
        check_is_fitted(self)
        values, source = validate_data(self, self._named(X), y, dtype=np.float64, reset=False)
        labels, code = np.unique(source, return_inverse=True)
        n_trace, n_ref = self.n_trace_instances, self.n_ref_instances
        part = Part.drawn(values, _in_order(len(labels))[code], n_trace=n_trace, n_ref=n_ref, complete=True)
        if len(part.trace.source) < 2:
            raise ValueError(f"a score needs two sources at least with {n_trace + n_ref} rows, for a trace and a ref")
        llr = self.system_.llr_sides(part.trace, part.ref)
        return -cllr(LLRs.from_matrix(llr, part.trace.source, part.ref.source))

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.required = True
        return tags

    def _seed(self) -> int:
        seed: Any = self.random_state
        if not isinstance(seed, numbers.Integral):
            return int(check_random_state(seed).randint(2**31))
        if seed < 0:
            raise ValueError(f"random_state is a number of 0 or more, a generator or None, and not {seed}")
        return int(seed)

    def _named(self, X: Any) -> Any:
        """A data frame with its columns in the order of the fit; one of other columns is left to scikit-learn to refuse."""
        names, there = getattr(self, "feature_names_in_", None), columns_of(X)
        if names is None or there is None or sorted(there) != sorted(names):
            return _seen(X)
        return X[list(names)]

    def _require_counts(self) -> None:
        for name in ("n_trace_instances", "n_ref_instances"):
            count = getattr(self, name)
            if not isinstance(count, numbers.Integral) or count < 1:
                raise ValueError(f"{name} is a number of rows, 1 or more, and not {count!r}")

    def _rows(self, X: Any) -> Floats:
        return cast(Floats, validate_data(self, self._named(X), dtype=np.float64, reset=False))

    def _pairs(self, X: ArrayLike) -> Floats:
        """Pairs (pairs, instances, features) from either form."""
        check_is_fitted(self)
        self._require_counts()
        size = self.n_trace_instances + self.n_ref_instances
        what = f"{size} rows make a pair, {self.n_trace_instances} of the trace and {self.n_ref_instances} of the ref"
        if np.ndim(cast(Any, X)) == 3:
            shape = np.shape(cast(Any, X))
            if shape[1] != size:
                raise ValueError(f"{what}: an array (pairs, {size}, features) is needed, and not {shape}")
            X = np.asarray(X).reshape(-1, shape[2])
        rows = self._rows(X)
        if len(rows) % size:
            raise ValueError(f"{what}, and there are {len(rows)} rows")
        return rows.reshape(-1, size, rows.shape[1])

    def _side(self, items: Any) -> Side:
        shape = np.shape(items)
        if len(shape) not in (2, 3):
            raise ValueError(f"an array (items, instances, features) is needed, and not {shape}")
        rows = self._rows(items if len(shape) == 2 else np.reshape(items, (-1, shape[2])))
        item = np.repeat(np.arange(shape[0]), shape[1] if len(shape) == 3 else 1)
        return Side(rows, item, np.arange(shape[0]).astype(np.str_))


def _seen(X: Any) -> Any:
    """An array with NaN for what is masked, which scikit-learn refuses; it looks at no masks."""
    return as_numbers(X, "X") if isinstance(X, np.ma.MaskedArray) else X


def _in_order(n: int) -> NDArray[np.str_]:
    """Labels of n sources that sort as their numbers do."""
    return np.array([f"{k:08d}" for k in range(n)])
