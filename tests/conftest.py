"""Shared by all tests: where other people's data is, hypothesis without a deadline on noisy machines, and what comes first."""

from __future__ import annotations

import gc
import os
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from lindley.experiment.cores import usable_cores
from lindley.pages.page import Picture

settings.register_profile("lindley", deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("lindley")

# A fifth of the time of many tests would be spent on looking for cycles among the million objects of what they import.
gc.set_threshold(50_000, 20, 20)

LONGEST = (
    "models/robust/test_fit.py", "test_docs.py", "app/test_walk.py", "bench/test_bench.py", "pages/test_page.py",
    "models/bayes/test_fit.py", "pages/test_browser.py", "system/test_doors.py", "models/robust/test_model.py",
    "app/test_browser.py", "app/test_access.py", "experiment/test_cluster.py", "system/test_train.py",
    "models/neural/test_training.py", "experiment/test_resume.py", "app/test_server.py", "app/test_cases.py", "test_cli.py",
    "experiment/test_runner.py", "casework/test_validation.py", "casework/test_validation_report.py",
    "models/robust/test_dense.py", "models/robust/test_groups.py", "models/robust/test_approximation.py",
    "casework/test_cli_cases.py", "experiment/test_worker_processes.py", "models/neural/test_processes.py", "pages/test_pdf.py",
    "system/test_many_pairs.py",
    "bundle/test_bundle.py", "app/test_jobs.py", "app/test_systems.py",
)  # fmt: skip
"""These begin first, the longest before the others: a file of half a minute that begins last keeps one core waiting."""


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers() -> int:
    """One worker more than there are cores: browsers, and processes that start, keep one waiting a sixth of the time."""
    return usable_cores() + 1


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """The longest first, each module together, and all others in their order."""
    folder = Path(__file__).parent
    turns = {folder / name: turn for turn, name in enumerate(LONGEST)}
    items.sort(key=lambda item: turns.get(item.path, len(turns)))


def pytest_collection_finish() -> None:
    """What is imported by now stays: it is no longer looked at for cycles."""
    gc.collect()
    gc.freeze()


@pytest.fixture(scope="session")
def data_folder() -> Path:
    """The folder of public tables that LINDLEY_DATA names; the test is skipped where it is not set."""
    folder = os.environ.get("LINDLEY_DATA")
    if not folder or not Path(folder).is_dir():
        pytest.skip("needs public data: set LINDLEY_DATA to the folder that holds it")
    return Path(folder)


SHORT_SEARCH = {
    "STEPS": 4, "STEPS_OF_A_TRIAL": 1, "ORDER": ("axes",), "STARTS": ((0.1, 0.1),), "SHRINKAGES": (0.1, 1.0), "AXES": (2, 8),
    "AXES_OF_STARTS": (4,), "MOST_MEMBERS": 3, "STEPS_OF_A_CANDIDATE": 1, "WORTH_WORKERS": 100,
}  # fmt: skip
"""Few steps of the same kind, in ``lindley.models.robust.fit``."""
SHORT_CHAINS = {"BURN_IN": 100, "THIN": 2}
"""The same for the chains of a posterior, in ``lindley.models.bayes.fit``."""


def shorten_search(patch: pytest.MonkeyPatch) -> None:
    """Have the robust model and the full Bayesian one take few steps of the same kind."""
    for module, shorter in (("robust", SHORT_SEARCH), ("bayes", SHORT_CHAINS)):
        for name, value in shorter.items():
            patch.setattr(f"lindley.models.{module}.fit.{name}", value)


@pytest.fixture
def short_search(monkeypatch: pytest.MonkeyPatch) -> None:
    """For tests of what does not depend on how far the robust model searches, or how long chains are."""
    shorten_search(monkeypatch)


@pytest.fixture
def undrawn(monkeypatch: pytest.MonkeyPatch) -> None:
    """Pictures of a run by their names, and nothing in them: drawing them takes seconds."""
    empty = Picture(b"<svg></svg>", b"")
    monkeypatch.setattr("lindley.pages.run_drawings.picture", lambda draw: empty)
