"""YAML files that people write: read without running code, validated, and what does not read is told with its line."""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from importlib.resources.abc import Traversable
from typing import Any, Self, TypeVar

import yaml
from pydantic import (
    BaseModel,
    ConfigDict,
    GetJsonSchemaHandler,
    SerializerFunctionWrapHandler,
    ValidationError,
    model_serializer,
    model_validator,
)
from pydantic_core import CoreSchema

from lindley.errors import LindleyError
from lindley.limits import limit, limit_text

__all__ = ["Document", "Place", "Section", "ShortForm"]

Model = TypeVar("Model", bound=BaseModel)
Place = tuple[str | int, ...]
"""Keys and positions that lead to a value, such as ("models", 2, "options")."""

_PLAIN = {
    "extra_forbidden": "there is no such setting here",
    "unexpected_keyword_argument": "there is no such setting here",
    "missing": "is missing",
    "tuple_type": "must be a list, such as [A, B]",
    "dict_type": "must hold names and values",
    "model_type": "must hold names and values",
    "string_type": "must be a text",
    "float_parsing": "must be a number",
    "float_type": "must be a number",
    "finite_number": "must be a finite number",
}
"""Messages of pydantic's that speak of Python, in other words."""

MOST_PROBLEMS = 20
"""That are told one by one."""

_WHOLE = re.compile(r"[+-]?(?:0|[1-9][0-9]*)")
_MOST_DIGITS = 18


@dataclass(frozen=True)
class Document:
    """A YAML file: its plain values, and where they stand."""

    name: str  # of the file, for messages
    content: Any
    root: yaml.Node | None

    @classmethod
    def read(cls, path: Traversable, name: str | None = None) -> Self:
        """A file as people save it: UTF-8, or what Windows calls Unicode (UTF-16 with its mark), which PowerShell writes."""
        name = str(path) if name is None else name
        try:
            with path.open("rb") as file:
                data = file.read(limit("YAML_KB") * 1000 + 1)
            _require_size(name, len(data))
            text = data.decode("utf-16" if data.startswith((b"\xff\xfe", b"\xfe\xff")) else "utf-8-sig")
        except UnicodeDecodeError as error:
            byte = f"byte {error.start} (0x{error.object[error.start]:02x})"
            raise LindleyError(f"{name}: {byte} is not UTF-8 text. Save the file with encoding UTF-8.") from error
        except OSError as error:
            reason = error.strerror or error
            raise LindleyError(f"{name} cannot be read ({reason}). Check that you may read the file.") from error
        return cls.parse(text, name)

    @classmethod
    def parse(cls, text: str, name: str) -> Self:
        """The text of a file; ``name`` is for messages."""
        _require_size(name, len(text))
        try:
            loader = _Loader(text)
            root = loader.get_single_node()
            if root is None:
                return cls(name, None, None)
            _require_size(name, _written_out(root, {}), ", with every alias written out")
            return cls(name, loader.construct_document(root), root)
        except LindleyError:
            raise
        except RecursionError as error:
            raise LindleyError(f"{name} is not YAML: lists or names and values are nested too deeply") from error
        except (yaml.YAMLError, ValueError) as error:  # the 40th of January is a ValueError
            details = str(error).replace("\n", "\n  ")
            raise LindleyError(f"{name} is not YAML: {details}") from error
        except Exception as error:  # what PyYAML stumbles over where a tag such as !!bool does not fit its value
            reason = f"a value does not fit its tag ({type(error).__name__}: {error})"
            raise LindleyError(f"{name} is not YAML: {reason}") from error

    def line(self, place: Place) -> str:
        """``line 7, `` for a place or its nearest surroundings; else nothing."""
        node, line = self.root, None
        for step in place:
            found = _inside(node, step)
            if found is None:
                break
            node, line = found
        return f"line {line}, " if line is not None else ""

    def validate(
        self,
        model: type[Model],
        what: str,
        plain: Mapping[str, str],
        *,
        content: Any = None,
        replaced: Collection[Place] = (),
        place: Callable[[Place, str], Place] = lambda place, message: place,
    ) -> Model:
        """The content as a model of pydantic's.

        Args:
            model: what it should be.
            what: such as "the experiment 'mine.yaml' does not read", the first line of a message.
            plain: what is said for the types of pydantic's errors, where it differs from what is said in all files.
            content: what is validated, if it is not the file as it is.
            replaced: places where it is not: they have no line.
            place: the place that a message is about, if that is not where pydantic found it.

        Raises:
            LindleyError: with the line and the cause of everything that does not read.
        """
        try:
            return model.model_validate(self.content if content is None else content)
        except ValidationError as error:
            problems, found_in_all = [], error.error_count()
            for problem in error.errors()[:MOST_PROBLEMS]:
                found, kind = problem["loc"], problem["type"]
                if found[-1:] == ("[key]",):  # a key of a dictionary that is not one of those it may have
                    found, kind = found[:-1], "extra_forbidden"
                message = {**_PLAIN, **plain}.get(kind, problem["msg"].removeprefix("Value error, "))
                at = place(found, message)
                line = "" if any(at[: len(other)] == other for other in replaced) else self.line(at)
                problems.append(f"  {line}{'.'.join(map(str, at)) or 'the file'}: {message}")
            if found_in_all > MOST_PROBLEMS:
                problems.append(f"  and {found_in_all - MOST_PROBLEMS:,} problems more")
            raise LindleyError(f"{what}:\n" + "\n".join(problems)) from error


