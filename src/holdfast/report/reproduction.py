"""A paper's table beside ours: in the terminal, and as Markdown."""

from collections.abc import Sequence

from rich.console import Console
from rich.text import Text

from holdfast.numerics.statistics.score import Score
from holdfast.report.numbers import duration, plural
from holdfast.report.table import Table
from holdfast.storage.reproduction import (
    CellEntry,
    ColumnEntry,
    InputEntry,
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
    "stand-ins": "on stand-ins",
}
"""What claims were tried on, in words, the paper's own first."""

NAMED = 3
"""Ties and contradictions in the paper's own table that are named, at most."""

STOOD_IN = "With other things in the place of the paper's, verdicts say what holds of these, not of the paper's own."
"""Said wherever something stands in for something else."""


def print_reproduction(record: ReproductionRecord, console: Console) -> None:
    """Print a paper's table beside ours, what stands in for what, and what became of each claim."""
    # The table, and why cells are empty
    about = record.reproduction
    console.print(Text.assemble((f"{about.paper}, {about.where}: ", "bold"), about.title))
    console.print(Text(f"Profile {about.profile}. {about.units}", style="dim"))
    for line in results(record.claims):
        console.print(Text(line, style="bold"))
    rows = [[Text(row.name, style="bold"), *map(_cell, row.cells)] for row in record.rows]
    console.print(Table(["", *map(_heading, record.columns)], rows).terminal())
    console.print(Text(_legend(record, " | "), style="dim"))
    for cell in _empty(record):
        console.print(Text(cell, style="yellow"))

    # What stands in for what, and what is done otherwise
    stand_ins = _stand_ins(record)
    for name, source in stand_ins.items():
        console.print(Text(f"{name}: {source.says} instead of {source.about}", style="dim"))
    if stand_ins:
        console.print(Text(STOOD_IN, style="dim"))
    for line in _alike(record):
        console.print(Text(line, style="yellow"))
    if about.notes:
        console.print(Text(about.notes.strip(), style="dim"))

    # What became of each claim
    for network, claims in by_network(record.claims).items():
        console.print(Text(as_sentence(network), style="underline"))
        for claim in claims:
            words = Text.assemble((f"{claim.outcome}: ", OUTCOMES[claim.outcome]), (claim.text, "bold"))
            console.print(words)
            console.print(Text(f"    {claim.why}", style="dim"))
            if paper := in_the_paper(claim):
                console.print(Text(f"    in the paper's own table: {paper}", style="dim"))
    for failure in record.failures:
        console.print(Text(failure, style="bold red"))
    console.print(Text(duration(record.seconds), style="dim"))


def print_rehearsal(rehearsal: Rehearsal, console: Console) -> None:
    """Print which cells of a rehearsed table got no number, and which claims could not be tried."""
    full, tried = rehearsal.cells - len(rehearsal.empty), rehearsal.claims - len(rehearsal.lost)
    cells, claims = plural(rehearsal.cells, "cell"), plural(rehearsal.claims, "claim")
    words = f"{full} of {cells} got a number, {tried} of {claims} could be tried; {duration(rehearsal.seconds)}."
    console.print(Text(words, style="bold"))
    for cell in rehearsal.empty:
        console.print(Text(f"no number for {cell}", style="yellow"))
    for claim in rehearsal.lost:
        console.print(Text(f"not tried: {claim}", style="yellow"))
    for failure in rehearsal.failures:
        console.print(Text(failure, style="bold red"))


