"""A record as evidence: what was tested, by what, what holds, and which requirements ask for it."""

import json
import tomllib
from functools import cache
from importlib.resources import files

import msgspec
from msgspec.structs import replace
from rich.text import Text

from holdfast.numerics.statistics.score import Score
from holdfast.report.brief import trust
from holdfast.report.document import Document, Heading, ToCopy, list_items
from holdfast.report.model_card import of_one
from holdfast.report.numbers import format_score_inline, listing, part
from holdfast.report.render import to_markdown
from holdfast.report.table import Table
from holdfast.report.verdict import failures, scope, threats
from holdfast.runtime.errors import BadValue
from holdfast.runtime.privacy import public
from holdfast.storage.entry import Count, Entry, Spec, as_json
from holdfast.storage.outputs import write_text
from holdfast.storage.record import CheckEntry, EncoderEntry, MeasureEntry, Record
from holdfast.storage.sides import PROVED, SIDES

NO_COMPLIANCE = (
    "A requirement beside a number says what the number is evidence for, not that the requirement is met. Which level "
    "is appropriate, and what else has to be tested, is for whoever answers for the system."
)

FEW = 4
"""Scores of a measure that are all shown; of more, those that stand for it."""


class Source(Entry, frozen=True, forbid_unknown_fields=True):
    """A document that requires something, the version that was read, and what else to know of it."""

    title: str
    dated: str
    url: str
    note: str


class Requirement(Entry, frozen=True, forbid_unknown_fields=True):
    """What a document asks for; `asks`: in our words, `document`: its key."""

    name: str
    document: str
    asks: str


class Question(Entry, frozen=True, forbid_unknown_fields=True):
    """A question behind requirements, and what answers it.

    Attributes:
        asks: the question.
        requirements: the names of those that it is behind.
        shows: what the answers show.
        hides: what they do not show.
        measures: the names of those that answer it.
        commands: what else does, and the page of each.
    """

    asks: str
    requirements: list[str]
    shows: str
    hides: str
    measures: list[str] = []
    commands: dict[str, str] = {}


class Requirements(Entry, frozen=True, forbid_unknown_fields=True):
    """All that `evidence.toml` says."""

    document: dict[str, Source]
    requirement: list[Requirement]
    question: list[Question]


@cache
def read_requirements() -> Requirements:
    """Return which requirements numbers may be evidence for."""
    table = tomllib.loads((files("holdfast.report") / "evidence.toml").read_text(encoding="utf-8"))
    return msgspec.convert(table, Requirements)


class Tested(Entry, frozen=True):
    """What a measure of a record is evidence of.

    Attributes:
        measure: its title.
        question: what was asked.
        part: the measure with all that it was asked with: attack or certifier, ε, steps.
        requirements: which of the table it belongs to; none where it belongs to none.
        headline: the name of the score that stands for it.
        scores: all of them, with intervals, and the checks that each depends on.
        failure: why there is none; "" where there is.
    """

    measure: str
    question: str
    part: Spec
    requirements: list[str]
    headline: str | None
    scores: dict[str, Score]
    failure: str


class Evidence(Entry, frozen=True):
    """A record of one encoder as evidence.

    Attributes:
        note: what it is no proof of.
        encoder: its name.
        weights: their fingerprint.
        images: where they come from.
        images_fingerprint: of their pixels.
        population: how many there are.
        attacked: how many of them were attacked.
        threats: what attacks may do, in words.
        holdfast: the version that measured.
        seed: of all that was drawn.
        command: what measures it again.
        started: when, in ISO 8601.
        finished: the same.
        seal: of the record.
        tested: a row for each measure.
        checks: what was found about the validity of the numbers, by name.
        accepted: checks whose failure was accepted, so that it takes nothing from the numbers.
        failures: what could not be measured.
        requirements: those that rows name.
        sources: the documents of these.
    """

    note: str
    encoder: str
    weights: str | None
    images: str
    images_fingerprint: str
    population: Count
    attacked: Count
    threats: list[str]
    holdfast: str
    seed: Count
    command: str
    started: str
    finished: str
    seal: str
    tested: list[Tested]
    checks: dict[str, CheckEntry]
    accepted: list[str]
    failures: list[str]
    requirements: list[Requirement]
    sources: list[Source]


def write_evidence(record: Record, path: str, encoder: str | None = None) -> None:
    """Write a record as evidence: as Markdown, or with all its scores as JSON, by the ending of the file."""
    if not path.endswith((".md", ".json")):
        raise BadValue(f"evidence: expected a file that ends in .md or .json, got {path!r}")
    own = of_one(record, encoder, "evidence")
    found = gather(own)
    if path.endswith(".json"):
        write_text(path, json.dumps(public(as_json(found)), indent=1, ensure_ascii=False, allow_nan=False) + "\n")
    else:
        write_text(path, to_markdown(document(own, found), public))


