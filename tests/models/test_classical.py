"""The classical model against an R implementation's published values, and the laws it must keep."""

from __future__ import annotations

import warnings
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given, settings, strategies as st
from numpy.typing import NDArray
from scipy.special import logsumexp
from sklearn.covariance import ledoit_wolf_shrinkage

from lindley.errors import LindleyError
from lindley.evaluation import cllr, cllr_min, compress
from lindley.llrs import LN10, LLRs
from lindley.models import two_level
from lindley.models.classical import Moments, ShrinkageWarning, fit_classical
from lindley.models.two_level import score
from lindley.table.splits import Part, Side
from tests.models import dense

Floats = NDArray[np.float64]
KINDS = ["normal", "kernel"]


def labels(n: int) -> NDArray[np.str_]:
    return np.array([f"s{i:05d}" for i in range(n)])


def sources(seed: int, n: int, replicates: int | NDArray[np.intp], features: int) -> Part:
    """Sources on correlated features, with within covariance a tenth of the between one or so."""
    rng = np.random.default_rng(seed)
    mix = rng.normal(size=(features, features))
    counts = np.broadcast_to(replicates, n)
    means = np.repeat(rng.normal(size=(n, features)) @ mix, counts, axis=0)
    values = means + 0.3 * rng.normal(size=means.shape) @ rng.normal(size=(features, features))
    first = np.r_[0, np.cumsum(counts)[:-1]]
    is_trace = np.zeros(len(values), dtype=bool)
    is_trace[first] = True
    return Part(values, np.repeat(labels(n), counts), is_trace)


# Bolck's model in R (from LiR's repository): every intermediate, and the log10 LRs of ten traces.


@pytest.fixture(scope="module")
def reference(data_folder: Path) -> dict[str, Floats]:
    folder = data_folder / "lir_two_level_reference"
    if not folder.is_dir():
        pytest.skip("needs the folder lir_two_level_reference in LINDLEY_DATA")

    def read(path: Path) -> Floats:
        return np.atleast_1d(np.genfromtxt(path, delimiter=",", skip_header=1))

    tables = {path.stem: read(path) for path in (folder / "R_output").glob("*.csv")}
    return tables | {path.stem: read(path) for path in (folder / "input").glob("*.csv")}


@pytest.fixture(scope="module")
def train(reference: dict[str, Floats]) -> Part:
    table = reference["train_data"]
    items = np.array([f"{int(i):04d}" for i in table[:, 1]])
    return Part(table[:, 2:], items, np.ones(len(table), dtype=bool))


@pytest.fixture(scope="module")
def moments(train: Part) -> Moments:
    return Moments.estimate(train.values, train.source)


def test_reference_estimates(reference: dict[str, Floats], moments: Moments) -> None:
    for ours, theirs in [
        (moments.within, "MSwithin"),
        (moments.source_means.T, "means_z"),
        (moments.between, "T0"),
        (moments.replicates, "kappa"),
        (moments.bandwidth2, "h2"),
    ]:
        np.testing.assert_allclose(ours, np.squeeze(reference[theirs]), rtol=1e-12, atol=0)


def test_reference_intermediates(reference: dict[str, Floats], moments: Moments) -> None:
    """R's first trace (two instances) against its ref (three): the textbook formulas on our estimates."""
    kernel, within, z = moments.bandwidth2 * moments.between, moments.within, moments.source_means
    trace = reference["trace_data"]
    x = trace[trace[:, 1] == 1][:, 2:]
    y = reference["reference_data"][:, 1:]
    u_h0, u_hx = kernel + within / len(x), kernel + within / len(y)
    gain = kernel @ np.linalg.inv(u_hx)
    t_hn = gain @ within / len(y)  # = h²B − h²B U_hx⁻¹ h²B, without its cancellation
    u_hn = t_hn + within / len(x)
    mu_h = z + (y.mean(axis=0) - z) @ gain.T
    for ours, theirs in [(u_h0, "U_h0"), (u_hx, "U_hx"), (mu_h.T, "mu_h")]:
        np.testing.assert_allclose(ours, reference[theirs], rtol=1e-12, atol=0)
    for ours, theirs in [(t_hn, "T_hn"), (u_hn, "U_hn")]:
        # R's own T_hn is a difference of two larger matrices: some entries near zero hold ten digits, not twelve.
        scale = np.sqrt(np.outer(np.diag(ours), np.diag(ours)))
        np.testing.assert_allclose(ours / scale, reference[theirs] / scale, rtol=0, atol=5e-12)

    def exponent(mean: Floats, centres: Floats, covariance: Floats) -> Floats:
        return -0.5 * np.einsum("ki,ij,kj->k", mean - centres, np.linalg.inv(covariance), mean - centres)

    x_mean, y_mean = x.mean(axis=0), y.mean(axis=0)
    ref, given_ref = exponent(y_mean, z, u_hx), exponent(x_mean, mu_h, u_hn)
    for ours, theirs in [
        (logsumexp(ref + given_ref), "ln_num1"),
        (logsumexp(ref), "ln_num2"),
        (logsumexp(exponent(x_mean, z, u_h0)), "ln_den"),
    ]:
        assert ours == pytest.approx(reference[theirs].item(), rel=1e-12)


