"""A made-up report that looks like a real one: made of drawn LLRs, with no model behind it."""

from __future__ import annotations

import re
from dataclasses import replace

import numpy as np

from lindley.evaluation.axes import AxisKind
from lindley.evaluation.curves import ece, histogram, pav_curve, tippett
from lindley.evaluation.metrics import cllr, cllr_min
from lindley.llrs import LLRs
from lindley.pages.run_figures import (
    AxisPanel,
    CalibrationFigure,
    CalibrationPanel,
    Curve,
    DataFigure,
    LossFigure,
    ModelFigures,
    OmnibusFigure,
    Outlier,
    OutlierFigure,
    Report,
    SeriesFigure,
    SeriesRow,
    SummaryFigure,
    SummaryRow,
)
from lindley.pages.run_model import MOST_AXIS_EPOCHS, MOST_QUANTILES
from lindley.pages.run_sketch import FocusFigure, sketch
from lindley.system.names import ModelName

ELEMENTS = ("Al27", "Ba137", "Ca42", "Ce140", "Fe57", "Hf180", "K39", "La139", "Li7", "Mg24", "Mn55", "Na23", "Nd146")
ELEMENTS += ("Pb208", "Rb85", "Sr88", "Ti49", "Zr90")
HOSTILE = "<script>alert('x')</script>\"&$%{x}</SCRIPT>"
NEURAL = [
    ("pairs-n1", "pairs, TLM formula", 0.16),
    ("pairs-n2", "pairs, N=2", 0.09),
    ("pairs-n2-common", "pairs, N=2, common", 0.08),
    ("sources-n2", "sources, N=2", 0.06),
    ("sources-n2-varying", "sources, N=2, varying", 0.034),
]
BENCHMARKS = [
    ("tlm", "two-level model", False, 1.9),
    ("yeo-johnson:tlm", "Yeo-Johnson, two-level model", False, 0.15),
    ("tlm+logistic", "two-level model, logistic", True, 0.030),
    ("tlm-kde+logistic+elub", "KDE two-level, logistic, bounded", True, 0.022),
]


