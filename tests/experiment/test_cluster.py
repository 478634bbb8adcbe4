"""The work on a Dask cluster: the same results as here, also when a worker dies with a unit in hand."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from multiprocessing import forkserver
from pathlib import Path

import pytest
import torch

from lindley.cli import commands as cli
from lindley.errors import LindleyError
from lindley.experiment import runner
from lindley.experiment.runner import on_cluster, run_experiment, workers_at
from lindley.experiment.work import make_units
from lindley.table.splits import Protocol
from lindley.table.table import Table, export_csv
from tests.experiment.conftest import make_experiment, make_table, without_seconds

dask = pytest.importorskip("dask")
distributed = pytest.importorskip("distributed")
psutil = pytest.importorskip("psutil")

ROWS = ("tlm", "tlm+logistic", "yeo-johnson:tlm", "ntlm-single-pairs-n2", "ntlm-double-sources-n1-varying")
EXPERIMENT = make_experiment(protocol=Protocol(splits=9, seed=1), training={"epochs": 15, "group": 7}, models=ROWS)


@pytest.fixture(scope="module", autouse=True)
def _warm() -> Iterator[None]:
    """Workers are forked from a process that has imported lindley and torch, which takes each of them seconds."""
    if os.name != "posix":
        yield
        return
    with dask.config.set({"distributed.worker.multiprocessing-method": "forkserver"}):
        context = distributed.utils.get_mp_context()
        context.set_forkserver_preload(["distributed", "lindley.experiment.runner"])
        forkserver.ensure_running()  # before anybody counts processes
        yield


@pytest.fixture(scope="module")
def serial(table: Table, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("serial")
    run_experiment(EXPERIMENT, table, folder).write(folder)
    return folder


def assert_same(folder: Path, reference: Path) -> None:
    """All figures, and every file of LLRs, models and training, to the bit."""
    ours, theirs = (json.loads((f / "results.json").read_bytes()) for f in (folder, reference))
    for content in (ours, theirs):
        content["experiment"].pop("output")
    assert without_seconds(ours) == without_seconds(theirs)
    names = sorted(p.relative_to(reference) for p in (reference / "models").rglob("*") if p.is_file())
    assert sorted(p.relative_to(folder) for p in (folder / "models").rglob("*") if p.is_file()) == names
    for name in names:
        assert (folder / name).read_bytes() == (reference / name).read_bytes(), name


def processes() -> set[int]:
    """What this process has started and still runs, but for what Python keeps for itself."""
    children = psutil.Process().children(recursive=True)
    return {p.pid for p in children if p.is_running() and "resource_tracker" not in " ".join(p.cmdline())}


@contextmanager
def leaving_nothing() -> Iterator[None]:
    before = processes()
    yield
    end = time.monotonic() + 20
    while processes() - before and time.monotonic() < end:
        time.sleep(0.1)
    assert processes() - before == set()


@pytest.fixture
def nothing_left() -> Iterator[None]:
    with leaving_nothing():
        yield


class Killer:
    """Kills the first worker that it sees at work on a unit; given to a run in place of a progress bar."""

    def __init__(self) -> None:
        self.victims: list[int] = []
        self.done: list[str] = []

    def __call__(self, doing: str, detail: str, share: float) -> None:
        if "to go" in detail:
            self.done.append(f"{doing} {detail}")
        while not self.victims:
            client = distributed.default_client()
            with suppress(OSError):  # a worker that is busy may not answer in time: it is asked again
                for worker, stacks in client.call_stack().items():
                    if stacks and not self.victims:
                        self.victims.append(client.run(os.getpid, workers=[worker])[worker])
                        os.kill(self.victims[0], signal.SIGKILL)
            time.sleep(0.02)

    def check(self) -> None:
        (victim,) = self.victims
        assert not psutil.pid_exists(victim) or psutil.Process(victim).status() == psutil.STATUS_ZOMBIE
        assert len(self.done) == len(make_units(EXPERIMENT)) == 8


needs_sigkill = pytest.mark.skipif(os.name != "posix", reason="Windows has no SIGKILL to send")


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    with (
        leaving_nothing(),
        distributed.LocalCluster(
            n_workers=1, threads_per_worker=1, processes=True, dashboard_address="127.0.0.1:0", memory_limit=0
        ) as running,
    ):
        yield running.scheduler_address


class TestAddress:
    """A scheduler that runs already, with one worker."""

    @needs_sigkill
    def test_the_only_worker_is_killed(self, address: str, table: Table, serial: Path, tmp_path: Path) -> None:
        """Another one is started in its place, which knows nothing of the data."""
        killer = Killer()
        run_experiment(EXPERIMENT, table, tmp_path, executor=on_cluster(address), progress=killer).write(tmp_path)
        killer.check()
        assert_same(tmp_path, serial)

    def test_only_what_is_missing_is_sent(self, address: str, table: Table, serial: Path, tmp_path: Path) -> None:
        """And warnings of a worker are heard here; with nothing to do, nobody is asked."""
        few = make_table(20, features=7)  # too few for a covariance of seven features
        chosen = make_experiment(protocol=Protocol(splits=2), models=("tlm", "yeo-johnson:tlm"))
        sent: list[str] = []
        with pytest.warns(UserWarning, match="Ledoit and Wolf"):
            run_experiment(
                chosen, few, tmp_path, executor=on_cluster(address), progress=lambda doing, *_: sent.append(doing)
            )
        assert set(sent) == {"tlm", "yeo-johnson:tlm", "done"}
        (tmp_path / "units" / "yeo-johnson--tlm.01-02.json").unlink()
        sent.clear()
        with pytest.warns(UserWarning, match="Ledoit and Wolf"):
            run_experiment(
                chosen, few, tmp_path, executor=on_cluster(address), progress=lambda doing, *_: sent.append(doing)
            )
        assert set(sent) == {"yeo-johnson:tlm", "done"}
        run_experiment(chosen, few, tmp_path, executor=on_cluster("tcp://127.0.0.1:9"))

    def test_few_units_are_handed_out_at_a_time(
        self, address: str, table: Table, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Each carries its data with it, and a scheduler holds what it has not done yet."""
        monkeypatch.setattr(runner, "IN_HAND", 2)  # less than four for the worker
        held: list[int] = []

        def look(doing: str, detail: str, done: float) -> None:
            if "to go" in detail:
                held.append(len(distributed.default_client().futures))

        chosen = make_experiment(models=("tlm",), protocol=Protocol(splits=12), training={"group": 1})
        results = run_experiment(chosen, table, executor=on_cluster(address), progress=look)
        assert len(results.models["tlm"].test_cllr) == len(held) == 12
        assert max(held) <= 4
        assert workers_at(address) == 1

    def test_a_worker_of_another_version_is_refused(
        self, address: str, table: Table, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(runner, "code_digest", lambda: "another")
        with pytest.raises(LindleyError, match=r"has another version of lindley .*Install the same on all machines"):
            run_experiment(EXPERIMENT, table, executor=on_cluster(address))

    @pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU, and no error")
    def test_an_error_of_a_unit_comes_through(self, address: str, table: Table) -> None:
        unit = make_units(EXPERIMENT)[0]
        with pytest.raises(LindleyError, match="no CUDA device"):
            next(
                on_cluster(address)(
                    EXPERIMENT.model_copy(update={"training": EXPERIMENT.training.model_copy(update={"device": "cuda"})}),
                    table, [unit], lambda *_: None,
                )
            )  # fmt: skip


@pytest.mark.usefixtures("nothing_left")
def test_a_scheduler_without_workers(table: Table, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runner, "WORKERS_WITHIN", 1)
    with (
        distributed.LocalCluster(
            n_workers=0, processes=False, protocol="tcp", dashboard_address="127.0.0.1:0"
        ) as empty,
        pytest.raises(LindleyError, match=r"has no workers\. Start some with 'dask worker tcp://"),
    ):
        run_experiment(EXPERIMENT, table, executor=on_cluster(empty.scheduler_address))


@pytest.mark.parametrize("address", ["127.0.0.1", "ftp://127.0.0.1:8786", "", "tcp://127.0.0.1:9"])
def test_a_wrong_address_is_told_in_time(address: str, table: Table, tmp_path: Path) -> None:
    started = time.monotonic()
    with pytest.raises(LindleyError, match=r"There is no Dask scheduler at .*Start one with 'dask scheduler'"):
        run_experiment(EXPERIMENT, table, tmp_path, executor=on_cluster(address))
    assert time.monotonic() - started < 15
    assert not (tmp_path / "units").exists()


def test_without_dask(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "distributed", None)
    with pytest.raises(LindleyError, match=r"needs Dask, which is not installed: pip install 'lindley\[cluster\]'"):
        on_cluster("tcp://127.0.0.1:9")


def test_processes_here_or_machines_elsewhere(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    export_csv(make_table(), tmp_path / "panes.csv")
    arguments = ["--data", str(tmp_path / "panes.csv"), "--out", str(tmp_path / "both")]
    monkeypatch.setattr(sys, "argv", ["lindley", "run", *arguments, "--workers", "2", "--cluster", "tcp://127.0.0.1:9"])
    with pytest.raises(SystemExit) as ended:
        cli.main()
    assert ended.value.code == 2
    assert "and not both" in capsys.readouterr().err
    assert not (tmp_path / "both").exists()


WITHOUT = "raise ModuleNotFoundError(\"No module named 'lindley'\", name='lindley')"


@contextmanager
def dask_process(program: str, *arguments: str, **environment: str) -> Iterator[subprocess.Popen[bytes]]:
    """``dask scheduler`` or ``dask worker`` as a user starts them."""
    command = [sys.executable, "-m", f"distributed.cli.dask_{program}", *arguments, "--no-dashboard"]
    with subprocess.Popen(command, env={**os.environ, **environment}, stderr=subprocess.DEVNULL) as process:
        try:
            yield process
        finally:
            process.kill()


@pytest.fixture(scope="module")
def scheduler() -> Iterator[str]:
    """A scheduler without workers."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    with dask_process("scheduler", "--host", "127.0.0.1", "--port", str(port)):
        yield f"tcp://127.0.0.1:{port}"


def wait_for_one(scheduler: str) -> None:
    with distributed.Client(scheduler, timeout="60s") as client:
        client.wait_for_workers(1, timeout=60)


def test_a_worker_without_lindley_is_found_before_the_first_unit(scheduler: str, table: Table, tmp_path: Path) -> None:
    (tmp_path / "lindley").mkdir()
    (tmp_path / "lindley" / "__init__.py").write_text(WITHOUT)
    begun: list[str] = []
    with dask_process("worker", scheduler, "--nthreads", "1", "--no-nanny", PYTHONPATH=str(tmp_path)):
        wait_for_one(scheduler)
        started = time.monotonic()
        with pytest.raises(
            LindleyError, match=r"worker tcp://\S+ cannot use lindley \(.*No module.*\)\. Install lindley"
        ):
            run_experiment(
                EXPERIMENT, table, executor=on_cluster(scheduler), progress=lambda *what: begun.append(what[0])
            )
    assert not begun
    assert time.monotonic() - started < 30


def test_a_cluster_that_loses_its_last_worker(
    scheduler: str, table: Table, serial: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is told within 30 seconds; and with another worker the same run goes on."""
    assert runner.NO_WORKER <= 20
    monkeypatch.setattr(runner, "NO_WORKER", 4.0)
    killed: list[float] = []
    with dask_process("worker", scheduler, "--nthreads", "1", "--no-nanny") as worker:

        def kill(doing: str, detail: str, done: float) -> None:
            if "to go" in detail:
                worker.kill()
                killed.append(time.monotonic())

        wait_for_one(scheduler)
        with pytest.raises(LindleyError, match=r"has lost its last worker.*start workers with 'dask worker tcp://"):
            run_experiment(EXPERIMENT, table, tmp_path, executor=on_cluster(scheduler), progress=kill)
        assert time.monotonic() - killed[0] < 4 + 10
    with dask_process("worker", scheduler, "--nthreads", "1", "--no-nanny"):
        wait_for_one(scheduler)
        run_experiment(EXPERIMENT, table, tmp_path, executor=on_cluster(scheduler)).write(tmp_path)
    assert_same(tmp_path, serial)
