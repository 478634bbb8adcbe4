"""The page of the documentation from measured figures: its tables, and its picture.

python -m bench.draw                 # of docs/benchmarks/*.json
python -m bench.draw FILE …          # of these; those beside the page are linked from it

A table stands in docs/benchmarks.md between <!-- bench:NAME --> and <!-- end -->. What is between them is replaced.
"""

from __future__ import annotations

import json
import math
import re
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bench.changes import before_and_after, changes
from bench.layout import Column, columns, merged
from bench.tables import MAKERS, make

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = ["FIGURES", "PAGE", "PICTURE", "draw", "filled", "read"]

DOCS = Path(__file__).parents[1] / "docs"
PAGE, PICTURE, FIGURES = DOCS / "benchmarks.md", DOCS / "images" / "benchmarks.svg", DOCS / "benchmarks"
MARKED = re.compile(r"(<!-- bench:([\w-]+) -->\n).*?(<!-- end -->)", re.S)
NOT_YET = "*No machine has been measured for this table yet.*"
MARKS = {
    "tlm": ("#5d6a76", "s"),
    "tlm-kde": ("#00588f", "o"),
    "robust": ("#b3401f", "D"),
    "pairs": ("#007f63", "^"),
    "sources": ("#c8921a", "v"),
}
OTHER_MARK = ("#7b4173", "X")
LEGEND_LINE = 0.075
"""Height of a line of a legend, as a share of its panel."""
STYLES: tuple[Any, ...] = ("-", "--", ":", "-.")
PANELS = (
    ("fit", "Fit, seconds"),
    ("epoch", "An epoch of one run, seconds"),
    ("score", "Scoring a pair, seconds"),
)
ALONG = ("sources", "features", "kernels")
STYLE: dict[Any, Any] = {
    "font.family": "DejaVu Sans",  # it comes with matplotlib, so that every machine has it
    "font.size": 8.5,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.titlesize": 9,
    "axes.titlelocation": "left",
    "grid.color": "#e4e8ec",
    "legend.fontsize": 7,
    "legend.frameon": False,
    "legend.handlelength": 1.6,
    "svg.fonttype": "path",
    "svg.hashsalt": "lindley",
}


def read(paths: Sequence[Path]) -> list[dict[str, Any]]:
    """The figures of every machine; files beside the page become links."""
    results = []
    for path in paths:
        inside = path.resolve().is_relative_to(PAGE.parent.resolve())
        link = path.resolve().relative_to(PAGE.parent.resolve()).as_posix() if inside else ""
        name = f"[{path.name}]({link})" if link else path.name
        results.append({**json.loads(path.read_text(encoding="utf-8")), "files": [name]})
    return merged(results)


def filled(page: str, results: Sequence[dict[str, Any]]) -> str:
    """The page with its tables made anew; of a table that no machine has figures for, it says so.

    Raises:
        KeyError: if the page has a table that nobody makes.
    """
    texts = dict.fromkeys((*MAKERS, "changes"), NOT_YET)
    texts |= {name: table.markdown() for name, table in make(results).items()}
    if before_and_after(results):
        texts["changes"] = changes(results).markdown()
    return MARKED.sub(lambda found: f"{found[1]}\n{texts[found[2]]}\n\n{found[3]}", page)


def draw(results: Sequence[dict[str, Any]], path: Path) -> None:
    """Growth with sources, features and kernels: solid lines are the first device, dashed and dotted ones the next."""
    import matplotlib as mpl
    from matplotlib.figure import Figure

    with mpl.rc_context({**mpl.rcParamsDefault, **STYLE, "backend": "svg"}):
        figure = Figure(figsize=(8.6, 8.4), layout="constrained", facecolor="white")
        axes = figure.subplots(len(PANELS), len(ALONG))
        places = columns(results, "growth")
        for row, (what, title) in enumerate(PANELS):
            for column, along in enumerate(ALONG):
                _panel(axes[row, column], places, what, along)
            axes[row, 0].set_title(title)
        _key(figure, axes[0, 2], axes[1, 2], places)
        figure.savefig(path, format="svg", metadata={"Date": None, "Creator": None})


def _panel(axes: Axes, places: Sequence[Column], what: str, along: str) -> None:
    """One colour and mark per model, one dash per device; the slopes of a model stand together, in the devices' order."""
    models: dict[str, dict[int, dict[str, Any]]] = {}
    for number, place in enumerate(places):
        for line in place.rows("growth"):
            if (line["what"], line["along"]) == (what, along) and line["points"]:
                models.setdefault(line["model"], {})[number] = line
    if not models:
        axes.set_axis_off()
        return
    for model, lines in models.items():
        slopes = " / ".join("–" if line["slope"] is None else f"{line['slope']:z.2f}" for line in lines.values())
        colour, mark = MARKS.get(model, OTHER_MARK)
        for number, line in lines.items():
            label = f"{_label(line)} {slopes}" if number == min(lines) else None
            size, best = zip(*((p["size"], p["best"]) for p in line["points"]), strict=True)
            dashes = STYLES[number % len(STYLES)]
            axes.loglog(size, best, dashes, color=colour, marker=mark, markersize=3.5, label=label)
    axes.grid(True, which="major")
    axes.set_xlabel(along)
    low, high = (math.log10(edge) for edge in axes.get_ylim())
    low, high = math.floor(low), max(high, math.floor(low) + 1)
    share = LEGEND_LINE * (len(models) + 0.5)  # of the height, for the slopes above the lines
    axes.set_ylim(10**low, 10 ** (low + (high - low) / (1 - share)))
    axes.legend(loc="upper left")


def _label(line: dict[str, Any]) -> str:
    model: str = line["model"]
    if line["what"] == "epoch":
        return f"{model} mode"
    return "network, varying" if model.endswith("-varying") else model


def _key(figure: Figure, above: Axes, below: Axes, places: Sequence[Column]) -> None:
    """Which line is which device, in the two places that have no lines."""
    from matplotlib.lines import Line2D

    for axes in (above, below):
        axes.set_axis_off()
    handles = [Line2D([], [], color="black", linestyle=STYLES[k % len(STYLES)]) for k in range(len(places))]
    above.legend(handles, [place.label for place in places], loc="upper left", fontsize=8.5)
    text = "Behind a name: the slopes of its lines\nover the upper half of the sizes.\n"
    text += "Best of three rounds or more,\nor of one that takes ten seconds."
    above.text(0.02, 0.45, text, transform=above.transAxes, va="top", fontsize=8.5)


def main() -> None:
    paths = [Path(name) for name in sys.argv[1:]] or sorted(FIGURES.glob("*.json"))
    if not paths:
        sys.exit(f"there are no figures in {FIGURES}: python -m bench --json {FIGURES.name}/NAME.json makes some")
    results = read(paths)
    PAGE.write_text(filled(PAGE.read_text(encoding="utf-8"), results), encoding="utf-8")
    draw(results, PICTURE)
    print(PAGE, PICTURE, sep="\n")


if __name__ == "__main__":
    main()
