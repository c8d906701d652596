"""A section of a model card: what was asked and answered, with a curve beside it, and the Hub's metadata of it."""

import posixpath
from collections.abc import Iterator

from msgspec.structs import replace

from holdfast.report.answer import answers
from holdfast.report.brief import warn_about_duplicates
from holdfast.report.numbers import BETTER, finite, statement
from holdfast.report.paper.gather import figures_of_record
from holdfast.report.paper.style import Style
from holdfast.report.table import Table, markdown_text
from holdfast.report.verdict import doubts, failures, scope, threats
from holdfast.runtime.errors import Ambiguous, BadValue, Failed, unknown
from holdfast.storage.documents import quote_yaml
from holdfast.storage.outputs import write_text
from holdfast.storage.record import EncoderEntry, Record
from holdfast.storage.record_file import RunFiles
from holdfast.storage.standing import SOUND, void_checks

FIRST = ("curve", "transfer", "steps")
"""Names, or beginnings of names, of the figure that is shown: the first of these that there is, else none."""


def write_model_card(record: Record, files: RunFiles, path: str, encoder: str | None = None) -> list[str]:
    """Write a section of a model card, and beside it the figure that it shows; return the files."""
    if not path.endswith(".md"):
        raise BadValue(f"model card: expected a file that ends in .md, got {path!r}")
    own = of_one(record, encoder, "model card")
    figures = figures_of_record(own, files)
    names = (name for start in FIRST for name in figures.by_name if name == start or name.startswith(f"{start}-"))
    written, picture = [path], ""
    if name := next(names, ""):
        place = f"{path.removesuffix('.md')}-{name}.svg"
        figure = figures.pick(name, Style(width="page", font="sans"))
        figure.save(place)
        caption = markdown_text(figure.caption)
        picture = f"![{caption.partition('.')[0]}]({posixpath.basename(place)})\n\n*{caption}*"
        written.append(place)
    write_text(path, model_card(own, picture))
    return written


def model_card(record: Record, picture: str = "") -> str:
    """Return the section, with `model-index` metadata at its head, of the one encoder of a record.

    The metadata hold the sound headlines with their intervals as arguments of the metric: what failed a check, and a
    bound on one side, would be read as a number there; the table of the section has them, in words.

    Source: huggingface/hub-docs, modelcard.md (`model-index`).
    """
    (encoder,) = record.encoders
    said = [markdown_text(sentence.text) for _, sentence in answers(record)]
    rows = [
        (f"{m.title} {BETTER[m.better][0]}", *statement(score, m.unit))
        for m in encoder.measures.values()
        if (score := m.headline_score)
    ]
    copies = [] if said else warn_about_duplicates(record)  # answers say it too
    trust = [f"- {markdown_text(line.text)}" for line in (*doubts(record), *failures(record), *copies)]
    about = [f"- {markdown_text(line)}" for line in (f"{scope(record)}.", *threats(record))]
    profile = f"profile {markdown_text(record.plan.profile)}, " if record.plan.profile else ""
    about += [
        f"- Seed {record.plan.seed}, {profile}Holdfast {record.holdfast.version}, weights `{encoder.fingerprint}`, "
        f"images `{record.data.fingerprint[:16]}`."
    ]
    parts = [
        "\n".join(["---", *_metadata(record, encoder), "---"]),
        "## Robustness of the representations",
        *said,
        picture,
        Table(["measure", "value", "95 % interval"], rows).markdown(),
        "Arrows show the more robust direction. Intervals are about the sample of images, not about a stronger attack.",
        "**Conditions**",
        "\n".join(about),
        "**What to distrust**",
        "\n".join(trust) or "- Nothing: all checks passed, and nothing failed.",
    ]
    return "\n\n".join(filter(None, parts)) + "\n"


def of_one(record: Record, name: str | None, what: str) -> Record:
    """Return a record of one of its encoders alone, for what is written of one."""
    entries = {entry.name: entry for entry in record.encoders}
    if name is None and len(entries) > 1:
        raise Ambiguous(
            f"{what}: expected one encoder, and this record is of {len(entries)} ({', '.join(entries)}); say whose "
            "it is (--encoder NAME)"
        )
    chosen = next(iter(entries)) if name is None else name
    if chosen not in entries:
        raise unknown("encoder of this record", chosen, entries)
    if error := entries[chosen].error:
        raise Failed(f"{what}: {chosen} could not be audited: {error}")
    own = [line for line in record.failures if line.startswith(chosen)]
    return replace(record, encoders=[entries[chosen]], comparison={}, relations=[], series=[], failures=own)


def _metadata(record: Record, encoder: EncoderEntry) -> Iterator[str]:
    """Yield the lines of `model-index`: a task, the images, and a metric for each sound headline."""
    metrics = [] if void_checks(encoder, record.plan.allow) else list(_metrics(encoder))
    if not metrics:
        return
    data = record.data
    yield "model-index:"
    yield f"- name: {quote_yaml(encoder.name)}"
    yield "  results:"
    yield "  - task:"
    yield "      type: image-feature-extraction"
    yield f"      name: {quote_yaml('Robustness of representations')}"
    yield "    dataset:"
    yield f"      type: {quote_yaml(data.spec)}"
    yield f"      name: {quote_yaml(data.description)}"
    yield f"      revision: {quote_yaml(data.fingerprint)}"
    yield "    metrics:"
    for metric in metrics:
        yield from metric


def _metrics(encoder: EncoderEntry) -> Iterator[list[str]]:
    for name, m in encoder.measures.items():
        score = m.headline_score
        if not score or not finite(score.value) or score.standing != SOUND:
            continue
        args = {"low": score.low, "high": score.high, "confidence": score.confidence, "n": score.n}
        words = {"interval": score.interval, "unit": score.unit or m.unit, "better": score.better or m.better}
        yield [
            f"    - type: {quote_yaml(name)}",
            f"      name: {quote_yaml(m.title)}",
            f"      value: {score.value!r}",
            "      args:",
            *(f"        {key}: {'null' if value is None else repr(value)}" for key, value in args.items()),
            *(f"        {key}: {quote_yaml(value)}" for key, value in words.items()),
        ]
