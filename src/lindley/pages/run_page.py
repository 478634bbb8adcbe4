"""One HTML file that holds a whole report: text, tables, figure data, plotly.js and pictures.

Nothing is fetched: the page carries a policy that forbids it, and lets no script run but the three that are written here,
known by their hash. Names come from users' tables. As text they are escaped by jinja2, inside figure data every "<" is
written as its number, so that no name can end a script.
"""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from markupsafe import Markup

from lindley.pages import palette, screen
from lindley.pages.headline import headline
from lindley.pages.pictures import Picture, draw_pictures, save_figures
from lindley.pages.run_figures import ModelFigures, Report, SummaryRow
from lindley.pages.scatter import MOST_FEATURES
from lindley.pages.tables import covariance_table
from lindley.pages.templates import asset, template
from lindley.table.export import write_atomically

__all__ = ["render", "write_report"]

MARKS = {"single": "■", "double": "●", "robust": "▲", "benchmark": "◆"}


def write_report(report: Report, folder: Path) -> Path:
    """Write ``report.html`` and ``figures/`` into a folder; the path of the page."""
    folder.mkdir(parents=True, exist_ok=True)
    pictures = draw_pictures(report)
    save_figures(report, folder / "figures", pictures)
    path = folder / "report.html"
    write_atomically(path, render(report, pictures).encode("utf-8"))
    return path


def render(report: Report, pictures: Mapping[str, Picture] | None = None) -> str:
    """The page as text; ``pictures``: if they are drawn already."""
    drawn = draw_pictures(report, every_loss=False) if pictures is None else pictures
    scripts = {
        "first": asset("lindley.pages", "first.js"),
        "plotly": _plotly(),
        "page": asset("lindley.pages", "run.js"),
    }
    store = _Store()
    store.add("all", {"summary": screen.summary_figure(report.summary), **screen.kind_figures(report.kinds)})
    for at, model in enumerate(report.models):
        store.add(f"model-{at}", screen.model_figures(model))
    rows = {row.name: row for row in report.summary.rows}
    shown_first = next((at for at, model in enumerate(report.models) if model.name == report.best), 0)
    page = template("lindley.pages", "run.html", number=palette.number, plain=palette.plain, signed=_signed)
    return page.render(
        report=report,
        headline=headline(report),
        rows=rows,
        labels=palette.model_labels(report.summary),
        marks=MARKS,
        kinds=palette.KINDS,
        shown_first=shown_first,
        share=_calibration_share,
        panel_title=palette.panel_title,
        place=store.place,
        sets=store.sets,
        settings=_json({"config": screen.CONFIG, "template": screen.TEMPLATE}),
        scatter=_json(screen.data_figures(report.data, _marked(report, shown_first))),
        tables=[
            ("within", "Within-source covariance", covariance_table(report.data.features, report.data.within)),
            ("between", "Between-source covariance", covariance_table(report.data.features, report.data.between)),
        ],
        most_features=MOST_FEATURES,
        image=lambda name: _image(drawn[name]) if name in drawn else None,
        still=lambda name, at: _image(drawn[name], smaller=True) if at == shown_first and name in drawn else None,
        style=Markup(asset("lindley.pages", "style.css")),
        scripts={name: Markup(text) for name, text in scripts.items()},
        policy=_policy(scripts.values()),
    )


@dataclass
class _Store:
    """Figure data by set, one set per model, read by the page when it is needed; equal figures are kept once.

    The variants of a trained model share its loss plot, for one.
    """

    sets: dict[str, Markup] = field(default_factory=dict)
    _of: dict[tuple[str, str], tuple[str, str]] = field(default_factory=dict)
    _known: dict[str, tuple[str, str]] = field(default_factory=dict)
    _heights: dict[tuple[str, str], int] = field(default_factory=dict)

    def add(self, name: str, figures: Mapping[str, dict[str, Any]]) -> None:
        """Keep the figures of a set."""
        kept = []
        for key, figure in figures.items():
            text = _json(figure)
            if text not in self._known:
                self._known[text] = (name, key)
                kept.append(f"{_json(key)}:{text}")
            self._of[name, key] = self._known[text]
            self._heights[name, key] = figure["layout"]["height"]
        self.sets[name] = Markup("{" + ",\n".join(kept) + "}")

    def place(self, name: str, key: str, alt: str) -> Markup:
        """The element in which the page draws a figure; its height is known before, so that nothing jumps."""
        kept_in, kept_as = self._of[name, key]
        return Markup(
            '<div class="plot" data-set="{}" data-figure="{}" style="height:{}px" role="img" aria-label="{}"></div>'
        ).format(kept_in, kept_as, self._heights[name, key], alt)


def _calibration_share(row: SummaryRow) -> float:
    """What part of the mean Cllr is for want of calibration."""
    return (row.test - row.test_min) / row.test if row.test > 0 else 0.0


def _marked(report: Report, shown_first: int) -> dict[str, str]:
    """The five costliest sources of the model that is shown first, to find in the scatter plot."""
    model: ModelFigures | None = report.models[shown_first] if report.models else None
    worst = model.outliers.outliers[:5] if model else ()
    return {o.source: f"one of the five costliest sources (share in Cllr {palette.number(o.cost)})" for o in worst}


def _json(value: object) -> Markup:
    """JSON that is safe inside a script element."""
    text = json.dumps(value, allow_nan=False, separators=(",", ":"), ensure_ascii=False)
    for char in "<>&\u2028\u2029":
        text = text.replace(char, f"\\u{ord(char):04x}")
    return Markup(text)


def _signed(value: float) -> str:
    text = palette.number(value, 2)
    return text if text.startswith("−") else f"+{text}"


def _image(drawn: Picture, smaller: bool = False) -> str:
    """A picture as a data address; the smaller of both files where either will do."""
    if smaller and len(drawn.svg) < len(drawn.png):
        return f"data:image/svg+xml;base64,{base64.b64encode(drawn.svg).decode('ascii')}"
    return f"data:image/png;base64,{base64.b64encode(drawn.png).decode('ascii')}"


def _policy(scripts: Any) -> str:
    hashes = (base64.b64encode(hashlib.sha256(text.encode("utf-8")).digest()).decode("ascii") for text in scripts)
    allowed = " ".join(f"'sha256-{value}'" for value in hashes)
    return (
        f"default-src 'none'; script-src {allowed}; style-src 'unsafe-inline'; img-src data: blob:; "
        "base-uri 'none'; form-action 'none'"
    )


def _plotly() -> str:
    from plotly.offline import get_plotlyjs

    return str(get_plotlyjs()).replace("\r\n", "\n")
