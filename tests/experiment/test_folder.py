"""The folder of a run: what is finished is used again, what is damaged is told and done again, and nothing else is trusted."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml

from lindley.errors import LindleyError
from lindley.experiment import folder as folder_module
from lindley.experiment.config import Experiment, load_experiment
from lindley.experiment.folder import (
    LEFT_BEHIND,
    default_folder,
    drop_results,
    read_table_file,
    read_unit,
    start_folder,
    write_unit,
)
from lindley.experiment.results import Results
from lindley.experiment.runner import on_this_machine, run_experiment
from lindley.experiment.saved import SavedRun
from lindley.experiment.work import make_units
from lindley.table.splits import Protocol
from lindley.table.table import Table
from tests.experiment.conftest import Store, make_experiment, make_table, without_seconds


def contents(folder: Path) -> dict[str, bytes]:
    return {p.relative_to(folder).as_posix(): p.read_bytes() for p in sorted(folder.rglob("*")) if p.is_file()}


def go_on(folder: Path, experiment: Experiment, table: Table, store: Store) -> list[str]:
    """The same run again, with the work of its units handed out; what it told."""
    told: list[str] = []
    run_experiment(experiment, table, folder, notice=told.append, executor=store.hand_out).write(folder, told.append)
    return told


def test_what_is_there(pristine: Path, experiment: Experiment, table: Table) -> None:
    """The configuration that repeats the run, the data, what it depends on, and every part with its digest."""
    assert load_experiment(str(pristine / "experiment.yaml")) == experiment
    again = read_table_file(pristine)
    assert again.sha256() == table.sha256()
    assert (again.name, again.features) == (table.name, table.features)
    np.testing.assert_array_equal(again.instance, table.instance)
    content = json.loads((pristine / "results.json").read_bytes())
    assert content["experiment"] == experiment.told()
    assert content["data"]["sha256"] == table.sha256()
    assert {"lindley", "numpy", "torch", "python", "platform", "machine", "cores", "code_sha256"} <= set(
        content["environment"]
    )
    named = [name for unit in (pristine / "units").iterdir() for name in json.loads(unit.read_bytes())["files"]]
    there = [p.relative_to(pristine).as_posix() for p in (pristine / "models").rglob("*") if p.is_file()]
    assert sorted(named) == sorted(there)


def test_a_finished_run_is_not_done_again(
    finished: Path, experiment: Experiment, table: Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: Any, **__: Any) -> None:
        raise AssertionError("there is nothing to do")

    monkeypatch.setattr("lindley.experiment.runner.do_unit", fail)
    before = contents(finished)
    times = {p: p.stat().st_mtime_ns for p in finished.rglob("*") if p.is_file() and p.name != "results.json"}
    told: list[str] = []
    seen: list[float] = []
    results = run_experiment(
        experiment, table, finished, notice=told.append, progress=lambda doing, detail, done: seen.append(done)
    )
    results.write(finished, told.append)
    assert told == ["10 of 10 parts of this experiment are finished already, and are used."]
    assert seen == [1.0]
    assert contents(finished) == before
    assert {p: p.stat().st_mtime_ns for p in times} == times


def damage_half(path: Path) -> None:
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


def damage_bit(path: Path) -> None:
    """About the middle; not the last digit of a number that is read the same with another one."""
    whole = path.read_bytes()
    for at in range(len(whole) // 2, len(whole)):
        data = bytearray(whole)
        data[at] ^= 1
        if path.suffix != ".json" or read_json(data) != read_json(whole):
            path.write_bytes(bytes(data))
            return


def read_json(data: bytes) -> Any:
    try:
        return json.loads(data)
    except ValueError:
        return None


def damage_empty(path: Path) -> None:
    path.write_bytes(b"")


def damage_gone(path: Path) -> None:
    path.unlink()


@pytest.mark.parametrize("damage", [damage_half, damage_bit, damage_empty, damage_gone])
def test_damage_is_noticed_named_and_mended(
    damage: Any, finished: Path, experiment: Experiment, table: Table, store: Store
) -> None:
    """Every file of the folder in turn; in the end everything is as it was, to the bit."""
    before = contents(finished)
    for name in before:
        damage(finished / name)
        store.asked.clear()
        told = go_on(finished, experiment, table, store)
        assert contents(finished) == before, name
        if name in ("experiment.yaml", "data.npz", "results.json"):
            assert store.asked == [], name
        else:
            (unit,) = store.asked
            assert name == f"units/{unit}.json" or name in store_files(store, unit), name
        silent = damage is damage_gone and not name.startswith("models/")  # not there is not damaged
        assert any(str(finished / name) in line for line in told) is not silent, (name, told)


def store_files(store: Store, unit_id: str) -> set[str]:
    (files,) = (done.files for unit, done in store.finished.items() if unit.id == unit_id)
    return set(files)


def test_the_work_is_really_done_again(finished: Path, experiment: Experiment, table: Table) -> None:
    """One unit of each sort by its own code, and not from a store: the same bytes."""
    before = contents(finished)
    for name in (
        "models/tlm-kde+logistic+elub/system-05-08.safetensors",
        "models/ntlm-single-pairs-n2/history-01-04.npz",
    ):
        damage_bit(finished / name)
    told: list[str] = []
    run_experiment(experiment, table, finished, notice=told.append).write(finished)
    after = contents(finished)
    assert len(told) == 3
    for name in before:
        if name.startswith("models/"):
            assert after[name] == before[name], name
    results, again = json.loads(before["results.json"]), json.loads(after["results.json"])
    assert without_seconds(results) == without_seconds(again)
    assert list(results["models"]) == list(again["models"])


@pytest.mark.parametrize(
    "garbage",
    [
        b"{", b"[]", b"null", b"5", b'"text"', b"{}", b"\xff\xfe", b'{"key": 1}', b'{"key": "k", "files": 3, "models": {}}',
        b'{"key": "k", "files": {}, "models": {}, "sha256": "0"}', b"[" * 100_000,
    ],
)  # fmt: skip
def test_a_unit_of_garbage(garbage: bytes, tmp_path: Path) -> None:
    told: list[str] = []
    (tmp_path / "units").mkdir()
    (tmp_path / "units" / "tlm.01-07.json").write_bytes(garbage)
    assert read_unit(tmp_path, "tlm.01-07", "k", told.append) is None
    (line,) = told
    assert str(tmp_path / "units" / "tlm.01-07.json") in line
    assert "is damaged" in line
    assert line.endswith("its part of the work is done again.")


def test_a_digit_of_a_figure_is_not_trusted(finished: Path) -> None:
    """A unit that still reads as JSON, key and all: only its own digest knows."""
    path = finished / "units" / "tlm.01-04.json"
    content = json.loads(path.read_bytes())
    key = content["key"]
    assert read_unit(finished, "tlm.01-04", key, lambda message: None) is not None
    content["models"]["tlm"]["test"]["cllr"][0] += 1e-15
    path.write_text(json.dumps(content))
    told: list[str] = []
    assert read_unit(finished, "tlm.01-04", key, told.append) is None
    assert "its digest is another" in told[0]


def test_any_flipped_bit_of_a_unit_is_noticed_or_means_nothing(finished: Path) -> None:
    rng = np.random.default_rng(1)
    path = finished / "units" / "ntlm-single-pairs-n2.01-04.json"
    good = path.read_bytes()
    key = json.loads(good)["key"]
    record = read_unit(finished, "ntlm-single-pairs-n2.01-04", key, lambda message: None)
    assert record is not None
    for place in rng.choice(len(good), 300, replace=False):
        data = bytearray(good)
        data[place] ^= 1 << int(rng.integers(8))
        path.write_bytes(bytes(data))
        told: list[str] = []
        again = read_unit(finished, "ntlm-single-pairs-n2.01-04", key, told.append)
        assert again == record if again is not None else len(told) == 1


def test_a_unit_of_another_version(finished: Path, experiment: Experiment, table: Table, store: Store) -> None:
    (unit,) = (unit for unit in store.finished if unit.id == "tlm.01-04")
    done = store.finished[unit]
    write_unit(finished, unit.id, "another key", done.files, done.record)
    told = go_on(finished, experiment, table, store)
    assert store.asked == ["tlm.01-04"]
    assert "tlm.01-04 was made with other settings or another version" in told[0]


@pytest.mark.parametrize("done", range(10))
def test_broken_off_after_so_many_units(
    done: int, tmp_path: Path, pristine: Path, experiment: Experiment, table: Table, store: Store
) -> None:
    def breaks_off(*arguments: Any) -> Iterator[Any]:
        for number, pair in enumerate(store.hand_out(*arguments)):
            if number == done:
                raise KeyboardInterrupt
            yield pair

    with pytest.raises(KeyboardInterrupt):
        run_experiment(experiment, table, tmp_path, executor=breaks_off)
    assert not (tmp_path / "results.json").exists()
    with pytest.raises(LindleyError, match="Its run is not finished: give the same 'lindley run' again"):
        SavedRun.open(tmp_path)
    store.asked.clear()
    go_on(tmp_path, experiment, table, store)
    assert len(store.asked) == 10 - done
    assert contents(tmp_path) == contents(pristine)


def test_a_full_disk_loses_the_unit_in_hand_only(
    tmp_path: Path, pristine: Path, experiment: Experiment, table: Table, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    rename, written = os.replace, []

    def full(source: object, target: object) -> None:
        written.append(target)
        if len(written) == 15:
            raise OSError(28, "No space left on device")
        rename(source, target)  # type: ignore[call-overload]

    with monkeypatch.context() as patch:
        patch.setattr("os.replace", full)
        with pytest.raises(LindleyError, match="No space left on device"):
            run_experiment(experiment, table, tmp_path, executor=store.hand_out)
    assert list(tmp_path.rglob("*.part")) == []
    finished_before = len(list((tmp_path / "units").iterdir()))
    assert 0 < finished_before < 10
    store.asked.clear()
    go_on(tmp_path, experiment, table, store)
    assert len(store.asked) == 10 - finished_before
    assert contents(tmp_path) == contents(pristine)


def test_a_file_where_a_folder_should_be(tmp_path: Path, experiment: Experiment, table: Table, store: Store) -> None:
    (tmp_path / "models").write_text("mine")
    with pytest.raises(LindleyError, match=r"models.* cannot be made .*no file has that name"):
        run_experiment(experiment, table, tmp_path, executor=store.hand_out)
    assert (tmp_path / "models").read_text() == "mine"


class TestAnotherRunInTheFolder:
    """Said explicitly (--out), a folder is used again; its old results must not pass for the new ones."""

    def test_old_results_go_before_the_work_begins(
        self, finished: Path, table: Table, experiment: Experiment, store: Store
    ) -> None:
        def breaks_off(*_: Any) -> Iterator[Any]:
            raise KeyboardInterrupt
            yield

        other = make_experiment(models=("tlm", "tlm+pav"))
        with pytest.raises(KeyboardInterrupt):
            run_experiment(other, table, finished, executor=breaks_off)
        assert not (finished / "results.json").exists()
        with pytest.raises(LindleyError, match="is not finished"):
            SavedRun.open(finished)
        assert go_on(finished, experiment, table, store)  # and back: what was finished of the first is still there
        assert store.asked == []
        SavedRun.open(finished)

    def test_results_stay_where_there_is_nothing_to_do(self, finished: Path, table: Table) -> None:
        """Fewer models of the same units need no work, and replace the results in one step."""
        told: list[str] = []
        rows = make_experiment(models=("yeo-johnson:tlm", "tlm"))
        run_experiment(rows, table, finished, notice=told.append).write(finished)
        assert "4 of 4 parts of this experiment are finished already, and are used." in told
        assert SavedRun.open(finished).models == ("yeo-johnson:tlm", "tlm")

    def test_a_results_file_that_cannot_go(self, finished: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        def refuse(*_: Any, **__: Any) -> None:
            raise PermissionError(13, "Permission denied")

        monkeypatch.setattr(Path, "unlink", refuse)
        with pytest.raises(LindleyError, match=r"cannot be replaced .*Close it"):
            drop_results(finished)


def test_what_killed_runs_left_half_written_is_swept_away(tmp_path: Path, experiment: Experiment, table: Table) -> None:
    deep = tmp_path / "models" / "tlm[epochs=3]"
    deep.mkdir(parents=True)
    old = [tmp_path / ".results.json.12.part", deep / ".llrs-01-07.npz.12.part"]
    young, visible = deep / ".llrs-01-07.npz.13.part", tmp_path / "my.part"
    for path in (*old, young, visible):
        path.write_text("half")
    long_ago = time.time() - LEFT_BEHIND - 5
    for path in (*old, visible):
        os.utime(path, (long_ago, long_ago))
    start_folder(tmp_path, experiment, table)
    assert not any(path.exists() for path in old)
    assert young.exists()  # perhaps of a run that is at work
    assert visible.exists()  # not ours


class TestDefaultFolder:
    @pytest.fixture(autouse=True)
    def elsewhere(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.chdir(tmp_path)

    first, second, third = (Path("results", f"small-panes{end}") for end in ("", "-2", "-3"))

    def begin(self, experiment: Experiment, table: Table) -> Path:
        folder = default_folder(experiment, table)
        folder.mkdir(parents=True, exist_ok=True)
        start_folder(folder, experiment, table)
        return folder

    def test_numbers(self, experiment: Experiment, table: Table) -> None:
        """Unfinished runs count: each goes on where it was, and none takes the place of another."""
        other_seed = make_experiment(protocol={"splits": 8, "seed": 3})
        other_data = make_table(seed=5)
        assert self.begin(experiment, table) == self.first
        assert self.begin(other_seed, table) == self.second
        assert self.begin(experiment, other_data) == self.third
        for _ in range(2):
            assert self.begin(experiment, table) == self.first
            assert self.begin(other_seed, table) == self.second
            assert self.begin(experiment, other_data) == self.third
        assert sorted(Path("results").iterdir()) == [self.first, self.second, self.third]

    def test_output_and_the_shape_of_the_file_make_no_other_experiment(
        self, experiment: Experiment, table: Table
    ) -> None:
        assert self.begin(experiment, table) == self.first
        drawn = experiment.model_copy(update={"output": experiment.output.model_copy(update={"report": False})})
        assert default_folder(drawn, table) == self.first
        written = Path("mine.yaml")
        written.write_text(folder_module.resolved(experiment), encoding="utf-8")
        assert default_folder(load_experiment("mine.yaml"), table) == self.first

    @pytest.mark.parametrize("name", ["experiment.yaml", "results.json"])
    @pytest.mark.parametrize("text", ["", "[1, 2]", "name: [", "{}", "name: x\n", "\x00"])
    def test_what_is_not_ours_is_left_alone(self, name: str, text: str, experiment: Experiment, table: Table) -> None:
        self.first.mkdir(parents=True)
        (self.first / name).write_text(text)
        assert self.begin(experiment, table) == self.second
        assert [(p.name, p.read_text()) for p in self.first.iterdir()] == [(name, text)]

    def test_killed_before_anything_was_begun(
        self, experiment: Experiment, table: Table, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """At each file that is written first: the same command comes back to the same folder."""
        write = folder_module.write_atomically
        for files in (0, 1):
            written: list[Path] = []

            def dies(path: Path, data: bytes, files: int = files, written: list[Path] = written) -> None:
                if len(written) == files:
                    raise SystemExit
                written.append(path)
                write(path, data)

            with monkeypatch.context() as patch:
                patch.setattr(folder_module, "write_atomically", dies)
                with pytest.raises(SystemExit):
                    self.begin(experiment, table)
            assert default_folder(experiment, table) == self.first
        assert self.begin(experiment, table) == self.first

    def test_a_finished_run_is_found_again(self, pristine: Path, experiment: Experiment, table: Table) -> None:
        self.first.parent.mkdir()
        self.first.symlink_to(pristine, target_is_directory=True)
        assert default_folder(experiment, table) == self.first
        assert yaml.safe_load((pristine / "experiment.yaml").read_text())["name"] == "small"


def test_units_of_an_experiment_are_those_of_its_folder(pristine: Path, experiment: Experiment) -> None:
    assert {unit.id for unit in make_units(experiment)} == {p.stem for p in (pristine / "units").iterdir()}


class TestGroups:
    """How many splits are worked on together is settled when a run begins, and stays so."""

    ROWS = ("tlm", "ntlm-single-pairs-n1")

    def chosen(self, **training: Any) -> Experiment:
        return make_experiment(
            models=self.ROWS, protocol=Protocol(splits=4, seed=2), training={"epochs": 1, **training}
        )

    def units(self, folder: Path) -> list[str]:
        return sorted(path.stem for path in (folder / "units").iterdir())

    def test_a_run_goes_on_with_the_groups_it_began_with(self, tmp_path: Path, table: Table) -> None:
        """With fewer workers, too: its parts are used, and none is done again."""
        run_experiment(self.chosen(), table, tmp_path, workers=2).write(tmp_path)
        before = self.units(tmp_path)
        assert before == [f"{row}.{span}" for row in ("ntlm-single-pairs-n1", "tlm") for span in ("01-02", "03-04")]
        (tmp_path / "units" / "ntlm-single-pairs-n1.03-04.json").unlink()
        notices: list[str] = []
        run_experiment(self.chosen(), table, tmp_path, notice=notices.append, workers=1)
        assert notices == ["3 of 4 parts of this experiment are finished already, and are used."]
        assert self.units(tmp_path) == before

    def test_it_is_found_whatever_the_workers(
        self, tmp_path: Path, table: Table, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.chdir(tmp_path)
        folder = default_folder(self.chosen(), table)
        folder.mkdir(parents=True)
        run_experiment(self.chosen(), table, folder, workers=2)
        assert default_folder(self.chosen(), table) == folder
        assert default_folder(self.chosen(group=2), table) == folder
        assert default_folder(self.chosen(group=3), table) != folder

    def test_what_nobody_can_use_settles_nothing(self, tmp_path: Path, table: Table) -> None:
        """Of an earlier version, whose parts are done again: as this version would have begun."""
        run_experiment(self.chosen(group=3), table, tmp_path)
        for path in (tmp_path / "units").iterdir():
            path.write_text(path.read_text().replace('"key": "', '"key": "0'))
        results = run_experiment(self.chosen(), table, tmp_path)
        assert results.experiment.training.group == 32
        results.write(tmp_path)
        assert len(SavedRun.open(tmp_path).result("tlm").test_cllr) == 4

    def test_other_groups_that_are_asked_for_are_other_work(self, tmp_path: Path, table: Table) -> None:
        run_experiment(self.chosen(group=2), table, tmp_path)
        run_experiment(self.chosen(group=4), table, tmp_path).write(tmp_path)
        run = SavedRun.open(tmp_path)
        assert [run.llr("tlm", split).shape for split in range(4)] == [(15, 15)] * 4
        assert run.experiment.training.group == 4

    def test_a_finished_run_of_an_earlier_version_is_read(
        self, tmp_path: Path, table: Table, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """It had groups of splits for every model, also where each is fitted by itself now."""
        monkeypatch.setattr("lindley.models.flow.STEPS", 20)
        chosen = make_experiment(models=("tlm", "flow:tlm"), protocol=Protocol(splits=3, seed=2), training={"group": 2})
        units = make_units(chosen, all_in_groups=True)
        assert [unit.id for unit in units if unit.root.alone] == ["flow--tlm.01-01", "flow--tlm.02-03"]
        records = {}
        for unit, finished in on_this_machine(chosen, table, units, lambda *_: None):
            write_unit(tmp_path, unit.id, "earlier", finished.files, finished.record)
            records[unit] = finished.record
        start_folder(tmp_path, chosen, table)
        Results.join(chosen, table, {unit: records[unit] for unit in units}).write(tmp_path)
        before = SavedRun.open(tmp_path)
        now = run_experiment(chosen, table)
        assert before.result("flow:tlm").test_cllr == pytest.approx(now.models["flow:tlm"].test_cllr, rel=1e-9)
        assert before.llr("flow:tlm", 2).shape == (15, 15)
        run_experiment(chosen, table, tmp_path).write(tmp_path)
        assert SavedRun.open(tmp_path).result("flow:tlm").test_cllr == now.models["flow:tlm"].test_cllr
