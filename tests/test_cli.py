"""The command as its users meet it: in a process of its own, where that matters."""

from __future__ import annotations

import json
import os
import re
import shlex
import signal
import subprocess
import sys
import warnings
from pathlib import Path

import numpy as np
import pytest

from lindley.cli import commands as cli
from lindley.errors import LindleyError
from lindley.experiment.folder import writable_folder
from lindley.experiment.saved import SavedRun
from lindley.pages.page import Picture
from lindley.table.simulated import glass_population, simulate_table
from lindley.table.table import Table, export_csv
from tests.command import ENVIRONMENT, here
from tests.experiment.conftest import make_table


def lindley(*arguments: str, cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "lindley", *arguments],
        capture_output=True, text=True, encoding="utf-8", cwd=cwd, env=ENVIRONMENT, check=False,
    )  # fmt: skip


def of_children() -> float:
    """Seconds of processor time that finished processes took, which does not grow when others keep the machine busy."""
    spent = os.times()
    return spent.children_user + spent.children_system


@pytest.fixture(scope="module")
def small_table(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("tables") / "glass.csv"
    export_csv(simulate_table(glass_population(), 150, 3, seed=1), path)
    return path


def test_help_is_quick_and_loads_no_torch() -> None:
    heavy = (
        "{'torch', 'sklearn', 'scipy', 'numpy', 'matplotlib', 'plotly', 'distributed', 'pydantic'} & set(sys.modules)"
    )
    code = f"import sys, lindley, lindley.cli.commands; sys.exit(len({heavy}))"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
    before = of_children()
    assert lindley("--help").returncode == 0
    assert of_children() - before < 1.0


def test_the_end_of_the_process_looks_for_no_cycles() -> None:
    """Among what torch has loaded that takes half a second of every command."""
    code = (
        "import atexit, gc, sys; from lindley.cli import main; sys.argv = ['lindley', '--version']; "
        "atexit.register(lambda: print(gc.get_freeze_count() > 1000, gc.get_count()[2])); main()"
    )
    answer = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert answer.stdout.splitlines()[-1] == "True 0"


@pytest.mark.parametrize(
    "arguments",
    [["--help"], [], *([name, "--help"] for name in ("run", "check", "report", "compare", "schema", "data"))],
)
def test_help(arguments: list[str]) -> None:
    answer = lindley(*arguments)
    assert "Usage" in answer.stdout + answer.stderr
    assert "Traceback" not in answer.stderr


def test_an_extra_stands_over_the_options_that_need_it() -> None:
    told = lindley("run", "--help").stdout
    over = {
        option: told[: told.index(f" {option} ")].rpartition("╭─")[2].partition("╮")[0]
        for option in ("--workers", "--cluster")
    }
    assert ["the extra" in over[option] for option in ("--workers", "--cluster")] == [False, True]


def test_run_on_a_table(small_table: Path, tmp_path: Path) -> None:
    answer = lindley(
        "run", "--data", str(small_table), "--splits", "2", "--seed", "3",
        "--models", "tlm,tlm+logistic+elub", "--out", str(tmp_path / "out"), "--no-report",
    )  # fmt: skip
    assert answer.returncode == 0, answer.stderr
    assert "tlm+logistic+elub" in answer.stdout
    assert "150 sources, 18 features, 2 splits, seed 3" in answer.stdout
    assert str(tmp_path / "out" / "results.json") in answer.stdout.replace("\n", "")
    content = json.loads((tmp_path / "out" / "results.json").read_text())
    assert list(content["models"]) == ["tlm", "tlm+logistic+elub"]
    assert content["training"]["epochs"] == 2000
    assert "oracle" not in content  # a file is a file, whatever it was made from
    begun, *rows = answer.stderr.splitlines()  # in a pipe: a line for every part, its figures, and nothing else
    assert begun == "tlm, splits 1–2 of 2"
    figures = r": test Cllr 0\.\d{4} ± 0\.\d{4}, Cllr_min 0\.\d{4}$"
    assert [re.sub(figures, "", row) for row in rows] == ["  tlm", "  tlm+logistic+elub"]
    assert "report" not in answer.stdout.casefold()
    configuration = str(tmp_path / "out" / "experiment.yaml")  # names the table without its folder
    repeated = here("run", configuration, "--out", str(tmp_path / "again"), cwd=small_table.parent)
    assert repeated.returncode == 0, repeated.stderr
    again = json.loads((tmp_path / "again" / "results.json").read_text())
    for name in ("tlm", "tlm+logistic+elub"):
        assert again["models"][name]["test"] == content["models"][name]["test"]


def test_run_warns_about_the_table_and_shrinkage(small_table: Path, tmp_path: Path) -> None:
    lines = small_table.read_text().splitlines()
    short = tmp_path / "short.csv"
    short.write_text("\n".join(lines[: 1 + 3 * 24]) + "\n")
    with warnings.catch_warnings():
        warnings.simplefilter("default")  # as in a process of its own
        answer = here(
            "run", "--data", str(short), "--splits", "2", "--models", "tlm", "--out", str(tmp_path), "--no-report"
        )
    assert answer.returncode == 0, answer.stderr
    assert "warning:" in answer.stderr
    assert "Ledoit and Wolf" in answer.stderr
    assert ".py:" not in answer.stderr


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["run", "--data", "nowhere.csv"], "nowhere.csv"),
        (["run", "--models", "tlm+logit"], "there is no calibration 'logit'"),
        (["run", "--models", ""], "no model to run"),
        (["run", "--data", "nfi_glass"], "Did you mean the data set 'nfi-glass'?"),
        (["run", "--include-columns", ""], "--include-columns names no column"),
        (["check", "t.csv", "--include-columns", " , "], "--include-columns names no column"),
        (["check", "t.csv", "--ignore-columns", '"Na, %'], "does not read as a list of names"),
        (["run", "--splits", "0"], "splits must be 1 or more"),
        (["run", "papre"], "there is no experiment 'papre'"),
        (["run", "--workers", "2", "--cluster", "tcp://127.0.0.1:9", "--splits", "1"], "and not both"),
        (["report", "nowhere"], "nowhere holds no results.json. Name the folder that 'lindley run' wrote to"),
        (["compare", "nowhere", "elsewhere"], "nowhere holds no results.json"),
        (["run", "--data", "glass-simulated", "--source-column", "x"], "leave out --source-column"),
        (["data", "export", "glass"], "glass-simulated"),
    ],
)
def test_errors_are_plain_and_end_with_2(arguments: list[str], message: str, tmp_path: Path) -> None:
    answer = here(*arguments, cwd=tmp_path)
    assert answer.returncode == 2
    assert message in answer.stderr
    assert "Traceback" not in answer.stderr
    assert answer.stderr.startswith("Error:")
    assert list(tmp_path.iterdir()) == []


