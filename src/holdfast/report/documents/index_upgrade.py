"""An old encoder of an index beside a new one: what they have in common, what each does, and what came of it."""

from rich.text import Text

from holdfast.report.document import Block, Document, Items, ToCopy
from holdfast.report.documents.gate import MARKS, requirements
from holdfast.report.index_sentences import OUTCOMES, diagnosis_sentences, names, sentences
from holdfast.report.numbers import format_score_inline, number, plural
from holdfast.report.table import Table
from holdfast.storage.index_upgrade import (
    AGREEMENT,
    DISAGREEMENT,
    DISTURBED,
    Attacked,
    IndexMeasure,
    IndexRecord,
    JudgedCanary,
)

LISTED = 10
"""Canaries that are listed outside the page."""


def document(record: IndexRecord, report: str | None = None) -> Document:
    """Return what changes where the new encoder takes the old one's place.

    Args:
        record: what was found.
        report: where its page is; not said where None.
    """
    shown: list[Block] = [*map(Text, sentences(record)), *(Text(line, "yellow") for line in diagnosis(record))]
    shown += [table for table in tables(record) if table.rows]
    shown += [Text(f"No threshold: {record.threshold}", "yellow")] if record.threshold else []
    shown += [Items([Text(note, "dim") for note in record.notes])] if record.notes else []
    lines = [Text(canary(row, record.distance), OUTCOMES[row.outcome]) for row in canaries(record)]
    more = [Text(f"and {len(lines) - LISTED:,} more, see the report", "dim")] if len(lines) > LISTED else []
    shown += [Items([*lines[:LISTED], *more])] if lines else []
    shown += [*requirements(record.findings), Text(summarise_passes(record), "dim"), outcome(record)]
    return shown if report is None else [*shown, ToCopy({"Report": report})]


def diagnosis(record: IndexRecord) -> list[str]:
    """Return what makes two builds of one network differ, in sentences; none where nobody asked."""
    return [] if record.diagnosis is None else diagnosis_sentences(record.diagnosis, names(record), record.noun)


def tables(record: IndexRecord) -> list[Table]:
    """Return all tables: what both have in common, disturbed, attacked and proved images, what each does."""
    disturbed = ["cosine of both vectors, disturbed images", "median, 95 % interval"]
    return [
        tabulate_overlap(record),
        _tabulate(record, DISTURBED, disturbed),
        _tabulate(record, DISAGREEMENT, ["smallest change found on which both disagree", "95 % interval"]),
        _tabulate(record, AGREEMENT, ["change up to which both are proved to agree", "95 % interval"]),
        sides_table(record),
    ]


def _tabulate(record: IndexRecord, measure: str, head: list[str]) -> Table:
    """Return all scores of a measure; no rows where the record has none."""
    entry = record.measures.get(measure)
    rows = [] if entry is None else [[title, _cell(entry, title)] for title in entry.scores]
    return Table(head, rows)


def tabulate_overlap(record: IndexRecord) -> Table:
    """Return what the two encoders have in common."""
    rows = [[entry.title, _cell(entry, "mean")] for entry in record.measures.values() if "mean" in entry.scores]
    return Table([f"in common, by {record.distance}", "95 % interval"], rows)


def sides_table(record: IndexRecord) -> Table:
    """Return what each encoder does, and what the new one does at the old threshold."""
    old, new = names(record)
    columns = ("old", "new", "change", "kept")
    rows = [
        [entry.title, *(_cell(entry, column) for column in columns)]
        for name, entry in record.measures.items()
        if "new" in entry.scores and name != "false_positives"
    ]
    if (positives := record.measures.get("false_positives")) is not None:
        # Both thresholds are put where as many pairs lie below; at the old one the new encoder has another share
        rate = _cell(positives, "old")
        rows.insert(1, [positives.title, rate, rate, "", _cell(positives, "kept")])
    return Table([f"by {record.distance}", old, new, "change", "new, old threshold"], rows)


def _cell(entry: IndexMeasure, column: str) -> str:
    found = entry.scores.get(column)
    # Sizes of changes are grey levels
    return format_score_inline(found, entry.unit, entry.unit == "pixels") if found else ""


def canaries(record: IndexRecord) -> list[JudgedCanary]:
    """Return the canaries that do not simply hold, broken ones first."""
    return [row for row in record.canaries if row.outcome in OUTCOMES]


def canary(row: JudgedCanary, distance: str) -> str:
    """Return what became of a canary in one sentence."""
    distances, sides = row.distances, row.sides
    near = "; within the interval of the threshold" if row.near else ""
    kept = "" if sides.kept == sides.new else f" ({sides.kept} with the old threshold)"
    return (
        f"{row.outcome}: {row.first} and {row.second}, expected {row.expected}: {sides.old} before, "
        f"{distance} {number(distances.old)}; {sides.new} now{kept}, {distance} {number(distances.new)}{near}"
    )


def summarise_passes(record: IndexRecord) -> str:
    """Return how many encoder passes were made."""
    spent = record.encoders.old.passes, record.encoders.new.passes
    if record.noun == "item":
        return "Encoder passes: none, for both sides are stored vectors"
    made, predicted = [each.made.forward for each in spent], [each.predicted.forward for each in spent]
    found = 0 if record.diagnosis is None else record.diagnosis.passes.old + record.diagnosis.passes.new
    looking = f"; {found:,} to find what makes them differ" if found else ""
    stored = "" if made == predicted else f"; those of {sum(predicted) - sum(made):,} more were stored"
    attacks = "" if record.attacked is None else f"; {_attacks(record.attacked)}"
    bounds = 0 if record.proved is None else record.proved.passes.made.bounds
    proofs = f"; {plural(bounds, 'propagation')} of bounds" if bounds else ""
    return f"Encoder passes: {made[0]:,} by the old one, {made[1]:,} by the new one{stored}{looking}{attacks}{proofs}"


def _attacks(attacked: Attacked) -> str:
    """Return what attacks took, and what led them."""
    made = [each.made.forward + each.made.backward for each in (attacked.passes.old, attacked.passes.new)]
    most = [each.predicted.forward + each.predicted.backward for each in (attacked.passes.old, attacked.passes.new)]
    spared = f" of at most {most[0]:,} and {most[1]:,}" if made != most else ""
    led = {"both": "by gradients of both", "old": "by gradients of the old one", "new": "by gradients of the new one"}
    how = led.get(attacked.gradients, "by queries alone")
    return f"{made[0]:,} and {made[1]:,}{spared} to attack {plural(attacked.images, 'image')} {how}"


def outcome(record: IndexRecord) -> Text:
    """Return what became of requirements and canaries."""
    missed = sum(not finding.met for finding in record.findings)
    broken = sum(row.is_broken for row in record.canaries)
    if not record.findings and not record.canaries:
        return Text("nothing was required: add --require 'overlap@10 > 90 %' or --canaries FILE", "dim")
    if record.passed:
        return Text("passed", MARKS[True][1])
    parts = [f"{missed} of {plural(len(record.findings), 'requirement')} not met"] if missed else []
    parts += [f"{broken} of {len(record.canaries)} canaries broken"] if broken else []
    return Text(f"FAILED: {'; '.join(parts)}", MARKS[False][1])
