"""The units of columns: in a header such as ``K39 [ppm]``, in a row under it, or told beside the table."""

from __future__ import annotations

import csv
import re
from collections import Counter
from collections.abc import Mapping, Sequence

from lindley.errors import LindleyError
from lindley.settings import setting
from lindley.table.findings import listing, quoted

__all__ = [
    "Units", "column_units", "given_units", "is_known_unit", "is_unit", "plain_names", "require_units", "split_unit",
]  # fmt: skip

Units = tuple[str | None, ...]

_IN_BRACKETS = re.compile(r"^(?P<name>.*\S)\s*(?:\[(?P<square>[^\[\]]+)\]|\((?P<round>[^()]+)\))$")
_LONGEST = 30
_SHAPE = re.compile(r"-|(?![/\s])(?=.*[^\W\d_]|.*[%‰°#])[\w%‰°#/·∙⋅*×^.,:'\"()+√⁺⁻\u2212\u2013 -]*(?<!\s)")
"""Letters or %, ‰, °, #; digits, and the signs of products, quotients and powers; or a dash alone, for no unit."""

_WORDS = (
    "%|‰|°|°C|°F|deg|ppm|ppb|ppt|ppq|(?:wt|mass|at|vol|mol|atom|w|m)[ .-]{0,2}%|%[ ]?(?:wt|w/w|v/v|m/m|w/v)|ppmw|ppmv|wt|"
    "counts?|cts|cps|cpm|kcps|mcps|counts per second|a[.]?u[.]?|arb[.]?[ ]?u(?:nits|[.])?|dB|px|pixels?|"
    "min|h|d|ratio|rad|dpm|bits?|mel|bark|erb|semitones?|rpm|psi|bar|mbar|mesh|ng/g"
)
_PREFIXED = "[fpnuµμmcdkMG]?(?:g|t|m|s|l|L|mol|M|Hz|V|A|W|J|eV|Pa|Bq|K|C|N|T|F|Da|Å)"
_TERM = rf"(?:1|(?i:{_WORDS})|{_PREFIXED})(?:\^?[-\u2212][1-9]|\^[1-9]|(?<=m)[23]|[⁻¹²³⁴]+)?"
_KNOWN = re.compile(rf"(?!1$|[A-Z]$|(?:Mg|Au|Pa)$){_TERM}(?:(?: ?[/·∙⋅*×] ?| per | )\(?{_TERM}\)?)*")
"""Units that nobody takes for a name: so no capital alone, and no chemical element."""


def is_unit(text: str) -> bool:
    """Whether a text may be a unit: some letters, or a sign such as %, with digits and what stands between them.

    >>> [is_unit(each) for each in ("mg/kg", "µg·g⁻¹", "%", "-", "mg, dry")]
    [True, True, True, True, True]
    >>> [is_unit(each) for each in ("/b", "39", "x>y", "")]
    [False, False, False, False]
    """
    return len(text) <= _LONGEST and _SHAPE.fullmatch(text) is not None


def is_known_unit(text: str) -> bool:
    """Whether everybody takes a text for a unit, and not for a name: ``mg/kg``, ``counts``, ``wt.%``.

    >>> is_known_unit("mg/kg"), is_known_unit("cps"), is_known_unit("Na"), is_known_unit("LA-ICP-MS")
    (True, True, False, False)
    """
    return is_unit(text) and _KNOWN.fullmatch(text) is not None


def split_unit(header: str) -> tuple[str, str | None]:
    """The name and the unit of a column: ``K39 [ppm]`` and ``K39 (ppm)`` are K39, in ppm; what is no unit is of the name.

    >>> split_unit("K39 [ppm]"), split_unit("K39"), split_unit("K (39)")
    (('K39', 'ppm'), ('K39', None), ('K (39)', None))
    """
    match = _IN_BRACKETS.match(header.strip())
    unit = "" if match is None else (match["square"] or match["round"]).strip()
    if match is None or not is_unit(unit):
        return header.strip(), None
    return match["name"].strip(), unit


