"""One image against others as a page that opens offline: the pictures, and the line of ε with what is known on it."""

import base64
import io
from collections.abc import Sequence
from dataclasses import dataclass

import PIL.Image
import torch
from torch import Tensor

from holdfast.report.folder import Picture, nice_ticks
from holdfast.report.numbers import plural
from holdfast.report.page import page
from holdfast.report.pair_sentences import cells, format_change, format_eps, format_proof, head, headline, sentences
from holdfast.report.pictures import Shot
from holdfast.runtime.privacy import public
from holdfast.storage.certified_pair import Against, CertifiedPair, FailedPair, Verdict
from holdfast.storage.entry import as_json, read_json
from holdfast.storage.outputs import write_text

SIDE = 352
"""Pixels of a side of the pictures at most."""

BEYOND = 1.15
"""How far the line of ε goes on behind the last that is known."""


@dataclass(frozen=True)
class Stretch:
    """A stretch of the line of ε.

    Attributes:
        verdict: what is known there.
        start: where it begins, in percent of the line.
        width: how long it is, in percent.
        text: the same in words.
    """

    verdict: Verdict
    start: float
    width: float
    text: str


@dataclass(frozen=True)
class Line:
    """The line of ε against one other image.

    Attributes:
        stretches: from 0 on.
        ticks: (place in percent, what it says).
        asked: (place in percent, verdict, ε in words) of each that was given.
    """

    stretches: list[Stretch]
    ticks: list[tuple[float, str]]
    asked: list[tuple[float, Verdict, str]]


@dataclass(frozen=True)
class Side:
    """One other image: pictures of both and of what was found, and the line of ε."""

    name: str
    shots: list[Shot]
    line: Line


@dataclass(frozen=True)
class Section:
    """An answer as the page shows it."""

    title: str
    sentences: list[str]
    sides: list[Side]
    head: list[str]
    rows: list[tuple[str, list[str]]]
    answer: CertifiedPair


def section(
    answer: CertifiedPair, image: Tensor, others: Sequence[Tensor], attacked: Sequence[Tensor | None]
) -> Section:
    """Return an answer with its pictures.

    Args:
        answer: what is known.
        image: the pixels of the image, [C, H, W].
        others: those of the others, in the order of the answer.
        attacked: those of the nearest image that was found to be nearer to each; None where none was.
    """
    answer = read_json(public(as_json(answer)), CertifiedPair)  # a page leaves the machine
    first, *rest = sentences(answer)
    # The tightest first: it decides
    pairs = list(zip(answer.against, others, attacked, strict=True))
    pairs.sort(key=lambda pair: pair[0] is not answer.tightest)
    sides = [
        Side(one.name, _shots(answer, one, image, other, moved), _line(answer, one)) for one, other, moved in pairs
    ]
    rows = [(one.name, cells(one, answer.box)) for one in answer.against]
    return Section(first, rest, sides, head(answer), rows, answer)


def publish(place: str, sections: Sequence[Section], failed: Sequence[FailedPair], command: str) -> None:
    """Write the page into a file that somebody named; it loads nothing."""
    write_text(place, render(sections, failed, command))


def render(sections: Sequence[Section], failed: Sequence[FailedPair], command: str) -> str:
    """Return the page as HTML; every text of an answer is escaped."""
    # One pair has the page for itself
    several = len(sections) + len(failed) != 1
    about = plural(len(sections) + len(failed), "pair") if several else "a pair of images"
    title = about if several or not sections else headline(sections[0].answer)
    return page(
        "certified_pair.html",
        styles=("style.css", "pair.css"),
        sections=sections,
        failed=failed,
        command=command,
        title=title,
        about=f"certified: {about}",
        several=several,
    )


def _shots(answer: CertifiedPair, one: Against, image: Tensor, other: Tensor, moved: Tensor | None) -> list[Shot]:
    """Return pictures of the image, of what was found, of the change, and of the other image."""
    shots = [_shot("the image", answer.image, image)]
    if moved is not None and one.attack.radius is not None:
        size = format_change(float(one.attack.radius), answer.box)
        shots.append(_shot(f"nearer to the other, {size}", f"{answer.image}, changed by {size}", moved))
        # Around grey, so that the largest change is black or white
        change = moved - image
        largest = float(change.abs().max())
        times = 0.5 / max(largest, 1e-6)
        alt = f"the change, {times:.3g} times, around grey"
        shots.append(_shot(f"the change × {times:.3g}", alt, (0.5 + change * times)))
    shots.append(_shot(f"the other: {one.name}", one.name, other))
    return shots


def _shot(caption: str, alt: str, pixels: Tensor) -> Shot:
    if pixels.shape[0] not in (1, 3):
        return Shot(caption, alt, None, f"no picture: {pixels.shape[0]} channels")
    # As a viewer shows it: 8 bits
    values = (pixels.clamp(0, 1) * 255).round().to(torch.uint8)
    picture = PIL.Image.fromarray((values[0] if len(values) == 1 else values.permute(1, 2, 0)).numpy())
    picture.thumbnail((SIDE, SIDE), PIL.Image.Resampling.LANCZOS)
    file = io.BytesIO()
    picture.save(file, "PNG")
    uri = "data:image/png;base64," + base64.b64encode(file.getvalue()).decode("ascii")
    return Shot(caption, alt, Picture(uri, *picture.size))


def _line(answer: CertifiedPair, one: Against) -> Line:
    """Return what is known along ε: proved from 0 on, broken from what was found on, nothing in between."""
    box, certified, broken = answer.box, one.low, one.high
    # As far as anything is known, and a bit beyond
    known = [certified, broken or 0.0, *(float(at.eps) for at in one.verdicts)]
    top = BEYOND * max(known) or 1.0
    end = top if broken is None else broken
    # Of several certifiers the one that proves most
    by = max(one.proofs, key=lambda proof: float(proof.radius)).certifier if certified else ""
    low = format_proof(certified, box) if certified else "0"
    unknown = (
        f"nothing known from {low} to {format_change(broken, box)}"
        if broken is not None
        else f"nothing known from {low}"
    )
    several: list[tuple[Verdict, float, float, str]] = [("undecided", certified, max(end, certified), unknown)]
    if certified:
        several.insert(0, ("certified", 0.0, certified, f"certified up to {low}, by {by}"))
    if broken is not None:
        several.append(("broken", broken, top, f"broken at {format_change(broken, box)}"))
    stretches = [
        Stretch(verdict, 100 * start / top, 100 * (stop - start) / top, text) for verdict, start, stop, text in several
    ]
    # Grey levels where each pixel is bounded
    scale = 255 if box else 1
    ticks = [tick for tick in nice_ticks(0, scale * top) if tick <= scale * top]
    return Line(
        stretches,
        [(100 * tick / scale / top, f"{tick:g}{'/255' if box and tick else ''}") for tick in ticks],
        [(100 * float(at.eps) / top, at.verdict, format_eps(float(at.eps), box)) for at in one.verdicts],
    )
