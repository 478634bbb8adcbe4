"""Every sentence of the explanation is true of numbers that are computed apart, for each kind of model."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
import torch

import lindley
from lindley.casework.explanation import _Pair
from lindley.llrs import LN10
from lindley.models.robust.model import Robust, Run
from lindley.models.robust.scalars import values_of
from lindley.models.two_level import score
from lindley.pages.case_page import render_case
from lindley.pages.case_words import decided
from lindley.system.system import System
from lindley.table.splits import Side
from tests.casework.golden.make import FOLDER, SYSTEMS, measured
from tests.models.robust.dense import Dense

KINDS = sorted(SYSTEMS)


def pairs(system: System) -> list[tuple[Any, Any]]:
    """Items near each other, further apart, far out, and of several instances."""
    known = system.scaling.undo(system.population.means)
    rng = np.random.default_rng(0)

    def around(centre: Any, n: int, spread: float = 0.02) -> Any:
        return measured(system, centre + spread * system.scaling.sd * rng.normal(size=(n, len(centre))))

    return [
        (around(known[0], 1), around(known[0], 1)),
        (around(known[3], 2), around(known[3], 3)),
        (around(known[1], 1), around(known[2], 2)),
        (around(known[0] + 1.5 * system.scaling.sd, 1, 0.005), around(known[0] + 1.5 * system.scaling.sd, 1, 0.005)),
        (
            around(known[2], 1),
            around(known[2] + np.eye(len(known[2]))[0] * 0.6 * system.scaling.sd, 1),
        ),  # one feature clashes
    ]


def similarity(system: System, trace: Any, ref: Any) -> float:
    """What an explanation says of it, without the rest."""
    sides = (system.prepared(system.side([item], "item")) for item in (trace, ref))
    with torch.inference_mode():
        return float(_Pair.of(system.point, *sides).ln_parts()[0].reshape(())) / LN10


@pytest.mark.parametrize("name", KINDS)
def test_what_is_said_of_the_parts_is_what_the_model_does(name: str) -> None:
    system = lindley.load(FOLDER / f"{name}.safetensors")
    for trace, ref in pairs(system):
        case = system.case(trace, ref)
        said, text = case.explanation, " ".join(render_case(case).split())
        typicality = said.log10_typicality
        if said.relatedness is not None:
            typicality = said.relatedness.log10_typicality + said.relatedness.log10_raised
        # The sum that the page shows, for each kind.
        assert said.log10_lr_model == pytest.approx(said.log10_similarity - typicality, abs=1e-6)
        assert ("weighs three things" in text) == isinstance(system.point, Robust) == ("Relatedness" in text)
        assert "gains where the values are rare" not in text
        sentences = decided(case)
        assert all(" ".join(sentence.split()) in text.replace("&#39;", "'") for sentence in sentences)
        # How many sources agree as well: one comparison after the other, by the LRs' own numerator.
        assert similarity(system, trace, ref) == pytest.approx(said.log10_similarity, abs=1e-12)
        count = 0
        for mean in system.population.means:
            other = measured(system, np.repeat(system.scaling.undo(mean[None]), said.n_ref, axis=0))
            count += similarity(system, trace, other) >= said.log10_similarity - 1e-9
        assert abs(count - said.as_near) <= 1  # rounding of a source that is the ref itself
        told = {0: "With none of", 1: "With one of"}.get(said.as_near, f"With {said.as_near} of")
        assert sentences[0].startswith(told)
        assert f"the {len(system.population.means)} sources" in sentences[0]


def left_out(model: Robust, x: Side, y: Side) -> tuple[Any, float]:
    """LR₋f of single measurements, by dense covariances (feature,), and the LR without one feature of any."""
    run = Run.of(model, 0)
    basis, dense = run.bases[0], Dense(run.laws[0])
    on_axes = [((torch.from_numpy(side.mean) - basis.centre) @ basis.projection).numpy() for side in (x, y)]
    trust = float(run.values["trust"])
    of_features = [dense.ln_without(*on_axes, f) for f in range(len(run.laws[0].features))]
    return np.exp(trust * np.array(of_features)), math.exp(trust * dense.ln_mean_without(*on_axes))


def test_which_part_decides() -> None:
    system = lindley.load(FOLDER / "robust.safetensors")
    model = system.point
    assert isinstance(model, Robust)
    seen = set()
    for trace, ref in pairs(system):
        case = system.case(trace, ref)
        said = case.explanation
        assert said.relatedness is not None
        # Under H2 the density is (1 − Σρ) p(x) p(y) + related; without relatedness it is p(x) p(y), and the LR so much larger.
        x, y = (system.prepared(system.side([item], "item")) for item in (trace, ref))
        rho = model.how_related[0]
        if min(said.n_trace, said.n_ref) == 1:  # of two and more each, what is alike bounds what is wrong, under H1
            ln_more = (score(model.unrelated(), [x], [y])[0] - score(model, [x], [y])[0])[0, 0] * LN10
            assert said.relatedness.share == pytest.approx(1 - (1 - float(rho.sum())) * math.exp(-ln_more), abs=1e-9)
        assert said.relatedness.log10_ceiling == pytest.approx(-math.log(float(rho[0])) / LN10)
        assert said.log10_lr_model <= said.relatedness.log10_ceiling + 1e-9
        last = decided(case)[-1]
        if said.log10_lr_model < 0:
            assert last.startswith("Here the difference decides")
        elif said.relatedness.share >= 0.5 and said.relatedness.but_one.share >= said.relatedness.share / 2:
            one = said.relatedness.but_one
            assert last.startswith(f"Here one feature decides, {one.feature}:")
            assert said.log10_lr_model < one.log10_lr
            if said.n_trace == said.n_ref == 1:
                without, of_any = left_out(model, x, y)
                assert one.feature == system.features[int(without.argmax())]
                assert one.log10_lr == pytest.approx(math.log10(without.max()), abs=1e-9)
                of_one = float(rho[1]) * of_any / 10**said.relatedness.log10_raised
                assert one.share == pytest.approx(of_one, abs=1e-9)
                assert (one.alike, one.wrong) == pytest.approx(
                    (float(rho[1]), float(values_of(model.scalars[0])["wrong"]))
                )
        elif said.relatedness.share >= 0.5:
            assert last.startswith("Here relatedness decides")
        else:
            assert last.startswith("Here the population decides")
        seen.add(last[:20])
    assert len(seen) >= 3


@pytest.mark.parametrize("n_ref", [1, 2, 5])
def test_the_ring_holds_what_it_says(n_ref: int) -> None:
    """95 % of further measurements lie within it, also where the reference was measured once."""
    from lindley.pages.case_figures import ScatterFigure

    rng = np.random.default_rng(1)
    inside = []
    for _ in range(4000):
        figure = ScatterFigure(
            ((0, "a"), (1, "b")), np.zeros((3, 2)), rng.normal(size=(1, 2)), rng.normal(size=(n_ref, 2))
        )
        inside.append(float(np.sum((figure.trace[0] - figure.ref_mean) ** 2)) <= figure.ring**2)
    assert np.mean(inside) == pytest.approx(0.95, abs=0.012)
