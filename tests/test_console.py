"""What every command prints on a terminal of 80 and of 60 columns, and what it says while it works."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest

from lindley.cli import commands as cli, console
from lindley.cli.console import Progress
from lindley.pages.page import Picture
from lindley.table.table import export_csv
from tests.attacks.door import Answer, lindley
from tests.casework import factory
from tests.experiment.conftest import make_table

MODELS = "tlm,tlm+logistic"
CUT = re.compile(r"\d…|…\d")
NUMBER = re.compile(r"[−-]?\d[\d.,\u202f]*\d|\d")
COMMANDS = {
    "check": ("check", "panes.csv"),
    "train": ("train", "glass.csv", "--model", "tlm", "--replicates", "2", "--force", "--out", "system.safetensors"),
    "info": ("info", "system.safetensors"),
    "case": ("case", "system.safetensors", "--trace", "trace.csv", "--ref", "ref.csv"),
    "case in Dutch": ("case", "system.safetensors", "--trace", "trace.csv", "--ref", "ref.csv", "--language", "nl"),
    "matrix": ("case", "system.safetensors", "--trace", "items.csv", "--ref", "items.csv", "--allow-same-file"),
    "evaluate": ("evaluate", "system.safetensors", "new.csv", "--force", "--out", "validation"),
    "run": ("run", "--data", "panes.csv", "--splits", "2", "--models", MODELS, "--out", "runs/one", "--no-report"),
    "compare": ("compare", "runs/one", "runs/two"),
    "verify": ("verify", "report.html"),
    "log": ("log", "log.jsonl"),
    "data list": ("data", "list"),
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Everything that the commands read."""
    folder = tmp_path_factory.mktemp("console")
    export_csv(make_table(), folder / "panes.csv")
    export_csv(factory.table(), folder / "glass.csv")
    export_csv(factory.table(30, 3, 9), folder / "new.csv")
    a = factory.items(3, 1, 5)[0]
    factory.write_csv(folder / "trace.csv", a[:2])
    factory.write_csv(folder / "ref.csv", a[2:])
    labels = [f"window {number} of the silver car" for number in range(9)]
    factory.write_csv(folder / "items.csv", np.concatenate(factory.items(8, 9, 1)), source=labels)
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        for words in (
            COMMANDS["train"],
            (*COMMANDS["case"], "--out", "report.html", "--log", "log.jsonl"),
            COMMANDS["run"],
            [word.replace("runs/one", "runs/two") for word in COMMANDS["run"]],
        ):
            answer = lindley(*words)
            assert answer.status == 0, answer.err
    return folder


def plain(text: str) -> str:
    return re.sub(r"\x1b\[[0-9;]*m", "", text)


