"""Numbers and names as people read them: the one place where a report turns a value into text.

A minus is a true one (−, not a hyphen), what is not known is a dash (–), and control characters in a user's names are shown by
their numbers. Every number has the marks of the language that it is asked in (`lindley.shown.in_marks`): 1,234.5 in English,
1 234,5 in Dutch.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from lindley.shown import in_marks, visible

__all__ = [
    "aligned",
    "capital",
    "figure",
    "fixed",
    "grouped",
    "log_ticks",
    "lr_text",
    "measured",
    "nice_ticks",
    "number",
    "percent",
    "plain",
    "power",
    "ratio_text",
    "scientific",
    "shorten",
    "signed",
    "tick_label",
    "times",
    "with_units",
]

UNKNOWN = "–"
SUPERSCRIPT = str.maketrans("0123456789-−", "⁰¹²³⁴⁵⁶⁷⁸⁹⁻⁻")
LARGE = {"en": ("million", "billion"), "nl": ("miljoen", "miljard")}


def plain(text: str) -> str:
    """A user's name with its control characters shown by their numbers: neither XML nor a label can hold them."""
    return visible(text)


def shorten(text: str, most: int = 28) -> str:
    """A user's name for a label: the middle of a long one is left out."""
    text = plain(text)
    half = (most - 1) // 2
    return text if len(text) <= most else f"{text[: most - 1 - half]}…{text[-half:]}"


def capital(text: str) -> str:
    """The beginning of a sentence."""
    return text[:1].upper() + text[1:]


def with_units(names: Sequence[str], units: Sequence[str | None]) -> list[str]:
    """Features with their units, where they have one.

    >>> with_units(["K39", "ratio"], ["ppm", None])
    ['K39 [ppm]', 'ratio']
    """
    return [f"{name} [{unit}]" if unit else name for name, unit in zip(names, units, strict=True)]


def number(value: float | None, digits: int = 3, *, language: str = "en") -> str:
    """Significant digits, and no exponent unless the number is tiny or huge.

    >>> number(0.03412), number(-2.5), number(1e-6), number(None)
    ('0.0341', '−2.50', '1.00e−6', '–')
    """
    if value is None or not math.isfinite(value):
        return _not_finite(value)
    size = abs(value)
    if size != 0 and not 1e-4 <= size < 1e6:
        return scientific(value, max(digits - 1, 0), language=language)
    decimals = 0 if size == 0 else max(0, digits - 1 - math.floor(math.log10(size)))
    return fixed(value, decimals, language=language)


def fixed(value: float, digits: int = 2, *, language: str = "en") -> str:
    """Some decimals. The sign stays where they are all 0, as −0.00 still says which side of 0 a log10 LR is on.

    >>> fixed(-2.468), fixed(-0.001), fixed(3, 4), fixed(3.588, language="nl")
    ('−2.47', '−0.00', '3.0000', '3,59')
    """
    return in_marks(f"{value:.{digits}f}", language)


def signed(text: str) -> str:
    """The text of a number with its sign, also where that is a plus.

    >>> signed(fixed(0.5)), signed(fixed(-0.5))
    ('+0.50', '−0.50')
    """
    return text if text.startswith("−") else f"+{text}"


def scientific(value: float, digits: int = 2, *, language: str = "en") -> str:
    """With an exponent, as in papers.

    >>> scientific(-0.0411)
    '−4.11e−2'
    """
    mantissa, exponent = f"{value:.{digits}e}".split("e")
    return in_marks(f"{mantissa}e{int(exponent)}", language)


def measured(value: float, *, language: str = "en") -> str:
    """A measurement as it is in the file, up to six digits."""
    return in_marks(f"{float(value):.6g}", language)


def aligned(cells: Sequence[str], *, language: str = "en") -> tuple[str, ...]:
    """Numbers with equally many decimals, so that points stand under each other.

    >>> aligned(["1.5", "2", "0.25"])
    ('1.50', '2.00', '0.25')
    """
    if any("e" in cell for cell in cells):
        return tuple(cells)
    mark = in_marks(".", language)
    split = [cell.partition(mark) for cell in cells]
    decimals = max(len(part) for _, _, part in split)
    return tuple(f"{whole}{mark}{part:0<{decimals}}" if decimals else whole for whole, _, part in split)


def percent(share: float | None, *, language: str = "en") -> str:
    """A share with two digits.

    >>> percent(0.01234), percent(0.999), percent(None)
    ('1.2 %', '100 %', '–')
    """
    return UNKNOWN if share is None else f"{_without_zeros(100 * share, 2, language)} %"


