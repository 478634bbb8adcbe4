"""Systems and reports of the robust model as it was up to lindley 0.2.0: refused in a sentence, verified in part, updated."""

from __future__ import annotations

import hashlib
import json
import shutil
from pathlib import Path

import numpy as np
import pytest

from lindley.app.headers import headers
from lindley.errors import LindleyError
from lindley.models.robust.model import Robust
from lindley.pages.case_record import read_report, verify_reports
from lindley.system.header import OldRobust
from lindley.system.system import load
from lindley.system.update import update
from tests.attacks.door import lindley
from tests.casework.factory import items, population, write_csv
from tests.casework.golden.make import FOLDER

OLD, REPORT = FOLDER / "reports" / "old-robust.safetensors", FOLDER / "reports" / "old-robust.html"
SENTENCE = (
    "holds the robust model of lindley 0.2.0 or older, which this version does not compute: train it anew with 'lindley "
    "train', or with 'lindley update' if there are further measurements and the tables that it was trained on, or use lindley "
    "0.2.0 for it."
)


@pytest.fixture
def tables(tmp_path: Path) -> tuple[Path, Path]:
    """What the old system was trained on, and further measurements."""
    (one, label), (two, other) = population(40, 3, 7), population(20, 3, 9)
    return (
        write_csv(tmp_path / "one.csv", np.round(one, 5), source=label),
        write_csv(tmp_path / "two.csv", np.round(two, 5), source=[f"b{each}" for each in other]),
    )


def test_it_is_refused_in_a_sentence_in_python() -> None:
    with pytest.raises(OldRobust) as caught:
        load(OLD)
    assert str(caught.value) == f"{OLD} {SENTENCE}"


@pytest.mark.parametrize(
    "command",
    [
        ("info",),
        ("case", "--trace", "trace.csv", "--ref", "ref.csv"),
        ("evaluate", "--data", "one.csv", "--out", "validation"),
        ("sign", "--key", "key.pem"),
    ],
    ids=lambda command: command[0],
)
@pytest.mark.usefixtures("tables")
def test_every_command_refuses_it_in_a_sentence(
    command: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    shutil.copy(OLD, "old.safetensors")
    for name, values in zip(("trace", "ref"), items(3, 2, 2), strict=True):
        write_csv(tmp_path / f"{name}.csv", values)
    answer = lindley(command[0], "old.safetensors", *command[1:])
    assert answer.status == 2
    assert answer.err == f"Error: old.safetensors {SENTENCE}\n"


def test_the_app_shows_the_sentence() -> None:
    (shown,) = headers([str(OLD)])
    assert shown == {"error": f"{OLD.name} {SENTENCE}"}


@pytest.mark.parametrize("ending", ["html", "json"])
class TestVerify:
    @pytest.fixture
    def report(self, ending: str, tmp_path: Path) -> Path:
        """A report beside its system; the record in a page is that of a .json report, but for the digest of the page."""
        shutil.copy(OLD, tmp_path)
        place = tmp_path / f"report.{ending}"
        text = REPORT.read_text("utf-8")
        if ending == "json":
            record = text.partition('id="record">')[2].partition("</script>")[0]
            text = json.dumps({name: value for name, value in json.loads(record).items() if name != "page_sha256"})
        place.write_text(text, "utf-8")
        return place

    def test_what_can_be_checked_is_checked(self, report: Path) -> None:
        answer = lindley("verify", report)
        said = " ".join(answer.out.split())
        assert answer.status == 3
        assert "the LR was not computed again, log10 2.02 reported and 2.02 calculated; system old-robust" in said
        assert "holds the robust model of lindley 0.2.0 or older: the LR itself takes version 0.2.0" in said
        assert "verified in part" in said
        assert "the same LR" not in said
        (found,) = verify_reports([report])
        assert (found.problems, found.computed, found.same) == ((), False, False)

    def test_a_record_that_was_changed_is_found(self, report: Path) -> None:
        text = report.read_text("utf-8")
        report.write_text(text.replace('"log10_lr": 2.02', '"log10_lr": 3.02'), "utf-8")
        answer = lindley("verify", report)
        assert answer.status == 2
        assert "its record was changed after it was written" in answer.out

    def test_another_file_is_not_its_system(self, report: Path, tmp_path: Path) -> None:
        """A byte more in the file, and its SHA-256 is another."""
        with (tmp_path / OLD.name).open("ab") as file:
            file.write(b"\0")
        answer = lindley("verify", report)
        assert answer.status == 2
        assert read_report(report).record.system.sha256 in "".join(answer.out.split())


def test_a_page_that_was_changed_is_found(tmp_path: Path) -> None:
    shutil.copy(OLD, tmp_path)
    (tmp_path / "report.html").write_text(
        REPORT.read_text("utf-8").replace("much more probable", "certain", 1), "utf-8"
    )
    answer = lindley("verify", tmp_path / "report.html")
    assert answer.status == 2
    assert "the page was changed after it was written" in answer.out


class TestUpdate:
    def test_it_gives_the_robust_model_of_now(
        self, tables: tuple[Path, Path], tmp_path: Path, short_search: None
    ) -> None:
        old = load(OLD, old_robust=True)
        new = update(old, [tables[1]], background=[tables[0]])
        assert isinstance(new.model, Robust)
        assert (new.name, new.runs, new.about["seed"]) == (old.name, old.runs, old.about["seed"])
        assert len(new.population.means) == 60
        assert new.about["updates"] == {"file": OLD.name, "sha256": hashlib.sha256(OLD.read_bytes()).hexdigest()}
        new.save(tmp_path / "new.safetensors")
        assert load(tmp_path / "new.safetensors").computes

    def test_the_command_sets_old_and_new_side_by_side(
        self, tables: tuple[Path, Path], tmp_path: Path, short_search: None
    ) -> None:
        words = ("update", OLD, tables[1], "--background", tables[0], "--out", tmp_path / "new.safetensors")
        refused = lindley(*words, "--cases", REPORT)
        assert refused.status == 2
        assert "--cases: past cases are evaluated by both systems" in refused.err
        assert not (tmp_path / "new.safetensors").exists()
        answer = lindley(*words)
        assert answer.status == 0, answer.err
        said = json.loads((tmp_path / "new-update.json").read_text())
        assert said["old"]["validation"]["cllr"] == pytest.approx(0.0175960, abs=1e-6)
        assert (said["old"]["data"]["sources"], said["new"]["data"]["sources"]) == (40, 60)

    def test_a_damaged_one_is_refused_as_any_other(self, tmp_path: Path) -> None:
        data = OLD.read_bytes()
        for place, what in (("byte", data[:-1] + bytes([data[-1] ^ 1])), ("end", data[:-9])):
            (tmp_path / f"{place}.safetensors").write_bytes(what)
            with pytest.raises(LindleyError, match="does not hold a lindley system"):
                load(tmp_path / f"{place}.safetensors", old_robust=True)
