"""Splits of the data by groups of sources, where LiR's own go by sources."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, TypeVar

import numpy as np
from lir.data.models import DataStrategy, InstanceData, PairedFeatureData
from numpy.typing import NDArray
from sklearn.model_selection import GroupKFold, ShuffleSplit

from lindley.errors import LindleyError

__all__ = ["GroupsCrossValidation", "GroupsTrainTestSplit"]

T = TypeVar("T", bound=InstanceData)


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


def _groups(instances: InstanceData) -> tuple[NDArray[Any], NDArray[np.intp]]:
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


def _require_one_each(source: NDArray[Any], groups: NDArray[Any], code: NDArray[np.intp]) -> None:
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


def _split(instances: T, code: NDArray[np.intp], test: NDArray[np.intp]) -> tuple[T, T]:
    tested = np.isin(code, test)
    return instances[~tested.any(axis=1)], instances[tested.all(axis=1)]
