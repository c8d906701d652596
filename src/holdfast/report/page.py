"""HTML pages that open offline: templates, their style and scripts, and how a page is written."""

import base64
import hashlib
import re
from collections.abc import Mapping
from functools import cache
from typing import Any

import jinja2
from markupsafe import Markup, escape
from msgspec.structs import asdict

from holdfast.report import numbers
from holdfast.report.charts.palette import COLOURS, MARKERS
from holdfast.storage.entry import Entry


def page(
    template: str, scripts: tuple[str, ...] = ("script.js",), styles: tuple[str, ...] = ("style.css",), **values: Any
) -> str:
    """Return a page as HTML; every text among the values is escaped."""
    style = "\n".join(_source(name) for name in styles)
    return (
        _templates()
        .get_template(template)
        .render(style=Markup(style), script=Markup(_script(scripts)), script_digest=script_digest(scripts), **values)
    )


def script_digest(scripts: tuple[str, ...]) -> str:
    """Return the SHA-256 of a page's scripts: only these may run, and no text of a record that slips through."""
    return base64.b64encode(hashlib.sha256(_script(scripts).encode()).digest()).decode("ascii")


def _script(scripts: tuple[str, ...]) -> str:
    return "\n".join(map(_source, scripts))


def fragment(template: str, **values: Any) -> str:
    """Return part of a page as HTML, for pages of others; every text among the values is escaped."""
    return _templates().get_template(template).render(**values)


@cache
def _templates() -> jinja2.Environment:
    # Escape everything, whatever a template is called; a misspelt name is an error, not an empty string. Kept, for it
    # keeps the templates that it has compiled.
    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("holdfast.report"),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters.update(
        count=numbers.count,
        duration=numbers.duration,
        number=numbers.number,
        part=numbers.part,
        svg=Markup,
        breakable=_breakable,
        whole_options=_whole_options,
    )
    environment.globals.update(
        COLOURS=COLOURS, MARKERS=len(MARKERS), BETTER=numbers.BETTER, plural=numbers.plural, pretty=_pretty
    )
    return environment


def _source(name: str) -> str:
    templates = _templates()
    assert templates.loader is not None
    return templates.loader.get_source(templates, name)[0]


def _breakable(name: str) -> Markup:
    """Return a name, escaped, that a narrow column may break after its punctuation."""
    return Markup("<wbr>").join(escape(piece) for piece in re.split(r"(?<=[/:_@-])", name))


def _whole_options(text: str) -> Markup:
    """Return text, escaped, in which no line ends within an option such as "--budget"."""
    return Markup(re.sub(r"(?<!\S)(--[a-z][a-z-]*)", r'<span class="option">\1</span>', str(escape(text))))


def _pretty(value: Any) -> str:
    """Return a fact of the record on one line: {"size": [8, 8]} as "size 8 × 8"."""
    if isinstance(value, Entry):
        value = {key: item for key, item in asdict(value).items() if item != ""}
    if isinstance(value, Mapping):
        return ", ".join(f"{key} {_pretty(item)}" for key, item in value.items())
    if isinstance(value, (list, tuple)):
        integers = all(isinstance(item, int) for item in value)
        return (" × " if integers and len(value) > 1 else ", ").join(_pretty(item) for item in value)
    if value is None:
        return "-"
    return f"{value:.4g}" if isinstance(value, float) else str(value)
