"""That a bundle is enough: pip finds everything in it without an index, and it installs and works without a network."""

from __future__ import annotations

import csv
import json
import os
import subprocess
import sys
import tempfile
import time
import zipfile
from pathlib import Path

from packaging.utils import canonicalize_name

from bundle.collect import Wheel
from bundle.target import Problem, Target

__all__ = ["install_and_work", "resolve"]

PIP_ELSEWHERE = """
import json, sys
sys.path.insert(0, sys.argv[1])
from pip._vendor.packaging import markers
there = json.loads(sys.argv[2])
markers.default_environment = lambda: dict(there)
from pip._internal.cli.main import main
sys.exit(main(sys.argv[3:]))
"""
"""pip, told what markers read on the target. Alone it takes them from the machine that it runs on, whatever --platform says."""


def resolve(folder: Path, target: Target) -> int:
    """Let pip find all that the bundle installs, for the target and without an index; return the number of packages.

    Everything that pip would install has to be in the bundle, and nothing else may be.
    """
    about = json.loads((folder / "bundle.json").read_text("utf-8"))
    wheels = {wheel.name: wheel.version for wheel in map(Wheel.read, sorted((folder / "wheels").glob("*.whl")))}
    (pip,) = (folder / "wheels").glob("pip-*.whl")
    found: set[str] = set()
    with tempfile.TemporaryDirectory() as nowhere:
        with zipfile.ZipFile(pip) as archive:
            archive.extractall(Path(nowhere) / "pip")
        report = Path(nowhere) / "report.json"
        options = [
            "install",
            "--dry-run",
            "--isolated",
            "--no-index",
            "--find-links",
            str(folder / "wheels"),
            "--quiet",
        ]
        options += ["--constraint", str(folder / "constraints.txt"), "--target", str(Path(nowhere) / "target")]
        options += ["--report", str(report), *target.pip_options, about["requirement"], "pip"]
        for environment in target.environments():
            command = [
                sys.executable,
                "-E",
                "-s",
                "-c",
                PIP_ELSEWHERE,
                str(Path(nowhere) / "pip"),
                json.dumps(environment),
            ]
            done = subprocess.run(
                [*command, *options],
                capture_output=True,
                text=True,
                encoding="utf-8",
                check=False,
                env={**_bare(), "PIP_CONFIG_FILE": os.devnull},
            )
            if done.returncode:
                raise Problem(
                    f"Without an index, the bundle for {target.platform} does not resolve:\n{done.stderr.strip()}"
                )
            installed = json.loads(report.read_text("utf-8"))["install"]
            found |= {canonicalize_name(entry["metadata"]["name"]) for entry in installed}
    superfluous = sorted(set(wheels) - found)
    if superfluous:
        raise Problem(f"These wheels of the bundle would not be installed: {', '.join(superfluous)}.")
    return len(found)


def install_and_work(archive: Path) -> dict[str, float]:
    """Unpack, install and evaluate a case where there is no network at all, and return what it took.

    On Linux, in a network namespace of its own that has not even a loopback device that is up. The home folder is an empty one.
    """
    took: dict[str, float] = {}
    with tempfile.TemporaryDirectory() as name:
        place = Path(name)
        with zipfile.ZipFile(archive) as packed:
            packed.extractall(place)
        (bundle,) = (path for path in place.iterdir() if path.is_dir())
        home, work = place / "home", place / "a case"
        home.mkdir()
        work.mkdir()
        environment = {**_bare(), "HOME": str(home), "PYTHON": sys.executable}
        environment.pop("LINDLEY_DATA", None)

        def without_network(step: str, *command: str) -> str:
            began = time.monotonic()
            done = subprocess.run(
                ["unshare", "--map-root-user", "--net", *command],
                cwd=work,
                env=environment,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
                encoding="utf-8",
                check=False,
            )
            took[step] = round(time.monotonic() - began, 1)
            if done.returncode:
                raise Problem(f"Without a network: {' '.join(command)}\n{done.stdout.strip()}")
            return done.stdout

        if subprocess.run(["unshare", "--map-root-user", "--net", "true"], capture_output=True, check=False).returncode:
            raise Problem("This machine does not allow a namespace without a network (unshare --map-root-user --net).")
        devices = without_network("devices", "cat", "/proc/net/dev").splitlines()[2:]
        if [line.split(":")[0].strip() for line in devices] != ["lo"]:
            raise Problem(f"There is a network where there should be none: {devices}")
        folder = home / "a place"
        without_network("install", "sh", str(bundle / "install.sh"), "--folder", str(folder))
        took["installed_mb"] = round(sum(path.lstat().st_size for path in folder.rglob("*") if path.is_file()) / 1e6)
        lindley = str(folder / "bin" / "lindley")
        without_network("check", lindley, "check", "glass-simulated")
        without_network("data", lindley, "data", "export", "glass-simulated", "--out=glass.csv")
        _hold_back_one(work / "glass.csv")
        without_network("train", lindley, "train", "background.csv", "--out", "glass.safetensors")
        without_network(
            "case", lindley, "case", "glass.safetensors", "--trace=trace.csv", "--ref=ref.csv", "--out=case.html"
        )
        print(without_network("verify", lindley, "verify", "case.html").strip())
    return took


def _hold_back_one(path: Path) -> None:
    """Write 150 sources as a background, and another one apart: two measurements as a trace, the others as a reference."""
    with path.open(encoding="utf-8-sig", newline="") as file:
        header, *rows = csv.reader(file)
    one, *others = list(dict.fromkeys(row[0] for row in rows))[:151]
    held = [row for row in rows if row[0] == one]
    parts = {"background": [row for row in rows if row[0] in set(others)], "trace": held[:2], "ref": held[2:]}
    for name, part in parts.items():
        with path.with_name(f"{name}.csv").open("w", encoding="utf-8", newline="") as file:
            csv.writer(file).writerows([header, *part])


def _bare() -> dict[str, str]:
    """The variables of this process, without those that speak to pip or Python."""
    return {name: value for name, value in os.environ.items() if not name.startswith(("PIP_", "PYTHON", "LINDLEY_"))}
