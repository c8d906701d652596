"""What the gate found: every requirement, every verdict, readable without colour."""

from collections.abc import Sequence
from itertools import groupby

from rich.text import Text

from holdfast.numerics.statistics.score import Score
from holdfast.report.document import Block, Document, Heading, Items, list_items
from holdfast.report.documents.comparison import p_text
from holdfast.report.index_sentences import sentences as upgrade_sentences
from holdfast.report.names import short_names
from holdfast.report.numbers import BETTER, finite, format_score, number, plural
from holdfast.report.table import Table
from holdfast.storage.finding import Finding
from holdfast.storage.gate import Gate, HeldScore, Needed, Regression
from holdfast.storage.standing import SOUND

MARKS = {True: ("✓", "green"), False: ("✗", "bold red"), None: ("?", "yellow")}
"""Of what holds, what does not, and what nobody can tell."""

WIDE = 110
"""Columns from which a table fits a terminal."""

_STYLES = {
    "worse": "bold red",
    "lost": "bold red",
    "cannot tell": "yellow",
    "no worse": "green",
    "better": "bold green",
}


def holds(verdict: HeldScore) -> bool | None:
    """Return whether a verdict is none that fails; None where nothing can be told."""
    return None if verdict.verdict == "cannot tell" else verdict.verdict not in ("worse", "lost")


def document(data: Gate) -> Document:
    """Return which requirements are met, what became worse and why, and the outcome of it all."""
    return [*_answers(data), outcome(data)]


def summarise(data: Gate) -> Document:
    """Return the same for a page of many jobs: what was held, and its outcome, come first."""
    mark, _ = MARKS[data.passed]
    return [Heading(f"{mark} holdfast check {data.record}", level=1), outcome(data), *_answers(data)]


def _answers(data: Gate) -> list[Block]:
    shown: list[Block] = [*requirements(data.findings), *list_items(data.warnings, "yellow")]
    shown += list_items([sentence for compared in data.index for sentence in upgrade_sentences(compared)])
    if regression := data.regression:
        shown += [Heading(against(regression)), *(table(*group) for group in by_encoder(regression))]
        shown += [Items(said)] if (said := notes(regression)) else []
    return shown


def by_encoder(regression: Regression) -> list[tuple[str, list[HeldScore]]]:
    """Return the verdicts of each encoder."""
    names = short_names(list(dict.fromkeys(row.encoder for row in regression.verdicts)))
    groups = groupby(regression.verdicts, key=lambda row: row.encoder)
    return [(names[encoder], list(rows)) for encoder, rows in groups]


def notes(regression: Regression) -> list[Text]:
    """Return what is to be said below the tables: reasons, cautions, what was left out, what the verdicts promise."""
    said = [row for row in regression.verdicts if row.reason or row.needed]
    lines = [Text(sentence(row), _STYLES[row.verdict]) for row in said]
    lines += [Text(text, "yellow") for text in regression.cautions]
    return lines + [Text(text, "dim") for text in [*regression.left_out, *scope(regression)]]


def requirements(findings: Sequence[Finding]) -> list[Items]:
    """Return each requirement, with what it was compared with, and below it every encoder; nothing where none is."""
    lines, names = [], short_names(list(dict.fromkeys(finding.encoder for finding in findings)))
    for requirement, group in groupby(findings, key=lambda finding: finding.requirement):
        answers = list(group)
        met, compared = all(finding.met for finding in answers), (f"  {answers[0].compared}", "dim")
        lines.append(Text.assemble(_mark(met), " ", (requirement, "bold"), compared))
        for finding in answers:
            actual = (actually(finding), "" if finding.met else "red")
            lines.append(Text.assemble("  ", _mark(finding.met), f" {names[finding.encoder]}: ", actual))
    return [Items(lines)] if lines else []


def _mark(holds: bool | None) -> Text:
    return Text(*MARKS[holds])


def actually(finding: Finding) -> str:
    """Return what was found and, where that is not enough, why."""
    value, reason = finding.found, finding.reason
    text = value if isinstance(value, str) and not reason else ""  # a check's reason says it
    if isinstance(value, (int, float)):
        text = f"{value * 100:.6g} %" if finding.unit == "share" else f"{value:.6g}"
        text = f"{255 * value:.3g}/255" if finding.levels else text
    return (" " if reason.startswith("is not") else ": ").join(filter(None, [text, reason]))


def write_out(finding: Finding) -> str:
    """Return a finding in a line, with what was compared."""
    return f"{MARKS[finding.met][0]} {finding.requirement}, {finding.encoder}: {actually(finding)} ({finding.compared})"


def outcome(data: Gate) -> Text:
    """Return what became of the requirements, and of the measures held against a baseline."""
    findings, regression = data.findings, data.regression
    # What cannot be told passes, unless --strict says otherwise, but is counted
    verdicts = [row.verdict for row in regression.verdicts] if regression else []
    untold = verdicts.count("cannot tell")
    if data.passed:
        text = f"passed, but undecided: {untold}" if untold else "passed"
        return Text(text, style=MARKS[None if untold else True][1])
    parts = []
    if regression:
        counts = [f"{verdicts.count(name)} {name}" for name in ("worse", "lost") if name in verdicts]
        counts += [f"{untold} undecided (--strict)"] if untold and data.strict else []
        parts.append(", ".join(counts) or "nothing worse")
    if findings:
        missed = sum(not finding.met for finding in findings)
        parts.append(f"{missed} of {plural(len(findings), 'requirement')} not met" if missed else "requirements met")
    return Text(f"FAILED: {'; '.join(parts)}", style=MARKS[False][1])


