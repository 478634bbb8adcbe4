"""One HTML file for every report: made from a template of this folder, whole without any other file, and harmless.

Names come from users' tables: what is put into a template is escaped, and a name that the template does not know is an error.
A page carries a policy that lets it load nothing, and lets no script run but its own, which are known by their hash.

Figures of matplotlib become pictures, SVG and PNG: for papers, for print, for a page without scripts. matplotlib's object
interface with the Agg and SVG writers: no window, no state, no date in a file, so that the same report gives the same bytes.
"""

from __future__ import annotations

import base64
import hashlib
import io
import re
import warnings
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING, Any

import jinja2
from markupsafe import Markup

from lindley import plot
from lindley.pages import numerals
from lindley.pages.palette import STYLE_COLOURS
from lindley.shown import visible

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = ["Picture", "Step", "asset", "own", "picture", "render_page", "sheet", "silently"]

NAMES = ("capital", "plain", "signed", "times")
NUMBERS = ("figure", "fixed", "grouped", "measured", "number", "percent")
"""Filters whose text is in the language of the page."""
DPI = 200
"""Dots per inch of a PNG."""
STYLE = {**plot.STYLE, "hatch.linewidth": 0.6, "svg.hashsalt": "lindley", "svg.fonttype": "path"}

Step = Callable[[str, str, float], None]
"""What hears how far a report is: what is done, a detail of it, and the share that is done."""


def silently(doing: str, detail: str, done: float) -> None:
    """Nobody hears."""


def render_page(template: str, scripts: Mapping[str, str] | None = None, **content: object) -> str:
    """A page as text; ``scripts``: by the names that the template has for them."""
    own = {} if scripts is None else {name: Markup(text) for name, text in scripts.items()}
    colours = "".join(f"--{name}: {colour}; " for name, colour in STYLE_COLOURS.items())
    style = Markup(f":root {{ {colours}}}\n{asset('style.css')}")
    page = _environment().get_template(template)
    return page.render(content, style=style, scripts=own, policy=_policy(own.values()))


def asset(name: str) -> str:
    """A text file of this folder, with the same line ends everywhere: a page knows its scripts by their hash."""
    return files("lindley.pages").joinpath(name).read_text(encoding="utf-8").replace("\r\n", "\n")


@cache
def _environment() -> jinja2.Environment:
    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("lindley.pages", "."),
        autoescape=True,
        finalize=_shown,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {name: _outside_markup(getattr(numerals, name)) for name in NAMES}
    environment.filters |= {name: _in_language(getattr(numerals, name)) for name in NUMBERS}
    environment.filters["own"] = own
    return environment


def _outside_markup(shown: Callable[..., str]) -> Callable[..., str]:
    """A filter that leaves our own markup as it is."""
    return lambda text: text if isinstance(text, Markup) else shown(text)


def _in_language(number: Callable[..., str]) -> Callable[..., str]:
    @jinja2.pass_context
    def shown(context: jinja2.runtime.Context, value: Any, *more: Any) -> str:
        return number(value, *more, language=context["language"])

    return shown


def own(text: object) -> Markup:
    """A name or a text of somebody else's, or of a program, which is in no language of ours: nothing is to translate it."""
    return Markup('<bdi translate="no">{}</bdi>').format(visible(str(text)))


def _shown(value: object) -> object:
    """What a template puts on a page: text of users' with its control characters shown; our own markup as it is."""
    return visible(value, lines=True) if type(value) is str else value


def _policy(scripts: Iterable[str]) -> str:
    """Pictures may be inside the page (data:), or made by a script of its own (blob:)."""
    hashes = (base64.b64encode(hashlib.sha256(text.encode("utf-8")).digest()).decode("ascii") for text in scripts)
    allowed = " ".join(f"'sha256-{value}'" for value in hashes) or "'none'"
    return (
        f"default-src 'none'; script-src {allowed}; style-src 'unsafe-inline'; img-src data: blob:; base-uri 'none'; "
        "form-action 'none'"
    )


@dataclass(frozen=True)
class Picture:
    """One picture as the two kinds of file."""

    svg: bytes  # text as outlines
    png: bytes

    def address(self, smaller: bool = False) -> str:
        """As the address of an image: of the PNG, or of the smaller file where either will do."""
        as_svg = smaller and len(self.svg) < len(self.png)
        kind, content = ("svg+xml", self.svg) if as_svg else ("png", self.png)
        return f"data:image/{kind};base64,{base64.b64encode(content).decode('ascii')}"

    def element(self, name: str, alt: str) -> Markup:
        """As an element of a page: ``name`` makes its ids its own, and ``alt`` is for those who cannot see it."""
        svg = self.svg.decode("utf-8")
        svg = svg[svg.index("<svg") :]
        svg = re.sub(r"<metadata>.*?</metadata>", "", svg, flags=re.S)
        svg = re.sub(r'id="([^"]+)"', rf'id="{name}-\1"', svg)
        svg = re.sub(r'xlink:href="#([^"]+)"', rf'href="#{name}-\1"', svg)
        svg = re.sub(r"url\(#([^)]+)\)", rf"url(#{name}-\1)", svg)
        svg = re.sub(r'(<svg[^>]*?) width="[^"]+"', r"\1", svg, count=1)
        svg = re.sub(r'(<svg[^>]*?) height="[^"]+"', r"\1", svg, count=1)
        return Markup(svg.replace("<svg", f'<svg role="img" aria-label="{Markup.escape(alt)}"', 1))


def picture(draw: Callable[[], Figure]) -> Picture:
    """Draw once, write twice; a letter that the font lacks shows as a box rather than as a warning on the terminal."""
    import matplotlib

    vector, raster = io.BytesIO(), io.BytesIO()
    with matplotlib.rc_context(STYLE), warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Glyph .* missing from")
        figure = draw()
        figure.set_dpi(DPI)
        layout = figure.get_layout_engine()
        if layout is not None:  # found once: left in place, every file would be drawn twice, once for the layout alone
            layout.execute(figure)
            figure.set_layout_engine(None)
        figure.savefig(raster, format="png", dpi=DPI, metadata={"Software": None})
        figure.savefig(vector, format="svg", metadata={"Date": None, "Creator": None})
    return Picture(vector.getvalue(), raster.getvalue())


def sheet(width: float, height: float) -> tuple[Figure, Axes]:
    """A figure of one plot; inches."""
    from matplotlib.figure import Figure

    paper = Figure(figsize=(width, height), layout="constrained")
    return paper, paper.add_subplot()
