"""Commands as nobody should type them: each ends with a sentence, with status 2, and leaves nothing behind."""

from __future__ import annotations

import json
import tempfile
from pathlib import Path
from typing import Any

import pytest

from lindley.casework.laboratory import load_scale
from lindley.cli import last_net
from lindley.errors import LindleyError
from lindley.settings import offer, setting, speaking, spoken
from lindley.system.names import ModelName
from lindley.table.table import export_csv
from tests.attacks.door import Answer, lindley, sent
from tests.casework import factory
from tests.experiment.conftest import make_table

BIG, HUGE, LONG = "9" * 400, "9" * 5000, "x" * 300
DEEP = "/".join(["x"] * 2000)
RUN = ("run", "--data", "panes.csv", "--splits", "1", "--models", "tlm", "--no-report", "--out", "o")
CASE = ("case", "system.safetensors", "--trace", "t.csv", "--ref", "r.csv")
TRAIN = ("train", "panes.csv", "--out", "s.safetensors", "--model", "tlm")
EVALUATE = ("evaluate", "system.safetensors", "panes.csv", "--out", "v")


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("commands")
    factory.saved(folder)
    item = factory.items(3, 1, 3)[0]
    factory.write_csv(folder / "t.csv", item[:2])
    factory.write_csv(folder / "r.csv", item[2:])
    export_csv(make_table(20), folder / "panes.csv")
    return folder


