"""The models run where there are torch, NumPy and SciPy alone."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import lindley

ABSENT = ("pydantic", "yaml", "sklearn", "matplotlib", "typer", "rich", "openpyxl")
CODE = """
import importlib, pkgutil, sys

for name in {absent}:
    sys.modules[name] = None  # importing it raises ImportError
import lindley.models
import lindley.table.splits

found = [module.name for module in pkgutil.walk_packages(lindley.models.__path__, "lindley.models.")]
for name in found:
    importlib.import_module(name)
print(len(found))
"""


def test_models_need_torch_numpy_and_scipy_alone() -> None:
    done = subprocess.run(
        [sys.executable, "-c", CODE.format(absent=ABSENT)], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    models = Path(lindley.__file__).parent / "models"
    files = [path for path in models.rglob("*.py") if path.name != "__init__.py"]
    packages = [path for path in models.iterdir() if (path / "__init__.py").exists()]
    assert int(done.stdout) == len(files) + len(packages)
