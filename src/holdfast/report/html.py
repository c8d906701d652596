"""The report: one HTML file that opens offline, made from a run folder and nothing else."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from holdfast.errors import HoldfastError, os_reason
from holdfast.folders import Folder
from holdfast.report import _attention, _chances, _corruptions, _noises, _radii, _sections, _series, _synbench
from holdfast.report._folder import read_record
from holdfast.report._page import page, write_page
from holdfast.report._scorecard import cards
from holdfast.report._verdict import threats, verdict


def write_report(folder: Path) -> Path:
    """Write `folder/report.html` from the record, tables and pictures in `folder`, and return its path.

    The file holds its style, script, charts (SVG) and pictures (data URIs); it loads nothing.

    Raises:
        HoldfastError: no record that can be read, or a folder that cannot be written.
    """
    text = render(read_record(folder), folder)
    path = folder / "report.html"
    write_page(text, path)
    return path


def publish(place: Path | str) -> str:
    """Write the report of a run folder wherever it is, see `Folder`, and return where the report is.

    Raises:
        HoldfastError: as `write_report`.
    """
    folder = Folder(place)
    try:
        if folder.local is None and not folder.exists("record.json"):  # else the error would name the copy
            raise HoldfastError(
                f"expected a run folder with a record.json, got {place}; give what `holdfast audit` wrote"
            )
        with folder.mirrored("record.json", "tables", "pictures") as path:
            written = write_report(path)
            if folder.local is None:
                folder.write(written.name, lambda copy: copy.write_bytes(written.read_bytes()))
    except OSError as error:
        raise HoldfastError(
            f"expected a run folder that can be read and written, got {place}: {os_reason(error)}"
        ) from error
    return folder.named(written.name)


def render(record: Mapping[str, Any], folder: Path) -> str:
    """Return the report as HTML; every text of the record is escaped.

    Args:
        record: a record of schema 1.
        folder: where its tables and pictures lie.
    """
    encoders = list(enumerate(record["encoders"]))  # the number picks colour and marker everywhere
    return page(
        "report.html",
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
    )
