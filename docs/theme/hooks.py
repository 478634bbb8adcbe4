"""What MkDocs does on the way: makes the reference pages, brings in files from beside docs/, and sets equations."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import Any

from latex2mathml.converter import convert
from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(Path(__file__).parent))

from reference import GENERATED, equations, inside_the_site  # noqa: E402 - found beside this file


def on_files(files: Files, *, config: MkDocsConfig) -> Files:
    """Add the generated pages, and the examples that pages link to."""
    for path, make in GENERATED.items():
        files.append(File.generated(config, path, content=make()))
    for example in sorted((ROOT / "examples").rglob("*.yaml")):
        place = example.relative_to(ROOT).as_posix()
        files.append(File.generated(config, place, content=example.read_text("utf-8")))
    return files


def on_page_markdown(markdown: str, *, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Links that leave docs/ lead to the copies in the site; $$ … $$ becomes MathML."""
    return equations(inside_the_site(markdown), _mathml)


def on_page_content(html: str, **_: Any) -> str:
    """A table wider than a telephone scrolls by itself, and not with the page; a number keeps its error beside it."""
    html = html.replace(" ± ", "\u00a0±\u00a0")
    return re.sub(r"<table>.*?</table>", r'<div class="wide">\g<0></div>', html, flags=re.S)


def _mathml(latex: str) -> str:
    return convert(latex, display="block")
