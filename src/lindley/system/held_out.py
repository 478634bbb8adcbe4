"""Cross-fitting: LLRs of pairs that were held out of the fit, from all sources that may be learnt from."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from lindley.errors import LindleyError
from lindley.llrs import LLRs
from lindley.models.two_level import PairModel, score
from lindley.table.splits import Part

__all__ = ["FOLDS", "deal_folds", "held_out_llrs", "join_parts"]

FOLDS = 5


def join_parts(parts: Sequence[Part]) -> Part:
    """The sources of several parts as one."""
    groups = [part.source if part.group is None else part.group for part in parts]
    return Part(
        np.concatenate([part.values for part in parts]),
        np.concatenate([part.source for part in parts]),
        np.concatenate([part.is_trace for part in parts]),
        np.concatenate(groups),
    )


def deal_folds(group: NDArray[np.str_], rng: np.random.Generator, folds: int = FOLDS) -> NDArray[np.intp]:
    """The fold of every row: groups in random order are dealt out in turn."""
    groups, code = np.unique(group, return_inverse=True)
    folds = max(2, min(folds, len(groups) // 2))
    fold = np.empty(len(groups), dtype=np.intp)
    fold[np.argsort(rng.random(len(groups)), kind="stable")] = np.arange(len(groups)) % folds
    return fold[code]


def held_out_llrs(
    parts: Sequence[Part], fit: Callable[[Part], PairModel], rng: np.random.Generator, folds: int = FOLDS
) -> LLRs:
    """LLRs of the pairs inside every fold, by a model that ``fit`` makes of the other folds; groups stay in one fold."""
    whole = join_parts(parts)
    assert whole.group is not None
    fold = deal_folds(whole.group, rng, folds)
    same, different = [], []
    for number in range(int(fold.max()) + 1):
        inside = fold == number
        held_out = Part(whole.values[inside], whole.source[inside], whole.is_trace[inside])
        if len(held_out.ref.source) < 1 or len(held_out.trace.source) < 2:
            continue
        rest = Part(whole.values[~inside], whole.source[~inside], whole.is_trace[~inside], whole.group[~inside])
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # shrinkage is told of the whole
            model = fit(rest)
        llr = score(model, [held_out.trace], [held_out.ref])[0]
        pairs = LLRs.from_matrix(llr, held_out.trace.source, held_out.ref.source)
        same.append(pairs.same)
        different.append(pairs.different)
    if not same:
        raise LindleyError(
            "cross-fitting needs folds that hold a source measured twice beside another one: give more sources."
        )
    return LLRs(np.concatenate(same), np.concatenate(different))
