"""What happened during a training, epoch by epoch."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

__all__ = ["History", "find_spikes"]

Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class History:
    """Cllr per epoch and run. Epochs count from 0; the parameters of ``best_epoch`` are the ones kept."""

    train: Floats  # mean over the batches of the epoch (run, epoch)
    validate: Floats  # after the epoch, all pairs (run, epoch)
    validate_axes: Floats | None  # after the epoch, axis by axis, on the watched pairs (run, epoch, axis)
    best_epoch: NDArray[np.intp]  # (run,)

    @property
    def spikes(self) -> list[NDArray[np.intp]]:
        """The epochs of every run at which the training loss spiked."""
        return [find_spikes(loss) for loss in self.train]

    @classmethod
    def join(cls, histories: list[History], order: list[int]) -> History:
        """Put runs that were trained in groups back in their order."""
        back = np.argsort(order)
        axes = [h.validate_axes for h in histories if h.validate_axes is not None]
        return cls(
            np.concatenate([h.train for h in histories])[back],
            np.concatenate([h.validate for h in histories])[back],
            np.concatenate(axes)[back] if axes else None,
            np.concatenate([h.best_epoch for h in histories])[back],
        )


def find_spikes(loss: Floats, window: int = 20, factor: float = 1.5) -> NDArray[np.intp]:
    """Epochs at which a loss curve jumps above ``factor`` times the median of the ``window`` epochs before.

    A spike counts once, at its first epoch.
    """
    if len(loss) <= window:
        return np.empty(0, dtype=np.intp)
    before = np.lib.stride_tricks.sliding_window_view(loss, window)[:-1]
    high = loss[window:] > factor * np.median(before, axis=1)
    first = high & ~np.r_[False, high[:-1]]
    return np.flatnonzero(first) + window
