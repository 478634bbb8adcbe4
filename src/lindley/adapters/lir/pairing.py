"""How data is paired and split.

`AllPairs` makes all pairs at once, where LiR's source pairing makes them one after the other. The splits go by groups of
sources, where LiR's own go by sources.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from typing import Any, TypeVar

import numpy as np
from lir.data.models import DataStrategy, FeatureData, InstanceData, PairedFeatureData
from lir.transform.pairing import PairingMethod
from numpy.typing import NDArray
from sklearn.model_selection import GroupKFold, ShuffleSplit

from lindley.adapters.lir.data import features_of, whole_number
from lindley.errors import LindleyError
from lindley.table.splits import draw_instances

__all__ = ["AllPairs", "GroupsCrossValidation", "GroupsTrainTestSplit"]

T = TypeVar("T", bound=InstanceData)
Index = NDArray[np.intp]


class AllPairs(PairingMethod):  # type: ignore[misc]
    """One trace and one ref of every source, drawn at random; every trace against every ref.

    This is the pairing of lindley's own experiments. A source with fewer than ``n_trace_instances + n_ref_instances``
    instances is left out, and so is an instance with a NaN. Of a source with several sessions, the field ``session_ids``, the
    trace is of one and the ref of others. Other fields of the instances stay with them, as in LiR's
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
        n_ref = whole_number("n_ref_instances", n_ref_instances, 1)
        rng = np.random.default_rng(None if self.seed is None else (self.seed, 3))
        there = _measured(instances)
        labels, session = instances.source_ids[there], getattr(instances, "session_ids", None)
        session = None if session is None else np.asarray(session)[there]
        drawn, _ = draw_instances(labels, n_trace, n_ref, rng, complete=True, session=session)
        rows = there[drawn].reshape(-1, n_trace + n_ref)  # (source, instance)
        sources = instances.source_ids[rows[:, 0]]
        if len(sources) < 2:
            raise LindleyError(
                f"{len(sources)} of {len(np.unique(labels))} sources have {n_trace} instances for a trace and {n_ref} for a "
                "ref: two at least are needed to make pairs"
            )
        i, j = self._some(len(sources), rng)
        index = np.concatenate([rows[i, :n_trace], rows[j, n_trace:]], axis=1)
        further = (instances.model_extra or {}).items()
        return PairedFeatureData(
            **{
                **{name: value[index] if isinstance(value, np.ndarray) else value for name, value in further},
                "features": instances.features[index],
                "source_ids": np.column_stack([sources[i], sources[j]]),
                "hypothesis": (i == j).astype(int),
                "instance_indices": index,
                "n_trace_instances": n_trace,
                "n_ref_instances": n_ref,
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


class GroupsTrainTestSplit(DataStrategy):  # type: ignore[misc]
    """LiR's ``train_test_sources`` for groups: no group of sources is in the training set and in the test set.

    The groups are the field ``group_ids`` of the data, which `Table` makes of a ``group_column``. Pairs are in the training
    set if none of their groups is in the test set, and in the test set if all are; others are left out.

    Args:
        test_size: share of the groups that is tested on (rounded up), or their number.
        seed: the same one gives the same split.
    """

    def __init__(self, test_size: float, seed: int | None = None) -> None:
        self.test_size = test_size
        self.seed = seed

    def apply(self, instances: T) -> Iterator[tuple[T, T]]:
        """One training set and its test set."""
        groups, code = _groups(instances)
        splitter = ShuffleSplit(n_splits=1, test_size=self.test_size, random_state=self.seed)
        try:
            ((_, test),) = splitter.split(groups)
        except ValueError as error:
            raise LindleyError(f"test_size: {len(groups)} groups cannot be split so: {error}") from None
        yield _split(instances, code, test)


class GroupsCrossValidation(DataStrategy):  # type: ignore[misc]
    """LiR's ``cross_validation_sources`` for groups: each group of sources is in one of ``folds`` test sets.

    The groups are those of `GroupsTrainTestSplit`.

    Args:
        folds: how many.
        shuffle: whether groups are dealt out at random; default if there is a ``random_state``.
        random_state: the same one gives the same folds.
    """

    def __init__(self, folds: int, shuffle: bool | None = None, random_state: int | None = None) -> None:
        if shuffle is None:
            shuffle = random_state is not None
        self.folds = folds
        self._splitter = GroupKFold(n_splits=folds, shuffle=shuffle, random_state=random_state)

    def apply(self, instances: T) -> Iterator[tuple[T, T]]:
        """A training set and its test set for every fold."""
        groups, code = _groups(instances)
        if len(groups) < self.folds:
            raise LindleyError(f"folds: {len(groups)} groups do not make {self.folds} folds: give fewer folds")
        flat = code.reshape(-1)
        for _, test in self._splitter.split(flat, groups=flat):
            yield _split(instances, code, np.unique(flat[test]))


def _groups(instances: InstanceData) -> tuple[NDArray[Any], Index]:
    """The groups, and the number of its group for every instance (instances, 1), or those of every pair (pairs, 2 or more)."""
    given = getattr(instances, "group_ids", None)
    if given is None:
        raise LindleyError(
            "a split by groups needs the field group_ids of the data: give lindley.adapters.lir.Table a group_column, or "
            "split by sources, with LiR's train_test_sources or cross_validation_sources"
        )
    groups, code = np.unique(np.asarray(given), return_inverse=True)
    code = code.reshape(len(instances), -1)
    source = instances.source_ids
    if isinstance(instances, PairedFeatureData) and source is not None and source.size != code.size:
        source = np.repeat(source, (instances.n_trace_instances, instances.n_ref_instances), axis=1)
    if source is not None and source.size == code.size:
        _require_one_each(source, groups, code)
    return groups, code


def _require_one_each(source: NDArray[Any], groups: NDArray[Any], code: Index) -> None:
    """A source of two groups could be in both sets."""
    sources, which = np.unique(source, return_inverse=True)
    both = np.unique(np.column_stack([which.reshape(-1), code.reshape(-1)]), axis=0)
    again = np.flatnonzero(both[1:, 0] == both[:-1, 0])
    if again.size:
        number, one = both[again[0]]
        raise LindleyError(
            f"source {sources[number]} is in group {groups[one]} and in group {groups[both[again[0] + 1, 1]]}: a split by "
            "groups would have it in the training set and in the test set. Give each source one group."
        )


def _split(instances: T, code: Index, test: Index) -> tuple[T, T]:
    tested = np.isin(code, test)
    return instances[~tested.any(axis=1)], instances[tested.all(axis=1)]
