"""The full Bayesian model: its draws follow the posterior, and its LRs are modest where little is known."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from scipy.special import gammaln, logsumexp
from scipy.stats import invwishart

from lindley.errors import LindleyError
from lindley.evaluation import cllr
from lindley.llrs import LLRs
from lindley.models.bayes import fit as full_bayes
from lindley.models.bayes.fit import ConvergenceWarning, Posterior, fit_full_bayes, sample_posterior, split_r_hat
from lindley.models.between import NormalBetween
from lindley.models.classical import fit_classical
from lindley.models.fitting import Sources
from lindley.models.two_level import PairModel, TwoLevel, score
from lindley.table.splits import Part

Floats = NDArray[np.float64]


def covariance(rng: np.random.Generator, p: int, scale: float = 1.0) -> Floats:
    root = rng.normal(size=(p, p + 2))
    result: Floats = scale * root @ root.T / (p + 2)
    return result


def simulate(
    rng: np.random.Generator, n: int, replicates: int | list[int], mean: Floats, within: Floats, between: Floats
) -> Part:
    counts = np.resize(np.atleast_1d(replicates), n)
    p = len(mean)
    theta = mean + rng.normal(size=(n, p)) @ np.linalg.cholesky(between).T
    values = np.repeat(theta, counts, axis=0) + rng.normal(size=(counts.sum(), p)) @ np.linalg.cholesky(within).T
    source = np.repeat([f"s{i:05d}" for i in range(n)], counts)
    first = np.cumsum(counts) - counts
    is_trace = np.zeros(len(values), dtype=bool)
    is_trace[first] = True
    return Part(values, source, is_trace)


def posterior(part: Part, seed: int = 0, draws: int = 400) -> Posterior:
    return sample_posterior(Sources.of(part.values, part.source), np.random.default_rng(seed), draws)


def truth(mean: Floats, within: Floats, between: Floats) -> TwoLevel:
    return full_bayes._two_level(mean[None], within[None], between[None])


def cost(model: PairModel, test: Part) -> float:
    llr = score(model, [test.trace], [test.ref])[0]
    return cllr(LLRs.from_matrix(llr, test.trace.source, test.ref.source))


# The posterior.


@pytest.mark.parametrize("replicates", [2, [1, 2, 5, 3]])
def test_recovery(replicates: int | list[int]) -> None:
    """The truth lies where the posterior says, in every entry, and the posterior is narrow."""
    rng = np.random.default_rng(1)
    mean, within, between = rng.normal(size=3), covariance(rng, 3, 0.2), covariance(rng, 3)
    found = posterior(simulate(rng, 600, replicates, mean, within, between))
    for draws, true in ((found.mean, mean), (found.within, within), (found.between, between)):
        sd = draws.std(axis=0)
        assert (np.abs(draws.mean(axis=0) - true) < 4 * sd).all()
        assert (sd < 0.15 * max(1.0, np.abs(true).max())).all()


def half_t(sd: Floats, scale: float) -> Floats:
    """ln of a half-t density with two degrees of freedom, up to a constant."""
    result: Floats = -1.5 * np.log1p(sd**2 / (2 * scale**2))
    return result


@pytest.mark.parametrize("replicates", [[2], [1, 2, 4]])
@pytest.mark.parametrize("ratio", [9.0, 0.3])
def test_one_feature_against_quadrature(replicates: list[int], ratio: float, monkeypatch: pytest.MonkeyPatch) -> None:
    """Few sources, so that the prior counts: the exact posterior of (ln W, ln B) on a grid, μ integrated out."""
    monkeypatch.setattr(full_bayes, "THIN", 3)
    rng = np.random.default_rng(4)
    part = simulate(rng, 9, replicates, np.array([3.0]), np.eye(1), ratio * np.eye(1))
    sources = Sources.of(part.values, part.source)
    n, x = sources.count[:, None, None].astype(float), sources.means[:, 0, None, None]
    contrasts = sources.contrasts()[0]
    u = np.linspace(-12, 12, 601)
    ln_w, ln_b = u[:, None], u[None]
    w, b = np.exp(ln_w), np.exp(ln_b)
    scale = full_bayes.SCALE * part.values.std()
    total = b + w / n  # variance of a source's mean
    precision = (1 / total).sum(0)
    mean = (x / total).sum(0) / precision
    ln = -0.5 * (((x - mean) ** 2 / total + np.log(total)).sum(0) + np.log(precision))
    ln = ln - 0.5 * (len(contrasts) * ln_w + (contrasts**2).sum() / w)
    ln = ln + half_t(np.sqrt(w), scale) + half_t(np.sqrt(b), scale) + 0.5 * ln_w + 0.5 * ln_b  # d sd = ½ sd d ln var
    weight = np.exp(ln - logsumexp(ln))

    found = posterior(part, draws=8000)
    for draws, axis in ((found.within, 1), (found.between, 0)):  # as standard deviations
        law, at = weight.sum(axis), np.exp(u / 2)
        expected = (law * at).sum()
        spread = np.sqrt((law * (at - expected) ** 2).sum())
        sample = np.sqrt(draws[:, 0, 0])
        assert sample.mean() == pytest.approx(expected, abs=0.1 * spread)
        assert sample.std() == pytest.approx(spread, rel=0.1)
        for share in (0.1, 0.5, 0.9):
            assert (sample < np.interp(share, np.cumsum(law), at)).mean() == pytest.approx(share, abs=0.03)
    at_mean = (weight * mean).sum()
    sd_mean = np.sqrt((weight * (1 / precision + (mean - at_mean) ** 2)).sum())
    assert found.mean.mean() == pytest.approx(at_mean, abs=0.1 * sd_mean)
    assert found.mean.std() == pytest.approx(sd_mean, rel=0.1)


def test_within_covariance_where_sources_are_far_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    """Source means then say nothing of W. Its posterior is an inverse Wishart law times the rest of the prior:

    p(W | S) ∝ |W|^(−f/2) exp(−½ tr W⁻¹S) · |W|^(−(ν+2p)/2) Π_l [ν (W⁻¹)_ll + 1/A_l²]^(−(ν+p)/2)

    (Huang and Wand 2013, Eq. 3), by importance sampling from IW(f + ν + p − 1, S).
    """
    monkeypatch.setattr(full_bayes, "THIN", 2)
    rng = np.random.default_rng(5)
    p, n = 3, 25
    part = simulate(rng, n, 2, np.zeros(p), covariance(rng, p), 1e4 * np.eye(p))
    contrasts = Sources.of(part.values, part.source).contrasts()[0]
    scatter = contrasts.T @ contrasts
    draws = invwishart(n + full_bayes.NU + p - 1, scatter).rvs(200_000, random_state=rng)
    inverse = np.linalg.inv(draws).diagonal(axis1=1, axis2=2)
    scale = full_bayes.SCALE * part.values.std(axis=0)
    ln_weight = -(full_bayes.NU + p) / 2 * np.log(full_bayes.NU * inverse + 1 / scale**2).sum(1)
    weight = np.exp(ln_weight - logsumexp(ln_weight))
    found = posterior(part, draws=12_000)

    def summaries(w: Floats) -> Floats:
        """Logarithms of variances, and correlations: neither has a long tail."""
        var = w.diagonal(axis1=1, axis2=2)
        i, j = np.triu_indices(p, 1)
        return np.concatenate([np.log(var), w[:, i, j] / np.sqrt(var[:, i] * var[:, j])], 1)

    exact, sample = summaries(draws), summaries(found.within)
    mean = weight @ exact
    sd = np.sqrt(weight @ (exact - mean) ** 2)
    # Both are worth some 5000 independent draws or more, so four standard errors are 0.08.
    assert 1 / (weight**2).sum() > 5000
    np.testing.assert_allclose((sample.mean(0) - mean) / sd, 0, atol=0.08)
    np.testing.assert_allclose(sample.std(0), sd, rtol=0.06)
    # The prior is felt: without it, the law would be the inverse Wishart one.
    assert np.abs((exact.mean(0) - mean) / sd).max() > 0.2


def test_inverse_wishart_draws() -> None:
    rng = np.random.default_rng(0)
    scale = covariance(rng, 3)
    drawn, inverse = full_bayes._inverse_wishart(rng, 30.0, np.repeat(scale[None], 40_000, 0))
    law = invwishart(30, scale)
    np.testing.assert_allclose(drawn.mean(0), law.mean(), atol=4 * np.sqrt(law.var().max() / 40_000))
    np.testing.assert_allclose(drawn.var(0), law.var(), rtol=0.1)
    np.testing.assert_allclose(inverse[:100], np.linalg.inv(drawn[:100]).diagonal(axis1=1, axis2=2), rtol=1e-9)


def test_the_prior_scale_follows_its_conditional_law() -> None:
    """2ν/a with 1/a ~ Gamma((ν + p)/2, rate 1/A² + ν (W⁻¹)_ll)."""
    inverse = np.tile([0.5, 7.0], (100_000, 1))
    drawn = full_bayes._prior_scale(np.random.default_rng(0), inverse)
    shape, rate = (full_bayes.NU + 2) / 2, 1 / full_bayes.SCALE**2 + full_bayes.NU * inverse[0]
    np.testing.assert_allclose(drawn.mean(0), 2 * full_bayes.NU * shape / rate, rtol=0.02)
    np.testing.assert_allclose(drawn.var(0), (2 * full_bayes.NU) ** 2 * shape / rate**2, rtol=0.05)


def test_sources_measured_once_tell_of_the_population() -> None:
    rng = np.random.default_rng(6)
    mean, within, between = np.zeros(2), 0.1 * np.eye(2), np.eye(2)
    twice, once = (simulate(rng, n, k, mean, within, between) for n, k in ((15, 2), (400, 1)))
    both = Part(
        np.concatenate([twice.values, once.values]),
        np.concatenate([twice.source, np.char.add("x", once.source)]),
        np.concatenate([twice.is_trace, once.is_trace]),
    )
    alone, more = posterior(twice), posterior(both)
    assert (more.between.std(0).diagonal() < 0.5 * alone.between.std(0).diagonal()).all()
    assert (more.mean.std(0) < 0.5 * alone.mean.std(0)).all()


# The model.


def test_reproducible_and_a_run_alone_is_the_run_among_others() -> None:
    rng = np.random.default_rng(2)
    mean, within, between = np.zeros(3), covariance(rng, 3, 0.1), covariance(rng, 3)
    parts = [simulate(rng, n, [2, 1, 3], mean, within, between) for n in (40, 25, 33)]
    tests = [simulate(rng, 10, 2, mean, within, between) for _ in parts]
    together = fit_full_bayes(parts, [5, 6, 7], 40)
    sides = [t.trace for t in tests], [t.ref for t in tests]
    llr = score(together, *sides)
    np.testing.assert_array_equal(score(fit_full_bayes(parts, [5, 6, 7], 40), *sides), llr)
    alone = score(fit_full_bayes(parts[1:2], [6], 40), sides[0][1:2], sides[1][1:2])[0]
    np.testing.assert_allclose(alone, llr[1], rtol=1e-9, atol=1e-9)
    other = score(fit_full_bayes(parts[1:2], [60], 40), sides[0][1:2], sides[1][1:2])[0]
    assert np.abs(other - llr[1]).max() > 1e-3


def test_units_do_not_matter() -> None:
    rng = np.random.default_rng(3)
    part, test = (simulate(rng, 40, 2, np.ones(3), 0.1 * np.eye(3), covariance(rng, 3)) for _ in range(2))
    unit, shift = 10.0 ** np.array([-4, 0, 5]), np.array([0.1, -20.0, 3e6])
    llr = []
    for scale, offset in ((np.ones(3), np.zeros(3)), (unit, shift)):
        a, b = (p.with_values(p.values * scale + offset) for p in (part, test))
        llr.append(score(fit_full_bayes([a], [1], 40), [b.trace], [b.ref])[0])
    np.testing.assert_allclose(llr[1], llr[0], rtol=1e-5, atol=1e-5)


def test_the_order_of_rows_does_not_matter() -> None:
    rng = np.random.default_rng(3)
    part = simulate(rng, 30, [2, 3], np.ones(2), 0.1 * np.eye(2), np.eye(2))
    order = rng.permutation(len(part.values))
    mixed = Part(part.values[order], part.source[order], part.is_trace[order])
    np.testing.assert_allclose(posterior(mixed, draws=40).within, posterior(part, draws=40).within, rtol=1e-8)


def test_many_sources_give_the_lr_of_the_truth() -> None:
    rng = np.random.default_rng(8)
    mean, within, between = rng.normal(size=3), covariance(rng, 3, 0.1), covariance(rng, 3)
    part, test = (simulate(rng, n, 2, mean, within, between) for n in (5000, 40))
    model = fit_full_bayes([part], [0], 60)
    (llr,) = score(model, [test.trace], [test.ref])
    (true,) = score(truth(mean, within, between), [test.trace], [test.ref])
    near = np.abs(true) < 4
    assert np.abs(llr - true)[near].mean() < 0.05
    assert np.abs(llr - true)[near].max() < 0.4


def test_typical_is_the_posterior_mean() -> None:
    rng = np.random.default_rng(9)
    part = simulate(rng, 50, 2, np.ones(2), 0.1 * np.eye(2), np.eye(2))
    model = fit_full_bayes([part], [3], 40)
    found = sample_posterior(Sources.of(part.values, part.source), np.random.default_rng((3, full_bayes.STREAM)), 40)
    back = np.linalg.inv(model.projection[0].numpy())
    np.testing.assert_allclose(back.T @ back, found.within.mean(0), rtol=1e-9)
    law = model.typical.between  # type: ignore[union-attr]
    assert isinstance(law, NormalBetween)
    np.testing.assert_allclose(back.T @ np.diag(law.var[0, 0].numpy()) @ back, found.between.mean(0), rtol=1e-8)
    np.testing.assert_allclose(model.centre[0, 0].numpy(), found.mean.mean(0), rtol=1e-12)
    assert len(model.members) == 40
    torch.testing.assert_close(model.ln_weights.exp().sum(1), torch.ones(1, dtype=torch.float64))


def test_few_sources_make_modest_lrs() -> None:
    """30 sources of 5 features: what is plugged in as if it were known costs more than what is averaged over.

    The mean over populations, with the cost of the true parameters as the floor.
    """
    costs = []
    for seed in range(16):
        rng = np.random.default_rng(seed)
        law = np.zeros(5), covariance(rng, 5, 0.05), covariance(rng, 5)
        part, test = simulate(rng, 30, 2, *law), simulate(rng, 120, 2, *law)
        models = fit_full_bayes([part], [seed], 100), fit_classical([part], "normal"), truth(*law)
        costs.append([cost(model, test) for model in models])
    bayes, plugged_in, floor = np.array(costs).T
    assert bayes.mean() < plugged_in.mean() - 0.01
    assert floor.mean() < bayes.mean() < floor.mean() + 0.6 * (plugged_in.mean() - floor.mean())


class TestDegenerate:
    def test_fewer_sources_than_features(self) -> None:
        rng = np.random.default_rng(1)
        law = np.zeros(12), 0.1 * np.eye(12), np.eye(12)
        part, test = simulate(rng, 8, 2, *law), simulate(rng, 40, 2, *law)
        model = fit_full_bayes([part], [0], 100)
        assert np.isfinite(score(model, [test.trace], [test.ref])[0]).all()
        assert cost(model, test) < 1

    def test_a_copied_feature(self) -> None:
        """It adds nothing: the LRs are those without it, but for the draws."""
        rng = np.random.default_rng(2)
        law = np.zeros(3), 0.1 * np.eye(3), np.eye(3)
        part, test = (simulate(rng, n, 2, *law) for n in (150, 40))
        twice, test_twice = (p.with_values(p.values[:, [0, 1, 2, 2]]) for p in (part, test))
        (llr,) = score(fit_full_bayes([part], [0], 100), [test.trace], [test.ref])
        (copied,) = score(fit_full_bayes([twice], [0], 100), [test_twice.trace], [test_twice.ref])
        near = np.abs(llr) < 3
        assert np.isfinite(copied).all()
        assert np.abs(copied - llr)[near].mean() < 0.2

    def test_a_feature_that_never_varies_within_a_source(self) -> None:
        rng = np.random.default_rng(3)
        law = np.zeros(3), 0.1 * np.eye(3), np.eye(3)
        part, test = (simulate(rng, n, 2, *law) for n in (100, 20))
        fixed = []
        for p in (part, test):
            values = p.values.copy()
            values[1::2, 0] = values[0::2, 0]
            fixed.append(p.with_values(values))
        (llr,) = score(fit_full_bayes([fixed[0]], [0], 40), [fixed[1].trace], [fixed[1].ref])
        assert np.isfinite(llr).all()
        assert (llr.diagonal() > 2).all()

    def test_two_sources(self) -> None:
        rng = np.random.default_rng(4)
        part = simulate(rng, 2, 2, np.zeros(2), 0.1 * np.eye(2), np.eye(2))
        test = simulate(rng, 5, 2, np.zeros(2), 0.1 * np.eye(2), np.eye(2))
        (llr,) = score(fit_full_bayes([part], [0], 200), [test.trace], [test.ref])
        assert np.isfinite(llr).all()
        assert np.abs(llr).max() < 3


def test_what_cannot_be_fitted() -> None:
    rng = np.random.default_rng(0)
    law = np.zeros(2), np.eye(2), np.eye(2)
    with pytest.raises(LindleyError, match="at least two sources"):
        fit_full_bayes([simulate(rng, 1, 3, *law)], [0])
    with pytest.raises(LindleyError, match="measured twice"):
        fit_full_bayes([simulate(rng, 5, 1, *law)], [0])
    part = simulate(rng, 5, 2, *law)
    values = part.values.copy()
    values[3, 1] = np.nan
    with pytest.raises(LindleyError, match="finite values"):
        fit_full_bayes([part.with_values(values)], [0])
    with pytest.raises(ValueError, match="1 runs got 2 seeds"):
        fit_full_bayes([part], [0, 1])
    with pytest.raises(ValueError, match="4 draws are the least"):
        fit_full_bayes([part], [0], 3)
    with pytest.raises(LindleyError, match="cannot be inverted"):
        full_bayes._cholesky(np.zeros((2, 2)))


def test_progress_counts_runs() -> None:
    rng = np.random.default_rng(0)
    parts = [simulate(rng, 20, 2, np.zeros(2), np.eye(2), 4 * np.eye(2)) for _ in range(3)]
    seen: list[int] = []
    fit_full_bayes(parts, [0, 1, 2], 40, seen.append)
    assert seen == [1, 2, 3]


# Convergence.


def test_chains_that_agree() -> None:
    rng = np.random.default_rng(1)
    part = simulate(rng, 200, 2, np.zeros(4), 0.1 * np.eye(4), np.eye(4))
    found = sample_posterior(Sources.of(part.values, part.source), rng).r_hat
    assert set(found) == {"ln|W|", "ln|B|", "tr W", "tr B", "information"}
    assert max(found.values()) < 1.02


def test_chains_that_do_not_are_told_of_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Chains that start apart and are hardly run."""
    monkeypatch.setattr(full_bayes, "BURN_IN", 0)
    monkeypatch.setattr(full_bayes, "THIN", 1)
    rng = np.random.default_rng(1)
    parts = [simulate(rng, 12, 2, np.zeros(6), np.eye(6), 0.05 * np.eye(6)) for _ in range(3)]
    with pytest.warns(ConvergenceWarning, match=r"in 3 of 3 splits: R-hat is") as caught:
        fit_full_bayes(parts, [0, 1, 2], 16)
    assert len(caught) == 1


