"""What people see: labels as they are, no character that a terminal obeys, and no figure that is cut."""

from __future__ import annotations

import csv
import io
import json
import re
from collections.abc import Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path

import numpy as np
import openpyxl
import pytest
from rich.console import Console

from lindley.casework.validation import Validation, validate
from lindley.cli import console
from lindley.errors import LindleyError
from lindley.experiment.runner import run_experiment
from lindley.pages.validation_page import rows as validation_rows
from lindley.shown import json_text, visible
from lindley.system.system import load
from lindley.table.findings import Finding
from lindley.table.table import export_csv
from tests.attacks.door import lindley, sent
from tests.casework import factory
from tests.experiment.conftest import make_experiment, make_table

CLEAR, CLIPBOARD, FORGED = "\x1b[2J\x1b[H", "\x1b]52;c;cm0gLXJm\x07", "No problems found."
MARKUP = (
    "window [left]", "window [right]", "[/x]", "[/]", "[bold]pane[/bold]", "[link=https://x]pane[/link]", "[@click=bell]pane",
    "[red", "pane]", "\\[left]", "pane\\", "[[left]]", ":skull:", ":warning: pane", "{task.description}", "%(x)s %n", "{0}",
)  # fmt: skip
CONTROLS = (
    f"a{CLEAR}b", f"a{CLIPBOARD}b", f"a\x1b[1A\x1b[2K{FORGED}", "a\x9b2Jb", "a\x90b\x9cc", "a\x08\x08b", "a\rb", "a\x07b",
    "a\x7fb", "a\x0bb", "a\x0cb", "a\x85b", "a\tb", "a\x1fb", "a\u202eb", "a\u202db\u202c", "a\u2066b\u2069",
    "a\u200eb", "a\u061cb", "a\u200bb", "a\u200db", "a\u2060b", "a\ufeffb", "a\u00adb", "a\u2028b", "a\u2029b", "a\u3164b",
    "a\ufe0fb", "a\u034fb", "a\uffa0b", "a\U000e0041b", "a\ufff9b", "a\ue000b",
)  # fmt: skip
LINES = (f"a\n{FORGED}", f"a\r\n{FORGED}", "a\nError: b", "a\n\n\nb")
HOSTILE = (*MARKUP, *CONTROLS, *LINES)


def names(text: str) -> str:
    return repr(text)


def write(path: Path, rows: Sequence[Sequence[object]]) -> Path:
    with path.open("w", newline="", encoding="utf-8") as file:
        csv.writer(file).writerows(rows)
    return path


def squeezed(text: str) -> str:
    """Without what a table or a broken line puts between the parts of a label."""
    return re.sub(r"[\s│┃┏┓┗┛┡┩└┘├┤┠┨┼╇━─]", "", text)


