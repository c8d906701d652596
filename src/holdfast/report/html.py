"""The report: one HTML file that opens offline, made from a run folder and nothing else."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from holdfast.report import attention as _attention
from holdfast.report import corruptions as _corruptions
from holdfast.report import noises as _noises
from holdfast.report import pictures
from holdfast.report import series as _series
from holdfast.report.apart import Apart
from holdfast.report.brief import best_first, brief, each_answer, explain_marks, leader, statuses, warn_about_duplicates
from holdfast.report.charts.sections import chart_sections, first_chart
from holdfast.report.hardening_curves import curves
from holdfast.report.names import shorten_names
from holdfast.report.page import page
from holdfast.report.scorecard import cards, families
from holdfast.report.verdict import costs, doubts, failures, rendering, scope, threats, winners
from holdfast.storage.filesystem import Folder
from holdfast.storage.outputs import write_inside
from holdfast.storage.pictured import AttentionEntry, Extremes
from holdfast.storage.record import Record
from holdfast.storage.record_file import REPORT, RunFiles, read_record, run_files
from holdfast.storage.seal import report_of

SCRIPTS = ("script.js", "gallery.js", "lightbox.js")

PICTURED: dict[str, Any] = {
    "changes": [], "gallery": [], "hubs": [], "extremes": Extremes(), "impersonations": [], "perturbations": [],
    "attention": AttentionEntry(),
}  # fmt: skip
"""What a record has of an encoder that is nothing but pictures of images and words about them, and how it is empty."""


def write_report(folder: Path) -> Path:
    """Write `folder/report.html` from the record, tables and pictures in `folder`, and return its path."""
    return Path(publish(folder))


def publish(place: Path | str, *, with_pictures: bool = True) -> str:
    """Write the report of a run folder wherever it is, see `Folder`, and return where the report is.

    The file holds its style, script, charts (SVG) and pictures (data URIs); it loads nothing.
    """
    folder = Folder(place)
    record = read_record(folder)
    text = render(record, run_files(folder, record), with_pictures=with_pictures)
    return write_inside(folder, REPORT, report_of(record, text))


def render(record: Record, folder: RunFiles, *, with_pictures: bool = True) -> str:
    """Return the report as HTML; every text of the record is escaped.

    Each section is made apart, and each encoder's in it: one that cannot be made is named at the head of the page.
    """
    # What is shown of one encoder, apart from the others
    record, wholes = shorten_names(record if with_pictures else _without_pictures(record))
    encoders = list(enumerate(record.encoders))  # the number picks colour and marker everywhere
    apart = Apart()

    def each(section: str, make: Any) -> list[Any]:
        """Return (number, name, what is shown) of the encoders that have something to show."""
        shown = [(i, e.name, apart(f"{section} of {e.name}", lambda e=e: make(e, folder), None)) for i, e in encoders]
        return [(i, name, parts) for i, name, parts in shown if parts]

    # The sections of all encoders
    makers: dict[str, tuple[str, Callable[[], list[Any]]]] = {
        "charts": ("charts", lambda: chart_sections(record, folder, apart)),
        "corruption_grids": ("corruptions", lambda: _corruptions.corruption_grids(record)),
        "corruption_charts": ("corruptions", lambda: _corruptions.relation_charts(record, "corruptions")),
        "corruption_relations": ("corruptions", lambda: _corruptions.relation_rows(record, "corruptions")),
        "encoder_charts": ("measures beside each other", lambda: _corruptions.relation_charts(record, "encoders")),
        "encoder_relations": ("measures beside each other", lambda: _corruptions.relation_rows(record, "encoders")),
        "cards": ("the scorecard", lambda: cards(record)),
        "answers": ("the answers", lambda: each_answer(record)),
        "problems": ("what failed", lambda: [*failures(record, wholes), *warn_about_duplicates(record)]),
        "threats": ("threats", lambda: threats(record)),
        "rendering": ("the pictures", lambda: rendering(record)),
        "winners": ("the verdict", lambda: winners(record)),
        "costs": ("the price", lambda: costs(record)),
        "doubts": ("what to distrust", lambda: doubts(record)),
        "statuses": ("validity", lambda: statuses(record)),
        "noises": ("learned noises", lambda: _noises.collect_noises(record, folder)),
        "attention": ("attention maps", lambda: _attention.attention_maps(record, folder)),
    }  # fmt: skip
    parts: dict[str, Any] = {name: apart(section, make, []) for name, (section, make) in makers.items()}
    parts |= {
        "leader": apart("who is the most robust", lambda: leader(record), None),
        "first": apart("the first chart", lambda: first_chart(record, folder), None),
        "brief": (numbers := apart("the first numbers", lambda: brief(record), None)),
        "marks": apart("what marks mean", lambda: explain_marks(record, numbers, "Bold:", "▲"), []) if numbers else [],
        "trainings": apart("checkpoints", lambda: _series.trainings(record), None),
        "hardening_curves": apart("the hardening", lambda: curves(record), []),
        "extremes": [shown for shown in each("pictures", pictures.extremes) if any(shown[2].values())],
        "changes": each("pictures of changes", lambda e, folder: pictures.changes(e, folder, len(encoders))),
        "galleries": each("pictures of attacks", lambda e, folder: pictures.gallery(e, folder, len(encoders))),
        "hubs": each("pictures of hubs", pictures.hubs),
        "impersonations": each("pictures of impersonations", pictures.impersonations),
        "perturbations": each("pictures of perturbations", pictures.perturbations),
    }

    # The page
    return page(
        "report.html",
        SCRIPTS,
        record=record,
        about=scope(record),
        encoders=encoders,
        wholes=wholes,
        audited=[(series, encoder) for series, encoder in best_first(record) if not encoder.error],
        checks={key: c.title for _, e in encoders for key, c in e.checks.items()},
        families=families(parts["cards"]),
        sections=_sections(parts),
        **parts,
        undrawn=apart.problems,
        with_pictures=with_pictures,
    )


def _without_pictures(record: Record) -> Record:
    """Return a record whose encoders have no pictures of images."""
    encoders = [
        replace(encoder, **PICTURED, noises=[replace(noise, pictures=[]) for noise in encoder.noises])
        for encoder in record.encoders
    ]
    return replace(record, encoders=encoders)


def _sections(parts: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Return (its name in links, title) of the sections that have something to show, in their order on the page."""
    kinds = ("changes", "galleries", "hubs", "extremes", "impersonations", "perturbations")
    pictured = any(parts[kind] for kind in kinds)
    shown = [
        ("validity", "Validity", True), ("scorecard", "Scorecard", parts["cards"]), ("pictures", "Pictures", pictured),
        ("charts", "Charts", parts["charts"]), ("corruptions", "Corruptions", parts["corruption_grids"]),
        ("relations", "Predictions", parts["encoder_relations"]), ("series", "Checkpoints", parts["trainings"]),
        ("hardening", "Hardening", parts["hardening_curves"]),
        ("noises", "Noise", parts["noises"]), ("attention", "Attention", parts["attention"]),
        ("reading", "How to read", True), ("reproduce", "Reproduce", True),
    ]  # fmt: skip
    return [(key, title) for key, title, content in shown if content]
