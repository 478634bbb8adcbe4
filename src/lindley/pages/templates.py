"""Pages from templates of the package: what is put into them is escaped, and a name that is not there is an error."""

from __future__ import annotations

from collections.abc import Callable
from importlib.resources import files

import jinja2

__all__ = ["asset", "template"]


def template(package: str, name: str, **filters: Callable[..., str]) -> jinja2.Template:
    """A template of a package, with filters of its own."""
    environment = jinja2.Environment(
        loader=jinja2.PackageLoader(package, "."),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= filters
    return environment.get_template(name)


def asset(package: str, name: str) -> str:
    """A script or a style sheet of a package, with the same line ends everywhere: a page knows its scripts by their hash."""
    return files(package).joinpath(name).read_text(encoding="utf-8").replace("\r\n", "\n")
