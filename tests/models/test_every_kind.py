"""What holds of every kind of model."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from lindley.models.two_level import item_squares, score, take_runs
from lindley.table.splits import Side
from tests.kinds import MODELS
from tests.models.test_classical import sources

ITEMS = [sources(seed, n, 3, 3) for seed, n in ((5, 6), (6, 4), (7, 5))]


@pytest.mark.parametrize("kind", MODELS)
@pytest.mark.parametrize(("traces", "refs"), [(0, 3), (3, 0), (0, 0), (1, 1)])
def test_sides_without_items(kind: str, traces: int, refs: int) -> None:
    model = MODELS[kind]()
    x, y = (torch.zeros(2, n, 3, dtype=torch.float64) for n in (traces, refs))
    with torch.no_grad():
        assert model.ln_lr(x, y).shape == (2, traces, refs)
        assert torch.isfinite(model.ln_lr(x, y)).all()


@pytest.mark.parametrize("kind", MODELS)
def test_runs_are_taken_in_order(kind: str) -> None:
    model = MODELS[kind]()
    traces, refs = ([getattr(part, side) for part in ITEMS] for side in ("trace", "ref"))
    expected = [score(model, [t, t], [r, r])[run] for run, t, r in zip((1, 0, 1), traces, refs, strict=True)]
    # Three runs, as there are features, axes and, in one of the models, nodes of a quadrature.
    several = take_runs(model, [1, 0, 1])
    assert len(several.centre) == several.projection.shape[1] == 3
    one_by_one = [score(take_runs(several, [run]), [traces[run]], [refs[run]])[0] for run in range(3)]
    for found in (score(several, traces, refs), one_by_one):
        for ours, theirs in zip(found, expected, strict=True):
            np.testing.assert_allclose(ours, theirs, rtol=1e-12, atol=1e-12)
    # Given pairs of three runs, the same as of each run by itself.
    x, y = (torch.from_numpy(np.stack([side.mean[:4] for side in some])) for some in (traces, refs))
    with torch.no_grad():
        given = several.ln_lr_given(x, y)
        alone = [take_runs(several, [run]).ln_lr_given(x[[run]], y[[run]])[0] for run in range(3)]
    torch.testing.assert_close(given, torch.stack(alone), rtol=1e-12, atol=1e-12)


def test_a_run_that_is_not_there() -> None:
    with pytest.raises(IndexError):
        take_runs(MODELS["normal"](), [2])


@pytest.mark.parametrize("kind", MODELS)
def test_sums_of_squares_by_their_definition(kind: str) -> None:
    rng = np.random.default_rng(10)
    item = np.r_[0, rng.integers(1, 5, 19)]  # the first item has one instance
    side = Side(10 + rng.normal(size=(20, 3)), item, np.arange(5).astype(np.str_))
    model = take_runs(MODELS[kind](), [1])
    found, on_axes = item_squares(model, side), model.project(torch.from_numpy(side.values)[None])[0]
    for i in range(5):
        own = on_axes[item == i]
        torch.testing.assert_close(found[i], ((own - own.mean(0)) ** 2).sum(0), rtol=1e-10, atol=1e-10)