def gather(record: Record) -> Evidence:
    """Return the record of one encoder as evidence."""
    (encoder,) = record.encoders
    tested = [
        Tested(m.title, m.question, m.part, _find_requirements(m), m.headline, m.scores, m.failure)
        for m in encoder.measures.values()
    ]
    # Only what rows name, in the order of the table
    named = {name for row in tested for name in row.requirements}
    asked = [requirement for requirement in read_requirements().requirement if requirement.name in named]
    sources = dict.fromkeys(requirement.document for requirement in asked)
    data, plan, run = record.data, record.plan, record.run
    return Evidence(
        note=NO_COMPLIANCE,
        encoder=encoder.name,
        weights=encoder.fingerprint,
        images=data.spec,
        images_fingerprint=data.fingerprint,
        population=data.images,
        attacked=data.attacked,
        threats=threats(record),
        holdfast=record.holdfast.version,
        seed=plan.seed,
        command=plan.command,
        started=run.started,
        finished=run.finished,
        seal=record.seal,
        tested=tested,
        checks=encoder.checks,
        accepted=plan.allow,
        failures=[line.text for line in failures(record)],
        requirements=asked,
        sources=[read_requirements().document[key] for key in sources],
    )


def document(record: Record, found: Evidence) -> Document:
    """Return what is shown of the record of one encoder as evidence."""
    (encoder,) = record.encoders
    # What it is about, and what it does not say
    times = f"Holdfast {found.holdfast}, seed {found.seed}, from {found.started} to {found.finished}."
    facts = {
        "weights": found.weights or "",
        "images": found.images_fingerprint,
        "seal of the record": found.seal,
        "again": found.command,
    }
    head = [
        Heading(f"Evidence of the robustness of {found.encoder}", level=1),
        Text(NO_COMPLIANCE),
        *list_items([f"{scope(record)}.", *found.threats, times]),
        ToCopy(facts),
    ]
    # A row for each measure
    titles = ["requirement", "question", "measure", "found", "n", "interval and notes", "checks it depends on"]
    rows = [
        [", ".join(row.requirements) or "none", f"{row.measure}: {row.question}", part(row.part), *_answer(encoder, m)]
        for row, m in zip(found.tested, encoder.measures.values(), strict=True)
    ]
    shown = [Heading("What was tested"), Table(titles, rows, words=range(len(titles)))]
    if not found.requirements:
        shown.append(Text("No measure of this record belongs to a requirement that Holdfast knows."))
    shown += list_items(found.failures)
    # What the rows refer to: checks, and requirements with their documents
    checks = [[check.title, check.status, check.finding] for check in found.checks.values()]
    shown += [Heading("Checks"), Table(["check", "verdict", "finding"], checks, words=range(3))] if checks else []
    if found.accepted:
        shown.append(
            Text(f"A failure of these was accepted, and takes nothing from the numbers: {listing(found.accepted)}.")
        )
    if found.requirements:
        asked = [[one.name, one.asks, read_requirements().document[one.document].title] for one in found.requirements]
        shown += [Heading("Requirements"), Table(["requirement", "asks, in short", "of"], asked, words=range(3))]
        shown.append(ToCopy({f"{source.title}, {source.dated}": source.url for source in found.sources}))
    return [*head, *shown]


def _find_requirements(measure: MeasureEntry) -> list[str]:
    """Return the requirements that a measure belongs to."""
    questions = [question for question in read_requirements().question if measure.part_name in question.measures]
    return list(dict.fromkeys(name for question in questions for name in question.requirements))


def _answer(encoder: EncoderEntry, measure: MeasureEntry) -> list[str]:
    """Return what was found, by how many units, what its interval is about, and how many of its checks passed."""
    score = measure.headline_score
    if score is None:
        return [f"nothing: {measure.failure}", "", "", ""]
    # A proof beside an attack is half of the answer
    names = (measure.headline, PROVED, *(SIDES if len(measure.scores) > FEW else measure.scores))
    shown = {name: measure.scores[name] for name in dict.fromkeys(names) if name in measure.scores}
    numbers = [f"{name} {format_score_inline(each, measure.unit, measure.levels)}" for name, each in shown.items()]
    # Of the checks only those that one of these numbers depends on
    asked = {name for each in shown.values() for name in each.checks}
    judged = trust(replace(encoder, checks={name: check for name, check in encoder.checks.items() if name in asked}))
    doubts = [text for _, text in judged.doubts]
    about = "; ".join(filter(None, (score.interval, score.note)))
    return ["; ".join(numbers), str(score.n), about, "; ".join([judged.text, *doubts]) if asked else "none"]