@pytest.mark.parametrize("label", HOSTILE, ids=names)
def test_check_shows_sources_and_columns(label: str, tmp_path: Path) -> None:
    """One source is measured once, and its label stands in the warning; one column is no number."""
    rng = np.random.default_rng(0)
    rows = [[f"s{k // 2}", *rng.normal(size=2).tolist()] for k in range(20)]
    path = write(tmp_path / "t.csv", [["source", label, "K"], *rows, [label, 1.0, 2.0]])
    answer = lindley("check", path)
    obeyed = re.search("[\x00-\x1f\x7f-\x9f]", " ".join(label.split()))  # by a terminal: no column is called so
    assert answer.status == (2 if obeyed else 0), answer.text
    assert sent(answer.text) == []
    label = " ".join(label.split())  # as the reader of labels in messages has it
    assert f"'{visible(label)}'" in answer.out
    assert FORGED not in answer.out.splitlines()
    (tmp_path / "t.csv").write_text(path.read_text("utf-8").replace("1.0,2.0", "x,2.0"), encoding="utf-8", newline="")
    answer = lindley("check", path)
    assert answer.status == 2
    assert sent(answer.text) == []
    assert "is not a number" in answer.out


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A system, and a trace."""
    folder = tmp_path_factory.mktemp("screen")
    factory.saved(folder)
    factory.write_csv(folder / "trace.csv", factory.items(3, 1, 2)[0])
    return folder


@pytest.mark.parametrize("labels", [HOSTILE[k : k + 8] for k in range(0, len(HOSTILE), 8)], ids=len)
def test_a_matrix_shows_its_labels(labels: tuple[str, ...], folder: Path, tmp_path: Path) -> None:
    values = np.concatenate(factory.items(8, len(labels), 1)).tolist()
    rows = [[label, *row] for label, row in zip(labels, values, strict=True)]
    table = write(tmp_path / "items.csv", [["source", *factory.FEATURES], *rows])
    given = ("case", folder / "system.safetensors", "--trace", table, "--ref", table, "--allow-same-file")
    answer, told, on_terminal = lindley(*given), lindley(*given, "--json"), lindley(*given, width=80)
    assert (answer.status, told.status, on_terminal.status) == (0, 0, 0), answer.text
    assert sent(answer.text) == []
    assert sent(told.out) == []
    assert json.loads(told.out)["refs"] == list(labels)
    assert FORGED not in answer.out.splitlines()
    assert not any(each in on_terminal.out for each in ("\x1b[2J", "\x1b]52", "\x9b", "\u202e", "\x08"))
    for label in labels:
        shown = visible(label)
        assert squeezed(shown if len(shown) <= 28 else shown[:14]) in squeezed(answer.out)
        assert label == shown or label not in on_terminal.out


@pytest.mark.parametrize("label", [*HOSTILE[::3], *LINES], ids=names)
def test_a_case_shows_what_the_laboratory_calls_things(label: str, folder: Path) -> None:
    given = (
        "case",
        folder / "system.safetensors",
        "--trace",
        folder / "trace.csv",
        "--ref",
        folder / "trace.csv",
        "--allow-same-file",
    )
    answer = lindley(*given, "--trace-label", label, "--case", label, "--examiner", label)
    assert answer.status == 0, answer.text
    assert sent(answer.text) == []
    assert visible(label) in answer.out
    assert FORGED not in answer.out.splitlines()


@pytest.mark.parametrize("name", [n for n in HOSTILE if "/" not in n][::3], ids=names)
def test_names_of_files(name: str, tmp_path: Path) -> None:
    missing = lindley("check", tmp_path / f"{name}.csv")
    assert missing.status == 2
    assert sent(missing.text) == []
    assert f"{visible(name)}.csv: there is no such file" in missing.out
    write(tmp_path / f"{name}.csv", [["source", "K"], ["a", 1]])
    there = lindley("check", tmp_path / f"{name}.csv")
    assert there.status == 2
    assert sent(there.text) == []
    assert FORGED not in there.out.splitlines()
    for words in (("report", name), ("compare", name, "b"), ("run", name), ("data", "export", name)):
        answer = lindley(*words)
        assert answer.status == 2
        assert sent(answer.text) == [], words
        assert visible(name) in answer.err
        assert FORGED not in answer.err.splitlines()


@pytest.mark.parametrize("text", [*CONTROLS[:8], "[/x]", "a\u202eb"], ids=names)
def test_what_is_typed_wrongly(text: str) -> None:
    """An option, a value and a command that there are not: told by typer, in a frame."""
    for words in (("run", "--splits", text), ("run", "--device", text), (f"--{text}",), (f"x{text}",)):
        answer = lindley(*words)
        assert answer.status == 2
        assert sent(answer.text) == [], words
    assert squeezed(visible(text)) in squeezed(answer.err)


@pytest.mark.parametrize("text", [f"a{CLEAR}b", "a\u202eb", "a\u200bb", "[/x]", "a\x9b2Jb", "a\x7fb"], ids=names)
def test_sheets_and_keys_of_yaml(text: str, tmp_path: Path) -> None:
    book = openpyxl.Workbook()
    book.active.title = "one"
    book.active.append(["source", "K"])
    book.active.append(["a", 1])
    book.save(tmp_path / "t.xlsx")
    answer = lindley("check", tmp_path / "t.xlsx", "--sheet", text)
    assert answer.status == 2
    assert sent(answer.text) == []
    assert f"there is no sheet '{visible(text)}'" in answer.out
    for content in ({text: 1}, {"data": text}, {"data": "a", "models": [text]}, {"data": "a", "models": [], text: {}}):
        path = tmp_path / "e.yaml"
        path.write_text(json.dumps(content), encoding="utf-8")  # JSON is YAML, with its escapes
        answer = lindley("run", path)
        assert answer.status == 2
        assert sent(answer.text) == [], content


@pytest.mark.parametrize("text", HOSTILE, ids=names)
def test_messages_progress_and_findings(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The layer itself, in a pipe and on a terminal."""
    for terminal in (False, True):
        file = io.StringIO()
        monkeypatch.setattr(
            console,
            "stderr",
            lambda file=file, terminal=terminal: Console(file=file, force_terminal=terminal, width=300),
        )
        console.warn(text)
        console.fail(str(LindleyError(f"{text} is wrong")))
        with console.show_progress() as progress:
            progress.step(text, text, 0.5)
            progress.notice(text)
        said = re.sub(r"\x1b\[[0-9;?]*[mlhAK]|\r", "", file.getvalue()) if terminal else file.getvalue()
        assert sent(said) == []
        assert f"warning: {visible(text)}\n" in said
        assert f"Error: {visible(text)} is wrong\n" in said
        assert f"note: {visible(text)}\n" in said
    told = str(Finding("error", "x", f"{text} is odd", file=text, column=text))
    assert sent(told) == []
    assert "\n" not in told
    assert json.loads(json_text({text: text})) == {text: text}
    assert sent(json_text({text: text})) == []


