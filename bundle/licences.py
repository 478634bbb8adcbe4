"""The licence texts of everything in a bundle: one file for each package, and an index.

One file, and not a folder as in the wheel: torch has 100 texts in folders so deep that Windows could not unpack them.
"""

from __future__ import annotations

import re
import zipfile
from pathlib import Path, PurePosixPath

from bundle.collect import Wheel

__all__ = ["INDEX", "licence_of", "texts_in", "write_licences"]

INDEX = "INDEX.txt"
NAMED = re.compile(r"(licen[cs]es?|copying|copyright|notice|authors)([-_.].*)?$", re.IGNORECASE)
PROGRAM = {".py", ".pyc", ".pyi", ".h", ".hpp", ".so", ".dll", ".pyd", ".js", ".html", ".json"}


def licence_of(wheel: Wheel) -> str:
    """The licence that a package states, in one line."""
    expression = wheel.metadata.get("License-Expression")
    if expression:
        return str(expression)
    classifiers = [
        line.rpartition("::")[2].strip()
        for line in wheel.metadata.get_all("Classifier", [])
        if line.startswith("License ::") and not line.endswith("OSI Approved")
    ]
    stated = str(wheel.metadata.get("License") or "").strip()
    if stated and "\n" not in stated and len(stated) < 80:
        return stated
    return ", ".join(classifiers) or "see the text"


def texts_in(wheel: Wheel) -> dict[str, str]:
    """The licence texts in a wheel, by their names there: those that its metadata names, and whatever is called a licence."""
    texts = {}
    with zipfile.ZipFile(wheel.path) as archive:
        for member in sorted(archive.namelist()):
            path = PurePosixPath(member)
            if member.endswith("/"):
                continue
            declared = len(path.parts) > 2 and path.parts[0].endswith(".dist-info") and path.parts[1] == "licenses"
            if declared or (NAMED.match(path.name) and path.suffix.lower() not in PROGRAM):
                texts[member] = archive.read(member).decode("utf-8", errors="replace").replace("\r\n", "\n")
    if not texts and len(str(wheel.metadata.get("License") or "")) > 500:  # the whole text stands in the metadata
        texts["METADATA, License"] = str(wheel.metadata["License"])
    return texts


def write_licences(wheels: list[Wheel], folder: Path) -> list[str]:
    """Write the texts and the index, and return the packages whose wheels hold no text."""
    folder.mkdir(parents=True)
    without = []
    rows = [("package", "version", "licence", "texts")]
    for wheel in sorted(wheels, key=lambda one: one.name):
        texts = texts_in(wheel)
        name = f"{wheel.name}-{wheel.version}.txt"
        if texts:
            (folder / name).write_text(_together(wheel, texts), "utf-8", newline="\n")
        else:
            without.append(f"{wheel.name} {wheel.version} ({licence_of(wheel)})")
        rows.append((wheel.name, wheel.version, licence_of(wheel), name if texts else "its wheel holds no text"))
    widths = [max(len(row[column]) for row in rows if len(row[column]) < 60) for column in range(3)]
    lines = [
        "  ".join([*(cell.ljust(width) for cell, width in zip(row, widths, strict=False)), row[3]]) for row in rows
    ]
    head = "The packages in this bundle, the licences that they state, and the files of this folder that hold the texts.\n\n"
    (folder / INDEX).write_text(head + "\n".join(lines) + "\n", "utf-8", newline="\n")
    return without


def _together(wheel: Wheel, texts: dict[str, str]) -> str:
    """All texts of a package as one; the same text, which torch has many times, once, below all its names."""
    names: dict[str, list[str]] = {}
    for member, text in texts.items():
        names.setdefault(text, []).append(member)
    parts = [f"{wheel.name} {wheel.version}\nLicence: {licence_of(wheel)}\n"]
    for text, members in names.items():
        parts.append("=" * 100 + "\n" + "\n".join(members) + "\n" + "=" * 100 + "\n\n" + text.strip("\n") + "\n")
    return "\n".join(parts)