@pytest.mark.parametrize("width", [80, 60])
@pytest.mark.parametrize("name", COMMANDS)
def test_no_figure_is_cut_off(name: str, width: int, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(folder)
    undrawn = dict.fromkeys(("tippett", "ece", "pav", "coherence"), "")  # pictures take longer than all the rest
    monkeypatch.setattr("lindley.pages.validation_page._figures", lambda validation: undrawn)
    answer, narrow = lindley(*COMMANDS[name]), lindley(*COMMANDS[name], width=width)
    assert (answer.status, narrow.status) == (0, 0), answer.err
    shown = plain(narrow.out)
    assert not CUT.search(shown)
    if name not in ("train", "run"):  # these tell of a date, or of seconds
        whole, narrow_numbers = (set(NUMBER.findall(plain(text))) for text in (answer.out, shown))
        assert whole - narrow_numbers <= {number for number in whole if len(number) > 30}, name
    for line in shown.splitlines():
        assert len(line) <= width or len(line.split()) <= 3, line  # a path, or a digest, stays whole


@pytest.fixture
def phases(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What is said while a command works, and what it does meanwhile, in one list."""
    told: list[str] = []

    @contextmanager
    def progress() -> Iterator[Progress]:
        yield Progress(lambda doing, detail, done: told.append(doing), told.append, told.append)

    for module in (console, cli, *_casework()):
        if hasattr(module, "show_progress"):
            monkeypatch.setattr(module, "show_progress", progress)

    def heard(place: str, name: str) -> None:
        module, _, function = place.rpartition(".")
        owner = _found(module)
        does = getattr(owner, function)

        def noted(*given: object, **more: object) -> object:
            told.append(f"[{name}]")
            return does(*given, **more)

        monkeypatch.setattr(owner, function, noted)

    empty = Picture(b"<svg></svg>", b"")
    monkeypatch.setattr("lindley.pages.run_drawings.picture", lambda draw: empty)  # takes seconds
    for place, name in (
        ("lindley.system.system.load", "load"),
        ("lindley.casework.case.evaluate_case", "evaluate"),
        ("lindley.casework.case.evaluate_batch", "evaluate"),
        ("lindley.pages.case_page.render_case", "draw"),
        ("lindley.pages.matrix.matrix_file", "matrix"),
        ("lindley.pages.validation_page.render_validation", "draw"),
        ("lindley.pages.run_page.build_report", "build"),
        ("lindley.pages.run_page.draw_pictures", "figures"),
        ("lindley.pages.run_page.render_run", "draw"),
    ):
        heard(place, name)
    return told


def _casework() -> list[object]:
    import importlib
    import pkgutil

    import lindley.cli

    return [importlib.import_module(f"lindley.cli.{each.name}") for each in pkgutil.iter_modules(lindley.cli.__path__)]


def _found(module: str) -> object:
    import importlib

    return importlib.import_module(module)


def unheard(told: list[str]) -> list[str]:
    """Work that began without a word of its own before it."""
    silent, said = [], ""
    for each in told:
        if each.startswith("["):
            if not said:
                silent.append(each)
            said = "" if each in ("[load]", "[evaluate]") else said
        else:
            said = each
    return silent


def within(told: list[str]) -> list[str]:
    """Each word once, in order."""
    return [each for at, each in enumerate(told) if at == 0 or told[at - 1] != each]


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ((*COMMANDS["case"], "--out", "new.html"),
         ["reading the system", "[load]", "comparing trace and reference", "[evaluate]", "drawing the report", "[draw]"]),
        ((*COMMANDS["matrix"], "--out", "new.xlsx"),
         ["reading the system", "[load]", "comparing all traces with all references", "[evaluate]", "writing the matrix",
          "[matrix]"]),
    ],
    ids=["case", "matrix"],
)  # fmt: skip
def test_a_case_says_what_it_does(
    words: tuple[str, ...], expected: list[str], folder: Path, phases: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(folder)
    answer = lindley(*words)
    assert answer.status == 0, answer.err
    assert within(phases) == expected
    assert unheard(phases) == []


def test_a_folder_of_reports_says_so_of_each(folder: Path, phases: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(folder)
    assert lindley(*COMMANDS["matrix"], "--out", "reports").status == 0
    assert phases.count("drawing the reports") == 81
    assert phases[-3:] == ["writing the matrix", "[matrix]", "[matrix]"]


def test_a_run_and_a_validation_say_that_they_draw(
    folder: Path, phases: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(folder)
    answer = lindley(*COMMANDS["run"][:-1])
    assert answer.status == 0, answer.err
    assert [each for each in within(phases) if each.startswith("[")] == ["[build]", "[figures]", "[draw]"]
    assert within(phases)[-2:] == ["drawing the report", "[draw]"]
    assert unheard(phases) == []
    phases.clear()
    assert lindley("report", "runs/one").status == 0
    assert phases[0] == "drawing the report"
    assert unheard(phases) == []
    phases.clear()
    assert lindley(*COMMANDS["evaluate"]).status == 0
    assert phases[-2:] == ["drawing the report", "[draw]"]


def test_training_says_that_it_writes(folder: Path, phases: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(folder)
    assert lindley(*COMMANDS["train"]).status == 0
    assert phases[-1] == "writing the system"


def test_a_pipe_gets_a_line_for_every_part(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(folder)
    answer: Answer = lindley(*COMMANDS["case"], "--out", "piped.html")
    assert answer.err.splitlines() == ["reading the system", "comparing trace and reference", "drawing the report"]