def figure(value: float, unit: str, *, language: str = "en") -> str:
    """A figure of a validation: a share in per cent, a log10 with two decimals, bits with three or four; 0 has no sign.

    >>> figure(0.4567, "share"), figure(-0.00001, "bits"), figure(0.31234, "bits")
    ('45.7 %', '0.0000', '0.312')
    """
    if not math.isfinite(value):
        return _not_finite(value)
    value = 100 * value if unit == "share" else value
    size = abs(value)
    digits = (2 if size < 10 else 1) if unit == "share" else 2 if unit == "log10" else 4 if size < 0.1 else 3
    text = fixed(round(value, digits) + 0.0, digits, language=language)
    return f"{text} %" if unit == "share" else text


def grouped(count: float, *, language: str = "en") -> str:
    """A count, its thousands apart.

    >>> grouped(1053), grouped(1053, language="nl") == "1\u202f053"
    ('1,053', True)
    """
    return in_marks(f"{count:,.0f}", language)


def times(shape: tuple[int, int]) -> str:
    """``2×3``: trace and ref measurements."""
    return f"{shape[0]}×{shape[1]}"


def power(log10_lr: float) -> str:
    """``10³·⁴`` has no place in a sentence: a whole power of ten, cut towards 1.

    >>> power(33.9), power(-580.2)
    ('10³³', '10⁻⁵⁸⁰')
    """
    return "10" + str(int(log10_lr)).translate(SUPERSCRIPT)


def lr_text(log10_lr: float, language: str = "en") -> str:
    """An LR of 1 or more as a person says it, cut to two digits: never more than it is.

    >>> lr_text(2.76), lr_text(7.29), lr_text(7.29, "nl"), lr_text(0.31), lr_text(15.2)
    ('570', '19 million', '19 miljoen', '2.0', '10¹⁵')
    """
    if log10_lr >= 12:
        return power(log10_lr)
    exponent = math.floor(log10_lr + 1e-12)
    mantissa = math.floor(10 ** (log10_lr - exponent + 1) + 1e-9)  # 10 to 99
    mantissa = min(max(mantissa, 10), 99)
    size, word = next(
        ((s, f" {w}") for s, w in zip((6, 9), LARGE[language], strict=True) if s <= exponent < s + 3), (0, "")
    )
    decimals = exponent - size - 1
    text = f"{mantissa * 10**decimals:,}" if decimals >= 0 else f"{mantissa / 10:.1f}"
    return in_marks(text, language) + word


def ratio_text(log10_lr: float, language: str) -> str:
    """An LR of any size: ``1/420`` for one below 1."""
    if log10_lr <= -12:
        return power(log10_lr)
    return lr_text(log10_lr, language) if log10_lr >= 0 else f"1/{lr_text(-log10_lr, language)}"


def nice_ticks(low: float, high: float, most: int) -> list[float]:
    """Round numbers between two limits, ``most`` or fewer.

    >>> nice_ticks(0.13, 0.88, 4)
    [0.2, 0.4, 0.6, 0.8]
    """
    size = 10.0 ** math.floor(math.log10((high - low) / most))
    step = next(
        size * k for k in (1, 2, 5, 10, 20) if math.floor(high / (size * k)) - math.ceil(low / (size * k)) < most
    )
    digits = max(0, -math.floor(math.log10(step)))
    return [round(k * step, digits) for k in range(math.ceil(low / step), math.floor(high / step) + 1)]


def log_ticks(low: float, high: float) -> list[float]:
    """1, 2 and 5 of every decade between two limits, or fewer where there are many decades."""
    decades = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    steps = (1, 2, 5) if len(decades) <= 5 else (1, 3) if len(decades) <= 7 else (1,)
    return [step * 10.0**decade for decade in decades for step in steps if low <= step * 10.0**decade <= high]


def tick_label(value: float, *, language: str = "en") -> str:
    """A round number without the zeros that it does not need."""
    return _without_zeros(value, 4, language)


def _without_zeros(value: float, digits: int, language: str) -> str:
    text = number(value, digits)
    return in_marks(text.rstrip("0").rstrip(".") if "." in text and "e" not in text else text, language)


def _not_finite(value: float | None) -> str:
    return UNKNOWN if value is None or math.isnan(value) else "∞" if value > 0 else "−∞"
