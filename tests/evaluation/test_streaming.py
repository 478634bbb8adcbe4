import tracemalloc

import numpy as np
import pytest

from lindley.errors import LindleyError
from lindley.evaluation import cllr, compress, ece, summary, tippett
from lindley.evaluation.pair_grid import PairBlocks, _count, _count_there, _edges, compress_several
from lindley.llrs import LN10, LLRs

EXACT = ["cllr_min", "eer", "misleading_same", "misleading_different", "cllr_same", "n_same", "n_different"]


def normal_matrix(seed: int, n_row: int, n_column: int, spread: float = 2.0) -> np.ndarray:
    """Calibrated LLRs at random: natural LLR ~ N(±s²/2, s²), + where row and column number agree."""
    rng = np.random.default_rng(seed)
    sign = np.where(np.arange(n_row)[:, None] == np.arange(n_column), 1, -1)
    return (sign * spread**2 / 2 + spread * rng.normal(size=(n_row, n_column))) / LN10


def of_matrix(llr: np.ndarray):
    return lambda rows, columns: llr[rows, columns]


def check(llr: np.ndarray, row_source, column_source, **options) -> LLRs:
    dense = LLRs.from_matrix(llr, row_source, column_source)
    small = compress(of_matrix(llr), row_source, column_source, **options)
    expected, found = summary(dense), summary(small)
    for name in EXACT:
        assert found[name] == pytest.approx(expected[name], rel=1e-12, abs=1e-12), name
    assert found["cllr"] == pytest.approx(expected["cllr"], rel=1e-7, abs=1e-18)
    assert found["devpav"] == pytest.approx(expected["devpav"], abs=1e-3)
    return small


@pytest.mark.parametrize("spread", [0.5, 2.0, 5.0, 20.0])
def test_equals_the_dense_evaluation(spread):
    source = np.arange(300)
    llr = normal_matrix(0, 300, 300, spread)
    small = check(llr, source, source, tile=64)
    prior = np.linspace(-3, 3, 13)
    dense = ece(LLRs.from_matrix(llr, source, source), prior)
    np.testing.assert_allclose(ece(small, prior).system, dense.system, rtol=1e-7, atol=1e-18)
    np.testing.assert_allclose(ece(small, prior).pav, dense.pav, rtol=1e-11)


def test_crowded_bins_have_the_stated_error():
    """A million LLRs within half a unit, 1000 to a bin: the means of few members are not what helps."""
    rng = np.random.default_rng(1)
    source = np.arange(1000)
    llr = rng.uniform(-3.25, -2.75, (1000, 1000))
    llr[source, source] = 12.0
    small = check(llr, source, source)
    assert small.different.size < 2100


def test_stated_error_bound_is_met_in_the_worst_case():
    """Half of the members at either end of every bin, where the cost is exponential."""
    width = 1 / 4096
    ends = -3 + np.arange(400) * width
    llr = np.empty((800, 800))
    llr[:, ::2] = ends + 1e-9 * width
    llr[:, 1::2] = ends + (1 - 1e-9) * width
    np.fill_diagonal(llr, 15.0)
    source = np.arange(800)
    dense = cllr(LLRs.from_matrix(llr, source, source))
    error = 1 - cllr(compress(of_matrix(llr), source, source)) / dense
    bound = (width * LN10) ** 2 / 8
    assert 0.9 * bound < error < 1.01 * bound < 4.1e-8


def test_ties_between_hypotheses_are_exact():
    rng = np.random.default_rng(2)
    llr = np.round(rng.normal(0, 1, (80, 80)), 1)
    small = check(llr, np.arange(80), np.arange(80), tile=17)
    assert np.isin(0.0, small.different)  # exact zeros are neither misleading nor not


def test_values_next_to_a_same_source_value_stay_on_their_side():
    v = 0.1
    llr = np.full((3, 3), np.nextafter(v, -1))
    llr[0, 1:] = np.nextafter(v, 1)
    np.fill_diagonal(llr, v)
    small = check(llr, [0, 1, 2], [0, 1, 2])
    assert v not in small.different
    assert small.different_weight.tolist() == [4.0, 2.0]


def test_extreme_llrs():
    rng = np.random.default_rng(3)
    llr = rng.normal(0, 1, (30, 30)) * 10.0 ** rng.integers(-3, 7, (30, 30))
    check(llr, np.arange(30), np.arange(30), tile=7)


def test_any_order_of_named_sources_and_several_rows_each():
    rng = np.random.default_rng(4)
    row_source = rng.choice([f"s{i}" for i in range(12)], 50)
    column_source = rng.choice([f"s{i}" for i in range(15)], 40)
    check(rng.normal(size=(50, 40)), row_source, column_source, tile=9)


def test_tiles_and_dtype_change_nothing():
    llr = normal_matrix(5, 150, 120)
    source = np.arange(150)
    one = compress(of_matrix(llr), source, source[:120], tile=1000)
    many = compress(of_matrix(llr), source, source[:120], tile=31)
    np.testing.assert_array_equal(one.same, many.same)
    np.testing.assert_allclose(one.different, many.different, rtol=1e-12, atol=1e-15)
    np.testing.assert_array_equal(one.different_weight, many.different_weight)
    single = compress(of_matrix(llr.astype(np.float32)), source, source[:120])
    assert single.different.dtype == np.float64


