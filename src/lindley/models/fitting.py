"""How models are fitted: each kind has a function that takes a `Task` and gives what was `Fitted`.

All runs of a task are fitted at once: the splits of an experiment, or a single table and replicates of it.
`Sources` are their instances in the form that estimates are made from, `History` is what happened during a training.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, fields, replace
from threading import RLock
from typing import Any

import numpy as np
import scipy.linalg
import torch
from numpy.typing import NDArray

from lindley.errors import LindleyError
from lindley.llrs import Floats
from lindley.models.blocks import pieces
from lindley.models.two_level import PairModel
from lindley.settings import setting
from lindley.table.splits import Part

__all__ = [
    "Fitted",
    "History",
    "Progress",
    "Sources",
    "Task",
    "caught_warnings",
    "find_spikes",
    "refittable",
    "require_device",
    "require_replicates",
    "silent",
    "tell",
]

WINDOW, FACTOR = 20, 1.5
CELLS = 1 << 19
"""Of instances whose contrasts are computed at a time: 4 MiB."""


@dataclass(frozen=True, eq=False)
class History:
    """Cllr per epoch and run. Epochs count from 0; the parameters of ``best_epoch`` are the ones kept."""

    train: Floats  # mean over the batches of the epoch (run, epoch)
    validate: Floats  # after the epoch, all pairs (run, epoch)
    validate_axes: Floats | None  # after the epoch, axis by axis, on the watched pairs (run, epoch, axis)
    best_epoch: NDArray[np.intp]  # (run,)
    validate_focus: Floats | None = None
    """After the epoch, on the watched pairs: with the axes alone whose own Cllr is 1 or less (run, epoch)."""

    @property
    def spikes(self) -> list[NDArray[np.intp]]:
        """The epochs of every run at which the training loss spiked."""
        return [find_spikes(loss) for loss in self.train]

    @classmethod
    def join(cls, histories: list[History], order: list[int]) -> History:
        """Put runs that were trained in groups back in their order."""
        back = np.argsort(order)
        parts = [[getattr(history, f.name) for history in histories] for f in fields(cls)]
        joined: Any = (None if part[0] is None else np.concatenate(part)[back] for part in parts)
        return cls(*joined)


def find_spikes(loss: Floats) -> NDArray[np.intp]:
    """Epochs at which a loss curve jumps above `FACTOR` times the median of the `WINDOW` epochs before.

    A spike counts once, at its first epoch.
    """
    if len(loss) <= WINDOW:
        return np.empty(0, dtype=np.intp)
    before = np.lib.stride_tricks.sliding_window_view(loss, WINDOW)[:-1]
    high = loss[WINDOW:] > FACTOR * np.median(before, axis=1)
    first = high & ~np.r_[False, high[:-1]]
    return np.flatnonzero(first) + WINDOW


@dataclass(frozen=True, eq=False)
class Sources:
    """Instances sorted by source, with the number of instances of each."""

    values: Floats  # (rows, feature)
    first: NDArray[np.intp]  # (sources,) first row of a source
    count: NDArray[np.intp]  # (sources,)
    group: NDArray[np.intp]  # (sources,) number of its group
    session: NDArray[np.str_] | None = None  # (rows,) of its source, where it is known

    @classmethod
    def of(
        cls,
        values: Floats,
        source: NDArray[Any],
        group: NDArray[np.str_] | None = None,
        session: NDArray[np.str_] | None = None,
    ) -> Sources:
        """From rows in any order; the order of the sources is that of their names or numbers."""
        labels, row, item, count = np.unique(source, return_index=True, return_inverse=True, return_counts=True)
        groups = labels if group is None else group[row]
        if (item[1:] < item[:-1]).any():
            order = np.argsort(item, kind="stable")
            values, session = values[order], None if session is None else session[order]
        return cls(values, np.cumsum(count) - count, count, np.unique(groups, return_inverse=True)[1], session)

    def __len__(self) -> int:
        return len(self.count)

    def require_replicates(self) -> None:
        """Raise LindleyError unless there are two sources, one of them measured twice."""
        if len(self) < 2 or (self.count < 2).all():
            raise LindleyError(
                f"a two-level model needs at least two sources, one of them measured twice: got {len(self)} sources and "
                f"{self.count.max(initial=0)} measurements of one at most"
            )

    def take(self, which: NDArray[np.intp]) -> Sources:
        """Some of the sources."""
        count = self.count[which]
        first = np.cumsum(count) - count
        rows = np.repeat(self.first[which] - first, count) + np.arange(count.sum())
        session = None if self.session is None else self.session[rows]
        return Sources(self.values[rows], first, count, self.group[which], session)

    @property
    def item(self) -> NDArray[np.intp]:
        """The source of every row, (rows,)."""
        return np.repeat(np.arange(len(self)), self.count)

    @property
    def means(self) -> Floats:
        """(sources, feature)."""
        return np.add.reduceat(self.values, self.first, axis=0) / self.count[:, None]

    def contrasts(self) -> tuple[Floats, NDArray[np.intp]]:
        """n_i − 1 orthonormal contrasts of every source with n_i ≥ 2, (contrasts, feature), and whose they are."""
        features = self.values.shape[1]
        rows = int(np.maximum(self.count - 1, 0).sum())
        contrasts, owner, done = np.empty((rows, features)), np.empty(rows, dtype=np.intp), 0
        for n in np.unique(self.count[self.count > 1]).tolist():
            same, helmert = np.flatnonzero(self.count == n), scipy.linalg.helmert(n)
            for some in pieces(len(same), max(1, CELLS // (n * features))):
                which = same[some]
                replicates = self.values[self.first[which][:, None] + np.arange(n)]  # (sources, n, feature)
                here = slice(done, done := done + (n - 1) * len(which))
                np.einsum("kn,snf->skf", helmert, replicates, out=contrasts[here].reshape(-1, n - 1, features))
                owner[here] = np.repeat(which, n - 1)
        return contrasts, owner


Progress = Callable[[str, float], None]
"""Called with what is being done and the share that is done, 0 to 1."""


def silent(detail: str, share: float) -> None:
    """A `Progress` that reports nothing."""


@dataclass(frozen=True, eq=False)
class Task:
    """What a model is fitted on, for all runs at once.

    Args:
        learn: what each run learns from.
        validate: where each run chooses the epoch of its training; models without a training do not look at it.
        seeds: one per run. A run does not depend on the others.
        options: of the model, by name; every ``fit`` says which it knows, and leaves others alone.
        device: where a neural model is trained.
        features: names of the features, for pretraining on another table.
        watched: pairs that the history of a training follows axis by axis; None for the default.
        threads: runs that are fitted side by side, as many as torch may use unless given; they change no number.
        progress: is told what is done.
        replicates: of the runs, the last so many learn from draws of the sources of the first run. They tell how sure it is,
            and may start from what was found for it.
        times: how often each replicate counts the sources of the first run (sources,), in the order of their names, for models
            that need no rows for it: then there is one part to learn from.
    """

    learn: Sequence[Part]
    validate: Sequence[Part] = ()
    seeds: Sequence[int] = ()
    options: Mapping[str, Any] = field(default_factory=dict)
    device: str = "cpu"
    features: Sequence[str] | None = None
    watched: int | None = None
    threads: int | None = None
    progress: Progress = silent
    replicates: int = 0
    times: Sequence[NDArray[np.integer[Any]]] = ()

    def count(self, runs: int) -> None:
        """Tell that so many runs are done, where they are fitted one after the other."""
        self.progress(f"split {runs} of {len(self.learn)}", runs / len(self.learn))


@dataclass(frozen=True, eq=False)
class Fitted:
    """The models of all runs, and what else came of it."""

    model: PairModel
    history: History | None = None  # of a training
    again: Callable[[int], Callable[[Part], PairModel]] | None = None
    """For a run, the same fit on other sources, with what was chosen for it; None where that would be another training."""


def refittable(fit: Callable[[Task], PairModel], task: Task) -> Fitted:
    """The result of a fit that chooses nothing on held-out sources: on other sources it is simply done again."""

    def again(run: int) -> Callable[[Part], PairModel]:
        return lambda part: fit(replace(task, learn=[part], times=(), seeds=task.seeds[run : run + 1], progress=silent))

    return Fitted(fit(task), again=again)


_CATCHING = RLock()


@contextmanager
def caught_warnings() -> Iterator[list[warnings.WarningMessage]]:
    """Warnings of the body, all of them, kept from everybody else.

    Python has one list of filters for all threads, and fits run side by side: one thread at a time may change it.
    """
    with _CATCHING, warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        yield caught


def tell(warning: Warning, stacklevel: int) -> None:
    """Warn, when no other thread is catching warnings."""
    with _CATCHING:
        warnings.warn(warning, stacklevel=stacklevel + 1)


def require_replicates(what: str, parts: Iterable[Part]) -> None:
    """Raise LindleyError if a part for training or validation has fewer than two sources, or none measured twice."""
    for part in parts:
        if len(part.trace.source) < 2 or len(part.ref.source) < 1:
            raise LindleyError(
                f"{what} needs at least two sources, one of them measured twice, in every training and validation part: "
                f"got {len(part.trace.source)} sources, {len(part.ref.source)} of them measured twice"
            )


def require_device(device: str) -> None:
    """Tell that there is no GPU, where one was asked for."""
    if device == "cuda" and not torch.cuda.is_available():
        wanted, other = setting("device", "cuda"), setting("device", "cpu")
        raise LindleyError(f"{wanted}: this machine has no CUDA device that torch can use. Use {other}.")
