"""The machine that a bundle is for. It is another one than the machine that makes it, as a rule."""

from __future__ import annotations

import sys
import sysconfig
from dataclasses import dataclass

from packaging.markers import Marker

__all__ = ["PYTHONS", "SYSTEMS", "Problem", "Target", "this_machine"]

PYTHONS = ("3.11", "3.12")

SYSTEMS: dict[str, tuple[list[str], dict[str, str]]] = {
    "win_amd64": (
        ["win_amd64"],
        {"os_name": "nt", "sys_platform": "win32", "platform_system": "Windows", "platform_machine": "AMD64"},
    ),
    "linux_x86_64": (
        [
            *(f"manylinux_2_{minor}_x86_64" for minor in range(28, 4, -1)),
            "manylinux2014_x86_64",
            "manylinux2010_x86_64",
            "manylinux1_x86_64",
            "linux_x86_64",
        ],
        {"os_name": "posix", "sys_platform": "linux", "platform_system": "Linux", "platform_machine": "x86_64"},
    ),
    "macosx_arm64": (
        ["macosx_14_0_arm64"],
        {"os_name": "posix", "sys_platform": "darwin", "platform_system": "Darwin", "platform_machine": "arm64"},
    ),
}
"""The platform tags that pip is asked for, and what environment markers say there. Linux is glibc 2.28 or newer, and macOS is
14 or newer: torch has no wheels for older ones."""


class Problem(Exception):
    """Why there is no bundle, in words for whoever makes it."""


@dataclass(frozen=True)
class Target:
    """One kind of machine with one version of Python."""

    platform: str
    python: str

    def __post_init__(self) -> None:
        if self.platform not in SYSTEMS:
            raise Problem(f"There is no bundle for {self.platform!r}: PLATFORM is {', '.join(SYSTEMS)}.")
        if self.python not in PYTHONS:
            raise Problem(f"There is no bundle for Python {self.python!r}: PY is {' or '.join(PYTHONS)}.")

    @property
    def pip_options(self) -> list[str]:
        """What makes pip look for wheels of that machine, and of no other."""
        abi = "cp" + self.python.replace(".", "")
        options = ["--only-binary=:all:", "--implementation=cp", f"--python-version={self.python}"]
        tags = SYSTEMS[self.platform][0]
        return [*options, *(f"--abi={name}" for name in (abi, "abi3", "none")), *(f"--platform={tag}" for tag in tags)]

    def environments(self) -> list[dict[str, str]]:
        """What markers may read there: for the oldest and the newest patch of that Python, as both may be in the laboratory."""
        return [
            {
                **SYSTEMS[self.platform][1],
                "implementation_name": "cpython",
                "implementation_version": f"{self.python}.{patch}",
                "platform_python_implementation": "CPython",
                "platform_release": "",
                "platform_version": "",
                "python_version": self.python,
                "python_full_version": f"{self.python}.{patch}",
            }
            for patch in (0, 99)
        ]

    def holds(self, marker: Marker | None, extras: set[str]) -> bool:
        """Whether a requirement with this marker counts there, of a package that was asked for with these extras."""
        if marker is None:
            return True
        return any(
            marker.evaluate({**environment, "extra": extra})
            for environment in self.environments()
            for extra in (extras or {""})
        )


def this_machine() -> tuple[str, str]:
    """The platform and the Python that run this, in the words of a target."""
    system, _, machine = sysconfig.get_platform().rpartition("-")
    platform = {"linux": "linux", "win": "win", "macosx": "macosx"}.get(system.split("-")[0], system)
    return f"{platform}_{machine}", f"{sys.version_info.major}.{sys.version_info.minor}"
