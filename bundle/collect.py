"""The wheels of a bundle: lindley's own, and everything that it needs on the target.

pip cannot be asked for them all at once: where it downloads for another machine, it still asks *this* one whether a requirement
"on Windows only" counts. So the requirements are followed here, package by package, with what holds on the target; the
versions are those of constraints.txt, and pip only fetches.
"""

from __future__ import annotations

import os
import subprocess
import sys
import zipfile
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from email import message_from_string
from email.message import Message
from pathlib import Path

from packaging.requirements import InvalidRequirement, Requirement
from packaging.utils import canonicalize_name, parse_wheel_filename

from bundle.target import Problem, Target

__all__ = ["Fetch", "Wheel", "build_own", "collect", "fetch_with_pip", "read_pins"]

CPU_TORCH = ["--extra-index-url", "https://download.pytorch.org/whl/cpu"]
"""On Linux, PyPI's torch brings gigabytes of CUDA; the build without is called VERSION+cpu, and is published here."""

Fetch = Callable[[list[str], Path, Target], "list[str]"]
"""Fetches wheels such as ``numpy==2.4.6`` into a folder, and returns why those that it could not get are missing."""


@dataclass(frozen=True)
class Wheel:
    """A wheel in a folder, and what it says of itself."""

    path: Path
    name: str
    version: str
    metadata: Message

    @classmethod
    def read(cls, path: Path) -> Wheel:
        """Open a wheel."""
        name, version, *_ = parse_wheel_filename(path.name)
        with zipfile.ZipFile(path) as archive:
            member = next(
                entry for entry in archive.namelist() if entry.count("/") == 1 and entry.endswith(".dist-info/METADATA")
            )
            metadata = message_from_string(archive.read(member).decode("utf-8"))
        return cls(path, name, str(version), metadata)

    @property
    def requirements(self) -> list[Requirement]:
        """What it needs, with the markers that say where."""
        return [Requirement(line) for line in self.metadata.get_all("Requires-Dist", [])]

    @property
    def extras(self) -> set[str]:
        """The extras that it offers."""
        return {canonicalize_name(extra) for extra in self.metadata.get_all("Provides-Extra", [])}


def read_pins(path: Path) -> dict[str, str]:
    """The version of every package in constraints.txt."""
    pins = {}
    for number, line in enumerate(path.read_text("utf-8").splitlines(), 1):
        text = line.partition("#")[0].strip()
        if not text:
            continue
        try:
            requirement = Requirement(text)
            (specifier,) = requirement.specifier
        except (InvalidRequirement, ValueError):
            raise Problem(f"{path}, line {number}: {text!r} is not of the form NAME==VERSION.") from None
        name = canonicalize_name(requirement.name)
        if name in pins:
            raise Problem(f"{path}, line {number}: {name} stands there twice.")
        pins[name] = specifier.version
    return pins


def build_own(source: Path, folder: Path, constraints: Path) -> Wheel:
    """Build lindley's wheel from the folder that holds pyproject.toml."""
    command = [sys.executable, "-m", "pip", "wheel", "--quiet", "--disable-pip-version-check", "--no-deps"]
    # The builder is pinned too: pip hands constraints on to the environment that builds by one of these variables, by its
    # version. In either, a space would end the name of the file; in an address there is none.
    pins = dict.fromkeys(("PIP_CONSTRAINT", "PIP_BUILD_CONSTRAINT"), constraints.resolve().as_uri())
    done = _run([*command, "--wheel-dir", str(folder), str(source)], pins)
    if done.returncode:
        raise Problem(f"The wheel of {source} could not be built:\n{done.stderr.strip()}")
    (path,) = folder.glob("*.whl")
    return Wheel.read(path)


def fetch_with_pip(wanted: list[str], folder: Path, target: Target) -> list[str]:
    """Fetch wheels from the indexes that pip is set up with; and see `Fetch`."""
    if _download(wanted, folder, target, []) is None:
        return []
    missing = []
    for one in wanted:
        refused = _download([one], folder, target, [])
        hint = ""
        if refused and one.startswith("torch=="):
            refused = _download([one], folder, target, CPU_TORCH)
            hint = f" It is published at {CPU_TORCH[1]}: make that reachable, or name a folder that holds it in PIP_FIND_LINKS."
        if refused:
            missing.append(
                f"{one}: pip has no wheel for {target.platform} and Python {target.python}: {refused}.{hint}"
            )
    return missing


