"""What is installed: versions that hold on the lowest Python that is promised, and whose warnings end a test."""

from __future__ import annotations

import os
import shutil
import subprocess
import tomllib
import warnings
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path

import pytest
import yaml
from bundle.collect import read_pins
from packaging.specifiers import SpecifierSet
from packaging.version import Version

ROOT = Path(__file__).parent.parent


def test_pins_hold_on_the_lowest_python_that_is_promised() -> None:
    """Of every package that is installed here as it is pinned: with documentation tools after `make docs`."""
    promised = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]["requires-python"]
    lowest = promised.removeprefix(">=")
    assert f"Python {lowest} or newer" in (ROOT / "README.md").read_text("utf-8")
    wanted = {}
    for name, version in read_pins(ROOT / "constraints.txt").items():
        try:
            found = distribution(name)
        except PackageNotFoundError:
            continue
        if Version(found.version).public == version:
            wanted[name] = found.metadata.get("Requires-Python", "")
    assert len(wanted) > 50
    assert [name for name, pythons in wanted.items() if f"{lowest}.0" not in SpecifierSet(pythons)] == []


def test_linters_are_of_one_version_everywhere() -> None:
    hooks = yaml.safe_load((ROOT / ".pre-commit-config.yaml").read_text("utf-8"))["repos"]
    used = {hook["repo"].rpartition("/")[2]: hook.get("rev", "").removeprefix("v") for hook in hooks}
    assert used["ruff-pre-commit"] == read_pins(ROOT / "constraints.txt")["ruff"]
    assert f"vulture=={used['vulture']}\n" in (ROOT / ".github/workflows/tests.yml").read_text("utf-8")


@pytest.mark.parametrize(
    ("category", "module"),
    [
        (DeprecationWarning, "lindley"),
        (UserWarning, "lindley.models.classical"),
        (FutureWarning, "tests.table.test_read"),
        (RuntimeWarning, "scipy.stats"),
        (ResourceWarning, "sys"),
        (pytest.PytestUnraisableExceptionWarning, "_pytest.unraisableexception"),
        (pytest.PytestUnhandledThreadExceptionWarning, "_pytest.threadexception"),
    ],
)
def test_a_warning_of_ours_or_of_misuse_ends_a_test(category: type[Warning], module: str) -> None:
    with pytest.raises(category):
        warnings.warn_explicit("no", category, "a.py", 1, module=module)


@pytest.mark.parametrize("module", ["weasyprint.text.ffi", "lindleyan", "dask.lindley"])
def test_a_warning_of_another_package_is_its_own(module: str) -> None:
    with warnings.catch_warnings(record=True) as caught:
        warnings.warn_explicit("a library is missing", DeprecationWarning, "a.py", 1, module=module)
    assert [str(each.message) for each in caught] == ["a library is missing"]


@pytest.mark.skipif(os.name != "posix", reason="a script of a POSIX shell")
def test_where_no_bare_machine_can_be_made_ci_says_so(tmp_path: Path) -> None:
    for tool in ("bash", "dirname", "id", "mkdir", "uname"):
        (tmp_path / tool).symlink_to(shutil.which(tool) or tool)
    script = [str(tmp_path / "bash"), str(ROOT / ".ci" / "bare-root")]
    done = subprocess.run(script, env={"PATH": str(tmp_path)}, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "NOT SHOWN" in done.stdout
