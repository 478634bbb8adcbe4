"""How sure a case is: the interval from replicates, and bounds from validation pairs of the case's own numbers."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from scipy import stats

from bench import coverage
from lindley.calibration import elub
from lindley.casework.case import Language, evaluate_batch, read_evidence
from lindley.casework.explanation import interval
from lindley.errors import LindleyError
from lindley.pages.case_words import conclusion
from lindley.system.fit import deal_folds
from lindley.system.names import ModelName
from lindley.system.provenance import run_seed, stream
from lindley.system.system import System, load
from lindley.system.train import fit_table, shapes_in, train
from lindley.table.splits import Part
from tests.casework.factory import case, items, system, table, write_csv
from tests.casework.golden.make import FOLDER


def test_by_hand() -> None:
    found = interval(1.0, np.array([1.2, 0.9, 1.4]))
    assert found is not None
    half = stats.t.ppf(0.95, 3) * np.sqrt((0.04 + 0.01 + 0.16) / 3)
    assert (found.lower, found.upper) == pytest.approx((1 - half, 1 + half))
    assert (found.level, found.replicates) == (0.9, 3)
    assert interval(1.0, np.array([1.2])) is None
    assert interval(1.0, np.array([])) is None


@pytest.mark.parametrize("replicates", [2, 3, 10, 100, 2000])
def test_the_quantile_is_students(replicates: int) -> None:
    found = interval(0.0, np.ones(replicates))
    assert found is not None
    assert found.upper == pytest.approx(stats.t.ppf(0.95, replicates), rel=1e-12)


def test_the_replicates_of_the_system_make_it() -> None:
    one = system("tlm")
    a, b = items(3, 2, 2)
    said = one.explain(a[:1], b[1:])
    sides = one.side([a[:1]], "trace"), one.side([b[1:]], "ref")
    assert said.interval == interval(said.log10_lr, one.llr_replicates(*sides))


@pytest.mark.parametrize("replicates", [10, 40])
def test_it_holds_its_level_with_few_replicates_too(replicates: int) -> None:
    """Systems trained on tables of a known population: their intervals hold the true LR, and the mean over the other tables.

    With 30 tables, whose LRs of different pairs hang together, the share is known to some ±6 %. The central 90 % of ten
    replicates would hold 75 %.
    """
    found = coverage.covered("normal", "tlm", 60, tables=30, replicates=replicates)
    assert 0.84 < found["all"] < 0.97
    assert 0.84 < found["truth"] < 0.97


def test_enough_measurements_for_bounds() -> None:
    assert shapes_in(np.repeat(np.arange(60), 3).astype(str)) == ((1, 2), (2, 1))
    assert shapes_in(np.repeat(np.arange(60), 2).astype(str)) == ()
    # 29 of 60 sources have three, which is not half of them; 30 are
    for many, expected in ((29, ()), (30, ((1, 2), (2, 1)))):
        counts = np.where(np.arange(60) < many, 3, 2)
        assert shapes_in(np.repeat(np.arange(60), counts).astype(str)) == expected
    assert shapes_in(np.repeat(np.arange(19), 5).astype(str)) == ()  # 19 sources are too few for any
    assert max(sum(shape) for shape in shapes_in(np.repeat(np.arange(60), 20).astype(str))) == 6


def test_bounds_are_those_of_held_out_pairs_of_the_same_numbers() -> None:
    """Cross-fitted once more, in the test: a model of the other folds, and pairs of 2 × 2 inside each."""
    data = table(60, 4)
    trained = train(data, "tlm", replicates=0)
    assert trained.casework is not None
    known = dict(trained.casework.shapes)
    own = run_seed(0, 0)
    rng = stream(own, "shapes")
    parts = {
        shape: Part.drawn(
            data.values, data.source, data.group, n_trace=shape[0], n_ref=shape[1], rng=rng, complete=True
        )
        for shape in shapes_in(data.source)
    }
    everything = Part.drawn(data.values, data.source, data.group)
    fold = deal_folds(everything.groups, stream(own, "folds"))
    for shape in ((2, 2), (1, 3)):
        pairs, same, different = parts[shape], [], []
        for number in range(int(fold.max()) + 1):
            others = np.isin(data.source, everything.source[fold == number], invert=True)
            rest = replace(
                data, values=data.values[others], source=data.source[others], group=data.group[others],
                instance=data.instance[others],
            )  # fmt: skip
            model = fit_table(rest, ModelName.parse("tlm")).stage.system
            inside = pairs.rows(np.isin(pairs.source, everything.source[fold == number]))
            matrix = model.llr_sides(inside.trace, inside.ref)
            is_same = inside.trace.source[:, None] == inside.ref.source
            same.append(matrix[is_same])
            different.append(matrix[~is_same])
        assert known[shape] == pytest.approx(elub(np.concatenate(same), np.concatenate(different)))


def test_a_case_has_the_bounds_of_its_own_numbers_or_of_fewer() -> None:
    one = system("tlm-kde")
    assert one.casework is not None
    known = {(1, 1): one.bounds, **dict(one.casework.shapes)}
    assert set(known) == {(m, n) for m in range(1, 4) for n in range(1, 4) if m + n <= 4}
    for shape, bounds in known.items():
        assert one.bounds_for(*shape) == (bounds, shape)
    assert one.bounds_for(5, 5) == (known[2, 2], (2, 2))
    assert one.bounds_for(1, 9) == (known[1, 3], (1, 3))
    assert one.bounds_for(9, 1) == (known[3, 1], (3, 1))


def test_every_lr_of_a_matrix_has_its_own_bounds(tmp_path: Path) -> None:
    one = system("tlm-kde")
    sides = []
    for which, counts, seed in (("trace", (1, 2, 3), 5), ("ref", (3, 1), 6)):
        values = [each[:count] for each, count in zip(items(seed, len(counts), 3), counts, strict=True)]
        labels = [f"{which} {number}" for number, count in enumerate(counts) for _ in range(count)]
        sides.append(
            read_evidence(one, write_csv(tmp_path / f"{which}.csv", np.concatenate(values), source=labels), which)
        )
    batch = evaluate_batch(one, *sides)
    for i, m in enumerate((1, 2, 3)):
        for k, n in enumerate((3, 1)):
            bounds, _ = one.bounds_for(m, n)
            assert tuple(batch.bounds[:, i, k]) == bounds
            assert batch.bounded[i, k] == np.clip(batch.log10_lr[i, k], *bounds)


def test_older_files_have_the_bounds_of_one_against_one() -> None:
    old = load(FOLDER / "kernel-ratio.safetensors")
    assert old.casework is not None
    assert old.casework.shapes == ()
    assert old.bounds_for(4, 7) == (old.bounds, (1, 1))


@pytest.mark.parametrize(
    "shapes",
    [
        (((0, 2), (-1.0, 1.0)),),
        (((2, 2), (-1.0, 9.0)),),  # more than the pairs of 60 sources support
        (((2, 2), (0.5, 1.0)),),
        (((2, 2), (1.0, -1.0)),),
        (((2, 2, 2), (-1.0, 1.0)),),
        (((True, 2), (-1.0, 1.0)),),
    ],
)
def test_forged_bounds_are_refused(shapes: object) -> None:
    one = system("tlm")
    forged = replace(one, casework=replace(one.casework, shapes=shapes))  # type: ignore[type-var]
    with pytest.raises(LindleyError, match="parts do not fit together"):
        System.from_bytes(forged.to_bytes(), "forged")


@pytest.mark.parametrize(("language", "words"), [("en", "2 × 2 measurements"), ("nl", "2 × 2 metingen")])
def test_the_conclusion_says_whose_bounds_they_are(tmp_path: Path, language: Language, words: str) -> None:
    for number, expected in ((2, 0), (3, 1)):
        a, b = items(7, 2, number)
        said = conclusion(case(tmp_path, a, b, language=language))
        assert sum(words in sentence for sentence in said) == expected
