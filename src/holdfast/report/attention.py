"""The attention maps of a run, as data for the report: a strip of pictures for each corruption."""

from collections.abc import Sequence
from dataclasses import dataclass

from holdfast.report.numbers import finite, listing, part, plural
from holdfast.report.pictures import Shot, shot
from holdfast.storage.pictured import AttentionEntry, StripEntry
from holdfast.storage.record import Record
from holdfast.storage.record_file import RunFiles

ROWS: dict[str, str] = {"representation": "the representation", "class": "the class"}
"""What the rows below the images are about, by the names of readings."""


@dataclass(frozen=True)
class Strip:
    """Pictures under one corruption, and how alike maps are to those of the clean images."""

    shot: Shot
    text: str


@dataclass(frozen=True)
class Attention:
    """All strips of one encoder; `problem` says why there are none."""

    series: int
    name: str
    facts: list[tuple[str, str]]
    strips: list[Strip]
    notes: list[str]
    problem: str = ""


def attention_maps(record: Record, folder: RunFiles) -> list[Attention]:
    """Return the attention maps of every encoder that was asked for them."""
    return [
        _attention(series, encoder.name, encoder.attention, folder)
        for series, encoder in enumerate(record.encoders)
        if encoder.attention != AttentionEntry()
    ]


def _attention(series: int, name: str, entry: AttentionEntry, folder: RunFiles) -> Attention:
    if entry.problem:
        return Attention(series, name, [], [], [], entry.problem)
    rows = [ROWS.get(reading, reading) for reading in entry.readings]
    facts = [("layer", entry.layer), ("rows", f"images; maps of {' and of '.join(rows)}")]
    if entry.probe:
        facts.append(("class by", part(entry.probe)))
    if passes := entry.passes:
        facts.append(("passes", f"{passes.forward:,} forward, {passes.backward:,} backward, not among those below"))
    facts.append(("images", ", ".join(entry.images)))
    notes = [f"Without pictures: {listing(entry.left_out)}."] if entry.left_out else []
    strips = [_strip(strip, rows, entry, folder) for strip in entry.strips]
    return Attention(series, name, facts, strips, notes)


def _strip(strip: StripEntry, rows: Sequence[str], entry: AttentionEntry, folder: RunFiles) -> Strip:
    parts = []
    for row, reading in zip(rows, entry.readings, strict=True):
        values = [value for value in strip.agreement.get(reading, []) if finite(value)]
        if values:
            mean, least, most = (f"{v:.2f}" for v in (sum(values) / len(values), min(values), max(values)))
            parts.append(f"{row} " + f"{mean} ({least} to {most})".replace("-", "−"))
    text = f"alike to clean maps: {'; '.join(parts)}" if parts else ""
    alt = (
        f"{plural(len(entry.images), 'image')}, {strip.title}, above their attention maps for "
        f"{' and for '.join(rows)}" + (f"; {text}" if text else "")
    )
    return Strip(shot(folder, strip.picture, strip.title, alt), text)