def make_report(
    *,
    axes: int = 10,
    neural: int = len(NEURAL),
    epochs: int = 200,
    sources: int = 120,
    hostile: bool = False,
    seed: int = 0,
) -> Report:
    """``neural`` labels, each single and double, and the benchmarks; hostile names of sources and features on request."""
    rng = np.random.default_rng(seed)
    features = [*ELEMENTS, *(f"f{i}" for i in range(axes))][:axes]
    names = [f"pane {i:04d}" for i in range(sources)]
    if hostile:
        features[0] = names[0] = names[3] = HOSTILE
        names[1] = '"><img src=x onerror=alert(1)>'
    labels = [(*NEURAL[i % len(NEURAL)], i // len(NEURAL)) for i in range(neural)]
    rows, models = [], []
    for stem, label, level, again in labels:
        for family, factor in (("single", 1.0), ("double", 2.1)):
            name = f"ntlm-{family}-{stem}" + (f"-{again}" if again else "")
            text = label + (f" ({again + 1})" if again else "")
            rows.append(_row(rng, name, text, family, False, level * factor))
            models.append(_model(rng, name, names, features, axes, epochs))
    for name, label, calibrated, level in BENCHMARKS:
        rows.append(_row(rng, name, label, "benchmark", calibrated, level))
        models.append(_model(rng, name, names, features, 0, 0))
    best = min((r for r in rows if not r.calibrated), key=lambda r: r.validate).name
    panels = [models[-4].runs.panels[1], models[2 % len(models)].runs.panels[1], models[0].runs.panels[1]]
    kinds = tuple(
        CalibrationFigure(
            f"{family} projection, sources, N=2", tuple(replace(p, which=w) for p, w in zip(panels, KINDS, strict=True))
        )
        for family in ("Single", "Double")
    )
    means = rng.multivariate_normal(np.zeros(axes), 0.04 * (0.6 * np.eye(axes) + 0.4), sources)
    deviations = rng.multivariate_normal(np.zeros(axes), 0.0004 * (0.8 * np.eye(axes) + 0.2), 6 * sources)
    data = DataFigure(tuple(features), np.cov(deviations.T), np.cov(means.T), means, deviations, tuple(names))
    return Report(
        title="Glass, simulated casework",
        facts=(
            ("data", "glass-simulated, seed 0"),
            ("data SHA-256", "9f2c" * 16),
            ("splits", "21, seed 0, 351 sources each for training, validation and test"),
            ("training", f"{epochs} epochs, AdamW, learning rate 0.001"),
            ("versions", "lindley 0.3.0, torch 2.13.0, numpy 2.3.4"),
            ("machine", "Linux x86-64, 2 cores"),
            ("to repeat it", "lindley run paper --out results/paper"),
        ),
        summary=SummaryFigure(tuple(rows), (0.011, 0.002), 21),
        kinds=kinds,
        models=tuple(models),
        data=data,
        findings=(f"3 rows are the same as another row: {names[0]} (rows 5 and 9)",) if hostile else (),
        best=best,
        series=_series(rows, sources),
    )


KINDS = ("raw two-level model", "point value", "integrated")


def _row(rng, name, label, family, calibrated, level) -> SummaryRow:
    per_split = level * rng.lognormal(0, 0.35, 21)
    validate = 0.85 * level * rng.lognormal(0, 0.3, 21)
    error = lambda v: float(2 * v.std(ddof=1) / np.sqrt(len(v)))  # noqa: E731
    return SummaryRow(
        name,
        label,
        family,
        calibrated,
        float(validate.mean()),
        error(validate),
        float(per_split.mean()),
        error(per_split),
        float(np.median(per_split)),
        0.7 * float(per_split.mean()),
    )


def _series(rows: list[SummaryRow], sources: int) -> SeriesFigure:
    """Twice as many measurements, half the Cllr."""
    lines = [
        SeriesRow(
            row.name,
            row.label,
            row.family,
            row.name.partition("+")[0],
            tuple(row.test / 2**k for k in range(3)),
            tuple(row.test_error / 2**k for k in range(3)),
        )
        for row in rows
    ]
    lines.append(SeriesRow("oracle", "the oracle (true LRs)", None, "oracle", (0.011, 0.004, 0.0), (0.002, 0.001, 0.0)))
    return SeriesFigure(((1, 1), (2, 2), (2, 3)), (sources, sources, sources - 2), sources, tuple(lines), (1, 1))


def _llrs(rng, same: int, scale: float = 1.0) -> LLRs:
    good = rng.normal(2.4, 0.8, same)
    good[:3] = [-3.2, -1.1, -0.4]
    return LLRs(scale * good, scale * np.minimum(-rng.gamma(1.5, 6.0, 40 * same) + 2.0, 1.8))


def _pairs(rng, names, values, same: bool):
    trace = rng.integers(len(names), size=len(values))
    ref = trace if same else (trace + 1 + rng.integers(len(names) - 1, size=len(values))) % len(names)
    return tuple((names[i], names[j], float(v)) for i, j, v in zip(trace, ref, values, strict=True))


def _model(rng, name, names, features, axes, epochs) -> ModelFigures:
    n = len(names)
    runs = []
    for split, which in ((4, "worst"), (7, "median"), (2, "best")):
        llrs = _llrs(rng, n, {"worst": 1.4, "median": 1.1, "best": 1.0}[which])
        marks = np.sort(rng.choice(llrs.different, 100))
        runs.append(
            CalibrationPanel(
                split,
                which,
                cllr(llrs),
                cllr_min(llrs),
                pav_curve(llrs),
                0.9 * cllr(llrs),
                _pairs(rng, names, np.sort(llrs.same)[:100], True),
                _pairs(rng, names, marks, False),
            )
        )
    low, value = cllr_min(llrs), cllr(llrs)
    omnibus = OmnibusFigure(
        n,
        n * (n - 1),
        value,
        low,
        0.01,
        histogram(llrs, 60, (-6, 6)),
        ece(llrs),
        tippett(llrs, np.linspace(-40, 6, 400)),
        _pairs(rng, names, np.sort(llrs.same)[:5], True),
        _pairs(rng, names, np.sort(llrs.different)[::-1][:5], False),
    )
    return ModelFigures(
        name,
        7,
        _loss(rng, axes, epochs) if epochs else None,
        tuple(_axis(rng, a, n, features) for a in range(axes)),
        CalibrationFigure("worst, median and best run", tuple(runs)),
        omnibus,
        _outliers(rng, names),
        sketch(ModelName.parse(re.sub(r"-\d+$", "", name)), axes) if epochs else None,
        FocusFigure(tuple(np.geomspace(0.3, 2.0, axes)), 0.05, 0.06, 0.07, 0.08) if epochs else None,
    )


def _loss(rng, axes, epochs) -> LossFigure:
    x = np.arange(1.0, epochs + 1)
    fall = 0.05 + 1.2 * np.exp(-x / (epochs / 8))
    train = fall * rng.lognormal(0, 0.04, epochs)
    spikes = rng.choice(epochs, 3, replace=False)
    train[spikes] *= 6
    validate = fall * 1.15 * rng.lognormal(0, 0.05, epochs)
    best = int(validate.argmin())
    thin = np.unique(np.linspace(0, epochs - 1, min(epochs, MOST_AXIS_EPOCHS)).astype(int))
    lines = [
        Curve(
            f"axis {a}",
            x[thin],
            (level + (1.1 - level) * np.exp(-x / (epochs / 6)) * rng.lognormal(0, 0.01, epochs))[thin],
        )
        for a, level in enumerate(rng.uniform(0.4, 1.5, axes))
    ]
    return LossFigure(
        Curve("train", x, train),
        Curve("validate", x, validate),
        tuple(lines),
        int(x[best]),
        float(validate[best]),
        tuple(int(s) + 1 for s in spikes),
        Curve("focus", x[thin], 1.3 * validate[thin]),
    )


def _axis(rng, axis, n, features) -> AxisPanel:
    kind: AxisKind = ("discriminating", "neutral", "bias", "mixed")[axis % 4]
    gap = {"discriminating": 1.0, "neutral": 0.0, "bias": 0.0, "mixed": 0.15}[kind]
    spread = {"discriminating": 0.5, "neutral": 0.01, "bias": 0.03, "mixed": 0.4}[kind]
    shift = -0.4 if kind == "bias" else 0.0
    llrs = LLRs(rng.normal(shift + gap / 2, spread, n), rng.normal(shift - gap, 2 * spread, 20 * n))
    from scipy.special import ndtri

    points = min(n, MOST_QUANTILES)
    quantile = ndtri((np.arange(points) + 0.5) / points)
    weights = rng.normal(size=len(features))
    top = np.argsort(-np.abs(weights))[:4]
    return AxisPanel(
        axis,
        kind,
        cllr(llrs),
        histogram(llrs, 60),
        (
            Curve("h1", quantile, np.sort(rng.standard_t(4, points) * (1.0 if gap else 0.3))),
            Curve("h2", quantile, np.sort(rng.standard_t(6, points))),
        ),
        tuple((features[i], float(weights[i])) for i in top),
    )


def _outliers(rng, names) -> OutlierFigure:
    cost = np.sort(rng.exponential(0.002, 12))[::-1]
    share = rng.uniform(0.3, 1.0, 12)
    outliers = tuple(
        Outlier(
            names[i],
            float(c),
            float(c * s),
            float(c * (1 - s)),
            7,
            -3.0 + i / 10,
            (names[i], names[(i + 1) % len(names)]),
        )
        for i, (c, s) in enumerate(zip(cost, share, strict=True))
    )
    without = 0.05 - np.concatenate([[0], np.cumsum(cost)])
    return OutlierFigure(outliers, 0.05, tuple(without.tolist()), 0.05 / len(names))