def test_only_tiles_with_same_source_pairs_are_asked_for_twice():
    asked = []

    def block(rows, columns):
        asked.append((rows.start, columns.start))
        return np.zeros((rows.stop - rows.start, columns.stop - columns.start))

    compress(block, np.arange(40), np.arange(40), tile=10)
    assert len(asked) == 4 + 16
    assert set(asked[:4]) == {(0, 0), (10, 10), (20, 20), (30, 30)}


def test_memory_does_not_grow_with_the_number_of_pairs():
    """3000 × 3000 pairs are 72 MB; tiles of 256 × 256 need half a MB each, the bins a few MB."""

    def block(rows, columns):
        i = np.arange(rows.start, rows.stop)[:, None]
        j = np.arange(columns.start, columns.stop)
        return np.where(i == j, 2.0, -3.0) + np.sin(1.0 + 7.3 * i * j)

    tracemalloc.start()
    small = compress(block, np.arange(3000), np.arange(3000), tile=256)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert small.different_weight.sum() == 3000 * 2999
    assert peak < 30e6


def test_errors_name_row_and_column():
    llr = np.zeros((20, 20))
    llr[13, 17] = np.nan
    with pytest.raises(LindleyError, match="row 13 and column 17 is nan"):
        compress(of_matrix(llr), np.arange(20), np.arange(20), tile=8)
    with pytest.raises(LindleyError, match="no row and column"):
        compress(of_matrix(llr), [0] * 20, [1] * 20)
    with pytest.raises(LindleyError, match=r"gave shape \(1, 1\), expected \(20, 20\)"):
        compress(lambda rows, columns: np.zeros((1, 1)), np.arange(20), np.arange(20))


def test_a_tensor_is_counted_like_an_array():
    """What a GPU does, on the processor: the same segments, numbers and sums; ties with edges and weights included."""
    torch = pytest.importorskip("torch")
    rng = np.random.default_rng(7)
    values = np.round(rng.normal(0, 3, (70, 50)), 1) * 10.0 ** rng.integers(0, 3, (70, 50))
    is_same, weight = rng.random((70, 50)) < 0.1, rng.integers(0, 3, (70, 50)).astype(float)
    edges = _edges(np.sort(values[is_same]))
    for same, heavy in ((None, None), (is_same, None), (is_same, weight)):
        kept = np.ones_like(is_same) if same is None else ~same
        here = _count(values[kept], None if heavy is None else heavy[kept], edges)
        there = _count_there(torch.from_numpy(values), same, heavy, edges)
        np.testing.assert_array_equal(here[0], there[0])
        np.testing.assert_array_equal(here[1], there[1])
        np.testing.assert_allclose(here[2], there[2], rtol=1e-12, atol=1e-12)


def test_several_sets_of_pairs_are_one():
    """As the folds of a cross-fit: the bins are split at the same-source LLRs of all sets."""
    rng = np.random.default_rng(8)
    sizes = (30, 41), (17, 17), (60, 5)
    matrices = [np.round(rng.normal(0, 1, shape), 2) for shape in sizes]
    weights = [rng.integers(1, 4, shape).astype(float) for shape in sizes]
    sets = [
        PairBlocks(of_matrix(llr), np.arange(n), np.arange(m), of_matrix(weight))
        for llr, weight, (n, m) in zip(matrices, weights, sizes, strict=True)
    ]
    parts = [
        LLRs.from_matrix(llr, np.arange(n), np.arange(m), weight)
        for llr, weight, (n, m) in zip(matrices, weights, sizes, strict=True)
    ]
    dense = LLRs(*(np.concatenate(each) for each in zip(*((p.same, p.different) for p in parts), strict=True)),
                 None, np.concatenate([p.different_weight for p in parts]))  # fmt: skip
    for tile in (7, 1000):
        found, expected = summary(compress_several(sets, tile)), summary(dense)
        for name in EXACT:
            assert found[name] == pytest.approx(expected[name], rel=1e-12, abs=1e-12), name
        assert found["cllr"] == pytest.approx(expected["cllr"], rel=1e-7)


@pytest.mark.parametrize(("scale", "width"), [(3.0, 1 / 4096), (12.0, 1 / 4096), (1500.0, 10.0)])
def test_a_tippett_curve_is_right_to_the_width_of_a_bin(scale, width):
    """T(x + w) ≤ the curve at x ≤ T(x − w), also where half of the members are at either end of a bin."""
    rng = np.random.default_rng(9)
    llr = rng.normal(0, scale, (200, 200))
    llr[:50] = np.floor(llr[:50] * 4096) / 4096 + np.where(rng.random((50, 200)) < 0.5, 1e-9, 1 / 4096 - 1e-9)
    np.fill_diagonal(llr, 2.0)
    dense = LLRs.from_matrix(llr, np.arange(200), np.arange(200))
    small = compress(of_matrix(llr), np.arange(200), np.arange(200), tile=33)
    at = np.sort(np.concatenate([rng.uniform(-2 * scale, 2 * scale, 3000), llr.reshape(-1)[:3000]]))
    found = tippett(small, at)
    np.testing.assert_allclose(found.same, tippett(dense, at).same, rtol=1e-12)
    assert (found.different <= tippett(dense, at - width).different + 1e-12).all()
    assert (found.different >= tippett(dense, at + width).different - 1e-12).all()