def test_r_hat_of_known_chains() -> None:
    rng = np.random.default_rng(0)
    white = rng.normal(size=(4, 2000))
    assert split_r_hat(white) == pytest.approx(1, abs=0.005)
    assert split_r_hat(white + np.arange(4)[:, None]) > 1.3
    assert split_r_hat(white + np.linspace(0, 3, 2000)) > 1.2  # a drift, which whole chains would share
    assert split_r_hat(np.ones((4, 100))) == pytest.approx(1, abs=0.02)
    with pytest.raises(ValueError, match="too short"):
        split_r_hat(white[:, :3])


def test_half_t_is_the_marginal_law_of_a_standard_deviation() -> None:
    """∫ IW(W; ν, 2ν/a) InvGamma(a; ½, 1/A²) da for one feature, against the density that quadrature was done with."""
    a = np.exp(np.linspace(-40, 40, 200_001))
    step = 80 / 200_000

    def ln_marginal(var: float, scale: float) -> float:
        ln_iw = full_bayes.NU / 2 * np.log(full_bayes.NU / a) - gammaln(full_bayes.NU / 2)
        ln_iw = ln_iw - (full_bayes.NU / 2 + 1) * np.log(var) - full_bayes.NU / a / var
        ln_ig = -np.log(scale) - gammaln(0.5) - 1.5 * np.log(a) - 1 / (scale**2 * a)
        return float(logsumexp(ln_iw + ln_ig + np.log(a)) + np.log(step))

    at = [0.1, 1.0, 30.0, 400.0]
    exact = np.array([ln_marginal(v, 5.0) + 0.5 * np.log(v) for v in at])  # of the standard deviation, times ½
    ours = half_t(np.sqrt(at), 5.0)
    np.testing.assert_allclose(exact - exact[0], ours - ours[0], atol=1e-6)