def test_a_label_that_looks_like_a_mark_of_ours_sends_nothing() -> None:
    assert sent(str(LindleyError("a\x02ignore\x1fFe\x03b"))) == []
    assert sent(str(Finding("error", "x", "a\x02sheet\x03b\x02"))) == []


def test_long_labels_that_differ_in_the_middle_are_told_apart(folder: Path, tmp_path: Path) -> None:
    values = np.concatenate(factory.items(8, 2, 1)).tolist()
    labels = [f"{'x' * 40}{middle}{'y' * 40}" for middle in "ab"]
    rows = [[label, *row] for label, row in zip(labels, values, strict=True)]
    refs = write(tmp_path / "refs.csv", [["source", *factory.FEATURES], *rows])
    answer = lindley("case", folder / "system.safetensors", "--trace", folder / "trace.csv", "--ref", refs)
    assert "(no. 1)" in answer.out
    assert "(no. 2)" in answer.out


def cells(text: str) -> set[str]:
    return set(re.split(r"[\s│┃]+", re.sub(r"\x1b\[[0-9;]*m", "", text)))


def assert_whole(text: str, rows: Sequence[Sequence[str]], width: int, first: int) -> None:
    """Every figure is there, and no line is wider than the terminal."""
    found = cells(text)
    for row in rows:
        for cell in row[first:]:
            assert set(cell.split()) <= found, cell
    plain = re.sub(r"\x1b\[[0-9;]*m", "", text)
    assert max(len(line) for line in plain.splitlines() if "│" in line) <= width


WIDTHS = (40, 60, 80, 120)


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("count", [2, 11, 12])
def test_figures_of_a_matrix_are_whole(width: int, count: int, folder: Path, tmp_path: Path) -> None:
    """LRs far beyond the bounds, with their marks, under long names."""
    values = np.concatenate(factory.items(8, count, 1)) + np.linspace(0, 12, count)[:, None]
    rows = [[f"window {k} of the silver car [left]", *row] for k, row in enumerate(values.tolist())]
    refs = write(tmp_path / "refs.csv", [["source", *factory.FEATURES], *rows])
    traces = write(tmp_path / "traces.csv", [["source", *factory.FEATURES], *rows, ["t", *values[0].tolist()]])
    given = (
        "case",
        folder / "system.safetensors",
        "--trace",
        traces,
        "--ref",
        refs,
        "--allow-outside",
        "--allow-same-file",
    )
    llrs = np.array(json.loads(lindley(*given, "--json").out)["log10_lr"])
    low, high = load(folder / "system.safetensors").bounds
    figures = [
        [f"{min(max(v, low), high):.2f}".replace("-", "−") + ("" if low <= v <= high else "*") for v in row]
        for row in llrs.tolist()
    ]
    answer = lindley(*given, width=width)
    assert answer.status == 0, answer.text
    if count <= 11:  # with the trace, a larger one is not printed
        assert_whole(answer.out, figures, width, 0)
        assert squeezed("window 0 of") in squeezed(answer.out)
    else:
        assert "write it with --out matrix.csv" in " ".join(answer.out.split())


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """Two runs of the same models."""
    place = tmp_path_factory.mktemp("runs")
    export_csv(make_table(), place / "panes.csv")
    folders = [place / name for name in ("a run with a long name [left]", "second")]
    for folder in folders:
        assert lindley(*_run(place, folder)).status == 0
    return folders


def _run(place: Path, folder: Path) -> list[str | Path]:
    models = "tlm,tlm+logistic,tlm+logistic+elub,quantile:tlm+pav"
    return ["run", "--data", place / "panes.csv", "--splits", "2", "--models", models, "--out", folder, "--no-report"]


