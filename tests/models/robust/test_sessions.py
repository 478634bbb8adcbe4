"""Held-out pairs of the robust law where measurements have sessions."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from lindley.models.robust.folds import Folds, in_order
from lindley.table.splits import Part

SOURCES = 40


def folds(session: NDArray[np.str_] | None) -> tuple[Folds, NDArray[np.float64]]:
    """Pairs of sources with six measurements each; and what was measured."""
    rng = np.random.default_rng(4)
    source = np.repeat([f"w{k:02d}" for k in range(SOURCES)], 6)
    values = np.repeat(rng.normal(size=(SOURCES, 3)), 6, axis=0) + rng.normal(0, 0.2, (6 * SOURCES, 3))
    shuffled = rng.permutation(len(source))
    part = Part.drawn(values[shuffled], source[shuffled], session=None if session is None else session[shuffled])
    return Folds(in_order(part), None), values


def test_no_pair_of_a_source_is_within_a_session() -> None:
    session = np.tile(["x", "x", "y", "y", "y", "y"], SOURCES)
    session[:60] = "x"  # ten sources of one session
    made, values = folds(session)
    place = {tuple(row): number for number, row in enumerate(values.tolist())}
    assert made.sizes() == [2]
    assert made.have(3).sum() == 10
    for number in (1, 2, 3):
        seen = set()
        for block in made.of_size(number):
            for trace, ref in zip(block.trace.tolist(), block.ref.tolist(), strict=True):
                of_trace, of_ref = ([place[tuple(row)] for row in side] for side in (trace, ref))
                assert len({*of_trace, *of_ref}) == 2 * number
                (source,) = {row // 6 for row in (*of_trace, *of_ref)}
                seen.add(source)
                if source >= 10:
                    assert len(set(session[of_trace])) == 1
                    assert not set(session[of_trace]) & set(session[of_ref])
        assert seen == set(range(10 if number == 3 else SOURCES))


def test_one_session_of_every_source_is_as_none() -> None:
    one, none = (folds(each)[0] for each in (np.full(6 * SOURCES, "x"), None))
    assert one.sizes() == none.sizes() == [2, 3]
    for a, b in zip(one.of_size(2), none.of_size(2), strict=True):
        assert np.array_equal(a.trace, b.trace)
        assert np.array_equal(a.ref, b.ref)
        assert np.array_equal(a.heavy, b.heavy)
