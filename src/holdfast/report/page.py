"""HTML pages that open offline: templates, their style and scripts, and how a page is written."""

import base64
import hashlib
import re
from collections.abc import Mapping
from functools import cache
from typing import Any

import jinja2
from markupsafe import Markup, escape

from holdfast.report import numbers
from holdfast.report.charts.figure import COLOURS, MARKERS


def page(template: str, scripts: tuple[str, ...] = ("script.js",), **values: Any) -> str:
    """Return a page as HTML; every text among the values is escaped.

    Args:
        template: name of its template.
        scripts: names of the scripts that may run, in order.
        values: what the template reads.
    """
    templates = _templates()
    script = "\n".join(_source(templates, name) for name in scripts)
    # Only this script may run: text of a record that slipped through escaping could not.
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode("ascii")
    return templates.get_template(template).render(
        style=Markup(_source(templates, "style.css")), script=Markup(script), script_digest=digest, **values
    )


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


def _source(templates: jinja2.Environment, name: str) -> str:
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
    if isinstance(value, Mapping):
        return ", ".join(f"{key} {_pretty(item)}" for key, item in value.items())
    if isinstance(value, (list, tuple)):
        integers = all(isinstance(item, int) for item in value)
        return (" × " if integers and len(value) > 1 else ", ").join(_pretty(item) for item in value)
    if value is None:
        return "-"
    return f"{value:.4g}" if isinstance(value, float) else str(value)