def test_reference_log10_lrs(reference: dict[str, Floats], train: Part) -> None:
    trace = reference["trace_data"]
    traces = Side(trace[:, 2:], trace[:, 1].astype(np.intp) - 1, labels(10))
    ref = Side(reference["reference_data"][:, 1:], np.zeros(3, dtype=np.intp), labels(1))
    (llr,) = score(fit_classical([train], "kernel"), [traces], [ref])
    theirs = reference["log10_MLRs"]
    finite = np.isfinite(theirs)
    np.testing.assert_allclose(llr[finite, 0], theirs[finite], rtol=1e-9, atol=0)
    assert finite.sum() == 5
    assert np.isfinite(llr).all()  # where R underflowed to −Inf
    assert (llr[~finite] < -300).all()


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("m", "n"), [(1, 1), (2, 3), (5, 1)])
def test_all_pairs_equal_the_dense_model(kind: str, m: int, n: int) -> None:
    part = sources(3, 30, 4, 3)
    moments = Moments.estimate(part.values, part.source)
    x, y = sources(4, 5, m, 3), sources(5, 4, n, 3)
    trace = Side(x.values, np.repeat(np.arange(5), m), labels(5))
    ref = Side(y.values, np.repeat(np.arange(4), n), labels(4))
    (llr,) = score(fit_classical([part], kind), [trace], [ref])  # type: ignore[arg-type]
    t = torch.from_numpy
    if kind == "normal":
        centres, between = moments.source_means.mean(axis=0, keepdims=True), moments.between
    else:
        centres, between = moments.source_means, moments.bandwidth2 * moments.between
    weights = torch.full((len(centres),), -np.log(len(centres)), dtype=torch.float64)
    law = (t(centres), weights, t(between), t(moments.within / m), t(moments.within / n))
    expected = dense.all_pairs(t(trace.mean), t(ref.mean), *law).numpy() / LN10
    np.testing.assert_allclose(llr, expected, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("kind", KINDS)
def test_runs_together_equal_runs_alone(kind: str) -> None:
    """Runs of different sizes, items of different numbers of instances: padding and grouping change nothing."""
    rng = np.random.default_rng(0)
    parts = [sources(seed, n, rng.integers(1, 5, n), 4) for seed, n in [(1, 40), (2, 33), (3, 51)]]
    others = [sources(seed, n, rng.integers(1, 4, n), 4) for seed, n in [(4, 12), (5, 20), (6, 7)]]
    together = score(fit_classical(parts, kind), [o.trace for o in others], [o.ref for o in others])  # type: ignore[arg-type]
    for part, other, llr in zip(parts, others, together, strict=True):
        alone = fit_classical([part], kind)  # type: ignore[arg-type]
        np.testing.assert_allclose(score(alone, [other.trace], [other.ref])[0], llr, rtol=1e-10, atol=1e-10)
        one = np.array(
            [[_single(alone, other.trace, i, other.ref, j) for j in range(len(other.ref.source))] for i in range(3)]
        )
        np.testing.assert_allclose(llr[:3], one, rtol=1e-10, atol=1e-10)


def _single(model: two_level.TwoLevel, trace: Side, i: int, ref: Side, j: int) -> float:
    x, y = trace.values[trace.item == i], ref.values[ref.item == j]
    pair = [Side(v, np.zeros(len(v), dtype=np.intp), labels(1)) for v in (x, y)]
    return float(score(model, [pair[0]], [pair[1]])[0][0, 0])


@pytest.mark.parametrize("kind", KINDS)
def test_blocks_change_nothing(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    part, other = sources(1, 40, 2, 3), sources(2, 31, np.arange(31) % 3 + 1, 3)
    model = fit_classical([part], kind)  # type: ignore[arg-type]
    (whole,) = score(model, [other.trace], [other.ref])
    for name in ("BLOCK_PAIRS", "BLOCK_OF_MEANS"):
        monkeypatch.setattr(two_level, name, 50)
    np.testing.assert_allclose(score(model, [other.trace], [other.ref])[0], whole, rtol=1e-12, atol=1e-12)
    there = two_level.score_there(
        model, other.trace, other.ref
    )  # numbers of instances change from row to row: with gaps
    np.testing.assert_allclose(there, whole, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("kind", KINDS)
def test_streaming_over_parts_of_the_sides(kind: str) -> None:
    """Metrics of a compressed stream of blocks are those of the whole matrix."""
    part, other = sources(1, 60, 2, 3), sources(2, 90, np.arange(90) % 3 + 1, 3)
    model = fit_classical([part], kind)  # type: ignore[arg-type]
    trace, ref = other.trace, other.ref
    (whole,) = score(model, [trace], [ref])
    dense_llrs = LLRs.from_matrix(whole, trace.source, ref.source)

    def block(rows: slice, columns: slice) -> Floats:
        return score(model, [trace[rows]], [ref[columns]])[0]

    streamed = compress(block, trace.source, ref.source, tile=32)
    assert cllr(streamed) == pytest.approx(cllr(dense_llrs), rel=1e-6)
    assert cllr_min(streamed) == pytest.approx(cllr_min(dense_llrs), rel=1e-9)


@settings(max_examples=25)
@given(st.integers(0, 10_000), st.sampled_from(KINDS))
def test_invertible_linear_maps_of_the_features_change_nothing(seed: int, kind: str) -> None:
    part, other = sources(seed, 40, 3, 3), sources(seed + 1, 6, 2, 3)
    rng = np.random.default_rng(seed)
    q, _ = np.linalg.qr(rng.normal(size=(3, 3)))
    matrix, shift = q * np.exp(rng.normal(size=3)), rng.normal(size=3)
    (llr,) = score(fit_classical([part], kind), [other.trace], [other.ref])  # type: ignore[arg-type]
    part, other = (p.with_values(p.values @ matrix + shift) for p in (part, other))
    (mapped,) = score(fit_classical([part], kind), [other.trace], [other.ref])  # type: ignore[arg-type]
    np.testing.assert_allclose(mapped, llr, rtol=1e-7, atol=1e-7)


def test_recovery() -> None:
    """Many sources from a known normal–normal model give its covariances back."""
    rng = np.random.default_rng(8)
    a, b = rng.normal(size=(2, 3, 3))
    within, between = 0.1 * a @ a.T, b @ b.T
    n = 40_000
    means = rng.multivariate_normal(np.zeros(3), between, n)
    values = np.repeat(means, 2, axis=0) + rng.multivariate_normal(np.zeros(3), within, 2 * n)
    moments = Moments.estimate(values, np.repeat(labels(n), 2))
    for estimate, truth in [(moments.within, within), (moments.between, between)]:
        assert np.abs(estimate - truth).max() < 0.03 * np.abs(truth).max()


class TestShrinkage:
    @pytest.mark.parametrize("kind", KINDS)
    @pytest.mark.parametrize(("n", "features"), [(12, 30), (5, 8), (60, 50), (3, 2)])
    def test_fewer_sources_than_features(self, kind: str, n: int, features: int) -> None:
        part, other = sources(1, n, 2, features), sources(2, 6, 2, features)
        with pytest.warns(ShrinkageWarning, match="Ledoit and Wolf"):
            model = fit_classical([part], kind)  # type: ignore[arg-type]
        (llr,) = score(model, [other.trace], [other.ref])
        assert np.isfinite(llr).all()

    def test_enough_sources_are_left_alone(self) -> None:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            fit_classical([sources(1, 100, 2, 10)], "normal")

    def test_a_copied_feature(self) -> None:
        part, other = sources(1, 100, 2, 3), sources(2, 6, 2, 3)
        part, other = (p.with_values(p.values[:, [0, 1, 2, 2]]) for p in (part, other))
        with pytest.warns(ShrinkageWarning):
            model = fit_classical([part], "normal")
        assert np.isfinite(score(model, [other.trace], [other.ref])[0]).all()

    def test_a_feature_that_never_varies_within_a_source(self) -> None:
        part, other = sources(1, 100, 2, 3), sources(2, 6, 2, 3)
        values = part.values.copy()
        values[1::2, 0] = values[0::2, 0]
        with pytest.warns(ShrinkageWarning, match="1 of 3 features never vary within sources"):
            model = fit_classical([part.with_values(values)], "normal")
        assert np.isfinite(score(model, [other.trace], [other.ref])[0]).all()

    def test_the_intensity_is_that_of_independent_rows(self) -> None:
        """Two replicates are one contrast: residuals r and −r would count twice, and halve Ledoit and Wolf's weight."""
        part = sources(5, 15, 2, 12)
        contrasts = (part.values[0::2] - part.values[1::2]) / np.sqrt(2)
        sd = np.sqrt((contrasts**2).mean(axis=0))
        with pytest.warns(ShrinkageWarning) as caught:
            Moments.estimate(part.values, part.source)
        (within,) = (w.message for w in caught if w.message.what == "within")  # type: ignore[union-attr]
        assert within.intensity == pytest.approx(ledoit_wolf_shrinkage(contrasts / sd, assume_centered=True))  # type: ignore[union-attr]
        assert within.freedom == 15  # type: ignore[union-attr]

    def test_few_sources_still_discriminate(self) -> None:
        """30 sources of 20 correlated features: shrunk, but not to the point of absurd LLRs."""
        rng = np.random.default_rng(3)
        within = np.full((20, 20), 0.5) + 0.5 * np.eye(20)
        costs = []
        for seed in range(4):
            means = 6 * np.random.default_rng(seed).normal(size=(130, 20))
            values = np.repeat(means, 2, axis=0) + rng.multivariate_normal(np.zeros(20), within, 260)
            part = Part(values, np.repeat(labels(130), 2), np.arange(260) % 2 == 0)
            train, test = (Part(part.values[r], part.source[r], part.is_trace[r]) for r in (slice(60), slice(60, None)))
            with pytest.warns(ShrinkageWarning):
                model = fit_classical([train], "normal")
            (llr,) = score(model, [test.trace], [test.ref])
            costs.append(cllr(LLRs.from_matrix(llr, test.trace.source, test.ref.source)))
        assert np.mean(costs) < 0.02

    def test_a_single_degree_of_freedom(self) -> None:
        part = sources(1, 30, np.array([2] + [1] * 29), 5)
        with pytest.warns(ShrinkageWarning):
            moments = Moments.estimate(part.values, part.source)
        correlation = moments.within / np.sqrt(np.outer(moments.within.diagonal(), moments.within.diagonal()))
        assert np.linalg.eigvalsh(correlation)[0] > 0.1

    def test_a_precise_feature_is_left_alone(self) -> None:
        part = sources(1, 100, 2, 3)
        values = part.values.copy()
        values[:, 0] = np.repeat(values[0::2, 0], 2) + 5e-4 * np.random.default_rng(0).normal(size=200)
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            moments = Moments.estimate(values, part.source)
        assert moments.within[0, 0] == pytest.approx(2.5e-7, rel=0.5)

    def test_units_do_not_matter(self) -> None:
        part, other = sources(1, 12, 2, 8), sources(2, 6, 2, 8)
        units = 10.0 ** np.arange(-4, 4)
        llr = []
        for scale in (np.ones(8), units):
            with pytest.warns(ShrinkageWarning):
                model = fit_classical([part.with_values(part.values * scale)], "normal")
            o = other.with_values(other.values * scale)
            llr.append(score(model, [o.trace], [o.ref])[0])
        np.testing.assert_allclose(llr[0], llr[1], rtol=1e-6, atol=1e-6)

    def test_one_warning_for_all_runs(self) -> None:
        parts = [sources(seed, 12, 2, 30) for seed in range(3)]
        with pytest.warns(ShrinkageWarning) as caught:
            fit_classical(parts, "normal")
        assert len(caught) == 2  # one for within, one for between
        assert all("in 3 of 3 splits" in str(w.message) for w in caught)


def test_too_little_to_fit() -> None:
    one = sources(1, 1, 3, 2)
    with pytest.raises(LindleyError, match="at least two sources"):
        fit_classical([one], "normal")
    with pytest.raises(LindleyError, match="measured twice"):
        fit_classical([sources(1, 5, 1, 2)], "normal")


def test_wrong_number_of_runs() -> None:
    model = fit_classical([sources(1, 20, 2, 2)] * 2, "normal")
    other = sources(2, 4, 2, 2)
    with pytest.raises(ValueError, match="a model of 2 runs got 1"):
        score(model, [other.trace], [other.ref])
