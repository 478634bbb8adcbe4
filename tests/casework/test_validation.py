"""Validation: every figure by hand from the matrix of LRs, coherence, overlap, and where figures cannot be had."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from scipy.stats import beta

from lindley.casework.laboratory import Criteria
from lindley.casework.performance import LadderStep, Scores, Settings, comparisons, draw, ladder
from lindley.casework.validation import Validation, find_overlap, validate
from lindley.errors import LindleyError
from lindley.evaluation import metrics
from lindley.evaluation.bootstrap import draw_sources, proportion, replicates
from lindley.evaluation.metrics import log2_cost
from lindley.evaluation.pair_grid import PairGrid, PairSums
from lindley.llrs import LLRs
from lindley.system.system import System
from lindley.system.train import train
from lindley.table.datasets import load_dataset
from lindley.table.table import Table
from tests.casework.validating import part, simulated, trained, truth

QUICK = Settings(replicates=60, draws=3)


@pytest.fixture(scope="module")
def system() -> System:
    return trained()


@pytest.fixture(scope="module")
def table() -> Table:
    return simulated(120, 6, 2, 6)


@pytest.fixture(scope="module")
def validation(system: System, table: Table) -> Validation:
    return validate(system, table, settings=QUICK, other=simulated(80, 3, 3, 6))


@pytest.fixture(scope="module")
def matrices(system: System, table: Table) -> list[np.ndarray]:
    """LRs of the draws that figures are means over."""
    return [each.llr(system, (1, 1)) for each in comparisons(table, table.sources, QUICK)]


def square(llr: np.ndarray) -> LLRs:
    """One trace and one ref of every source: same-source pairs on the diagonal."""
    return LLRs.from_matrix(llr, np.arange(len(llr)), np.arange(len(llr)))


def value(validation: Validation, characteristic: str, metric: str, kind: str) -> float:
    estimate = getattr(validation.line(characteristic, metric), kind)
    assert estimate is not None
    return float(estimate.value)


@pytest.mark.parametrize("kind", ["raw", "bounded"])
@pytest.mark.parametrize(
    ("characteristic", "metric", "by_hand"),
    [
        ("accuracy", "cllr", metrics.cllr),
        ("discriminating_power", "cllr_min", metrics.cllr_min),
        ("discriminating_power", "eer", metrics.eer),
        ("calibration", "cllr_cal", metrics.cllr_cal),
        ("calibration", "devpav", metrics.devpav),
        ("misleading_evidence", "same", metrics.misleading_same),
        ("misleading_evidence", "different", metrics.misleading_different),
    ],
)
def test_figures_are_means_over_the_draws(
    validation: Validation,
    matrices: list[np.ndarray],
    characteristic: str,
    metric: str,
    kind: str,
    by_hand: Callable[[LLRs], float],
) -> None:
    limits = validation.bounds if kind == "bounded" else (-np.inf, np.inf)
    expected = np.mean([by_hand(square(np.clip(llr, *limits))) for llr in matrices])
    assert value(validation, characteristic, metric, kind) == pytest.approx(expected, abs=1e-12)


def test_the_matrix_is_that_of_the_system(validation: Validation, system: System, table: Table) -> None:
    """The first draw, its pairs and their LRs, one by one through the door that everybody uses."""
    drawn = draw(table, table.sources, QUICK.seed, 0)
    for i, j in ((0, 0), (3, 3), (5, 17), (80, 2)):
        trace, ref = table.values[drawn.rows[i][:1]], table.values[drawn.rows[j][1:2]]
        assert validation.llr[i, j] == pytest.approx(system.llr(trace, ref), abs=1e-9)
        assert table.source[drawn.rows[i][0]] == validation.sources[i]


def test_beyond_the_bounds_by_hand(validation: Validation, matrices: list[np.ndarray]) -> None:
    lower, upper = validation.bounds
    wrong, beyond = [], []
    for llr in matrices:
        same, different = llr.diagonal(), llr[~np.eye(len(llr), dtype=bool)]
        wrong.append(((same < lower).mean() + (different > upper).mean()) / 2)
        outside = [(each < lower) | (each > upper) for each in (same, different)]
        beyond.append((outside[0].mean() + outside[1].mean()) / 2)
    found = value(validation, "misleading_evidence", "misleading_beyond_bounds", "raw")
    assert found == pytest.approx(np.mean(wrong))
    assert value(validation, "misleading_evidence", "beyond_bounds", "raw") == pytest.approx(np.mean(beyond))


def test_outliers_by_hand(validation: Validation, matrices: list[np.ndarray]) -> None:
    """Two of 120 sources: Cllr with and without their pairs."""
    n = len(validation.sources)
    names = [source for source, _ in validation.costliest]
    assert len(names) == 2
    keep = np.flatnonzero(~np.isin(validation.sources, names))
    change = [metrics.cllr(square(llr)) - metrics.cllr(square(llr[np.ix_(keep, keep)])) for llr in matrices]
    assert value(validation, "robustness", "outliers", "raw") == pytest.approx(np.mean(change), abs=1e-12)
    i = int(np.flatnonzero(validation.sources == names[0])[0])
    others = np.arange(n) != i
    shares = [
        log2_cost(-llr[i, i]) / (2 * n)
        + (log2_cost(llr[i, others]).sum() + log2_cost(llr[others, i]).sum()) / (4 * n * (n - 1))
        for llr in matrices
    ]
    assert validation.costliest[0][1] == pytest.approx(np.mean(shares))


def test_generalisation_by_hand(validation: Validation) -> None:
    before = trained().about["validation"]["cllr"]
    here = value(validation, "accuracy", "cllr", "raw")
    assert value(validation, "generalisation", "validation", "raw") == pytest.approx(here - before)
    there = value(validation, "generalisation", "other_cllr", "raw")
    assert value(validation, "generalisation", "other_change", "raw") == pytest.approx(there - here)
    assert validation.line("generalisation", "validation").bounded is None


def test_missing_replicates_by_hand(validation: Validation, system: System, table: Table) -> None:
    """1×1 and 3×3 of six measurements, mean over the draws."""
    found = []
    for number in range(QUICK.draws):
        drawn = draw(table, table.sources, QUICK.seed, 1, number)
        one, every = (metrics.cllr(square(drawn.llr(system, shape))) for shape in ((1, 1), (3, 3)))
        found.append(one - every)
    assert value(validation, "robustness", "missing_replicates", "raw") == pytest.approx(np.mean(found), abs=1e-12)


def test_intervals_are_those_of_sources_resampled_and_draws_in_turn(
    validation: Validation, matrices: list[np.ndarray]
) -> None:
    names = np.arange(len(validation.sources))
    times = draw_sources(names, QUICK.replicates, QUICK.seed)[1:]
    for characteristic, metric, by_hand in (
        ("accuracy", "cllr", metrics.cllr),
        ("discriminating_power", "cllr_min", metrics.cllr_min),
        ("discriminating_power", "eer", metrics.eer),
        ("calibration", "cllr_cal", metrics.cllr_cal),
    ):
        grid = PairGrid.of(names, names)
        figures = [by_hand(grid.llrs(matrices[i % len(matrices)], row)) for i, row in enumerate(times)]
        found = validation.line(characteristic, metric).raw
        assert found is not None
        assert (found.lower, found.upper) == pytest.approx(tuple(np.quantile(figures, [0.025, 0.975])), abs=1e-10)


@pytest.mark.parametrize(("share", "n"), [(0.2, 50.0), (0.01, 3e4), (0.999, 1e6), (1e-7, 1e3)])
def test_the_limits_of_a_share_are_those_of_clopper_and_pearson(share: float, n: float) -> None:
    spread = np.sqrt(share * (1 - share) / n)  # of n independent pairs
    found = proportion(np.array([share, share - spread, share + spread]), 1, 1e9)
    lower, upper = beta.ppf([0.025, 0.975], [share * n, share * n + 1], [n - share * n + 1, n - share * n])
    assert (found.lower, found.upper) == pytest.approx((lower, upper), rel=1e-9)


def test_none_among_few_is_not_none_at_all(system: System, table: Table) -> None:
    """120 sources without a misleading pair say no more than that there are fewer than 3 % or so."""
    scores = Scores.of(system, table, QUICK)
    flawless = replace(scores, matrices=(np.where(np.eye(120, dtype=bool), 1.0, -1.0),))
    figures, pairs = flawless.figures(), 120 * 119 / 2
    limits = {"same": 1 - 0.025 ** (1 / 120), "different": 1 - 0.025 ** (1 / pairs)}
    limits["misleading_beyond_bounds"] = (limits["same"] + limits["different"]) / 2
    for metric, upper in limits.items():
        found = figures["misleading_evidence", metric]
        assert isinstance(found, dict)
        assert (found["raw"].value, found["raw"].lower) == (0, 0)
        assert found["raw"].upper == pytest.approx(upper)
    none = proportion(np.zeros(50), 120, 120)
    assert (none.value, none.lower) == (0, 0)
    assert none.upper == pytest.approx(1 - 0.025 ** (1 / 120))
    every = proportion(np.ones(50), 120, 120)
    assert (every.lower, every.value, every.upper) == (pytest.approx(0.025 ** (1 / 120)), 1, 1)


def test_the_limits_of_a_share_hold_it() -> None:
    """200 clusters of four pairs that mislead or not together: the limits hold 95 %, told that 200 or more are independent.

    Where none is seen nothing tells of the clusters, so that at small shares the limits hold it only if 200 is known to be all.
    """
    rng = np.random.default_rng(8)
    for share, most in ((0.004, 200), (0.02, 800), (0.1, 800)):
        held = 0
        for _ in range(300):
            clusters = (rng.random(200) < share).astype(float)
            drawn = rng.multinomial(200, np.full(200, 1 / 200), size=200) @ clusters / 200
            found = proportion(np.r_[clusters.mean(), drawn], 200, most)
            held += found.lower <= share <= found.upper
        assert held / 300 > 0.93


def test_coherence_figures_are_those_of_the_steps(validation: Validation) -> None:
    assert [step.instances for step in validation.steps] == [(1, 1), (1, 2), (2, 2), (2, 3), (3, 3)]
    raw = [step.raw.value for step in validation.steps]
    assert value(validation, "coherence", "gain", "raw") == pytest.approx(raw[0] - raw[-1])
    rise = max(after - before for before, after in pairwise(raw))
    assert value(validation, "coherence", "largest_rise", "raw") == pytest.approx(rise)


def test_true_lrs_are_coherent() -> None:
    """Of a system that knows the population of simulated glass, every measurement more improves the LRs."""
    found = validate(truth(3), simulated(120, 4, 2, 3), settings=QUICK)
    raw, bounded = ([getattr(step, kind).value for step in found.steps] for kind in ("raw", "bounded"))
    assert all(after < before for before, after in pairwise(raw))
    assert bounded[-1] < bounded[0]  # bounds are those of the pairs of each step, so that their chance is in it
    assert all(b.cllr_min < a.cllr_min for a, b in pairwise(found.steps))
    gain = found.line("coherence", "gain").raw
    assert gain is not None
    assert gain.lower > 0


@pytest.mark.filterwarnings("ignore::lindley.system.train.DoubtWarning")  # of so few sources
def test_a_system_that_is_too_sure_of_itself_is_not_coherent() -> None:
    """One variance within sources, where some scatter more: with more measurements it errs with more conviction."""
    criteria = Criteria.model_validate({"judged": "raw", "coherence": {"largest_rise": {"at_most": 0}}})
    found = validate(trained("tlm", 18), simulated(150, 6, 3, 18), criteria, settings=QUICK)
    line = found.line("coherence", "largest_rise")
    assert line.raw is not None
    assert line.raw.value > 0
    assert (line.outcome, found.verdict) == ("fail", "fail")
    assert all(b.cllr_min < a.cllr_min for a, b in pairwise(found.steps))  # it discriminates better all the same


def test_draws_are_seeded_and_nested(system: System, table: Table, validation: Validation) -> None:
    again = validate(system, table, settings=QUICK, other=simulated(80, 3, 3, 6))
    assert again.lines == validation.lines
    assert again.steps == validation.steps
    other = validate(system, table, settings=replace(QUICK, seed=1))
    assert other.steps != validation.steps
    assert ladder(6) == [(1, 1), (1, 2), (2, 2), (2, 3), (3, 3)]
    # the order of the rows in the file changes which measurements are drawn, and not whose
    drawn = draw(table, table.sources[[4, 2]], 0)
    assert [set(table.source[rows]) for rows in drawn.rows] == [{table.sources[4]}, {table.sources[2]}]


@pytest.mark.parametrize("most", [2, 3, 4, 5, 6, 9])
def test_every_step_keeps_what_the_one_before_had(most: int) -> None:
    from lindley.casework.performance import _places

    before: tuple[set[int], set[int]] = (set(), set())
    for shape in ladder(most):
        trace, ref = map(set, _places(shape))
        assert (len(trace), len(ref)) == shape
        assert not trace & ref
        assert before[0] <= trace
        assert before[1] <= ref
        assert trace | ref == set(range(sum(shape)))
        before = (trace, ref)
    assert _places((1, 4)) == ([0], [1, 2, 3, 4])
    assert _places((3, 1)) == ([0, 2, 3], [1])


def test_seen_data_are_refused_and_counted(system: System, table: Table) -> None:
    seen = simulated(200, 4, 1, 6)
    some = part(seen, np.arange(len(seen.values)) < 6)  # a source and a half
    mixed = Table.from_arrays(
        np.concatenate([table.values, some.values[:, :]]),
        [*table.source, *(f"old {s}" for s in some.source)],
        features=table.features,
        name="mixed",
    )
    overlap = find_overlap(system, mixed)
    assert (overlap.rows, overlap.sources, overlap.all_sources) == (6, 2, 122)
    with pytest.raises(
        LindleyError, match=r"mixed: 6 of 726 measurements, of 2 of 122 sources \('old S0001' and .*allow_overlap=True"
    ):
        validate(system, mixed, settings=QUICK)
    allowed = validate(system, mixed, settings=replace(QUICK, allow_overlap=True))
    assert any("6 of 726" in remark and "flatter" in remark for remark in allowed.remarks)
    with pytest.raises(LindleyError, match="glass-1: 800 of 800"):
        validate(system, table, settings=QUICK, other=seen)


def test_equal_labels_alone_are_no_overlap(system: System, table: Table) -> None:
    assert set(table.sources) & set(simulated(200, 4, 1, 6).sources)
    assert find_overlap(system, table).rows == 0


def test_a_table_of_the_other_table_is_told(system: System, table: Table) -> None:
    half = part(table, table.source < "S0061", "half")
    found = validate(system, table, settings=QUICK, other=half)
    assert any("half: 360 measurements are in glass-2 too" in remark for remark in found.remarks)


def test_a_validation_shows_itself_in_one_line(validation: Validation) -> None:
    found = validation.line("accuracy", "cllr").bounded
    assert found is not None
    interval = f"Cllr {found.value:.4f} ({found.lower:.4f} to {found.upper:.4f})"
    assert repr(validation) == f"<Validation of tlm on glass-2: 120 sources, {interval}, no criteria>"


def test_another_unit_is_refused(system: System, table: Table) -> None:
    with pytest.raises(LindleyError, match="another unit"):
        validate(system, replace(table, values=table.values * 1000, name="in-ppb"), settings=QUICK)
    odd = table.values.copy()
    odd[0] += 1e4
    found = validate(system, replace(table, values=odd), settings=QUICK)
    assert any("1 measurements lie more than 50" in remark for remark in found.remarks)


def test_too_few_sources_and_sources_left_out(system: System, table: Table) -> None:
    with pytest.raises(LindleyError, match=r"5 of 5 sources have the 2 measurements.*10 sources at least"):
        validate(system, part(table, table.source < "S0006"), settings=QUICK)
    with pytest.raises(LindleyError, match="0 of 120 sources have the 7 measurements that a comparison of 1×6"):
        validate(system, table, settings=replace(QUICK, instances=(1, 6)))
    ragged = part(table, (table.source > "S0010") | (table.instance == "1"))
    found = validate(system, ragged, settings=QUICK)
    assert len(found.sources) == 110
    assert any("10 sources have fewer than 2 measurements" in remark for remark in found.remarks)


def test_two_measurements_give_no_coherence_and_its_criterion_does_not_pass(system: System, table: Table) -> None:
    pairs = part(table, np.isin(table.instance, ["1", "2"]))
    criteria = Criteria.model_validate({"accuracy": {"cllr": {"at_most": 1}}, "coherence": {"gain": {"at_least": 0}}})
    found = validate(system, pairs, criteria, settings=QUICK)
    line = found.line("coherence", "gain")
    assert (line.outcome, line.estimate, found.steps) == ("not judged", None, ())
    assert "three measurements" in line.why
    assert found.line("robustness", "missing_replicates").raw is None
    assert found.line("generalisation", "other_cllr").why == "no other table was given (--other)"
    assert found.line("accuracy", "cllr").outcome == "pass"
    assert found.verdict == "fail"


def test_more_instances_in_the_comparison_judged(system: System, table: Table) -> None:
    about = system.about["validation"]
    found = validate(system, table, settings=replace(QUICK, instances=(2, 3)))
    drawn = comparisons(table, table.sources, QUICK)
    assert found.llr == pytest.approx(drawn[0].llr(system, (2, 3)))
    assert found.bounds == system.bounds_for(2, 3)[0]
    # since training compares like with like: 1×1
    one = np.mean([metrics.cllr(square(each.llr(system, (1, 1)))) for each in drawn])
    assert value(found, "generalisation", "validation", "raw") == pytest.approx(one - about["cllr"])


def test_of_a_large_table_some_sources_are_drawn(system: System, table: Table, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("lindley.casework.performance.MOST_SOURCES", 50)
    monkeypatch.setattr("lindley.casework.performance.MOST_REPEATED", 40)
    found = validate(system, table, settings=QUICK)
    assert len(found.sources) == len(set(found.sources)) == 50
    assert found.step_sources == 40
    assert any("50 of 120 sources are used" in remark for remark in found.remarks)


def test_separated_pairs_have_no_devpav() -> None:
    llr = np.where(np.eye(12, dtype=bool), 3.0, -3.0) + np.arange(12) / 100
    times = draw_sources(np.arange(12), 20, 0)
    grid = PairGrid.of(np.arange(12), np.arange(12))
    drawn = replicates(grid, llr, times, {"devpav": metrics.devpav, "cllr_min": metrics.cllr_min})
    assert np.isinf(drawn["devpav"]).all()
    assert (drawn["cllr_min"] == 0).all()


def test_square_metrics_are_those_of_weighted_pairs() -> None:
    """Ties, misleading pairs and multiplicities: the same numbers as with every pair weighed."""
    rng = np.random.default_rng(3)
    llr = (rng.normal(-2, 2, (30, 30)) + 4 * np.eye(30)).round(1)
    times = draw_sources(np.arange(30), 25, 7)
    off = ~np.eye(30, dtype=bool)
    grid = PairGrid.of(np.arange(30), np.arange(30))
    costs = PairSums.costs(grid, llr, llr)
    misleading = PairSums.of(grid, llr.diagonal() < 0, llr > 0)
    drawn = replicates(grid, llr, times, {"cllr_min": metrics.cllr_min, "eer": metrics.eer, "devpav": metrics.devpav})
    for number, row in enumerate(times):
        weighed = LLRs(llr.diagonal(), llr[off], row, np.outer(row, row)[off])
        assert costs.mean(row) == pytest.approx(metrics.cllr(weighed))
        assert drawn["cllr_min"][number] == pytest.approx(metrics.cllr_min(weighed))
        assert drawn["eer"][number] == pytest.approx(metrics.eer(weighed))
        assert drawn["devpav"][number] == pytest.approx(metrics.devpav(weighed), abs=0.05)
        assert misleading.means(row)[0] == pytest.approx(metrics.misleading_same(weighed))
        assert misleading.means(row)[1] == pytest.approx(metrics.misleading_different(weighed))
    assert np.sum(costs.shares()) == pytest.approx(costs.mean(np.ones(30)))


def test_sources_of_one_group_are_drawn_together(system: System, table: Table) -> None:
    times = draw_sources(["b", "a", "b", "c"], 50, 0)
    assert (times[:, 0] == times[:, 2]).all()
    assert not (times[:, 0] == times[:, 1]).all()
    assert ((times > 0).sum(axis=1) > 1).all()
    with pytest.raises(LindleyError, match="two of them, or two groups"):
        draw_sources(["a", "a"], 5, 0)
    vehicles = replace(table, group=np.array([source[:4] for source in table.source]))  # ten windows each
    apart, together = (
        validate(system, each, settings=QUICK).line("accuracy", "cllr").raw for each in (table, vehicles)
    )
    assert apart is not None
    assert together is not None
    assert apart.value == together.value
    assert (apart.lower, apart.upper) != (together.lower, together.upper)


@pytest.mark.parametrize("model", ["tlm-kde", "tlm-kde+logistic"])
def test_coherence_on_nfi_glass(data_folder: Path, model: str) -> None:
    """Trained on the sources measured three or four times, validated on the 318 measured five times."""
    glass = load_dataset("nfi-glass", data_folder)
    _, code, number = np.unique(glass.source, return_inverse=True, return_counts=True)
    five = (number == 5)[code]
    made = train(part(glass, ~five), model, replicates=0)
    settings = Settings(draws=20, replicates=200)
    found = validate(made, part(glass, five), settings=settings)
    steps: dict[tuple[int, int], LadderStep] = {step.instances: step for step in found.steps}
    shown = [steps[shape] for shape in ((1, 1), (2, 2), (2, 3))]
    assert found.step_sources == 318
    assert found.overlap.rows == 0
    for kind in ("raw", "bounded"):
        assert all(getattr(b, kind).value < getattr(a, kind).value for a, b in pairwise(shown))
    assert all(b.cllr_min < a.cllr_min for a, b in pairwise(shown))
    gain = found.line("coherence", "gain").raw
    assert gain is not None
    assert gain.lower > 0
