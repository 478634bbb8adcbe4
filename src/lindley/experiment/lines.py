"""YAML that remembers its lines, so that a message can say where; and the text files that it comes in."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from lindley.errors import LindleyError

__all__ = ["Lines", "read_text", "read_yaml"]


@dataclass(frozen=True)
class Lines:
    """Where the values of a YAML document stand."""

    root: yaml.Node | None

    def at(self, place: Sequence[str | int]) -> str:
        """``line 7, `` for a place such as ("models", 2, "options"), or its nearest surroundings; else nothing."""
        node, line = self.root, None
        for step in place:
            found = _inside(node, step)
            if found is None:
                break
            node, line = found
        return f"line {line}, " if line is not None else ""


def read_yaml(text: str) -> tuple[Any, Lines]:
    """Plain values (no code runs), and their lines. A key that stands twice is an error: YAML itself takes the last."""
    root = yaml.compose(text, Loader=yaml.SafeLoader)
    _refuse_doubles(root, set())
    return yaml.safe_load(text), Lines(root)


def _inside(node: yaml.Node | None, step: str | int) -> tuple[yaml.Node, int] | None:
    """The child of a node, and the line of its key."""
    if isinstance(node, yaml.MappingNode):
        for key, value in node.value:
            if key.value == str(step):
                return value, key.start_mark.line + 1
    if isinstance(node, yaml.SequenceNode) and isinstance(step, int) and step < len(node.value):
        value = node.value[step]
        return value, value.start_mark.line + 1
    return None


def _refuse_doubles(node: yaml.Node | None, visited: set[int]) -> None:
    if id(node) in visited:  # an alias (*name) may lead back to where it stands
        return
    visited.add(id(node))
    if isinstance(node, yaml.MappingNode):
        lines: dict[str, int] = {}
        for key, value in node.value:
            if isinstance(key, yaml.ScalarNode):
                line = key.start_mark.line + 1
                if key.value in lines:
                    raise ValueError(f"line {line}: the key '{key.value}' stands on line {lines[key.value]} already")
                lines[key.value] = line
            _refuse_doubles(value, visited)
    elif isinstance(node, yaml.SequenceNode):
        for value in node.value:
            _refuse_doubles(value, visited)


def read_text(path: Path) -> str:
    """A text file as people save it: UTF-8, or what Windows calls Unicode (UTF-16 with its mark), which PowerShell writes.

    Raises:
        LindleyError: if it is neither, or cannot be read.
    """
    try:
        data = path.read_bytes()
        return data.decode("utf-16" if data.startswith((b"\xff\xfe", b"\xfe\xff")) else "utf-8-sig")
    except UnicodeDecodeError as error:
        byte = f"byte {error.start} (0x{error.object[error.start]:02x})"
        raise LindleyError(f"{path}: {byte} is not UTF-8 text. Save the file with encoding UTF-8.") from error
    except OSError as error:
        raise LindleyError(
            f"{path} cannot be read ({error.strerror or error}). Check that you may read the file."
        ) from error
