"""Every remark on a case is made when it should be, and not when it should not."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from pathlib import Path

import numpy as np
import pytest

from lindley.casework.applicability import CHECKS, TEXTS, Remark, check_items, check_sessions
from lindley.casework.case import Refusal, evaluate_batch, read_evidence
from lindley.casework.laboratory import LANGUAGES
from lindley.errors import LindleyError
from lindley.pages.matrix import matrix_file
from lindley.system.header import may_say_nothing
from lindley.system.system import System, load
from lindley.system.train import DoubtWarning, train
from lindley.table.table import Table
from tests.casework.factory import FEATURES, Floats, case, evidence, items, saved, system, table, write_csv
from tests.command import here


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


def test_one_session_on_both_sides() -> None:
    one, other = (replace(table(), session=np.full(len(table().values), label)) for label in ("Monday", "Tuesday"))
    (said,) = check_sessions(system("tlm"), one, one)
    assert (said.code, said.refusal) == ("same-session", False)
    assert check_sessions(system("tlm"), one, other) == check_sessions(system("tlm"), one, table()) == []


def test_beyond_the_bounds(tmp_path: Path) -> None:
    a, b = items(3, 2, 2)
    found = remarks(tmp_path, a, b)
    assert "below" in found["beyond-bounds-None"].message
    assert "onder" in found["beyond-bounds-None"].in_language("nl")


def test_a_row_twice_in_the_table(tmp_path: Path) -> None:
    found = remarks(tmp_path, usual(1)[[0, 1, 1]], usual(2))
    assert "would count more than once" in found["repeated-row-trace"].message


@cache
def noise() -> System:
    """A system of sources that do not differ."""
    values = np.random.default_rng(3).normal(size=(120, 4))
    sources = np.repeat([f"S{number}" for number in range(40)], 3)
    with pytest.warns(DoubtWarning, match="may say nothing"):
        return train(Table.from_arrays(values, sources, features=FEATURES), "tlm", replicates=2)


def test_a_system_that_may_say_nothing_is_refused_unless_it_is_forced(tmp_path: Path) -> None:
    of, one = noise(), np.random.default_rng(4).normal(size=(2, 4))
    assert of.about["validation"]["cllr_interval"][1] >= 1
    with pytest.raises(Refusal, match="force=True gives an LR all the same") as refused:
        of.case(one, one + 0.5)
    assert [remark.code for remark in refused.value.remarks] == ["uninformative"]
    with pytest.raises(Refusal, match="Volgens de eigen validatie"):
        of.case(one, one + 0.5, language="nl")
    for language, words in (("en", "do not take it for evidence"), ("nl", "zie hem niet als bewijs")):
        forced = of.case(one, one + 0.5, language=language, force=True)
        assert forced.remarks[0].code == "uninformative"
        forced.write(tmp_path / "r.html")
        page = (tmp_path / "r.html").read_text("utf-8")
        assert words in page[: page.index('<section class="verdict"')]
        assert forced.to_json()["warnings"][0]["code"] == "uninformative"
    sides = evidence(tmp_path, of, one, one + 0.5)
    with pytest.raises(Refusal):
        evaluate_batch(of, *sides)
    batch = evaluate_batch(of, *sides, force=True)
    page = matrix_file(batch, ".html").decode("utf-8")
    assert "do not take it for evidence" in page[: page.index("<table")]


def test_by_which_figures_a_system_may_say_nothing() -> None:
    told = [({"cllr": 0.9}, False), ({"cllr": 1.0}, True), ({"cllr": 0.9, "cllr_interval": None}, False),
            ({"cllr": 0.9, "cllr_interval": [0.7, 0.99]}, False), ({"cllr": 0.9, "cllr_interval": [0.7, 1.0]}, True),
            ({"cllr": 1.2, "cllr_interval": [0.4, 0.9]}, True)]  # fmt: skip
    assert [may_say_nothing(validation) for validation, _ in told] == [expected for _, expected in told]


def test_an_interval_that_is_forged_is_refused(tmp_path: Path) -> None:
    for ends in ([0.1], [0.5, 0.1], [0.1, "x"], [-1.0, 0.5], "0.1"):
        told = {**system("tlm").about["validation"], "cllr_interval": ends}
        forged = replace(system("tlm"), about={**system("tlm").about, "validation": told})
        with pytest.raises(LindleyError, match="the interval of its Cllr"):
            System.from_bytes(forged.to_bytes(), "forged.safetensors")


@pytest.mark.filterwarnings("always::lindley.system.train.DoubtWarning")
def test_the_commands_say_that_a_system_may_say_nothing(tmp_path: Path) -> None:
    rng = np.random.default_rng(5)
    sources = [f"S{number}" for number in range(40) for _ in range(3)]
    write_csv(tmp_path / "noise.csv", rng.normal(size=(120, 4)), source=sources)
    made = here("train", "noise.csv", "--model", "tlm", "--replicates", "0", "--out", "s.safetensors", cwd=tmp_path)
    assert made.returncode == 0
    assert made.stdout.startswith("By its own validation this system may say nothing: Cllr")
    assert here("info", "s.safetensors", cwd=tmp_path).stdout.count("may say nothing") == 1
    one, two = (write_csv(tmp_path / name, rng.normal(size=(2, 4))) for name in ("trace.csv", "ref.csv"))
    asked = ["case", "s.safetensors", "--trace", one.name, "--ref", two.name, "--out", "r.html"]
    refused = here(*asked, cwd=tmp_path)
    assert (refused.returncode, refused.stdout) == (2, "")
    assert "--force gives an LR all the same" in " ".join(refused.stderr.split())
    assert not (tmp_path / "r.html").exists()
    assert here(*asked, "--force", cwd=tmp_path).returncode == 0
    page = (tmp_path / "r.html").read_text("utf-8")
    assert "--force" in page  # in the command that repeats it
    assert here("verify", "r.html", "--systems", "s.safetensors", cwd=tmp_path).returncode == 0
    assert here(*asked[:-1], "reports", cwd=tmp_path).returncode == 2
    assert list((tmp_path / "reports").glob("*.html")) == []
    assert here(*asked[:-1], "reports", "--force", cwd=tmp_path).returncode == 0


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