def collect(
    own: Wheel, extras: Iterable[str], folder: Path, target: Target, pins: dict[str, str], fetch: Fetch = fetch_with_pip
) -> dict[str, Wheel]:
    """Fetch into `folder` all that `own` needs on the target, and pip, which installs it there. Everything, or a `Problem`.

    Args:
        own: lindley's wheel, in `folder` already.
        extras: the extras of it that the bundle is to have.
        folder: where the wheels go.
        target: the machine that they are for.
        pins: the version of every package, from constraints.txt.
        fetch: gets wheels; tests have one that needs no network.
    """
    unknown = sorted(set(extras) - own.extras)
    if unknown:
        offered = ", ".join(sorted(own.extras)) or "none"
        raise Problem(f"{own.name} {own.version} has no extra {', '.join(unknown)}; it has {offered}.")
    wheels = {own.name: own}
    followed: dict[str, set[str]] = {}
    asked = {own.name: set(extras), canonicalize_name("pip"): set[str]()}
    holes: list[str] = [] if "pip" in pins else ["constraints.txt has no version of pip: add NAME==VERSION there."]
    lost = set() if "pip" in pins else {canonicalize_name("pip")}
    while todo := [name for name in asked if name not in lost and followed.get(name) != asked[name]]:
        holes += _fetch_missing(sorted(set(todo) - set(wheels)), wheels, folder, target, pins, fetch)
        lost |= set(todo) - set(wheels)
        for name in [name for name in todo if name in wheels]:
            followed[name] = set(asked[name])
            for requirement in wheels[name].requirements:
                if not target.holds(requirement.marker, followed[name]):
                    continue
                hole = _unpinned(requirement, wheels[name], own, pins)
                if hole:
                    holes.append(hole)
                else:
                    needed = canonicalize_name(requirement.name)
                    asked.setdefault(needed, set()).update(map(canonicalize_name, requirement.extras))
    if holes:
        told = "\n".join(f"- {hole}" for hole in dict.fromkeys(holes))
        raise Problem(f"The bundle would have holes, and is not made:\n{told}")
    return {name: wheels[name] for name in sorted(wheels)}


def _unpinned(requirement: Requirement, asking: Wheel, own: Wheel, pins: dict[str, str]) -> str | None:
    """Why the version of constraints.txt does not do, if it does not."""
    name = canonicalize_name(requirement.name)
    if name == own.name:
        return None
    if name not in pins:
        return f"{asking.name} needs {requirement.name}, and constraints.txt has no version of it: add NAME==VERSION there."
    if not requirement.specifier.contains(pins[name], prereleases=True):
        return f"{asking.name} needs {requirement.name}{requirement.specifier}, and constraints.txt has {pins[name]}."
    return None


def _fetch_missing(
    names: list[str], wheels: dict[str, Wheel], folder: Path, target: Target, pins: dict[str, str], fetch: Fetch
) -> list[str]:
    """Fetch packages and add them to the wheels; return why those are missing that cannot be had."""
    if not names:
        return []
    local = "+cpu" if target.platform == "linux_x86_64" else ""
    missing = fetch([f"{name}=={pins[name]}{local if name == 'torch' else ''}" for name in names], folder, target)
    found = {wheel.name: wheel for wheel in map(Wheel.read, sorted(folder.glob("*.whl")))}
    wheels.update({name: found[name] for name in names if name in found})
    return missing


def _download(wanted: list[str], folder: Path, target: Target, more: list[str]) -> str | None:
    """Let pip download, and return what it says where it cannot."""
    command = [
        sys.executable,
        "-m",
        "pip",
        "download",
        "--quiet",
        "--disable-pip-version-check",
        "--no-deps",
        "--retries=1",
    ]
    done = _run([*command, *target.pip_options, *more, "--dest", str(folder), *wanted])
    if done.returncode == 0:
        return None
    errors = [line.removeprefix("ERROR: ") for line in done.stderr.splitlines() if line.startswith("ERROR")]
    return " ".join(errors) or done.stderr.strip()


def _run(command: list[str], more: dict[str, str] | None = None) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, **(more or {})}
    return subprocess.run(command, capture_output=True, text=True, encoding="utf-8", check=False, env=environment)
