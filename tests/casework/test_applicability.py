"""Every remark on a case is made when it should be, and not when it should not."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from lindley.casework.applicability import CHECKS, TEXTS, Remark, check_items
from lindley.casework.case import Refusal, evaluate_batch, read_evidence
from lindley.casework.laboratory import LANGUAGES
from lindley.system.system import load
from lindley.system.train import train
from tests.casework.factory import Floats, case, evidence, items, saved, system, table, write_csv


def remarks(folder: Path, trace: Floats, ref: Floats, model: str = "tlm") -> dict[str, Remark]:
    try:
        found = case(folder, trace, ref, model).remarks
    except Refusal as refusal:
        found = tuple(refusal.remarks)
    return {f"{remark.code}-{remark.which}": remark for remark in found}


def usual(seed: int = 3, n: int = 4) -> Floats:
    """An item from the middle of the population: the mean of a training source, measured again."""
    fitted = system("tlm")
    centre = fitted.scaling.undo(fitted.population.means.mean(axis=0))
    return np.asarray(centre + 0.12 * np.random.default_rng(seed).normal(size=(n, 4)))


def test_an_ordinary_case_has_no_remarks(tmp_path: Path) -> None:
    found = remarks(tmp_path, usual(1)[:2], usual(2), "tlm-kde+logistic")
    assert set(found) <= {"beyond-bounds-None"}


def test_outside_the_population(tmp_path: Path) -> None:
    found = remarks(tmp_path, usual(1) + np.array([0, 900, 0, 0]), usual(2))
    assert found["outside-population-trace"].refusal
    assert "Ti49" in found["outside-population-trace"].message
    assert found["outside-population-trace"].items == ("trace",)


def test_far_off_on_most_features_at_once_is_another_unit(tmp_path: Path) -> None:
    highest = system("tlm").scaling.undo(system("tlm").population.highest)
    far = highest + 5 * system("tlm").scaling.sd * [1, 1, 0, 0]
    found = remarks(tmp_path, usual(1), usual(2) * 0.01 + far)
    assert found["another-unit-ref"].refusal
    assert "outside-range-ref" not in found
    one = highest + 5 * system("tlm").scaling.sd * [1, 0, 0, 0]
    assert "another-unit-ref" not in remarks(tmp_path, usual(1), usual(2) * 0.01 + one)


def test_outside_the_range_and_unlike_the_population(tmp_path: Path) -> None:
    highest = system("tlm").scaling.undo(system("tlm").population.highest)
    found = remarks(tmp_path, usual(1), usual(2) * 0.01 + highest * [1.6, 1, 1, 1])
    assert not found["outside-range-ref"].refusal
    assert "K39" in found["outside-range-ref"].message
    assert "Ti49" not in found["outside-range-ref"].message
    assert "further from the centre of the population than any of the 60" in found["unlike-population-ref"].message


def test_measured_once(tmp_path: Path) -> None:
    found = remarks(tmp_path, usual(1)[:1], usual(2))
    assert "single-measurement-trace" in found
    assert "single-measurement-ref" not in found


def test_replicates_that_disagree_and_that_contradict(tmp_path: Path) -> None:
    far = usual(1)[:2].copy()
    far[1] += [0.8, 0, 0, 0.8]
    found = remarks(tmp_path, far, usual(2))
    assert not found["replicates-disagree-trace"].refusal
    far[1] += [3.0, 3, -3, 3.0]
    found = remarks(tmp_path, far, usual(2))
    assert found["replicates-contradict-trace"].refusal


def test_seen_in_training(tmp_path: Path) -> None:
    seen = table().values[:4]
    found = remarks(tmp_path, seen[:1], seen[2:4])
    assert "1 of 1 measurements" in found["seen-in-training-trace"].message
    assert "2 of 2 measurements" in (said := found["seen-in-training-ref"].message)
    assert "(here rows 1, 2, in its training table 'simulated' rows 3, 4, counted without the header)" in said


def test_a_private_system_cannot_tell_what_was_seen(tmp_path: Path) -> None:
    private = train(table(), "tlm", replicates=0, private=True)
    side = evidence(tmp_path, private, table().values[:2], usual(2))[0]
    found = check_items(private, side.side, side.items, "trace")
    assert "training-unknown" in {remark.code for remark in found}
    assert "seen-in-training" not in {remark.code for remark in found}


def test_the_same_measurement_on_both_sides(tmp_path: Path) -> None:
    values = usual(1)
    found = remarks(tmp_path, values[:2], values[1:])
    assert "was it copied" in found["same-measurement-trace"].message
    assert found["same-measurement-trace"].refusal
    assert remarks(tmp_path, values, values)["same-file-None"].refusal


def test_beyond_the_bounds(tmp_path: Path) -> None:
    a, b = items(3, 2, 2)
    found = remarks(tmp_path, a, b)
    assert "below" in found["beyond-bounds-None"].message
    assert "onder" in found["beyond-bounds-None"].in_language("nl")


def test_a_row_twice_in_the_table(tmp_path: Path) -> None:
    found = remarks(tmp_path, usual(1)[[0, 1, 1]], usual(2))
    assert "would count more than once" in found["repeated-row-trace"].message


def test_every_check_is_tried_above() -> None:
    """A remark that nobody tries to get is missed here; in tests that run side by side none knows what another one saw."""
    here = Path(__file__).read_text("utf-8")
    assert [code for code in CHECKS if f'"{code}' not in here] == []


@pytest.mark.parametrize("code", CHECKS)
def test_every_text_is_there_in_both_languages(code: str) -> None:
    assert set(TEXTS[code]) == set(LANGUAGES)
    fields = [{part.split("}")[0] for part in text.split("{")[1:]} for text in TEXTS[code].values()]
    assert fields[0] == fields[1]


def test_labels_with_braces_stay_what_they_are(tmp_path: Path) -> None:
    file = load(saved(tmp_path, "tlm"))
    path = write_csv(tmp_path / "t.csv", usual(1)[:1], source=["{which} {0}"])
    trace = read_evidence(file, path, "trace")
    batch = evaluate_batch(file, trace, trace, allow_same_file=True)
    assert any("'{which} {0}'" in remark.message for remark in batch.remarks)


def test_a_batch_names_the_items_and_counts_the_rest(tmp_path: Path) -> None:
    file = load(saved(tmp_path, "tlm"))
    labels = [f"T{k}" for k in range(7)]
    path = write_csv(tmp_path / "t.csv", np.concatenate([usual(k, 1) for k in range(7)]), source=labels)
    _, ref = evidence(tmp_path, file, usual(1), usual(20))
    batch = evaluate_batch(file, read_evidence(file, path, "trace"), ref)
    (single,) = [remark for remark in batch.remarks if remark.code == "single-measurement"]
    assert single.items == tuple(labels)
    assert "'T0', 'T1', 'T2', 'T3' and 3 more" in single.message
    assert single.in_language("nl").startswith("Spoor 'T0', 'T1', 'T2', 'T3' en 3 andere")