class Section(BaseModel):
    """A part of a document: its fields and no others, and not to be changed once it is made."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class ShortForm(Section):
    """A section with one field that matters most: ``NAME`` is short for ``{that field: NAME}``, read and written."""

    @classmethod
    def _first(cls) -> str:
        return next(iter(cls.model_fields))

    @model_validator(mode="before")
    @classmethod
    def _from_name(cls, value: Any) -> Any:
        return {cls._first(): value} if isinstance(value, str) else value

    @model_serializer(mode="wrap")
    def _to_name(self, handler: SerializerFunctionWrapHandler) -> Any:
        given = {name: value for name, value in handler(self).items() if name in self.model_fields_set}
        return given[self._first()] if set(given) == {self._first()} else given

    @classmethod
    def __get_pydantic_json_schema__(cls, schema: CoreSchema, handler: GetJsonSchemaHandler) -> dict[str, Any]:
        inside = handler.resolve_ref_schema(handler(schema))
        short = {"type": "string", "description": f"short for {{{cls._first()}: …}}"}
        return {"anyOf": [short, inside]}


def _require_size(name: str, characters: int, how: str = "") -> None:
    if characters > limit("YAML_KB") * 1000:
        raise LindleyError(f"{name} is too large{how}: {limit_text('YAML_KB')}.")


def _written_out(node: yaml.Node, known: dict[int, int | None]) -> int:
    """How many characters a node has when every alias in it is written out, which may be far more than the file has."""
    if isinstance(node, yaml.ScalarNode):
        return len(node.value) + 1
    size = known.get(id(node), 0)
    if size is None:
        raise ValueError(f"line {node.start_mark.line + 1}: an alias (*) stands inside of what it stands for")
    if size:
        return size
    known[id(node)] = None  # until it is known
    children = itertools.chain(*node.value) if isinstance(node, yaml.MappingNode) else node.value
    size = 1 + sum(_written_out(child, known) for child in children)
    known[id(node)] = size
    return size


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


class _Loader(yaml.SafeLoader):
    """Plain values; no code runs. A key that stands twice is an error: YAML itself takes the last.

    So is a number that YAML reads as another one than people do: 010 is 8, and 1:30 is 90.
    """

    def compose_mapping_node(self, anchor: Any) -> yaml.MappingNode:
        node = super().compose_mapping_node(anchor)
        keys: dict[str, yaml.Node] = {}
        for key, _ in node.value:
            if isinstance(key, yaml.ScalarNode) and (first := keys.setdefault(key.value, key)) is not key:
                here, there = (each.start_mark.line + 1 for each in (key, first))
                raise ValueError(f"line {here}: the key '{key.value}' stands on line {there} already")
        return node

    def construct_yaml_int(self, node: yaml.ScalarNode) -> int:
        """A whole number as everybody writes it."""
        text = self.construct_scalar(node)
        if not _WHOLE.fullmatch(text):
            raise ValueError(f"line {node.start_mark.line + 1}: write {text[:40]} as a plain whole number, such as 10")
        if len(text) > _MOST_DIGITS:
            raise ValueError(
                f"line {node.start_mark.line + 1}: {text[:8]}… has {len(text)} digits; {_MOST_DIGITS} are the most"
            )
        return int(text)

    def construct_yaml_float(self, node: yaml.ScalarNode) -> float:
        """A number as everybody writes it, within what floating point holds."""
        text = self.construct_scalar(node)
        value: float = super().construct_yaml_float(node)
        if ":" in text or "_" in text or (math.isinf(value) and "inf" not in text.lower()):
            raise ValueError(f"line {node.start_mark.line + 1}: write {text[:40]} as a plain number, such as 0.5")
        return value


_Loader.add_constructor("tag:yaml.org,2002:int", _Loader.construct_yaml_int)
_Loader.add_constructor("tag:yaml.org,2002:float", _Loader.construct_yaml_float)
