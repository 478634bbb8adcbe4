"""What the plots draw is the data of the curves; how it looks is for the eye."""

import subprocess
import sys

import numpy as np
import pytest
from matplotlib import pyplot
from matplotlib.figure import Figure
from scipy.stats import norm

from lindley import plot
from lindley.errors import LindleyError
from lindley.evaluation import cllr, cllr_min, curves, eer
from lindley.llrs import LLRs

PLOTS = [plot.tippett, plot.pav, plot.ece, plot.det, plot.histogram]


@pytest.fixture
def llrs() -> LLRs:
    rng = np.random.default_rng(3)
    return LLRs(rng.normal(1, 1, 80), rng.normal(-2, 1.5, 900))


@pytest.fixture
def ax():
    return Figure().add_subplot()


@pytest.fixture(autouse=True)
def _close():
    yield
    pyplot.close("all")


def line(ax, label):
    """The points of the line of one label."""
    (found,) = [each for each in ax.lines if each.get_label() == label]
    return found.get_xdata(), found.get_ydata()


def test_tippett_draws_the_shares_at_or_above(llrs, ax):
    plot.tippett(llrs, ax=ax)
    for label, values in (("same-source", llrs.same), ("different-source", llrs.different)):
        x, share = line(ax, label)
        np.testing.assert_allclose(share, [np.mean(values >= at) for at in x])


def test_ece_at_even_odds_is_cllr_and_priors_can_be_chosen(llrs, ax):
    plot.ece(llrs, prior_log10_odds=[-1, 0, 2], ax=ax)
    x, system = line(ax, "this system")
    assert list(x) == [-1, 0, 2]
    assert system[1] == pytest.approx(cllr(llrs))
    assert line(ax, "after PAV")[1][1] == pytest.approx(cllr_min(llrs))
    assert line(ax, "no LR (LR = 1)")[1][1] == pytest.approx(1)


def test_pav_draws_the_finite_curve_a_triangle_at_its_ends_and_the_pairs(llrs, ax):
    plot.pav(llrs, ax=ax)
    curve = curves.pav_curve(llrs)
    finite = np.isfinite(curve.pav_llr)
    drawn = {marker.get_marker(): marker for marker in ax.lines if marker.get_marker() in "v^"}
    assert drawn["v"].get_xdata()[0] == curve.llr[curve.pav_llr == -np.inf].max()
    assert drawn["^"].get_xdata()[0] == curve.llr[curve.pav_llr == np.inf].min()
    assert any(np.array_equal(each.get_ydata(), curve.pav_llr[finite]) for each in ax.lines)
    low, high = ax.get_xlim()
    for label, values in (("same-source", llrs.same), ("different-source", llrs.different)):
        marks, _ = line(ax, label)
        assert np.isin(marks, values).all()
        inside = values[(values >= low) & (values <= high)]
        nearest = np.abs(inside[:, None] - marks).min(axis=1)
        assert nearest.max() <= (high - low) / plot.MARKS  # no pair is far from a mark


def test_pav_of_many_pairs_draws_no_more_marks_than_are_seen(ax):
    rng = np.random.default_rng(0)
    plot.pav(rng.normal(1, 1, 50), rng.normal(-2, 1, 100_000), ax=ax)
    assert len(line(ax, "different-source")[0]) <= plot.MARKS + 1


def test_det_of_normal_llrs_is_a_straight_line_through_the_equal_error_rate(ax):
    rng = np.random.default_rng(1)
    llrs = LLRs(rng.normal(1, 1, 20_000), rng.normal(-1, 1, 20_000))
    plot.det(llrs, ax=ax)
    (at,), (also,) = line(ax, f"equal error rate {100 * eer(llrs):.3g} %")
    assert at == also == eer(llrs) == pytest.approx(norm.cdf(-1), rel=0.03)
    (points,) = [each for each in ax.lines if len(each.get_xdata()) > 2]
    x, y = ax.transScale.transform(points.get_xydata()).T
    middle = (np.abs(x) < 2) & (np.abs(y) < 2)
    np.testing.assert_allclose(x[middle] + y[middle], -2, atol=0.1)  # deviates: z(miss) = −2 − z(false alarm)


def test_det_counts_errors_by_their_definition(llrs):
    curve = curves.det(llrs)
    assert (curve.false_positive[0], curve.false_negative[0]) == (1, 0)
    assert (curve.false_positive[-1], curve.false_negative[-1]) == (0, 1)
    at = np.sort(llrs.same)[40] + 1e-9  # a threshold above one LLR and below the next
    there = np.argmin(np.abs(curve.false_negative - np.mean(llrs.same < at)))
    off = np.abs(curve.false_positive[there : there + 2] - np.mean(llrs.different >= at))
    assert off.min() < 1e-12


def test_histogram_draws_shares_within_limits_that_can_be_chosen(llrs, ax):
    plot.histogram(llrs, bins=10, limits=(-1, 1), ax=ax)
    different, same = (patch.get_data() for patch in ax.patches)
    np.testing.assert_allclose(same.edges, np.linspace(-1, 1, 11))
    assert same.values[-1] == pytest.approx(np.mean(llrs.same >= 0.8))
    assert different.values.sum() == pytest.approx(1)


@pytest.mark.parametrize("draw", PLOTS)
@pytest.mark.parametrize(("same", "different"), [([0.0], [0.0]), ([-300.0], [300.0]), ([50.0, 60.0], [-50.0, 0.1])])
def test_extreme_llrs_can_be_drawn_on_a_figure_of_their_own(draw, same, different):
    ax = draw(same, different)
    ax.figure.canvas.draw()
    assert ax.get_legend() is not None
    assert ax.get_xlabel()
    assert ax.get_ylabel()


@pytest.mark.parametrize("draw", PLOTS)
def test_two_arrays_draw_what_llrs_draw(draw, llrs):
    drawn = [draw(*given, ax=Figure().add_subplot()) for given in ((llrs,), (list(llrs.same), llrs.different))]
    for one, other in zip(drawn[0].lines, drawn[1].lines, strict=True):
        np.testing.assert_array_equal(one.get_xydata(), other.get_xydata())


def test_what_is_wrong_with_the_llrs_is_said():
    with pytest.raises(LindleyError, match="same: 1 of 2 values are infinite or not a number"):
        plot.tippett([1.0, np.nan], [0.0])
    with pytest.raises(LindleyError, match="different-source pairs are missing"):
        plot.det([1.0, 2.0])


def test_matplotlib_is_not_loaded_before_something_is_drawn():
    code = "import lindley.plot, sys; sys.exit('matplotlib' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0
