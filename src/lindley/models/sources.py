"""The instances of a set of sources, in the form that estimates are made from."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import scipy.linalg
from numpy.typing import NDArray

__all__ = ["Sources"]

Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Sources:
    """Instances sorted by source, with the number of instances of each."""

    values: Floats  # (rows, feature)
    first: NDArray[np.intp]  # (sources,) first row of a source
    count: NDArray[np.intp]  # (sources,)
    group: NDArray[np.intp]  # (sources,) number of its group

    @classmethod
    def of(cls, values: Floats, source: NDArray[np.str_], group: NDArray[np.str_] | None = None) -> Sources:
        """From rows in any order; the order of the sources is that of their names."""
        labels, row, item, count = np.unique(source, return_index=True, return_inverse=True, return_counts=True)
        groups = labels if group is None else group[row]
        order = np.argsort(item, kind="stable")
        return cls(values[order], np.cumsum(count) - count, count, np.unique(groups, return_inverse=True)[1])

    def __len__(self) -> int:
        return len(self.count)

    def take(self, which: NDArray[np.intp]) -> Sources:
        """Some of the sources."""
        count = self.count[which]
        first = np.cumsum(count) - count
        rows = np.repeat(self.first[which] - first, count) + np.arange(count.sum())
        return Sources(self.values[rows], first, count, self.group[which])

    @property
    def item(self) -> NDArray[np.intp]:
        """The source of every row, (rows,)."""
        return np.repeat(np.arange(len(self)), self.count)

    @property
    def means(self) -> Floats:
        """(sources, feature)."""
        result: Floats = np.add.reduceat(self.values, self.first, axis=0) / self.count[:, None]
        return result

    def contrasts(self) -> tuple[Floats, NDArray[np.intp]]:
        """n_i − 1 orthonormal contrasts of every source with n_i ≥ 2, (contrasts, feature), and whose they are."""
        parts, owners = [], []
        for n in np.unique(self.count[self.count > 1]):
            which = np.flatnonzero(self.count == n)
            replicates = self.values[self.first[which][:, None] + np.arange(n)]  # (sources, n, feature)
            helmert = scipy.linalg.helmert(n)
            parts.append(np.einsum("kn,snf->skf", helmert, replicates).reshape(-1, replicates.shape[-1]))
            owners.append(np.repeat(which, n - 1))
        return np.concatenate(parts), np.concatenate(owners)