@pytest.fixture
def here(files: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of its own for every command, and one for details of what nobody foresaw."""
    for file in files.iterdir():
        (tmp_path / file.name).symlink_to(file)
    (tmp_path / "tmp").mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "tmp"))
    monkeypatch.chdir(tmp_path)
    return tmp_path


def refused(here: Path, *words: str) -> Answer:
    before = sorted(here.rglob("*"))
    answer = lindley(*words)
    assert answer.status == 2, answer.text
    assert "Traceback" not in answer.text
    assert "not made for" not in answer.err
    assert sent(answer.text) == []
    assert len(answer.text) < 20_000
    assert sorted(here.rglob("*")) == before
    return answer


NUMBERS = (BIG, HUGE, f"-{BIG}", "-1", "99999999999999999999", "1e5", "nan", "")


@pytest.mark.parametrize("number", NUMBERS, ids=lambda text: text[:12])
@pytest.mark.parametrize(
    "words",
    [(*RUN, "--splits"), (*RUN, "--seed"), (*RUN, "--epochs"), (*RUN, "--workers"), (*TRAIN, "--replicates"),
     (*TRAIN, "--seed"), (*TRAIN, "--epochs"),
     (*EVALUATE, "--trace-instances"), (*EVALUATE, "--ref-instances"), (*EVALUATE, "--seed")],
    ids=lambda words: f"{words[0]} {words[-1]}",
)  # fmt: skip
def test_numbers(words: tuple[str, ...], number: str, here: Path) -> None:
    answer = refused(here, *words, number)
    assert words[-1].strip("-").split("-")[0] in answer.err


MODELS = {
    "tlm" + "+logistic" * 1500: "is too long",
    "tlm" + "+logistic" * 9: "9 calibrations behind each other are too many",
    LONG: "there is no model",
    "x" * 3000: "is too long",
    "+": "there is no model ''",
    "tlm+": "there is no calibration ''",
    "tlm@cv@cv": "only @cv can stand behind a name",
    ":tlm": "there is no transform ''",
    "tlm[": "there is no model 'tlm['",
    "tlm[a=1]": "there is no option a",
    "tlm[[[[]]]]": "tlm",
    "a:" * 200: "a:",
    f"ntlm-single-pairs-n1[epochs={BIG}]": "epochs",
    "ntlm-single-pairs-n1[epochs=2000000]": "less than or equal to 1000000",
    f"ntlm-single-pairs-n1[batch={BIG}]": "batch",
    f"ntlm-single-pairs-n1[components={BIG}]": "components",
    "ntlm-single-pairs-n1-varying[samples=99999999]": "samples",
    "ntlm-single-pairs-n1[learning_rate=1e999]": "learning_rate",
    f"nplda[epochs={BIG}]": "epochs",
    f"robust[pretrain={LONG}.csv]": "there is no such file",
    "robust[pretrain=nowhere.csv]": "there is no such file",
    "robust[pretrain=]": "",
    "[/x]": "there is no model",
    "tlm\x1b[2J": r"tlm\x1b[2J",
}


@pytest.mark.parametrize("model", MODELS, ids=lambda text: text[:40])
def test_names_of_models(model: str, here: Path) -> None:
    answer = lindley("run", "--data", "panes.csv", "--splits", "1", "--models", model, "--no-report", "--out", "o")
    assert answer.status == 2, answer.text
    assert MODELS[model] in " ".join(answer.err.split())
    assert "not made for" not in answer.err
    assert sent(answer.text) == []
    trained = lindley("train", "panes.csv", "--out", "s.safetensors", "--replicates", "0", "--model", model)
    assert trained.status == 2
    assert "not made for" not in trained.err
    assert not (here / "s.safetensors").exists()


def test_a_name_in_python_is_held_to_the_same() -> None:
    with pytest.raises(LindleyError, match="12 calibrations behind each other are too many"):
        ModelName.of("tlm", calibrations=("logistic",) * 12)


PLACES = (LONG, f"{LONG}/a", DEEP, "a\0b", "\0", "/dev/null/x")
DOORS: dict[str, tuple[str, ...]] = {
    "run --out": (*RUN[:-1], "{}"),
    "run --data": ("run", "--data", "{}", "--out", "o"),
    "run": ("run", "{}"),
    "check": ("check", "{}"),
    "report": ("report", "{}"),
    "compare": ("compare", "{}", "b"),
    "case": ("case", "{}", "--trace", "t.csv", "--ref", "r.csv"),
    "case --trace": ("case", "system.safetensors", "--trace", "{}", "--ref", "r.csv"),
    "case --out": (*CASE, "--out", "{}.html"),
    "case --scale": (*CASE, "--scale", "{}"),
    "train": ("train", "{}", "--out", "s.safetensors"),
    "train --out": ("train", "panes.csv", "--out", "{}.safetensors"),
    "export": ("data", "export", "glass-simulated", "--out", "{}.csv"),
    "schema": ("schema", "--out", "{}"),
    "evaluate": ("evaluate", "system.safetensors", "{}", "--out", "v"),
    "evaluate --out": ("evaluate", "system.safetensors", "panes.csv", "--out", "{}"),
    "evaluate --criteria": (*EVALUATE, "--criteria", "{}"),
    "--criteria-template": (*EVALUATE, "--criteria-template", "{}"),
}


@pytest.mark.parametrize("place", PLACES, ids=lambda text: repr(text[:12]))
@pytest.mark.parametrize("door", DOORS)
def test_places_that_cannot_be(door: str, place: str, here: Path) -> None:
    refused(here, *(word.replace("{}", place) for word in DOORS[door]))


@pytest.mark.parametrize("place", ["", "."])
@pytest.mark.parametrize("door", ["schema", "--criteria-template", "check", "compare"])
def test_places_that_are_nothing(door: str, place: str, here: Path) -> None:
    refused(here, *(word.replace("{}", place) for word in DOORS[door]))


READING = (
    "source-column",
    "group-column",
    "instance-column",
    "include-columns",
    "ignore-columns",
    "reference-column",
    "units",
)


@pytest.mark.parametrize("option", [*READING, "sheet"])
@pytest.mark.parametrize("value", [LONG, "\0", '"', "a=b,c", BIG, "\x1b[2J", "[/x]"], ids=lambda text: repr(text[:8]))
def test_names_of_columns(option: str, value: str, here: Path) -> None:
    answer = lindley("check", "panes.csv", f"--{option}", value)
    assert answer.status == 2 or option in ("sheet", "units")  # of text, a sheet is warned of; a unit is any word
    assert sent(answer.text) == []
    assert "not made for" not in answer.err


YAML: dict[str, tuple[dict[str, Any], str]] = {
    "a long name": ({"name": LONG}, "Give a plain name of 100 letters at most"),
    "NUL in a name": ({"name": "a\0b"}, "cannot be called"),
    "NUL in a folder": ({"output": {"folder": "a\0b"}}, "cannot be written to the folder"),
    "a long folder": ({"output": {"folder": LONG}}, "File name too long"),
    "a deep folder": ({"output": {"folder": DEEP}}, "cannot be written to the folder"),
    "NUL in the data": ({"data": "a\0b.csv"}, "there is no such file"),
    "many epochs": ({"training": {"epochs": int(BIG)}}, "has 400 digits"),
    "a large batch": ({"training": {"batch": 10**9}}, "training.batch"),
    "a large group": ({"training": {"group": 10**9}}, "training.group"),
    "an infinite rate": ({"training": {"learning_rate": 1e999}}, "training.learning_rate"),
    "a long model": ({"models": ["tlm" + "+logistic" * 1500]}, "is too long"),
    "a number as option": ({"models": [{"model": "tlm", "options": {"a": 10**9}}]}, "no option a"),
    "a list as name": ({"name": ["a"]}, "name"),
    "a number as data": ({"data": 5}, "data"),
    "a folder that is a number": ({"output": {"folder": 5}}, "output.folder"),
    "a label of lines": ({"models": [{"model": "tlm", "label": "a\nb"}]}, "a label needs at least one letter"),
    "a label of escapes": ({"models": [{"model": "tlm", "label": "a\x1b[2J"}]}, "a label needs at least one letter"),
}


@pytest.mark.parametrize("name", YAML)
def test_experiments(name: str, here: Path) -> None:
    change, message = YAML[name]
    content = {"data": "panes.csv", "models": ["tlm"], "protocol": {"splits": 1}, "output": {"report": False}, **change}
    (here / "e.yaml").write_text(json.dumps(content), encoding="utf-8")
    answer = refused(here, "run", "e.yaml")
    assert message in answer.text


FIELDS = (
    "{words:>3000000000}", "{words!r}", "{words!s}", "{words.__class__}", "{words[0]}", "{words:{other}}", "{words", "words}",
    "{0}", "{}", f"{{words:{BIG}}}", "{words!x}", "{favoured:^99999999999}",
)  # fmt: skip


@pytest.mark.parametrize("field", FIELDS)
def test_sentences_of_scales(field: str, here: Path) -> None:
    text = (Path(last_net.__file__).parents[1] / "casework" / "scales" / "nfi.yaml").read_text("utf-8")
    scale = here / "scale.yaml"
    scale.write_text(text.replace("{words}", field), encoding="utf-8")
    with pytest.raises(LindleyError, match="does not read"):
        load_scale(str(scale))
    refused(here, *CASE, "--scale", "scale.yaml")


class TestTheLastNet:
    SECRET = "window of J. Smith"

    def fail(self, error: BaseException, monkeypatch: pytest.MonkeyPatch) -> Answer:
        def raises(*_: Any, **__: Any) -> None:
            secret = self.SECRET
            raise error from KeyError(secret)

        monkeypatch.setattr("lindley.table.datasets.list_datasets", raises)
        return lindley("data", "list")

    @pytest.mark.parametrize(
        "error",
        [ValueError(SECRET), KeyError(SECRET), RecursionError(SECRET), OverflowError(SECRET), AssertionError(SECRET),
         UnicodeDecodeError("utf-8", SECRET.encode(), 0, 1, SECRET), ZeroDivisionError(SECRET), RuntimeError(SECRET)],
        ids=lambda error: type(error).__name__,
    )  # fmt: skip
    def test_one_sentence_and_a_file_without_data(
        self, error: Exception, here: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        answer = self.fail(error, monkeypatch)
        assert answer.status == 2
        assert answer.out == ""
        assert answer.err.count("\n") == 1
        (file,) = (here / "tmp").iterdir()
        assert str(file) in answer.err
        assert file.name.startswith("lindley-error-")
        text = file.read_text("utf-8")
        for word in (type(error).__name__, "KeyError", "lindley ", "Python ", "torch ", "cli/commands.py"):
            assert word in text
        for word in (self.SECRET, str(here), str(Path.home()) + "/"):
            assert word not in text + answer.err.replace(str(file), "")

    @pytest.mark.parametrize(
        ("error", "sentence"),
        [
            (OSError(36, "File name too long", LONG), "Give a shorter name."),
            (PermissionError(13, "Permission denied", "a\x1b[2Jb"), r"a\x1b[2Jb cannot be used (Permission denied)."),
            (OSError(28, "No space left on device"), "A file cannot be used (No space left on device)."),
            (MemoryError(), "There is not enough memory for this."),
        ],
        ids=["long", "escape", "full", "memory"],
    )
    def test_what_can_be_mended(
        self, error: Exception, sentence: str, here: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        answer = self.fail(error, monkeypatch)
        assert (answer.status, answer.out) == (2, "")
        assert sentence in answer.err
        assert list((here / "tmp").iterdir()) == []

    def test_no_place_for_the_details(self, here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(tempfile, "tempdir", str(here / "none"))
        assert "The details could not be kept" in self.fail(ValueError("x"), monkeypatch).err


class TestOptionsThatACommandLacks:
    def test_the_layer(self) -> None:
        text = f"Leave it out with {setting('ignore', 'Fe')}, or give {setting('sheet')}"
        with speaking("shell"):
            assert spoken(text) == "Leave it out with --ignore-columns Fe, or give --sheet"
            offer({"--sheet"})
            assert spoken(text) == "Leave it out in the file, or give --sheet"
        with speaking("shell"):
            assert spoken(text).startswith("Leave it out with --ignore-columns")

    @pytest.mark.parametrize(
        "table",
        ["K39,Ti49,Mn55,Rb85\n1,x,1,1\n", "K39,Ti49,Mn55,Rb85,\n1,1,1,1,5\n", "source,Source,K39,Ti49,Mn55,Rb85\na,b,1,1,1,1\n",
         "K39,Ti49,Mn55,Rb85\n1,,1,1\n", "K39,Ti49,Mn55,Rb85\n1,1e999,1,1\n"],
    )  # fmt: skip
    @pytest.mark.parametrize("command", ["case", "evaluate"])
    def test_no_message_names_one(self, command: str, table: str, here: Path) -> None:
        (here / "bad.csv").write_text(table)
        words = ("--trace", "bad.csv", "--ref", "r.csv") if command == "case" else ("bad.csv", "--out", "v")
        answer = refused(here, command, "system.safetensors", *words)
        named = {word.strip(".,;)('") for word in answer.err.split() if word.startswith("--")}
        has = lindley(command, "--help").out
        assert all(option in has for option in named), named
        assert "--ignore-columns K39" not in answer.err  # a column that the system needs
        assert "--ignore-columns Ti49" not in answer.err
