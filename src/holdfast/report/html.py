"""The report: one HTML file that opens offline, made from a run folder and nothing else."""

import base64
import hashlib
import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import jinja2
from markupsafe import Markup, escape

from holdfast.errors import HoldfastError
from holdfast.report import _attention, _chances, _corruptions, _format, _noises, _radii, _sections, _series, _synbench
from holdfast.report._folder import read_record
from holdfast.report._scorecard import cards
from holdfast.report._verdict import threats, verdict
from holdfast.report.plots import COLOURS, MARKERS


def write_report(folder: Path) -> Path:
    """Write `folder/report.html` from the record, tables and pictures in `folder`, and return its path.

    The file holds its style, script, charts (SVG) and pictures (data URIs); it loads nothing.

    Raises:
        HoldfastError: no record that can be read, or a folder that cannot be written.
    """
    page = render(read_record(folder), folder)
    path, part = folder / "report.html", folder / ".report.html.part"
    try:
        part.write_text(page, encoding="utf-8")
        os.replace(part, path)  # readers see the old report or the new one, never half of one
    except OSError as error:
        raise HoldfastError(
            f"expected a folder where the report can be written, got {str(folder)!r} ({error.strerror}); "
            "choose another folder or its permissions"
        ) from error
    return path


def render(record: Mapping[str, Any], folder: Path) -> str:
    """Return the report as HTML; every text of the record is escaped.

    Args:
        record: a record of schema 1.
        folder: where its tables and pictures lie.
    """
    encoders = list(enumerate(record["encoders"]))  # the number picks colour and marker everywhere
    templates = _templates()
    script = _source(templates, "script.js")
    # Only this script may run: text of a record that slipped through escaping could not.
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode("ascii")
    return templates.get_template("report.html").render(
        record=record,
        encoders=encoders,
        audited=[(series, encoder) for series, encoder in encoders if not encoder.get("error")],
        verdict=verdict(record),
        threats=threats(record),
        cards=cards(record),
        chance_charts=_chances.chance_charts(record),
        score_charts=_sections.score_charts(record),
        objective_charts=_sections.objective_charts(record),
        histograms=_sections.histograms(record, folder),
        tightness_charts=_sections.tightness_charts(record, folder),
        corruption_grids=_corruptions.corruption_grids(record),
        corruption_charts=_corruptions.relation_charts(record, "corruptions"),
        corruption_relations=_corruptions.relation_rows(record, "corruptions"),
        encoder_charts=_corruptions.relation_charts(record, "encoders"),
        encoder_relations=_corruptions.relation_rows(record, "encoders"),
        radius_charts=_radii.radius_charts(record, folder),
        margin_charts=_sections.margin_charts(record, folder),
        extremes=[(i, e["name"], sides) for i, e in encoders if any((sides := _sections.extremes(e, folder)).values())],
        galleries=[(i, e["name"], worst) for i, e in encoders if (worst := _sections.gallery(e, folder))],
        impersonations=[(i, e["name"], rows) for i, e in encoders if (rows := _sections.impersonations(e, folder))],
        noises=_noises.learned_noises(record, folder),
        attention=_attention.attention_maps(record, folder),
        synbench=_synbench.synbench(record, folder),
        trainings=_series.trainings(record),
        checks={key: c["title"] for _, e in encoders for key, c in (e.get("checks") or {}).items()},
        style=Markup(_source(templates, "style.css")),
        script=Markup(script),
        script_digest=digest,
    )


def _templates() -> jinja2.Environment:
    # Escape everything, whatever a template is called; a misspelt name is an error, not an empty string.
    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("holdfast.report"),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters.update(
        count=_format.count,
        duration=_format.duration,
        number=_format.number,
        part=_format.part,
        svg=Markup,
        breakable=_breakable,
    )
    environment.globals.update(
        COLOURS=COLOURS, MARKERS=len(MARKERS), BETTER=_format.BETTER, plural=_format.plural, pretty=_pretty
    )
    return environment


def _source(templates: jinja2.Environment, name: str) -> str:
    assert templates.loader is not None
    return templates.loader.get_source(templates, name)[0]


def _breakable(name: str) -> Markup:
    """Return a name, escaped, that a narrow column may break after its punctuation."""
    return Markup("<wbr>").join(escape(piece) for piece in re.split(r"(?<=[/:_@-])", name))


def _pretty(value: Any) -> str:
    """Return a fact of the record on one line: {"size": [8, 8]} as "size 8 × 8"."""
    if isinstance(value, Mapping):
        return ", ".join(f"{key} {_pretty(item)}" for key, item in value.items())
    if isinstance(value, (list, tuple)):
        whole = all(isinstance(item, int) for item in value)
        return (" × " if whole and len(value) > 1 else ", ").join(_pretty(item) for item in value)
    if value is None:
        return "-"
    return f"{value:.4g}" if isinstance(value, float) else str(value)
