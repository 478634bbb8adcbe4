"""Shared by all tests: where other people's data is, and hypothesis without a deadline on noisy machines."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

settings.register_profile("lindley", deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("lindley")


@pytest.fixture(scope="session")
def data_folder() -> Path:
    """The folder of public tables that LINDLEY_DATA names; the test is skipped where it is not set."""
    folder = os.environ.get("LINDLEY_DATA")
    if not folder or not Path(folder).is_dir():
        pytest.skip("needs public data: set LINDLEY_DATA to the folder that holds it")
    return Path(folder)
