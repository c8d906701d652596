"""A paper's table beside ours, and what became of its claims."""

from collections.abc import Sequence
from math import inf

from rich.text import Text

from holdfast.numerics.statistics.score import Score
from holdfast.report.document import Block, Document, Heading, list_items
from holdfast.report.numbers import duration, plural
from holdfast.report.table import Table
from holdfast.storage.reproduction import (
    UNASKED,
    Agreement,
    CellEntry,
    ColumnEntry,
    Network,
    Outcome,
    Rehearsal,
    ReproductionRecord,
    Verdict,
)

OUTCOMES: dict[Outcome, str] = {"holds": "green", "fails": "bold red", "not shown": "yellow"}
"""What may become of a claim, and its colour."""

NETWORKS: dict[Network, str] = {
    "authors": "on the authors' own networks",
    "trained": "on networks trained here as theirs were",
    "real": "on other real networks",
    "stand-ins": "on stand-ins",
}
"""What claims were tried on, in words, the paper's own first."""

LEVEL = 0.05
"""1 - confidence of the intervals by which numbers agree."""

NAMED = 3
"""Ties and contradictions in the paper's own table that are named, at most."""

STOOD_IN = (
    "These stand-ins show how the table is made. Their numbers say nothing of the paper, so its claims are not tried "
    "on them."
)
"""Said where small networks stand in for a paper's."""

OTHERS = "What is said here of claims is about these, not about the paper's own."
"""Said where other real networks or images stand in for a paper's."""


def document(record: ReproductionRecord, figure: Document = ()) -> Document:
    """Return a paper's table beside ours, what stands in for what, and what became of each claim.

    Args:
        record: of the reproduction.
        figure: the pictures of the paper's figure, drawn of it.
    """
    # What was reproduced, and what came of it
    about = record.reproduction
    profile = Text.assemble("Profile ", (about.profile, "code"), f", {duration(record.seconds)}. {about.units}")
    profile.stylize("dim")
    shown: list[Block] = [
        Heading(Text.assemble((f"{about.paper}, {about.where}: ", "bold"), about.title), level=1),
        *(Text(line, "bold") for line in results(record.claims)),
        *([Text(count_agreements(record.agreement), "bold")] if record.agreement else []),
        profile,
        *([Text(about.notes.strip(), "dim")] if about.notes else []),
        *figure,
    ]

    # The table, and what a reader must know of its cells
    rows = [[Text.assemble((row.name, "bold")), *map(_cell, row.cells)] for row in record.rows]
    shown += [Heading("The table")] if figure else []
    shown += [Table(["", *map(_heading, record.columns)], rows), Text(f"{as_sentence(_legend(record))}.", "dim")]
    shown += [Text(line, "dim") for line in _sample(record)]
    shown += list_items(_empty(record), "yellow")
    if stand_ins := [(name, source) for name, source in record.inputs.items() if source.says]:
        sentences = [f"{name}: {source.says} instead of {source.about}" for name, source in stand_ins]
        shown += [*list_items(sentences, "dim"), Text(OTHERS if record.claims else STOOD_IN, "dim")]
    shown += [Text(line, "yellow") for line in _alike(record)]

    # Whether published numbers are met, what became of each claim, and what failed
    if record.agreement:
        shown += [Heading("Published numbers"), Text(count_agreements(record.agreement)), *_apart(record)]
    for network, claims in by_network(record.claims).items():
        shown += [Heading(f"Claims, {network}"), _claims(claims)]
    return [*shown, *list_items(record.failures, "bold red")]


def document_rehearsal(rehearsal: Rehearsal) -> Document:
    """Return which cells of a rehearsed table got no number, and which claims could not be tried."""
    full, tried = rehearsal.cells - len(rehearsal.empty), rehearsal.claims - len(rehearsal.lost)
    cells, claims = plural(rehearsal.cells, "cell"), plural(rehearsal.claims, "claim")
    words = f"{full} of {cells} got a number, {tried} of {claims} could be tried; {duration(rehearsal.seconds)}."
    return [
        Text(words, "bold"),
        *list_items([f"no number for {cell}" for cell in rehearsal.empty], "yellow"),
        *list_items([f"not tried: {claim}" for claim in rehearsal.lost], "yellow"),
        *list_items(rehearsal.failures, "bold red"),
    ]


def by_network(claims: Sequence[Verdict]) -> dict[str, list[Verdict]]:
    """Return the claims by what they were tried on, the authors' own networks first."""
    groups: dict[Network, list[Verdict]] = {network: [] for network in NETWORKS}
    for claim in claims:
        groups[claim.network].append(claim)
    return {NETWORKS[network]: group for network, group in groups.items() if group}


def results(claims: Sequence[Verdict]) -> list[str]:
    """Return how many claims hold, fail and are not shown, a line for each thing that they were tried on."""
    lines = []
    for network, group in by_network(claims).items():
        counts = {outcome: sum(claim.outcome == outcome for claim in group) for outcome in OUTCOMES}
        holds, fails, left = counts.values()
        words = f"{plural(holds, 'claim')} {_verb(holds, 'hold')}, {fails} {_verb(fails, 'fail')}"
        lines.append(f"{as_sentence(network)} {words}, {left} {'is' if left == 1 else 'are'} not shown.")
    return lines


def count_agreements(agreement: Sequence[Agreement]) -> str:
    """Return how many published numbers ours agree with, and how many chance alone would keep apart."""
    # Of so many intervals of 95 %, one in twenty misses by chance
    agree, number = sum(each.agrees for each in agreement), len(agreement)
    chance = f"; by chance alone {number * LEVEL:.2g} would not" if number > 1 else ""
    return f"{agree} of {plural(number, 'published number')} {_verb(agree, 'agree')} with ours (95 %){chance}."


