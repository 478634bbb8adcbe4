"""The folder of a bundle, with its scripts and checksums, and the zip file of it: the same bytes from the same wheels."""

from __future__ import annotations

import hashlib
import json
import shutil
import zipfile
from pathlib import Path
from string import Template

from bundle.collect import Wheel
from bundle.licences import write_licences
from bundle.target import Target

__all__ = ["CARRIED", "SUMS", "digest", "fill", "name_of", "write_zip"]

CARRIED = Path(__file__).parent / "carried"
"""The files that go along: scripts and a page to read, in which $version, $python and $platform are filled in."""
SUMS = "SHA256SUMS"
CRLF = (".cmd", ".txt")
LONG_AGO = (1980, 1, 1, 0, 0, 0)
"""The date of every file in the zip: the day on which it was made is not part of it."""


def name_of(own: Wheel, target: Target) -> str:
    """The name of the bundle's folder."""
    return f"{own.name}-{own.version}-{target.platform}-py{target.python}"


def fill(folder: Path, own: Wheel, wheels: list[Wheel], extras: list[str], target: Target) -> list[str]:
    """Write all that stands beside the wheels, checksums last; return the packages that have no licence text.

    `folder` has the wheels in ``wheels`` already.
    """
    without = write_licences(wheels, folder / "licences")
    words = {"version": own.version, "python": target.python, "platform": target.platform}
    for template in sorted(path for path in CARRIED.iterdir() if path.is_file()):
        text = template.read_text("utf-8")
        if template.suffix != ".py":
            text = Template(text).substitute(words)
        ending = "\r\n" if template.suffix in CRLF else "\n"
        (folder / template.name).write_text(text, "utf-8", newline=ending)
    (folder / "install.sh").chmod(0o755)
    members = [member for wheel in wheels for member in _members(wheel)]
    about = {
        "version": own.version,
        "platform": target.platform,
        "python": target.python,
        "requirement": f"{own.name}[{','.join(extras)}]=={own.version}" if extras else f"{own.name}=={own.version}",
        "app": "app" in extras,
        "longest_name": max(len(_compiled(name)) for name, _ in members),
        "installed_bytes": sum(size for _, size in members),
    }
    (folder / "bundle.json").write_text(json.dumps(about, indent=2) + "\n", "utf-8", newline="\n")
    pins = "".join(f"{wheel.name}=={wheel.version}\n" for wheel in sorted(wheels, key=lambda one: one.name))
    (folder / "constraints.txt").write_text(pins, "utf-8", newline="\n")
    names = sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file())
    (folder / SUMS).write_text("".join(f"{digest(folder / name)}  {name}\n" for name in names), "utf-8", newline="\n")
    return without


def _members(wheel: Wheel) -> list[tuple[str, int]]:
    """The files in a wheel, with their sizes."""
    with zipfile.ZipFile(wheel.path) as archive:
        return [(info.filename, info.file_size) for info in archive.infolist()]


def _compiled(name: str) -> str:
    """The longest name that a file of a wheel gets: Python compiles modules into a folder beside them."""
    above, _, stem = name.removesuffix(".py").rpartition("/")
    return f"{above}/__pycache__/{stem}.cpython-311.pyc" if name.endswith(".py") else name


def write_zip(folder: Path, path: Path) -> str:
    """Write the folder to a zip file with a checksum file beside it, and return the checksum.

    Files are stored as they are: wheels are compressed already, and so no version of zlib changes the bytes.
    """
    with zipfile.ZipFile(path, "w", zipfile.ZIP_STORED) as archive:
        for source in sorted(folder.rglob("*"), key=lambda one: one.relative_to(folder).as_posix()):
            if not source.is_file():
                continue
            info = zipfile.ZipInfo(f"{folder.name}/{source.relative_to(folder).as_posix()}", LONG_AGO)
            info.create_system = 3
            info.external_attr = (0o100755 if source.suffix == ".sh" else 0o100644) << 16
            with source.open("rb") as reading, archive.open(info, "w", force_zip64=False) as writing:
                shutil.copyfileobj(reading, writing, 1 << 20)
    checksum = digest(path)
    path.with_name(path.name + ".sha256").write_text(f"{checksum}  {path.name}\n", "utf-8", newline="\n")
    return checksum


def digest(path: Path) -> str:
    """The SHA-256 of a file."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