def test_check_and_its_exit_status(small_table: Path, tmp_path: Path) -> None:
    good = here("check", str(small_table))
    assert good.returncode == 0
    assert "150" in good.stdout
    lines = small_table.read_text().splitlines()
    alone = tmp_path / "alone.csv"
    alone.write_text("\n".join(lines[:-2]) + "\n")  # the last source keeps one measurement
    assert here("check", str(alone)).returncode == 0
    strict = here("check", str(alone), "--strict")
    assert strict.returncode == 1
    assert "S0150" in strict.stdout
    bad = tmp_path / "bad.csv"
    bad.write_text("\n".join([*lines[:-2], lines[-2].replace("0.", "zero", 1), ""]))
    answer = here("check", str(bad))
    assert answer.returncode == 2
    assert "is not a number" in answer.stdout


def test_data_list_and_export(tmp_path: Path) -> None:
    listing = here("data", "list")
    for name in ("glass-simulated", "nfi-glass", "fiu-vehicle-glass", "onze-vowels"):
        assert name in listing.stdout
    answer = here("data", "export", "glass-simulated", cwd=tmp_path)
    assert answer.returncode == 0
    assert "6318 rows, 1053 sources, 18 features" in answer.stdout
    assert len((tmp_path / "glass-simulated.csv").read_text().splitlines()) == 6319
    assert here("check", "glass-simulated.csv", cwd=tmp_path).returncode == 0