def test_sums_over_many_sources_have_the_law_of_sums_over_each() -> None:
    """Means and covariances of Σ θθᵀ and of what is left of the source means, against 20,000 draws of every θ."""
    rng = np.random.default_rng(0)
    p, number, n, draws = 3, 14, 2.0, 20_000
    x = rng.normal(size=(number, p)) * [1, 2, 0.5] + [0.3, -0.2, 0.1]
    axes, lam, mean = rng.normal(size=(1, p, p)), np.array([[[0.2, 1.5, 4.0]]]), rng.normal(size=(1, 1, p))
    many = full_bayes._Many(number, n, x.sum(axis=0), x.T @ x)
    found = full_bayes._draw_sums(rng, many, *(np.repeat(each, draws, 0) for each in (axes, lam, mean)))
    deviation = x @ axes[0] - mean[0]
    theta = (n * lam / (1 + n * lam))[0] * deviation
    theta = theta + np.sqrt(lam / (1 + n * lam))[0] * rng.standard_normal((draws, number, p))
    rest = deviation - theta
    expected = theta.swapaxes(1, 2) @ theta, rest.swapaxes(1, 2) @ rest
    one, other = (np.concatenate([part.reshape(draws, -1) for part in both], 1) for both in (found, expected))
    sd = other.std(axis=0)
    assert (np.abs(one.mean(axis=0) - other.mean(axis=0)) < 5 * sd * np.sqrt(2 / draws)).all()
    np.testing.assert_allclose(np.cov(one / sd, rowvar=False), np.cov(other / sd, rowvar=False), atol=0.08)


def test_many_sources_have_the_posterior_of_sources_one_by_one(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(3)
    theta = rng.normal(size=(60, 2)) * [2.0, 1.0]
    count = np.repeat([2, 3], [40, 20])
    values = np.repeat(theta, count, axis=0) + 0.5 * rng.normal(size=(count.sum(), 2))
    sources = Sources.of(values, np.repeat(np.arange(60), count).astype(np.str_))
    apart = sample_posterior(sources, np.random.default_rng(1))
    monkeypatch.setattr(full_bayes, "MANY", 30)  # the forty as a whole, the twenty one by one
    assert [each.number for each in full_bayes._Data.of(sources).many] == [40]
    together = sample_posterior(sources, np.random.default_rng(2))
    for name in ("mean", "within", "between"):
        one, other = getattr(apart, name), getattr(together, name)
        error = np.sqrt((one.var(axis=0) + other.var(axis=0)) / len(one))
        assert (np.abs(one.mean(axis=0) - other.mean(axis=0)) < 5 * error).all(), name
        np.testing.assert_allclose(one.std(axis=0), other.std(axis=0), rtol=0.25)
