"""All pairs at once, where LiR's source pairing makes them one after the other."""

from __future__ import annotations

import numpy as np
from lir.data.models import InstanceData, PairedFeatureData
from lir.transform.pairing import PairingMethod

from lindley.adapters.lir.data import features_of
from lindley.errors import LindleyError

__all__ = ["AllPairs"]


class AllPairs(PairingMethod):  # type: ignore[misc]
    """One trace and one ref of every source, drawn at random; every trace against every ref.

    This is the pairing of lindley's own experiments. A source with fewer than ``n_trace_instances + n_ref_instances``
    instances is left out. ``different_source_limit`` takes that many of the different-source pairs, at random. The same
    ``seed`` gives the same pairs of the same instances.
    """

    def __init__(self, different_source_limit: int | None = None, seed: int = 0) -> None:
        if different_source_limit is not None and different_source_limit < 1:
            raise LindleyError(f"different_source_limit must be 1 or more, not {different_source_limit}")
        self.different_source_limit = different_source_limit
        self.seed = seed

    def pair(self, instances: InstanceData, n_trace_instances: int = 1, n_ref_instances: int = 1) -> PairedFeatureData:
        """Pairs with their sources; hypothesis 1 for one source, 0 for two."""
        instances = features_of(instances, "pairing")
        rng = np.random.default_rng((self.seed, 3))
        size = n_trace_instances + n_ref_instances
        sources, code, count = np.unique(instances.source_ids, return_inverse=True, return_counts=True)
        order = np.lexsort((rng.random(len(code)), code))  # by source, and at random inside each
        first = (np.cumsum(count) - count)[count >= size]
        sources = sources[count >= size]
        if len(sources) < 2:
            raise LindleyError(
                f"{len(sources)} of {len(count)} sources have {n_trace_instances} instances for a trace and "
                f"{n_ref_instances} for a ref: two at least are needed to make pairs"
            )
        rows = order[first[:, None] + np.arange(size)]  # (source, instance)
        i, j = (index.reshape(-1) for index in np.indices((len(sources), len(sources))))
        if self.different_source_limit is not None:
            different = np.flatnonzero(i != j)
            drawn = different[np.argsort(rng.random(len(different)), kind="stable")[: self.different_source_limit]]
            kept = np.sort(np.concatenate([np.flatnonzero(i == j), drawn]))
            i, j = i[kept], j[kept]
        index = np.concatenate([rows[i, :n_trace_instances], rows[j, n_trace_instances:]], axis=1)
        return PairedFeatureData(
            features=instances.features[index],
            source_ids=np.column_stack([sources[i], sources[j]]),
            hypothesis=(i == j).astype(int),
            instance_indices=index,
            n_trace_instances=n_trace_instances,
            n_ref_instances=n_ref_instances,
        )
