"""A comparison: values, ranks, paired differences, what was left out."""

from rich.text import Text

from holdfast.core.doubts import doubts_of, say_failed
from holdfast.report.brief import FEW
from holdfast.report.document import Block, Document
from holdfast.report.leader import Leader, lead, lead_of
from holdfast.report.names import shorten_names
from holdfast.report.numbers import BETTER, decapitalise, finite, format_score_inline, listing, plural
from holdfast.report.table import Table
from holdfast.storage.chart import CurvesEntry
from holdfast.storage.comparison import ComparedEncoder, ComparedMeasure, Comparison, RankedRow

ARROW = {key: text[0] for key, text in BETTER.items()}


def rank(row: RankedRow) -> str:
    """Return the places that an encoder may have: "2", "1–3", or "–" where it has none."""
    if row.rank is None:
        return "–"
    first, last = row.rank
    return str(first) if first == last else f"{first}–{last}"


def p_text(p: float | None) -> str:
    """Return a p-value as people write it."""
    if p is None or not finite(p):
        return "–"
    return "< 0.001" if p < 0.001 else f"{p:.2f}" if p >= 0.1 else f"{p:.3f}"


def p_title(correction: str) -> str:
    """Return what a column of p-values is called: "p", "p (Holm)", "p (BH)"."""
    return {"none": "p", "holm": "p (Holm)", "bh": "p (BH)"}[correction]


def heading(m: ComparedMeasure, name: str) -> str:
    """Return a measure's title, with what tells it from its twins."""
    _, bracket, details = name.partition("[")
    details = f" ({details.rstrip(']').replace('=', ' ').replace(',', ', ')})" if bracket and "(" not in m.title else ""
    return f"{m.title}{details}"


def noun(data: Comparison) -> str:
    """Return what is compared: "method" of several seeds, or "encoder"."""
    return "method" if any(encoder.seeds for encoder in data.encoders) else "encoder"


def count_seeds(data: Comparison) -> str:
    """Return how many seeds methods have: "5 seeds each", "5 and 4 seeds"; "" of encoders."""
    counts = [str(len(encoder.seeds)) for encoder in data.encoders if encoder.seeds]
    return f"{counts[0]} seeds each" if len(set(counts)) == 1 else f"{listing(counts, 9)} seeds" if counts else ""


def document(data: Comparison) -> Document:
    """Return who is the most robust, whom to trust, every measure with its encoders, the best first, then the rest."""
    data, _ = shorten_names(data)
    shown: list[Block] = [*opening(data), _table(data)]
    if any(m.best for m in data.measures.values()):
        better = f"* best: significantly better than every other ranked {noun(data)}, after correction"
        shown.append(Text(better, style="dim"))
    if any(explain_doubt(row, data) for m in data.measures.values() for row in m.rows):
        shown.append(Text("! one of the warnings above concerns this number", style="dim"))
    return [*shown, *sentences(data)]


def opening(data: Comparison) -> list[Text]:
    """Return who is the most robust, and what the checks say of each encoder."""
    best = leader(data)
    tone = "bold green" if best and best.tone == "good" else "bold"
    lines = [Text.assemble((f"{best.heading}. ", tone), best.text)] if best else []
    styles = {"pass": "green", "warn": "yellow", "fail": "bold red"}
    for encoder in data.encoders:
        status, words = trust(encoder)
        lines.append(Text.assemble((encoder.name, "bold"), ": ", (words, styles[status])))
    return lines


def _table(data: Comparison) -> Table:
    """Return every measure with its encoders below it; a line for each encoder where the columns do not fit."""
    first, p = first_names(data), p_title(data.correction)
    head = [f"measure / {noun(data)}", "value", "rank", "paired difference to the best", p]
    rows, lines = list[list[Text]](), list[Text]()
    for name in [*first, *(name for name in data.measures if name not in first)]:
        m = data.measures[name]
        title = Text.assemble((heading(m, name), "bold"), f" {ARROW[m.better]}")
        rows.append([title, *map(Text, [""] * 4)])
        lines.append(title)
        for row in m.rows:
            rows.append(cells := _line(row, m, "!" if explain_doubt(row, data) else ""))
            encoder, value, place, gap, chance = (cell.copy() for cell in cells)
            value.rstrip()  # room for the mark of the best
            behind = ["; to the best ", gap, f", {p} ", chance] if gap.plain else []
            lines.append(Text.assemble(encoder, ": ", value, ", rank ", place, *behind))
    wide = sum(2 + max(len(line[at]) for line in (head, *rows)) for at in range(len(head)))
    return Table(head, rows, narrow=lines, wide=wide)


def explain_doubt(row: RankedRow, data: Comparison) -> str:
    """Return which warnings concern the number of an encoder; "" where none does."""
    warns = next(encoder.warns for encoder in data.encoders if encoder.name == row.encoder)
    concerned = [name for name in (row.score.checks if row.score else ()) if name in warns]
    return f"warning: {listing(doubts_of(concerned), 4)}" if concerned else ""