@pytest.mark.parametrize("width", WIDTHS)
def test_figures_of_runs_are_whole(width: int, runs: list[Path]) -> None:
    again = lindley(*_run(runs[0].parent, runs[0]), width=width)
    assert again.status == 0, again.err
    content = json.loads((runs[0] / "results.json").read_text("utf-8"))
    figures = [
        [f"{np.mean(each['test']['cllr']):.4f}", f"{each['seconds']:.1f}"] for each in content["models"].values()
    ]
    assert_whole(again.out, figures, width, 0)
    compared = lindley("compare", *runs, width=width)
    assert compared.status == 0, compared.err
    assert_whole(compared.out, [figure[:1] for figure in figures], width, 0)
    assert "[left]" in squeezed(compared.out)


@cache
def validation() -> Validation:
    return validate(factory.system(), factory.table(30, 3, 9))


@pytest.mark.parametrize("width", WIDTHS)
def test_figures_of_a_validation_are_whole(
    width: int, folder: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    export_csv(factory.table(30, 3, 9), tmp_path / "new [x].csv")
    named = replace(validation(), table=replace(validation().table, name="new [x] \x1b[2J"))
    monkeypatch.setattr("lindley.casework.validation.validate", lambda *_, **__: named)
    monkeypatch.setattr(Validation, "write", lambda self, folder, **_: None)
    given = ("evaluate", folder / "system.safetensors", tmp_path / "new [x].csv", "--out", tmp_path / "out")
    answer = lindley(*given, width=width)
    assert answer.status == 0, answer.text
    assert_whole(answer.out, validation_rows(named), width, 2)
    assert r"new[x]\x1b[2J" in squeezed(re.sub(r"\x1b\[[0-9;]*m", "", answer.out))
    assert sent(lindley(*given).text) == []


@pytest.mark.parametrize("width", WIDTHS)
def test_figures_of_a_summary_are_whole(width: int, tmp_path: Path) -> None:
    table = factory.table(features=("a very long name of a feature [a.u.]", "Fe57", "Rb85", "x"))
    export_csv(replace(table, values=table.values * 1e-7), tmp_path / "t.csv")
    plain = lindley("check", tmp_path / "t.csv").out
    figures = [line.split()[-6:] for line in plain.splitlines() if len(re.findall(r"\d\.\d+e-", line)) > 2]
    assert len(figures) == 4
    answer = lindley("check", tmp_path / "t.csv", width=width)
    assert answer.status == 0
    assert all(set(row) <= cells(answer.out) for row in figures)
    assert max(map(len, re.sub(r"\x1b\[[0-9;]*m", "", answer.out).splitlines())) <= width


@pytest.mark.parametrize("width", WIDTHS)
def test_figures_of_a_case_are_not_broken(width: int, folder: Path) -> None:
    given = (
        "case",
        folder / "system.safetensors",
        "--trace",
        folder / "trace.csv",
        "--ref",
        folder / "trace.csv",
        "--allow-same-file",
    )
    plain, narrow = lindley(*given).out, lindley(*given, width=width).out
    assert narrow.split() == plain.split()
    assert max(map(len, narrow.splitlines())) <= max(width, 40) or width >= 100


def test_a_run_reports_on_hostile_names_and_pages_show_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One run of everything, with a label, a feature and a file that are all three hostile."""
    monkeypatch.setattr("lindley.pages.run_page.draw_pictures", lambda report, **_: {})  # takes seconds
    table = make_table(45, 2)
    source = np.char.replace(table.source, "pane 00", "pane \x1b[2J\u202e[/x]")
    named = replace(table, features=("[bold]K\u200b", "x <b>y"), source=source, group=source, name="t \u202e[/x]")
    experiment = make_experiment(
        models=("tlm", {"model": "tlm+logistic", "label": "[/x] :skull:"}), protocol={"splits": 2}
    )
    out = tmp_path / "out"
    out.mkdir()
    run_experiment(experiment, named, out).write(out)
    answer = lindley("report", out)
    assert answer.status == 0, answer.text
    assert sent(answer.text) == []
    page = (out / "report.html").read_text("utf-8")
    body = page[page.index("<body") :]
    shown = re.sub(r"<script.*?</script>", "", body, flags=re.S)
    assert [c for c in sent(shown) if c not in "\t"] == []
    assert "x &lt;b&gt;y" in shown
    compared = lindley("compare", out, "--to", "tlm")
    assert compared.status == 0
    assert "[/x] :skull:" in compared.out
