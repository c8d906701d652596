"""The summary of an audit, answers first; the best encoder is marked only where the record says so."""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from rich.text import Text

from holdfast.report.answer import duplicates
from holdfast.report.brief import Brief, Head, Trust, brief, each_answer, explain_marks, first_keys, leader
from holdfast.report.cells import Cell
from holdfast.report.document import Block, Document, ToCopy
from holdfast.report.names import shorten_names
from holdfast.report.numbers import BEST_BUDGET, BETTER, bracket, choice, count, duration, format_score, listing, plural
from holdfast.report.rounds import explain_stop
from holdfast.report.table import Table
from holdfast.report.verdict import explain_uncertified, find_best, list_omissions, rendering, scope, threats, titles
from holdfast.storage.record import EncoderEntry, Record

_ARROW = {key: text[0] for key, text in BETTER.items()}
_STATUS = {"pass": "green", "warn": "yellow", "fail": "red", "skip": "dim"}
_NAME = 28
"""Columns that names and what checks say take at most."""
_CELL = 22
"""Columns that "12.3 % [9.1, 15.2] *" takes, roughly; decides which way round the table fits."""


def document(record: Record, report: Path | str | None = None) -> Document:
    """Return who is the most robust, the first numbers of each encoder and its checks; then all the rest.

    Args:
        record: the record.
        report: where its page is; not said where None.
    """
    record, wholes = shorten_names(record)
    encoders = select_audited(record)
    shown: list[Block] = []
    if encoders:
        if best := leader(record):
            tone = "bold green" if best.tone == "good" else "bold"
            shown.append(Text.assemble((f"{best.heading}. ", tone), best.text))
        shown += [
            Text.assemble((f"{name}: ", "bold"), " ".join(sentence.text for sentence in sentences))
            for _, name, sentences in each_answer(record)
        ]
        numbers = brief(record)
        shown += [*_brief_tables(numbers), *(Text(line, "dim") for line in explain_marks(record, numbers, "*", "!"))]
        first = first_keys(record)
        shown += _tables(record, [key for key in titles(record) if key not in first])
    shown += notes(record, wholes)
    return shown if report is None else [*shown, ToCopy({"Report": str(report)})]


def select_audited(record: Record) -> list[EncoderEntry]:
    """Return the encoders that could be audited."""
    return [encoder for encoder in record.encoders if not encoder.error]


def notes(record: Record, wholes: Mapping[str, str]) -> list[Text]:
    """Return what stands below the tables: what their marks mean, failures, and the scope; see `blocks`."""
    encoders, lines = select_audited(record), []
    lines += [Text(line, style="yellow") for line in explain_uncertified(encoders)]
    lines += [Text(line, style="yellow") for line in [explain_stop(record)] if line]
    lines += [Text(line, style="yellow") for line in [duplicates(record.data)] if line and encoders]
    lines += [Text(line, style="bold red") for line in _problems(record, wholes)]
    if encoders:
        lines += [Text(f"attacked: {ball}", style="dim") for ball in threats(record)]
        lines += [Text(line, style="dim") for line in rendering(record)]
        return [*lines, Text(f"{scope(record)}, {duration(record.run.seconds)}", style="dim")]
    return [*lines, Text("Nothing was audited.", style="bold red")]


def round_lines(record: Record) -> Iterator[str]:
    """Yield what there is to say after a round: how many images, the time, and the first number of each encoder."""
    rounds, run = record.run.rounds, record.run
    assert rounds is not None  # nobody asks after a round of an audit in one go
    spent = duration(rounds.before + run.seconds)
    yield f"after {spent}: {count(record.data.attacked)} of {count(rounds.of)} images attacked"
    record, _ = shorten_names(record)
    numbers = brief(record)
    for line in numbers.lines:
        for head, cell in zip(numbers.heads[:1], line.figures[:1], strict=True):
            yield f"  {line.name}: {head.title} {cell.value} {cell.interval}".rstrip()


def _brief_tables(shown: Brief) -> Iterator[Table]:
    """Yield the first numbers: the first of all and how far each is behind, with the checks; then the others.

    A line for each encoder; in a narrow terminal a line for each of its numbers below it.
    """
    lead = 2 if any(not head.better for head in shown.heads) else 1
    for some in (slice(lead), slice(lead, None)):
        if not (heads := shown.heads[some]):
            return
        rows, down = list[list[Text]](), list[Text]()
        for line in shown.lines:
            name = Text(line.name, "bold")
            if some.start is None:
                name.append("\n").append(_checks(line.trust))
            cells = [_format(figure) for figure in line.figures[some]]
            rows.append([name, *cells])
            down += name.split("\n")
            for head, cell in zip(heads, cells, strict=True):
                pieces = [piece.copy() for piece in cell.split("\n")]
                for piece in pieces:
                    piece.rstrip()
                named = f"{head.title} ({head.term})" if head.term else head.title
                down.append(Text.assemble(f"  {named}: ", Text(", ").join(pieces)))
        titles = [Text(), *map(_format_head, heads)]
        widths = [max(max(map(len, row[at].split("\n"))) for row in rows) for at in range(len(titles))]
        named = min(widths[0], _NAME)  # longer ones are folded
        yield Table(titles, rows, narrow=down, wide=sum(2 + width for width in (named, *widths[1:])))