def markdown(record: ReproductionRecord) -> str:
    """Return the same as Markdown."""
    # The table
    about = record.reproduction
    lines = [f"## {in_markdown(about.paper)}, {in_markdown(about.where)}: {in_markdown(about.title)}", ""]
    lines += [part for line in results(record.claims) for part in (f"**{in_markdown(line)}**", "")]
    lines += [f"Profile `{about.profile}`, {duration(record.seconds)}. {in_markdown(about.units)}", ""]
    if about.notes:
        lines += [in_markdown(about.notes.strip()), ""]
    lines += ["| | " + " | ".join(in_markdown(_heading(column)) for column in record.columns) + " |"]
    lines += ["|---|" + "---:|" * len(record.columns)]
    for row in record.rows:
        lines.append(
            f"| {in_markdown(row.name)} | " + " | ".join(in_markdown(_cell(cell)) for cell in row.cells) + " |"
        )

    # What a reader must know of its cells, the claims, and what failed
    lines += ["", f"{as_sentence(_legend(record, ' / '))}.", ""]
    lines += [f"- {in_markdown(line)}" for line in _empty(record)]
    stand_ins = _stand_ins(record)
    lines += [
        f"- `{name}`: {in_markdown(source.says)} instead of {in_markdown(source.about)}"
        for name, source in stand_ins.items()
    ]
    lines += ["", STOOD_IN] if stand_ins else []
    lines += [part for line in _alike(record) for part in ("", in_markdown(line))]
    lines += claims_in_markdown(record.claims)
    lines += ["", *(f"- failed: {in_markdown(failure)}" for failure in record.failures)]
    return "\n".join(lines).rstrip() + "\n"


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


def claims_in_markdown(claims: Sequence[Verdict]) -> list[str]:
    """Return a table of claims for each thing that they were tried on, as lines of Markdown."""
    lines = []
    for network, group in by_network(claims).items():
        lines += ["", f"### Claims, {in_markdown(network)}", "", "| claim | verdict | in the paper's own table | by |"]
        lines += ["|---|---|---|---|"]
        for c in group:
            cells = (
                in_markdown(c.text),
                f"**{c.outcome}**",
                in_markdown(in_the_paper(c) or "–"),
                in_markdown(c.why),
            )
            lines.append(f"| {' | '.join(cells)} |")
    return lines


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


def _stand_ins(record: ReproductionRecord) -> dict[str, InputEntry]:
    """Return the inputs in whose place something else stood."""
    return {name: source for name, source in record.inputs.items() if source.says}


def _alike(record: ReproductionRecord) -> list[str]:
    """Return which rows one network stands for."""
    groups = ["; ".join(rows) for rows in record.alike]
    return [f"One network, and so one set of numbers, stands for these rows: {rows}." for rows in groups]


def _heading(column: ColumnEntry) -> str:
    return column.name + (f" ({column.unit})" if column.unit else "")


def _cell(cell: CellEntry) -> str:
    """Return "published | ours [low, high]" in the paper's scale."""
    paper = "-" if cell.published is None else f"{cell.published:.4g}"
    score, scale = cell.score, cell.scale
    if score is None or score.value is None:
        return f"{paper} | none"
    return f"{paper} | {score.value * scale:.4g}{_ends(score, scale, '[]')}{_ends(cell.trainings, scale, '{}')}"


def _ends(score: Score | None, scale: float, brackets: str) -> str:
    if score is None or score.low is None or score.high is None:
        return ""
    return f" {brackets[0]}{score.low * scale:.3g}, {score.high * scale:.3g}{brackets[1]}"


def _legend(record: ReproductionRecord, between: str) -> str:
    """Return what a cell holds."""
    if not record.seeds:
        return f"each cell: published{between}ours [95 % interval]"
    return (
        f"each cell: published{between}ours, the mean of {len(record.seeds)} trainings [95 % interval over images, "
        "given the trainings] {95 % interval over trainings, given the images}"
    )


def _empty(record: ReproductionRecord) -> list[str]:
    """Return why cells have no number of ours, cells of one reason together."""
    reasons: dict[str, list[str]] = {}
    whole = set()  # columns without any number, for one reason
    for place, column in enumerate(record.columns):
        why = {row.cells[place].why for row in record.rows}
        if len(why) == 1 and all(why):
            whole.add(place)
            reasons.setdefault(why.pop(), []).append(f"all of {column.name}")
    for row in record.rows:
        for place, (column, cell) in enumerate(zip(record.columns, row.cells, strict=True)):
            if cell.why and place not in whole:
                reasons.setdefault(cell.why, []).append(f"{row.name}, {column.name}")
    return [f"none for {'; '.join(cells)}: {why}" for why, cells in reasons.items()]


def in_markdown(text: str) -> str:
    """Return text that Markdown shows as it is, inside a table too."""
    escaped = "".join(f"\\{c}" if c in "\\`*_[]<>#" else c for c in text)
    return escaped.replace("|", "/").replace("\n", " ")