def quick(table: Path, *arguments: str, cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
    """A run of a second."""
    return here("run", "--data", str(table), "--splits", "1", "--models", "tlm", "--no-report", *arguments, cwd=cwd)


class TestNamesWithCommas:
    FEATURES = ("Na, %", "K39", "lab colour", 'the "old" Ti', "Mg")

    @pytest.fixture
    def table(self, tmp_path: Path) -> Path:
        rng = np.random.default_rng(0)
        values = rng.normal(size=(40, 1, 5)) + 0.1 * rng.normal(size=(40, 2, 5))
        values[..., [0, 2, 3]] = 7.0
        path = tmp_path / "t.csv"
        export_csv(Table.from_arrays(values.reshape(-1, 5), np.repeat(np.arange(40), 2), features=self.FEATURES), path)
        return path

    def test_as_csv(self, table: Path) -> None:
        answer = here("check", str(table), "--ignore-columns", '"Na, %", lab colour,"the ""old"" Ti"')
        assert answer.returncode == 0, answer.stdout + answer.stderr
        assert "2 features" in answer.stdout
        included = here("check", str(table), "--include-columns", 'K39,"Na, %"')
        assert included.returncode == 2
        assert "column 'Na, %': the feature is constant" in included.stdout

    @pytest.mark.skipif(os.name != "posix", reason="what is pasted is for a POSIX shell")
    def test_the_fix_works_when_pasted(self, table: Path) -> None:
        answer = here("check", str(table))
        assert answer.returncode == 2
        texts = [
            line.split("--ignore-columns ")[1].rstrip(".")
            for line in answer.stdout.splitlines()
            if "is constant" in line
        ]
        assert len(texts) == 3
        command = shlex.join([sys.executable, "-m", "lindley", "check", str(table)])
        for text, name in zip(texts, ("Na, %", "lab colour", 'the "old" Ti'), strict=True):
            mended = subprocess.run(
                ["sh", "-c", f"{command} --ignore-columns {text}"],
                capture_output=True, text=True, encoding="utf-8", env=ENVIRONMENT, check=False,
            )  # fmt: skip
            assert mended.stdout.count("is constant") == 2
            assert f"column '{name}'" not in mended.stdout
            assert "there is no column" not in mended.stdout


class TestWhereResultsGo:
    def test_a_bad_folder_is_told_before_the_work(self, small_table: Path, tmp_path: Path) -> None:
        file = tmp_path / "file"
        file.write_text("mine")
        (tmp_path / "taken" / "results.json").mkdir(parents=True)
        before = sorted(tmp_path.rglob("*"))
        for out in (file, file / "deeper" / "still", tmp_path / "taken"):
            answer = quick(small_table, "--out", str(out))
            assert answer.returncode == 2
            assert "The results cannot be written to the folder" in answer.stderr
            assert "--out" in answer.stderr
            assert "Traceback" not in answer.stderr
            assert "split 1 of 1" not in answer.stderr  # no model was started
            assert sorted(tmp_path.rglob("*")) == before

    @pytest.mark.skipif(os.name != "posix" or os.geteuid() == 0, reason="root may write anywhere")
    def test_a_folder_without_permission(self, small_table: Path, tmp_path: Path) -> None:
        tmp_path.chmod(0o500)
        answer = quick(small_table, "--out", str(tmp_path / "out"))
        tmp_path.chmod(0o700)
        assert answer.returncode == 2
        assert "Permission denied" in answer.stderr

    def test_a_folder_that_cannot_be_written(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        def refuse(dir: Path) -> None:
            raise PermissionError(13, "Permission denied")

        monkeypatch.setattr("tempfile.TemporaryFile", refuse)
        with pytest.raises(LindleyError, match="Permission denied"), writable_folder(tmp_path / "a" / "b"):
            raise AssertionError("the work must not begin")
        assert list(tmp_path.iterdir()) == []

    def test_a_failed_run_leaves_no_folder(self, tmp_path: Path) -> None:
        (tmp_path / "kept").mkdir()
        with pytest.raises(KeyboardInterrupt), writable_folder(tmp_path / "kept" / "a" / "b"):
            raise KeyboardInterrupt
        assert list(tmp_path.rglob("*")) == [tmp_path / "kept"]

    def test_the_table_is_printed_even_if_the_writing_fails(
        self, small_table: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
    ) -> None:
        rename = os.replace

        def full(source: object, target: object) -> None:
            if str(target).endswith("results.json"):
                raise OSError(28, "No space left on device")
            rename(source, target)  # type: ignore[call-overload]

        monkeypatch.setattr("os.replace", full)
        out = tmp_path / "out"
        arguments = [
            "run",
            "--data",
            str(small_table),
            "--splits",
            "1",
            "--models",
            "tlm",
            "--out",
            str(out),
            "--no-report",
        ]
        monkeypatch.setattr(sys, "argv", ["lindley", *arguments])
        with pytest.raises(SystemExit) as ended:
            cli.main()
        assert ended.value.code == 2
        captured = capsys.readouterr()
        assert "test Cllr" in captured.out
        assert "No space left on device" in captured.err
        assert not (out / "results.json").exists()
        assert list(tmp_path.rglob("*.part")) == []

    def test_other_data_of_the_same_name_do_not_overwrite(self, small_table: Path, tmp_path: Path) -> None:
        other = tmp_path / "elsewhere" / small_table.name
        other.parent.mkdir()
        other.write_text("\n".join(small_table.read_text().splitlines()[: 1 + 3 * 120]) + "\n")
        first, second, third = (tmp_path / "results" / f"demo-glass{end}" for end in ("", "-2", "-3"))

        def number_of_sources(folder: Path) -> int:
            return int(json.loads((folder / "results.json").read_text())["data"]["sources"])

        assert quick(small_table, cwd=tmp_path).returncode == 0
        answer = quick(other, cwd=tmp_path)
        assert answer.returncode == 0, answer.stderr
        assert str(Path("results", "demo-glass-2", "results.json")) in answer.stdout
        assert "holds results of other data or of another experiment" in answer.stdout
        assert (number_of_sources(first), number_of_sources(second)) == (150, 120)
        again = quick(small_table, cwd=tmp_path)  # the same again has nothing left to do
        assert "other data" not in again.stdout
        assert "1 of 1 parts of this experiment are finished already, and are used." in again.stderr
        assert quick(other, cwd=tmp_path).returncode == 0
        assert sorted((tmp_path / "results").iterdir()) == [first, second]
        assert quick(small_table, "--seed", "5", cwd=tmp_path).returncode == 0  # another protocol
        assert json.loads((third / "results.json").read_text())["protocol"]["seed"] == 5
        assert quick(other, "--out", str(first), cwd=tmp_path).returncode == 0  # said explicitly, it is done
        assert number_of_sources(first) == 120
        assert sorted((tmp_path / "results").iterdir()) == [first, second, third]

    def test_what_is_not_ours_is_left_alone(self, small_table: Path, tmp_path: Path) -> None:
        taken = tmp_path / "results" / "demo-glass" / "results.json"
        taken.parent.mkdir(parents=True)
        taken.write_text("[1, 2]")
        assert quick(small_table, cwd=tmp_path).returncode == 0
        assert taken.read_text() == "[1, 2]"
        assert (tmp_path / "results" / "demo-glass-2" / "results.json").is_file()


@pytest.mark.skipif(os.name != "posix", reason="Windows has no SIGINT to send")
def test_ctrl_c_ends_with_one_plain_line_and_the_same_command_goes_on(small_table: Path, tmp_path: Path) -> None:
    # a shell that runs the tests in the background has them ignore SIGINT, and what they start inherits that
    code = (
        "import signal; from lindley.cli.commands import main; "
        "signal.signal(signal.SIGINT, signal.default_int_handler); main()"
    )
    chosen = {
        "data": str(small_table),
        "protocol": {"splits": 60},
        "training": {"group": 10},
        "models": ["tlm", "tlm-kde"],
    }
    (tmp_path / "mine.yaml").write_text(json.dumps(chosen), encoding="utf-8")
    arguments = ["run", "mine.yaml", "--no-report"]
    process = subprocess.Popen(
        [sys.executable, "-c", code, *arguments],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, encoding="utf-8", cwd=tmp_path, env=ENVIRONMENT,
    )  # fmt: skip
    try:
        assert process.stderr is not None
        lines = [process.stderr.readline()]
        while lines[-1] and "tlm, splits 21–30 of 60" not in lines[-1]:  # the third part has begun
            lines.append(process.stderr.readline())
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=60)
    finally:
        process.kill()
        process.wait()
    assert process.returncode == 130, err
    assert err.splitlines()[-1] == "Interrupted. What is finished is kept: the same command goes on where it was."
    assert "Traceback" not in err
    assert out == ""
    (folder,) = (tmp_path / "results").iterdir()
    kept = {path: path.stat().st_mtime_ns for path in (folder / "units").iterdir()}
    assert 1 <= len(kept) < 12
    assert not (folder / "results.json").exists()

    unfinished = here("report", str(folder))
    assert unfinished.returncode == 2
    assert "Its run is not finished: give the same 'lindley run' again" in unfinished.stderr

    answer = here(*arguments, cwd=tmp_path)
    assert answer.returncode == 0, answer.stderr
    assert f"note: {len(kept)} of 12 parts of this experiment are finished already, and are used." in answer.stderr
    assert {path: path.stat().st_mtime_ns for path in kept} == kept
    assert list((tmp_path / "results").iterdir()) == [folder]
    assert len(json.loads((folder / "results.json").read_text())["models"]["tlm"]["test"]["cllr"]) == 60


def test_schema_is_json_and_needs_no_torch() -> None:
    code = (
        "import sys; sys.argv = ['lindley', 'schema']; from lindley.cli.commands import app; app(standalone_mode=False); "
        "sys.exit(len({'torch', 'sklearn', 'matplotlib', 'plotly', 'distributed'} & set(sys.modules)))"
    )
    environment = {**ENVIRONMENT, "PYTHONIOENCODING": "ascii"}  # a pipe on Windows takes what it can
    before = of_children()
    answer = subprocess.run([sys.executable, "-c", code], capture_output=True, env=environment, check=False)
    assert of_children() - before < 2.0
    assert answer.returncode == 0, answer.stderr
    schema = json.loads(answer.stdout)
    assert schema["$schema"] == "https://json-schema.org/draft/2020-12/schema"
    assert {"data", "protocol", "training", "models", "output", "name"} == set(schema["properties"])


def test_report_is_drawn_again_without_training(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def command(*arguments: str) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["lindley", *arguments])
        with pytest.raises(SystemExit) as ended:
            cli.main()
        captured = capsys.readouterr()
        return int(ended.value.code or 0), captured.out, captured.err

    drawn = Picture(b"<svg></svg>", b"")  # each takes a third of a second otherwise
    monkeypatch.setattr("lindley.pages.run_drawings.picture", lambda draw: drawn)
    export_csv(make_table(), tmp_path / "panes.csv")
    out = tmp_path / "out"
    table = str(tmp_path / "panes.csv")
    run = ["run", "--data", table, "--splits", "2", "--models", "tlm,tlm+logistic", "--out", str(out)]
    code, text, err = command(*run)
    assert code == 0, err
    assert f"Report:  {out / 'report.html'}" in text
    results = (out / "results.json").read_bytes()
    page = (out / "report.html").read_text(encoding="utf-8")
    (out / "report.html").unlink()

    def fail(*_: object, **__: object) -> None:
        raise AssertionError("nothing is trained")

    with monkeypatch.context() as patched:
        patched.setattr("lindley.experiment.runner.do_unit", fail)
        code, text, err = command("report", str(out))
    assert (code, text) == (0, f"Report: {out / 'report.html'}\n")
    assert err.splitlines() == [
        f"drawing the report, {part}" for part in ("reading the results", "figures", "the page")
    ]
    assert (out / "results.json").read_bytes() == results
    assert (out / "report.html").read_text(encoding="utf-8") == page
    damaged = out / "models" / "tlm" / "llrs-01-02.npz"
    damaged.write_bytes(damaged.read_bytes()[:-100])
    code, _, err = command("report", str(out))
    assert code == 2
    assert f"{damaged} is missing or damaged. Run the experiment again" in err
    code, _, err = command(*run, "--no-report")
    assert code == 0, err
    assert f"note: {damaged} is missing or damaged: its part of the work is done again." in err
    SavedRun.open(out).llr("tlm", 0)


@pytest.mark.parametrize("arguments", [["run", "--colour"], ["run", "--splits", "many"], ["fly"]])
def test_usage_errors_end_with_2_and_show_the_usage(arguments: list[str]) -> None:
    answer = lindley(*arguments)
    assert answer.returncode == 2
    assert "Usage" in answer.stderr
    assert "Traceback" not in answer.stderr


def test_a_pipe_gets_utf8_whatever_the_system_likes(small_table: Path, tmp_path: Path) -> None:
    """Python on Windows writes the code page into a pipe, and ends with a traceback at a letter that it lacks."""
    table = tmp_path / "Ω − glass.csv"
    table.write_bytes(small_table.read_bytes())
    answer = subprocess.run(
        [sys.executable, "-m", "lindley", "check", str(table)],
        capture_output=True, env={**ENVIRONMENT, "PYTHONIOENCODING": "cp1252"}, check=False,
    )  # fmt: skip
    assert answer.returncode == 0, answer.stderr
    assert "Ω − glass" in answer.stdout.decode("utf-8")


def test_the_schema_goes_to_a_new_file(tmp_path: Path) -> None:
    path = tmp_path / "experiment.schema.json"
    assert lindley("schema", "--out", str(path)).returncode == 0
    assert json.loads(path.read_text("utf-8"))["title"] == "Experiment"
    again = lindley("schema", "--out", str(path))
    assert again.returncode == 2
    assert "is there already" in again.stderr