def _apart(record: ReproductionRecord) -> list[Block]:
    """Return which published numbers ours differ from by more than chance, and by how much."""
    apart = [each for each in record.agreement if not each.agrees]
    rows = [[f"{each.row}, {each.column}", f"{each.gap:+.3g} [{each.low:.3g}, {each.high:.3g}]"] for each in apart]
    return [Table(["number", "ours less the published one [95 %]"], rows, words=[0, 1])] if rows else []


def _claims(claims: Sequence[Verdict]) -> Table:
    """Return claims with their verdicts: a table where it is read, and lines in a terminal, whatever its width."""
    rows, lines = [], list[Text]()
    for claim in claims:
        paper = in_the_paper(claim)
        rows.append([claim.text, Text(claim.outcome, "bold"), paper or "–", claim.why])
        lines.append(Text.assemble((f"{claim.outcome}: ", OUTCOMES[claim.outcome]), (claim.text, "bold")))
        lines.append(Text(f"    {claim.why}", "dim"))
        lines += [Text(f"    in the paper's own table: {paper}", "dim")] if paper else []
    head = ["claim", "verdict", "in the paper's own table", "by"]
    return Table(head, rows, words=range(len(head)), narrow=lines, wide=inf)


def in_the_paper(claim: Verdict) -> str:
    """Return what the paper's own numbers say of a claim; "" where it has none, or agrees with itself."""
    paper = claim.published
    if paper is None:
        return ""
    words = f"{paper.as_claimed} of {paper.number}"
    for kind, texts in (("against it", paper.against), ("ties", paper.ties)):
        if texts:
            more = f" and {len(texts) - NAMED} more" if len(texts) > NAMED else ""
            words += f"; {kind}: {'; '.join(texts[:NAMED])}{more}"
    return words


def as_sentence(words: str) -> str:
    """Return words as a sentence begins: only their first letter is raised."""
    return words[0].upper() + words[1:]


def _verb(number: int, verb: str) -> str:
    return f"{verb}s" if number == 1 else verb


def _alike(record: ReproductionRecord) -> list[str]:
    """Return which rows one network stands for."""
    groups = ["; ".join(rows) for rows in record.alike]
    return [f"One network, and so one set of numbers, stands for these rows: {rows}." for rows in groups]


def _heading(column: ColumnEntry) -> str:
    return column.name + (f" ({column.unit})" if column.unit else "")


def _cell(cell: CellEntry) -> str:
    """Return "published / ours [low, high]" in the paper's scale; ours alone where nothing is published."""
    if cell.why == UNASKED:
        return ""
    paper = "" if cell.published is None else f"{cell.published:.4g} / "
    score, scale = cell.score, cell.scale
    if score is None or score.value is None:
        return f"{paper}none"
    return f"{paper}{score.value * scale:.4g}{_ends(score, scale)}"


def _ends(score: Score, scale: float) -> str:
    if score.low is None or score.high is None:
        return ""
    return f" [{score.low * scale:.3g}, {score.high * scale:.3g}]"


def _legend(record: ReproductionRecord) -> str:
    """Return what a cell holds: two numbers, or one where the paper gives none."""
    several = f", the mean of {len(record.seeds)} trainings" if record.seeds else ""
    interval = "95 % interval about other images and other trainings" if record.seeds else "95 % interval"
    cells = [cell for row in record.rows for cell in row.cells if cell.why != UNASKED]
    bounded = any(cell.score is not None and cell.score.low is not None for cell in cells)
    ours = f"ours{several}" + (f" [{interval}]" if bounded else "")
    given = [cell.published is not None for cell in cells]
    if not any(given):
        return f"each cell: {ours}; the paper gives no number of it"
    return f"each cell: published / {ours}" + ("" if all(given) else "; one number alone is ours")


def _sample(record: ReproductionRecord) -> list[str]:
    """Return how many images, or pairs of them, our numbers are of, columns of one count together."""
    columns: dict[str, list[str]] = {}
    for place, column in enumerate(record.columns):
        scores = [score for row in record.rows if (score := row.cells[place].score) and score.low is not None]
        counts = sorted({score.n for score in scores})
        if counts:
            few, many = f"{counts[0]:,}", f"{counts[-1]:,}"
            columns.setdefault(few if few == many else f"{few} to {many}", []).append(column.name)
    each = [f"{count} ({'; '.join(names)})" for count, names in columns.items()]
    words = next(iter(columns)) if len(columns) == 1 else ", ".join(each)
    return [f"How many images or pairs ours are of: {words}."] if columns else []


def _empty(record: ReproductionRecord) -> list[str]:
    """Return why cells have no number of ours, cells of one reason together."""
    reasons: dict[str, list[str]] = {}
    whole = set()  # columns without any number, for one reason
    for place, column in enumerate(record.columns):
        # A column that is empty for one reason is said once
        why = {row.cells[place].why for row in record.rows} - {UNASKED}
        if len(why) == 1 and all(why):
            whole.add(place)
            reasons.setdefault(why.pop(), []).append(f"all of {column.name}")
    for row in record.rows:
        for place, (column, cell) in enumerate(zip(record.columns, row.cells, strict=True)):
            if cell.why not in ("", UNASKED) and place not in whole:
                reasons.setdefault(cell.why, []).append(f"{row.name}, {column.name}")
    return [f"none for {'; '.join(cells)}: {why}" for why, cells in reasons.items()]
