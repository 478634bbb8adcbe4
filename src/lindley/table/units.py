"""Read, compare and convert the units of columns: from a header such as ``K39 [ppm]``, a row under it, or a setting."""

from __future__ import annotations

import csv
import re
import unicodedata
from collections import Counter
from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from lindley.errors import LindleyError
from lindley.settings import setting
from lindley.table.findings import Finding, listing, quoted

__all__ = [
    "Units", "column_units", "convert", "given_units", "is_known_unit", "is_unit", "plain_names", "power_between",
    "require_units", "split_unit",
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
_PREFIXED = "(?:mc|[fpnuµμmcdkMG])?(?:g|t|m|s|l|L|mol|M|Hz|V|A|W|J|eV|Pa|Bq|K|C|N|T|F|Da|Å)"
_TERM = rf"(?:1|(?i:{_WORDS})|{_PREFIXED})(?:\^?[-\u2212][1-9]|\^[1-9]|(?<=m)[23]|[⁻¹²³⁴]+)?"
_KNOWN = re.compile(rf"(?!1$|[A-Z]$|(?:Mg|Au|Pa)$){_TERM}(?:(?: ?[/·∙⋅*×] ?| per | )\(?{_TERM}\)?)*")
"""Units that nobody takes for a name: so no capital alone, and no chemical element."""


_SHARE = re.compile(
    r"(?:(?:wt|mass|w/w|m/m|w|m)[ .-]{0,2})?(%|‰)|(%|‰) ?\(?(?:wt|mass|w/w|m/m)\)?|(ppm|ppb)(?:w| ?\(?(?:w/w|m/m)\)?)?"
)
"""A share of the mass. Where nothing is said of what, as in %, it is taken to be that, as ppm is mg/kg."""
_POWERS = {"%": -2, "‰": -3, "ppm": -6, "ppb": -9}
_PREFIXES = {"f": -15, "p": -12, "n": -9, "u": -6, "m": -3, "c": -2, "d": -1, "": 0, "k": 3, "M": 6, "G": 9}
_BETWEEN = re.compile(r"( ?/ ?| per )| ?[·∙⋅*×.] ?| ")
_FACTOR = re.compile(r"(10+)?([fpnumcdkMG]?)(g|mol|m|l|L|s|t|Hz|V|A|W|J|eV|Pa|Bq)(?:\^?(-?[1-9]))?")
_BASES = {"l": ("m", 3, -3), "L": ("m", 3, -3), "t": ("g", 1, 6)}
_WITH_MEGA = ("Hz", "V", "A", "W", "J", "eV", "Pa", "Bq")
_Dimension = tuple[tuple[str, int], ...]


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


def power_between(there: str | None, here: str | None) -> int | None:
    """The power of ten that values in one unit are multiplied by to be in another one; ``None`` if that is not known.

    It is 0 for two names of one unit, and where one is not known.

    >>> power_between("mg/kg", "ppm"), power_between("%", "µg·g⁻¹"), power_between("ng/g", "mg kg-1")
    (0, 4, -3)
    >>> power_between("%", "mg/L"), power_between("at.%", "wt.%"), power_between("mg, dry", "Mg, dry")
    (None, None, 0)
    """
    if there is None or here is None:
        return 0
    one, other = _size(there), _size(here)
    if one is not None and other is not None:
        return one[0] - other[0] if one[1] == other[1] else None
    return 0 if there.casefold() == here.casefold() else None


def _size(unit: str) -> tuple[int, _Dimension] | None:
    """The power of ten of a unit, and what it measures; ``None`` of one that is not made of those of the SI."""
    text = unicodedata.normalize("NFKC", unit).replace("\u2212", "-").replace("μ", "u").strip()
    if share := _SHARE.fullmatch(text.casefold()):
        return _POWERS[share[1] or share[2] or share[3]], (("g", 0),)
    text = re.sub(r"\b(10+) ", r"\1", text.replace("mcg", "ug"))
    found = _product(text)
    return _product(text.lower()) if found is None and "/" in text else found  # MG/KG


def _product(text: str) -> tuple[int, _Dimension] | None:
    power, dimension = 0, Counter[str]()
    parts: list[str | None] = ["", *re.split(_BETWEEN, text)]
    for before, part in zip(parts[::2], parts[1::2], strict=True):
        found = _FACTOR.fullmatch(part or "")
        if found is None or (found[2] in ("M", "G") and found[3] not in _WITH_MEGA) or (found[2] and found[3] == "t"):
            return None
        base, size, own = _BASES.get(found[3], (found[3], 1, 0))
        sign = -1 if before else 1
        times = sign * int(found[4] or 1)
        power += times * (own + _PREFIXES[found[2]]) + sign * len((found[1] or "1")[1:])
        dimension[base] += times * size  # 0 of a share, which is of something
    return power, tuple(sorted(dimension.items()))


def convert(
    values: NDArray[np.float64], columns: Sequence[str], there: Units, here: Units, file: str
) -> tuple[NDArray[np.float64], list[Finding]]:
    """Values (…, columns) in other units of the same kind, and notes that say what was multiplied by what."""
    powers = np.array([power_between(*pair) or 0 for pair in zip(there, here, strict=True)])
    alike: dict[tuple[str, str], list[str]] = {}
    for column, a, b in zip(columns, there, here, strict=True):
        if a is not None and b is not None and (a.casefold() != b.casefold() or power_between(a, b)):
            alike.setdefault((a, b), []).append(column)
    findings = []
    for (a, b), names in alike.items():
        power, some = power_between(a, b) or 0, listing(quoted(names), 8)
        message = f"{some}: {a} is another name of {b}"
        if power:
            by = "multiplied" if power > 0 else "divided"
            message = f"{some}: values in {a} were {by} by {10 ** abs(power):,}, which makes them {b}"
        findings.append(Finding("note", "unit-converted", message, file=file))
    if not powers.any():
        return values, findings
    with np.errstate(over="ignore"):  # what is too large is found by the checks
        return values * 10.0 ** np.maximum(powers, 0) / 10.0 ** np.maximum(-powers, 0), findings


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
    """The units of all features: ``known`` ones, of headers, and those given in a setting.

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
        if power_between(before, after) != 0:
            raise LindleyError(
                f"{setting('units')} says that {feature} is in {after}, and its header says {before}: which is right?"
            )
    return tuple(given.get(feature) or unit for feature, unit in zip(features, known, strict=True))


def column_units(
    units: str | Mapping[str, str] | Sequence[str | None] | None, columns: Sequence[str], known: Units, divided: bool
) -> Units:
    """The units of the features and, where they are ``divided`` by one, of the reference behind them, as in `given_units`.

    One unit for all holds for the reference too, unless its header has a unit; a list may leave the reference out.

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