def require_units(units: Units) -> Units:
    """The units, if each can stand in a header, such as ``K39 [ppm]``, and be read there again."""
    if strange := [unit for unit in units if unit is not None and not is_unit(unit)]:
        raise LindleyError(
            f"{setting('units')} gives the unit {quoted(strange)[0]}: a unit has letters, or a sign such as %, {_LONGEST} "
            "characters at most, and does not begin with a slash"
        )
    return units


def plain_names(headers: Sequence[str]) -> tuple[tuple[str, ...], Units]:
    """The names alone, and the units. Names stay as they are where two would become one.

    >>> plain_names(["K39 [ppm]", "Fe57 [ppm]", "Fe57 [%]"])
    (('K39', 'Fe57 [ppm]', 'Fe57 [%]'), ('ppm', None, None))
    """
    split = [split_unit(header) for header in headers]
    often = Counter(name.casefold() for name, _ in split)
    plain = [
        (name, unit) if often[name.casefold()] == 1 else (header, None)
        for header, (name, unit) in zip(headers, split, strict=True)
    ]
    return tuple(name for name, _ in plain), tuple(unit for _, unit in plain)


def given_units(
    units: str | Mapping[str, str] | Sequence[str | None] | None, features: Sequence[str], known: Units
) -> Units:
    """The units of all features, as they are given beside those that headers tell.

    ``units`` is one for all features (``ppm``), some by name (``K39=ppm,Fe57=%``, or a dictionary), or one for each.

    >>> given_units("K39=ppm", ["K39", "Fe57"], (None, "%"))
    ('ppm', '%')
    """
    if units is None:
        return known
    if isinstance(units, str):
        given: Mapping[str, str | None] = _parsed(units, features)
    elif isinstance(units, Mapping):
        given = units
    elif len(units) == len(features):
        given = dict(zip(features, units, strict=True))
    else:
        raise LindleyError(f"{setting('units')} gives {len(units)} units, and there are {len(features)} features")
    if unknown := [name for name in given if name not in features]:
        raise LindleyError(
            f"{setting('units')} names {listing(quoted(unknown), 8)}; the features are {listing(quoted(features), 30)}"
        )
    for feature, before in zip(features, known, strict=True):
        after = given.get(feature)
        if before is not None and after is not None and before.casefold() != after.casefold():
            raise LindleyError(
                f"{setting('units')} says that {feature} is in {after}, and its header says {before}: which is right?"
            )
    return tuple(given.get(feature) or unit for feature, unit in zip(features, known, strict=True))


def column_units(
    units: str | Mapping[str, str] | Sequence[str | None] | None, columns: Sequence[str], known: Units, divided: bool
) -> Units:
    """The units of the features and, where they are ``divided`` by one, of the reference behind them, as in `given_units`.

    One unit for all is the reference's too, unless its header tells another; a list may leave the reference out.

    >>> column_units("ppm", ["K39", "Si28"], (None, "%"), divided=True)
    ('ppm', '%')
    """
    if divided and isinstance(units, str) and "=" not in units and known[-1] is not None:
        return (*given_units(units, columns[:-1], known[:-1]), known[-1])
    if divided and not isinstance(units, str | Mapping | None) and len(units) == len(columns) - 1:
        units = (*units, None)
    return given_units(units, columns, known)


def _parsed(text: str, features: Sequence[str]) -> dict[str, str]:
    shown = setting("units", text)
    try:
        fields = [field.strip() for line in csv.reader([text], skipinitialspace=True, strict=True) for field in line]
    except csv.Error as error:
        raise LindleyError(f"{shown} does not read ({error}): give 'ppm', or 'K39=ppm,Fe57=%'") from error
    fields = [field for field in fields if field]
    if len(fields) == 1 and "=" not in fields[0]:
        return dict.fromkeys(features, fields[0])
    split = [field.rpartition("=") for field in fields]
    if not fields or not all(name.strip() and unit.strip() for name, _, unit in split):
        raise LindleyError(f"{shown} does not read: give one unit for all, 'ppm', or some, 'K39=ppm,Fe57=%'")
    return {name.strip(): unit.strip() for name, _, unit in split}
