"""Settings in the words of whoever shows a message: an option to type, a key of a YAML file, an argument in Python, or what a
page of `lindley.app` calls it.

The code that reads tables does not know who called it. It writes ``Leave it out with {setting("ignore", "Fe")}``, which
leaves a mark in the text; `spoken` fills the mark in when the text is shown, in the language that `speaking` chose. A command
that lacks the option is not told of it: what cannot be set there is changed in the file.
"""

from __future__ import annotations

import json
import os
import re
import shlex
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Literal

__all__ = ["offer", "offered", "option_list", "option_value", "setting", "speaking", "spoken"]

Language = Literal["page", "python", "shell", "yaml"]

_LANGUAGE: ContextVar[Language] = ContextVar("language", default="python")
_OFFERED: ContextVar[Collection[str] | None] = ContextVar("offered", default=None)
_MARK = re.compile("( with )?\x02(\\w+)((?:\x1f[^\x02\x03\x1f]*)*)\x03")
_CONTROLS = str.maketrans("", "", "\x02\x03\x1f")
_COLUMNS = {role: f"{role}_column" for role in ("source", "group", "session", "instance", "reference")}
_COLUMNS |= {role: f"{role}_columns" for role in ("include", "ignore")}
_LISTS = ("include", "ignore")
_NUMBERS = ("header_row",)
_FLAGS = (
    "allow_duplicates", "allow_outside", "allow_overlap", "allow_same_file", "force", "no_profile", "other_person"
)  # fmt: skip
_OTHERWISE = {"folder": "out"}
"""Options that are called otherwise than the setting."""
_ON_A_PAGE = {
    "source": "“source” above {}",
    "group": "“group” above {}",
    "session": "“session” above {}",
    "instance": "“number of the measurement” above {}",
    "reference": "“divide by it” above {}",
    "ignore": "“leave out” above {}",
    "include": "“leave out” above the others",
    "header_row": "“Row of the header”",
    "sheet": "“Sheet”",
    "hidden": "“Hidden rows and columns”",
    "decimal": "“Decimal mark”",
    "below_limit": "“Values such as <0.02”",
    "transform": "“Features”",
    "units": "“Units”",
    "allow_duplicates": "“Identical rows are true measurements”",
    "models": "“Models”",
}
"""What pages call a setting; a name of a column is put in. Others are told as options of the command that a page shows."""
_PLAIN_IN_A_SHELL = str.maketrans("", "", "_-.,")
_PLAIN_IN_YAML = re.compile(r"(?!(?:true|false|yes|no|on|off|null)$)[A-Za-z][\w.%/-]*", re.IGNORECASE)


@contextmanager
def speaking(language: Language) -> Iterator[None]:
    """Show settings in this language from here on."""
    before, offered_before = _LANGUAGE.set(language), _OFFERED.set(None)
    try:
        yield
    finally:
        _LANGUAGE.reset(before)
        _OFFERED.reset(offered_before)


def offer(options: Collection[str] | None) -> None:
    """Say which options the command at work has, such as ``--sheet``; None for all that there are."""
    _OFFERED.set(options)


def offered() -> Collection[str] | None:
    """The options of the command at work, if `offer` said."""
    return _OFFERED.get()


def setting(name: str, *values: str) -> str:
    """A mark for a setting, by its name in Python, and the values that it is to have.

    >>> spoken(f"Leave it out with {setting('ignore', 'Fe')}")
    'Leave it out with ignore=["Fe"]'
    """
    return "\x02" + "\x1f".join([name, *(value.translate(_CONTROLS) for value in values)]) + "\x03"


def spoken(text: str) -> str:
    """The text with its marks filled in."""
    language = _LANGUAGE.get()
    options = _OFFERED.get() if language == "shell" else None

    def told(found: re.Match[str]) -> str:
        name, values = found[2], found[3].split("\x1f")[1:]
        if options is not None and found[1] and _option(name) not in options:
            return " in the file"
        return (found[1] or "") + _told(language, name, values)

    return _MARK.sub(told, text)


def _option(name: str) -> str:
    return f"--{_OTHERWISE.get(name, _COLUMNS.get(name, name)).replace('_', '-')}"


def _told(language: Language, name: str, values: list[str]) -> str:
    key = _COLUMNS.get(name, name)
    if language == "page" and name in _ON_A_PAGE:
        words = _ON_A_PAGE[name]
        value = ", ".join(values)
        return words.format(value or "the column") if "{}" in words else f"{words}: {value}" if value else words
    if language in ("page", "shell"):
        value = option_list(*values) if name in _LISTS else " ".join(map(option_value, values))
        return f"{_option(name)} {value}".rstrip()
    if language == "yaml":
        plain = values if name in _NUMBERS else [each for each in values if _PLAIN_IN_YAML.fullmatch(each)]
        value = ", ".join(each if each in plain else _string(each) for each in values)
        if name in _FLAGS:
            return f"{key}: true"
        return f"{key}: [{value}]" if name in _LISTS and values else f"{key}: {value}".rstrip()
    if name in _FLAGS:
        return f"{name}=True"
    value = ", ".join(each if each.isdecimal() else _string(each) for each in values) or "..."
    return f"{name}=[{value}]" if name in _LISTS and values else f"{name}={value}"


def _string(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)


def option_value(name: str) -> str:
    """A name as it is typed in a shell after an option that takes one name."""
    if name.isascii() and name.translate(_PLAIN_IN_A_SHELL).isalnum():
        return name
    if not set(name) & set('"$`\\!'):
        return f'"{name}"'  # these quotation marks are understood by every shell
    if os.name == "nt":
        return '"' + name.replace('"', '\\"') + '"'
    return shlex.quote(name)


def option_list(*names: str) -> str:
    """Names as they are typed in a shell after an option that takes a list of them.

    The list is a line of CSV, so that a name that holds a comma stands between quotation marks, and these are
    kept from the shell by another pair.
    """
    fields = ('"' + name.replace('"', '""') + '"' if "," in name or '"' in name else name for name in names)
    return option_value(",".join(fields)) if names else ""
