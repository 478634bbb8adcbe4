"""All pairs at once, where LiR's source pairing makes them one after the other."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
from lir.data.models import FeatureData, InstanceData, PairedFeatureData
from lir.transform.pairing import PairingMethod
from numpy.typing import NDArray

from lindley.adapters.lir.data import features_of, whole_number
from lindley.errors import LindleyError

__all__ = ["AllPairs"]

Index = NDArray[np.intp]


class AllPairs(PairingMethod):  # type: ignore[misc]
    """One trace and one ref of every source, drawn at random; every trace against every ref.

    This is the pairing of lindley's own experiments. A source with fewer than ``n_trace_instances + n_ref_instances``
    instances is left out, and so is an instance with a NaN. Other fields of the instances stay with them, as in LiR's
    ``instance_pairs``.

    Args:
        different_source_limit: take that many of the different-source pairs, at random.
        same_source_limit: take that many of the same-source pairs, at random.
        seed: the same one gives the same pairs of the same instances; None gives others every time.
    """

    def __init__(
        self, different_source_limit: int | None = None, seed: int | None = 0, same_source_limit: int | None = None
    ) -> None:
        limits = {"different_source_limit": different_source_limit, "same_source_limit": same_source_limit}
        for name, limit in limits.items():
            if limit is not None:
                whole_number(name, limit, 1)
        self.different_source_limit = different_source_limit
        self.same_source_limit = same_source_limit
        self.seed = None if seed is None else whole_number("seed", seed, 0)

    def pair(self, instances: InstanceData, n_trace_instances: int = 1, n_ref_instances: int = 1) -> PairedFeatureData:
        """Pairs with their sources; hypothesis 1 for one source, 0 for two."""
        instances = features_of(instances, "pairing")
        n_trace = whole_number("n_trace_instances", n_trace_instances, 1)
        size = n_trace + whole_number("n_ref_instances", n_ref_instances, 1)
        rng = np.random.default_rng(None if self.seed is None else (self.seed, 3))
        there = _measured(instances)
        sources, code, count = np.unique(instances.source_ids[there], return_inverse=True, return_counts=True)
        order = there[np.lexsort((rng.random(len(code)), code))]  # by source, and at random inside each
        first = (np.cumsum(count) - count)[count >= size]
        sources = sources[count >= size]
        if len(sources) < 2:
            raise LindleyError(
                f"{len(sources)} of {len(count)} sources have {n_trace} instances for a trace and {size - n_trace} for a "
                "ref: two at least are needed to make pairs"
            )
        rows = order[first[:, None] + np.arange(size)]  # (source, instance)
        i, j = self._some(len(sources), rng)
        index = np.concatenate([rows[i, :n_trace], rows[j, n_trace:]], axis=1)
        return PairedFeatureData(
            **{
                **_of_pairs(instances, index),
                "features": instances.features[index],
                "source_ids": np.column_stack([sources[i], sources[j]]),
                "hypothesis": (i == j).astype(int),
                "instance_indices": index,
                "n_trace_instances": n_trace,
                "n_ref_instances": size - n_trace,
            }
        )

    def _some(self, n: int, rng: np.random.Generator) -> tuple[Index, Index]:
        """Of all pairs of n traces and n refs as many of either kind as are asked for, in their order."""
        i, j = (side.reshape(-1) for side in np.indices((n, n)))
        if self.different_source_limit is None and self.same_source_limit is None:
            return i, j
        kinds = (i != j, self.different_source_limit), (i == j, self.same_source_limit)
        kept = []
        for kind, limit in kinds:
            which = np.flatnonzero(kind)
            if limit is not None:
                which = which[np.argsort(rng.random(len(which)), kind="stable")[:limit]]
            kept.append(which)
        chosen = np.sort(np.concatenate(kept))
        return i[chosen], j[chosen]


def _of_pairs(instances: FeatureData, index: Index) -> dict[str, Any]:
    """The further fields of instances, for pairs that are given by the numbers of their instances (pairs, instances)."""
    fields = instances.model_extra or {}
    return {name: value[index] if isinstance(value, np.ndarray) else value for name, value in fields.items()}


def _measured(instances: FeatureData) -> Index:
    """Instances without a NaN; a warning tells of the others."""
    missing: NDArray[np.bool_] = np.any(np.isnan(np.asarray(instances.features, dtype=np.float64)), axis=1)
    if missing.any():
        n = np.count_nonzero(missing)
        sources = len(np.unique(instances.source_ids[missing]))
        warnings.warn(
            f"{n} of {len(missing)} instances, of {sources} sources, have a NaN and are left out of the pairs",
            stacklevel=3,
        )
    return np.flatnonzero(~missing)
