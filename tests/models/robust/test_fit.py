"""Fitting the robust model: what must not matter, odd tables, tables whose truth is known, and how it is handed over."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file
from torch import Tensor

from lindley.errors import LindleyError
from lindley.evaluation.metrics import cllr
from lindley.llrs import LN10
from lindley.models.fitting import Task
from lindley.models.robust.fit import ALL_STEPS, fit, fit_robust
from lindley.models.robust.model import Robust
from lindley.models.robust.scalars import SCALARS, START, values_of
from lindley.models.two_level import take_runs
from lindley.table.splits import Part
from lindley.table.table import Table
from tests.models.robust.simulate import Floats, flat, instances, ln_lr, measured, part_of, table

short = pytest.mark.usefixtures("short_search")


def cost_of(model: Robust, values: Floats) -> float:
    """Test Cllr of sources (sources, 2, feature)."""
    found = measured(model, values) / LN10
    assert np.isfinite(found).all()
    own = np.eye(len(found), dtype=np.bool_)
    return float(cllr(found[own], found[~own]))


def assert_same(a: Robust, b: Robust, tolerance: float = 0.0) -> None:
    assert set(flat(a)) == set(flat(b))
    for (name, here), there in zip(flat(a).items(), flat(b).values(), strict=True):
        torch.testing.assert_close(
            here, there, rtol=tolerance, atol=tolerance, msg=lambda text, name=name: f"{name}: {text}"
        )


# What must not matter.


@short
def test_names_order_seeds_and_a_second_time_change_nothing() -> None:
    part = part_of(table(30, 3, 3))
    model = fit_robust([part]).model
    rng = np.random.default_rng(0)
    order, names = rng.permutation(len(part.values)), rng.permutation(30)
    renamed = np.array([f"x{names[int(s[1:])]:02d}" for s in part.source])
    moved = Part(part.values[order], renamed[order], part.is_trace[order])
    assert_same(fit_robust([moved]).model, model, 1e-9)
    for seed in (1, 2):
        again = fit(Task([part], seeds=[seed])).model
        assert isinstance(again, Robust)
        assert_same(again, model)


@short
@pytest.mark.parametrize("rounded", [False, True])
def test_units_of_features_change_nothing(rounded: bool) -> None:
    values = table(60, 3, noise=0.3)
    values = values.round(1) if rounded else values
    unit, zero = np.array([1e-3, 1.0, 50.0]), np.array([5.0, 0.0, -1.0])
    here, there = (fit_robust([part_of(v[:40])]).model for v in (values, values * unit + zero))
    found = measured(there, values[40:] * unit + zero)
    np.testing.assert_allclose(found, measured(here, values[40:]), rtol=1e-6, atol=1e-6)


@short
def test_other_runs_change_nothing() -> None:
    parts = [part_of(table(n, p, seed=n)) for n, p in ((30, 4), (24, 4))]
    both = fit_robust(parts, threads=1)
    for run in (0, 1):
        alone = fit_robust([parts[run]]).model
        x = instances(alone, 4, 2, 1)
        torch.testing.assert_close(
            ln_lr(take_runs(both.model, [run]), x, x), ln_lr(alone, x, x), rtol=1e-10, atol=1e-10
        )
        again = both.again(parts[run], run)
        torch.testing.assert_close(ln_lr(again, x, x), ln_lr(alone, x, x), rtol=1e-10, atol=1e-10)


def test_workers_change_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    parts = [part_of(table(8, 2, seed=seed)) for seed in (1, 2)]
    here = fit_robust(parts, threads=2).model
    monkeypatch.setattr("lindley.models.robust.fit.WORTH_WORKERS", 2)
    assert_same(fit_robust(parts, threads=2).model, here)


@short
def test_replicates_change_nothing_in_the_first_run() -> None:
    values = table(40, 3)
    everything, half = part_of(values), part_of(values[::2])
    alone, both = fit_robust([everything]), fit_robust([everything, half], replicates=1)
    assert torch.equal(both.found[0].theta, alone.found[0].theta)
    assert [m.setting for m in both.found[1].members] == [m.setting for m in both.found[0].members]
    assert (both.found[1].theta - alone.found[0].theta).abs().max() > 1e-3


@short
def test_progress_goes_up_and_an_interrupt_ends_it() -> None:
    part, shares = part_of(table(30, 2)), []

    def progress(detail: str, share: float) -> None:
        found = re.fullmatch(rf"step (\d+) of {ALL_STEPS}, held-out cost (.*)", detail)
        assert found is not None
        assert 0 < float(found[2]) < 2
        shares.append(share)

    fit_robust([part], progress)
    assert shares == sorted(shares)
    assert 0 < shares[-1] <= 1

    def interrupt(detail: str, share: float) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        fit_robust([part], interrupt)


@short
def test_it_is_saved_and_loaded_as_plain_tensors(tmp_path: Path) -> None:
    model = fit_robust([part_of(table(30, 3))]).model
    assert all(t.dtype == torch.float64 for t in flat(model).values())
    save_file(flat(model), tmp_path / "model.safetensors")
    stored = load_file(tmp_path / "model.safetensors")
    names = iter(flat(model))

    def read(_: Tensor) -> Tensor:
        return stored[next(names)]

    assert_same(model.map(read), model)


@short
def test_another_table_is_the_centre_of_the_prior() -> None:
    """Of few sources, the scalars stay near it; the table may have whatever features."""
    many, few = table(30, 4, seed=1), table(8, 3, seed=2)
    other = Table.from_arrays(many.reshape(-1, 4), np.repeat([f"s{i}" for i in range(30)], 2))
    centre = fit_robust([part_of(many)]).found[0].theta
    models = [fit(Task([part_of(few)], options=options)).model for options in ({}, {"pretrain": other})]
    away = [float((model.scalars[0] - centre).abs().mean()) for model in models if isinstance(model, Robust)]
    assert away[1] < away[0]


# Odd tables.


@short
@pytest.mark.parametrize(
    ("n", "p", "reps"),
    [(6, 3, 2), (12, 1, 2), (14, 2, 6), (12, 40, 2)],
    ids=["six sources", "one feature", "many replicates", "more features than sources"],
)
def test_small_tables(n: int, p: int, reps: int) -> None:
    model = fit_robust([part_of(table(n, p, reps, seed=n))]).model
    assert cost_of(model, table(60, p, seed=n + 1)) < 1.02
    values = torch.from_numpy(table(3, p, 4, seed=n + 2))[None]
    found = ln_lr(model, values[:, :, :2], values[:, :, 2:])
    assert torch.isfinite(found).all()


@short
def test_equal_replicates_constant_and_doubled_features_and_sources_measured_once() -> None:
    values = table(60, 4, noise=0.3)
    odd = np.concatenate([values, values[..., :1], np.full((60, 2, 1), 3.0), values[:, :1, 1:2].repeat(2, 1)], 2).round(
        1
    )
    part = part_of(odd[:40])
    some = part.rows(~(np.isin(part.source, part.source[:20]) & ~part.is_trace))  # ten sources keep one measurement
    model = fit_robust([some]).model
    assert cost_of(model, odd[40:]) < 0.8
    assert measured(model, odd[40:41, :1].repeat(2, 1)).item() > 0  # an item beside itself


def test_too_few_sources_and_values_that_are_not_finite_are_refused() -> None:
    with pytest.raises(LindleyError, match="six sources"):
        fit_robust([part_of(table(5, 2))])
    with pytest.raises(LindleyError, match="finite"):
        fit_robust([part_of(np.full((8, 2, 2), np.inf))])


@short
def test_a_wild_measurement_changes_little() -> None:
    values, test = table(60, 3), table(100, 3, seed=5)
    clean = cost_of(fit_robust([part_of(values)]).model, test)
    values[0, 0, 1] += 100.0
    assert cost_of(fit_robust([part_of(values)]).model, test) < clean + 0.05


# Truths.


@short
def test_independent_measurements_of_an_item_are_found_to_share_little() -> None:
    """Pairs of two measurements each tell so; where there are none, g is that of the prior, and none are all wrong together."""
    values = table(60, 3, 4, noise=1.0, tails=1e6)
    found = [values_of(fit_robust([part_of(v)]).model.scalars) for v in (values, values[:, :2])]
    assert float(found[1]["shared"]) == pytest.approx(SCALARS[11].start)
    assert float(found[0]["shared"]) < 0.1
    assert float(found[1]["steady"]) < 1e-20 < 1e-6 < float(found[0]["steady"])


def test_near_the_truth_on_a_normal_population() -> None:
    rng, p, noise = np.random.default_rng(1), 4, 0.3
    values = rng.normal(size=(300, 1, p)) + noise * rng.normal(size=(300, 2, p))
    model = fit_robust([part_of(values[:150])]).model
    x, y = values[150:, 0, None], values[None, 150:, 1]
    total, covariance = 1 + noise**2, 1.0
    determinant = total**2 - covariance**2
    square = (total * (x**2 + y**2) - 2 * covariance * x * y) / determinant - (x**2 + y**2) / total
    true = (-0.5 * (square + np.log(determinant / total**2))).sum(-1) / LN10
    own = np.eye(150, dtype=np.bool_)
    assert cost_of(model, values[150:]) < 1.15 * cllr(true[own], true[~own]) + 0.01


def test_scalars_are_their_own_inverse_at_the_start() -> None:
    for scalar, value in zip(SCALARS, values_of(START).values(), strict=True):
        assert float(value) == pytest.approx(scalar.start)