def _line(row: RankedRow, m: ComparedMeasure, doubt: str) -> list[Text]:
    """Return the cells of an encoder; `doubt` marks a number that a warning concerns."""
    name = Text(f"  {row.encoder}")
    value = _value(row, m)
    if row.why_not:
        return [name, Text(value, "dim" if row.score else "yellow"), Text("–", "dim"), Text(""), Text("")]
    style = "bold green" if row.best else ""
    behind = row.behind
    gap = format_score_inline(behind.difference, m.unit, m.levels) if behind else ""
    significant = behind is not None and finite(behind.p_adjusted) and behind.p_adjusted <= 0.05
    p = Text(p_text(behind.p_adjusted) if behind else "", "bold" if significant else "dim")
    marks = f"{'*' if row.best else ''}{doubt}"
    return [name, Text(f"{value} {marks}".ljust(len(value) + 3), style), Text(rank(row), style), Text(gap, "dim"), p]


def _value(row: RankedRow, m: ComparedMeasure) -> str:
    if row.score is not None:
        return format_score_inline(row.score, m.unit, m.levels)
    return str(row.why_not).partition(":")[0]


def sentences(data: Comparison) -> list[Text]:
    """Return what is to be said below the tables: front, encoders without rank, cautions, scope."""
    charts = [contrast.chart for m in data.measures.values() for contrast in m.charts]
    lines = [Text(chart.summary) for chart in charts if isinstance(chart, CurvesEntry)]
    lines += [Text(front(data))] if front(data) else []
    for encoder in data.encoders:
        if encoder.unfit:
            # A check that voids all numbers; other failures leave bounds
            seeds = [seed.name for seed in encoder.seeds if seed.unfit]
            of, its = (f" for {listing(seeds)}", "these") if seeds else ("", "its")
            sentence = f"{encoder.name} is not ranked: {say_failed(encoder.unfit)}{of}, so {its} numbers mean nothing"
            lines.append(Text(sentence, "bold red"))
        elif encoder.called:
            lines.append(Text(f"{encoder.name} is {trust(encoder)[1]}", "bold red"))
        elif encoder.fails:
            flawed = f"{encoder.name}: {say_failed(encoder.fails)}, so what relies on it is a bound on one side"
            lines.append(Text(flawed, "bold red"))
    lines += [Text(text, "bold red") for text in data.problems]
    lines += [Text(text, "yellow") for text in data.cautions]
    lines += [Text(text, "dim") for text in data.left_out]
    return [*lines, Text(scope(data), "dim")]


def first_names(data: Comparison) -> list[str]:
    """Return the measures that come first: what answers in words, then what is in brief; all where none is either."""
    measures = data.measures
    # What is answered in words comes before what is only a number
    answering = [name for name, m in measures.items() if m.answers]
    brief = [name for name, m in measures.items() if m.in_brief and name not in answering]
    return ([*answering, *brief] or list(measures))[:FEW]


def leader(data: Comparison) -> Leader | None:
    """Return who is best by the first measure, as its verdicts say; None where there is nothing to compare."""
    m = data.measures[first_names(data)[0]]
    scores = {row.encoder: row.score for row in m.rows if row.why_not is None and row.score}
    first = next(iter(scores), None)
    beaten = {
        pair.second if first == pair.first else pair.first
        for pair in m.pairs
        if pair.winner and first in (pair.first, pair.second)
    }
    top = m.best or first
    second = next((name for name in scores if name != top), None)
    between = next((pair for pair in m.pairs if {pair.first, pair.second} == {top, second}), None)
    behind = None if between is None or top is None else lead_of(between, top, m.better)
    p_value = p_text(between.p_adjusted) if m.best and between and finite(between.p_adjusted) else ""
    bars = [bar for encoder in data.encoders if encoder.name in scores for bar in encoder.bars]
    bar = next(iter(bars), "")
    seeds = count_seeds(data)
    return lead(m, scores, m.best, beaten, answers=m.answers, behind=behind, p=p_value, bar=bar, seeds=seeds)


def trust(encoder: ComparedEncoder) -> tuple[str, str]:
    """Return (status, words) of what the checks say of an encoder."""
    if encoder.unfit:
        return "fail", f"not ranked: {say_failed(encoder.unfit)}"
    if encoder.called:
        return "fail", f"not ranked: {decapitalise(encoder.called)}"
    if encoder.fails:
        return "fail", say_failed(encoder.fails)
    if not encoder.warns:
        return "pass", "no check failed"
    doubts = doubts_of(encoder.warns)
    return "warn", f"{'warnings' if len(doubts) > 1 else 'warning'}: {listing(doubts, 4)}"


def front(data: Comparison) -> str:
    """Return who is on the front of the two measures that are drawn against each other."""
    pareto = data.pareto
    if pareto.why_not or len(pareto.points) < 2:
        return ""
    undominated = [point.encoder for point in pareto.points if not point.dominated_by]
    titles = " and ".join(heading(data.measures[axis], axis).lower() for axis in (pareto.x, pareto.y) if axis)
    return f"On the Pareto front of {titles}: {listing(undominated, 8)}"


def scope(data: Comparison) -> str:
    """Return what was compared and how, in one sentence."""
    at = data.conditions
    each = f" of {seeds}" if (seeds := count_seeds(data)) else ""
    return (
        f"{plural(len(data.encoders), noun(data))}{each}, {plural(at['number of images'], 'image')} of {at['data']}, "
        f"{at['attacked images']:,} attacked, seed {at['seed']}; {plural(data.comparisons, 'comparison')}; "
        f"{data.promises}"
    )