def table(encoder: str, rows: Sequence[HeldScore]) -> Table:
    """Return the verdicts of one encoder: a table, or sentences where that does not fit."""
    head = ["measure", "baseline", "now", "change", "allowed drop", "p of verdict", "verdict"]
    lines = [Text(encoder)]
    for row in rows:
        mark, style = MARKS[holds(row)]
        lines.append(Text.assemble((f"{mark} {row.verdict}: ", style), title(row)))
        lines.append(Text(f"  {'; '.join(numbers(row))}", "dim"))
    return Table(head, [_line(row) for row in rows], encoder, narrow=lines, wide=WIDE)


def _line(row: HeldScore) -> list[str | Text]:
    before, now = (_format_score(row, score)[0] if score else "–" for score in (row.baseline, row.now))
    change = " ".join(filter(None, _format_score(row, row.change))) if row.change else "–"
    mark, _ = MARKS[holds(row)]
    verdict = Text(f"{row.verdict} {mark}", _STYLES[row.verdict])
    return [Text(title(row)), before, now, change, margin(row), p_text(row.p_adjusted), verdict]


def title(row: HeldScore) -> str:
    """Return what was measured, and which direction is better."""
    score = "" if row.is_headline else f", {row.score}"
    return f"{row.title}{score} {BETTER[row.better][0]}"


def margin(row: HeldScore) -> str:
    """Return the allowed drop, in the measure's own unit."""
    amount, written = row.margin.amount, row.margin.written
    if not row.margin.relative:
        return f"{255 * amount:.3g}/255" if row.levels and amount else written
    if amount is None or not finite(amount):
        return written
    if row.unit == "share":
        points = f"{100 * amount:.3g}"
        return f"{points} point{'' if points == '1' else 's'}"
    return f"{255 * amount:.3g}/255" if row.levels else number(amount, row.unit)


def sentence(row: HeldScore) -> str:
    """Return a verdict with its reason, in one sentence."""
    reason = f": {row.reason}" if row.reason else ""
    advice = _advice(row, row.needed) if row.needed else ""
    return f"{title(row)[:-2]} of {row.encoder}: {row.verdict}{reason}{f'. {advice}' if advice else ''}"


def statement(row: HeldScore) -> str:
    """Return a verdict with its numbers, in one sentence."""
    return f"{sentence(row)} ({'; '.join(numbers(row))})"


def numbers(row: HeldScore) -> list[str]:
    """Return the numbers behind a verdict: baseline, now, change, allowed drop, p."""
    before, now = (" ".join(filter(None, _format_score(row, s))) if s else "none" for s in (row.baseline, row.now))
    parts = [f"baseline {before}, now {now}"]
    if row.change and row.change.value is not None:
        parts.append(f"change {' '.join(filter(None, _format_score(row, row.change)))}")
    parts.append(f"allowed drop {margin(row)}")
    if row.p_adjusted is None:
        return parts
    says = {"worse": "loss beyond it shown, ", "no worse": "loss beyond it excluded, ", "better": "gain shown, "}
    p = p_text(row.p_adjusted)
    return [*parts, f"{says.get(row.verdict, '')}p {p if p.startswith('<') else f'= {p}'} (Holm)"]


def _advice(row: HeldScore, needed: Needed) -> str:
    """Return how many images would decide; never more than there are."""
    # Of a bound nobody knows how far the truth is, so no number of images shows that there is no change
    sound = all(score is not None and score.standing == SOUND for score in (row.now, row.baseline))
    available, act = needed.available, "attack" if needed.of == "attacked images" else "use"
    cases = [] if row.reason else [("the change is as measured", needed.as_measured)]
    if needed.if_equal is not None or (sound and row.margin.amount):  # of margin 0 no number shows that
        cases.append(("there is no change", needed.if_equal))
    enough = [(when, images) for when, images in cases if images is not None and images <= available]
    beyond = [when for when, images in cases if images is None or images > available]
    more = f"more than the {available:,} images available: allow a larger drop, or use more data"
    if not enough:
        return f"To decide with 80 % power takes {more}" if beyond else ""
    (when, images), *others = enough
    text = f"To decide with 80 % power, {act} about {_about(images)} images in both runs if {when}"
    if others:
        return f"{text}, or about {_about(others[0][1])} if {others[0][0]}"
    return f"{text}; if {beyond[0]}, that takes {more}" if beyond else text


def _about(images: int) -> str:
    """Return a number with two digits."""
    return f"{round(images, -max(0, len(str(images)) - 2)):,}"


def _format_score(row: HeldScore, score: Score) -> tuple[str, str]:
    return format_score(score, row.unit, row.levels)


def against(regression: Regression) -> str:
    """Return what the run is held against, and how."""
    if not regression.paired:
        return f"Compared with {regression.baseline}, unpaired: other images of the same source"
    counts = [images for row in regression.verdicts if (images := row.images) is not None]
    most = [(images.shared or 0, max(images.now, images.baseline)) for images in counts]
    parts = [f"{shared:,} of {all_:,} images shared" for shared, all_ in dict.fromkeys(most) if shared < all_]
    on = f"; all numbers are of these: {', '.join(parts)}" if parts else ""
    return f"Compared with {regression.baseline}, image by image{on}"


def scope(regression: Regression) -> list[str]:
    """Return what the verdicts promise; nothing where there was no test."""
    return [regression.promises] if regression.promises else []