def _format_head(head: Head) -> Text:
    """Return the head of a column, and below it what papers call it."""
    below = (f"\n{head.term}", "dim") if head.term else ""
    return Text.assemble(f"{head.title} {_ARROW.get(head.better, '')}".rstrip(), below)


def _format(cell: Cell) -> Text:
    """Return a number, its interval, the marks of the best and of a doubt, and below it what is proved."""
    style = "bold green" if cell.best else "yellow" if cell.tone else ""
    marks = f" {'*' * cell.best}{'!' * bool(cell.doubt)}" if cell.best or cell.doubt else "  "
    below = (f"\n{cell.proved}  ", "dim") if cell.proved else ""
    return Text.assemble((cell.value, style), " " * bool(cell.interval), (cell.interval, "dim"), (marks, style), below)


def _checks(trust: Trust) -> Text:
    """Return how many checks of an encoder passed, and below it what the others say."""
    return Text("\n".join([trust.text, *(doubt for _, doubt in trust.doubts)]), f"not bold {_STATUS[trust.status]}")


def _tables(record: Record, keys: Sequence[str]) -> list[Table]:
    """Return measures down, audited encoders across; in a narrow terminal a line for each encoder below its measure."""
    encoders = select_audited(record)
    across, down = list[list[str | Text]](), list[list[str | Text]]()
    for key in keys:
        across.append([_title(record, key), *(_cell(record, encoder, key) for encoder in encoders)])
        if any(chosen := [_format_best_budget(encoder, key) for encoder in encoders]):
            across.append([f"  {BEST_BUDGET}", *chosen])
        down.append([_title(record, key), ""])
        for encoder in encoders:
            down.append([f"  {encoder.name}", _cell(record, encoder, key)])
            if chosen := _format_best_budget(encoder, key):
                down.append([f"    {BEST_BUDGET}", chosen])
    head, wide = ["measure", *(encoder.name for encoder in encoders)], 24 + _CELL * len(encoders)
    return [Table(head, across, narrow=[Table(("measure / encoder", "value"), down)], wide=wide)] if keys else []


def _title(record: Record, key: str) -> Text:
    m = next(e.measures[key] for e in record.encoders if key in e.measures)
    return Text.assemble((m.title, "bold"), f" {_ARROW[m.better]}")


def _cell(record: Record, encoder: EncoderEntry, key: str) -> Text:
    m = encoder.measures.get(key)
    if m is None:
        return Text("not measured", style="dim")
    if m.error:
        return Text("failed", style="bold red")
    if m.not_certified or not (score := m.headline_score):
        return Text("not certified", style="yellow")
    best = find_best(record, key) == encoder.name
    style = "bold green" if best else "" if score.value is not None else "yellow"
    both = bracket(m.scores, m.unit, m.better, m.levels)
    shown = (both, "") if both else format_score(score, m.unit, m.levels)
    return Text.assemble((shown[0], style), " ", (shown[1], "dim"), (" *" if best else "  ", style))


def _format_best_budget(encoder: EncoderEntry, key: str) -> Text:
    """Return which ε a measure found to be best for an encoder; empty where it is not asked for."""
    m = encoder.measures.get(key)
    score = m.scores.get(BEST_BUDGET) if m else None
    return Text(f"{choice(score)}  " if score else "")


def _problems(record: Record, wholes: Mapping[str, str]) -> list[str]:
    """Return every failure once: the record's own list, and errors of parts that it does not mention."""
    # What failed
    failures = list(record.failures)
    lines = [(e.error, f"{wholes[e.name]} could not be audited: {e.error}") for e in record.encoders if e.error]
    lines += [
        (m.error, f"{m.title} failed for {e.name}: {m.error}")
        for e in record.encoders
        for m in e.measures.values()
        if m.error
    ]
    failures += [line for error, line in lines if not any(error in text for text in failures)]
    lost = list_omissions(record)  # which says more than that it could not be observed
    # A failure that is told with its cause is not told again without
    failures = [text for text in failures if not any(text.endswith(line.partition("”: ")[2]) for line in lost)] + lost

    # What was left out, or made again
    if record.data.train and (same := record.data.train.left_out):
        failures.append(f"{plural(same, 'training image')} left out: the audit has the same")
    if runs := record.data.runs_left_out:
        failures.append(f"left out what audits wrote into {plural(runs, 'run folder')} among the images")
    if remade := record.run.remade_shards:
        failures.append(
            f"{plural(remade, 'stored shard')} did not fit and {'was' if remade == 1 else 'were'} made again"
        )
    if skipped := record.data.skipped:
        failures.append(f"left out {plural(len(skipped), 'file')}: {listing([name for name, _ in skipped], 4)}")
    return failures
