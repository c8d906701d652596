"""The summary in the terminal, answers first; the best encoder is marked only where the record says so."""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.text import Text

from holdfast.report.answer import answers, duplicates
from holdfast.report.brief import brief, each_answer, first_keys, in_levels, leader
from holdfast.report.leader import format_score
from holdfast.report.names import with_short_names
from holdfast.report.numbers import BEST_BUDGET, BETTER, bracket, choice, count, duration, listing, plural
from holdfast.report.rounds import explain_stop
from holdfast.report.table import Table
from holdfast.report.verdict import explain_uncertified, list_omissions, rendering, scope, threats, titles
from holdfast.storage.standing import ONE_SIDE

_ARROW = {key: text[0] for key, text in BETTER.items()}
_STATUS = {"pass": "green", "warn": "yellow", "fail": "bold red", "skip": "dim"}
_CELL = 22
"""Columns that "12.3 % [9.1, 15.2] *" takes, roughly; decides which way round the table fits."""


def print_record(record: Mapping[str, Any], console: Console, report: Path | str | None = None) -> None:
    """Print who holds best, each encoder's answer, the first numbers, what the checks say; then all the rest.

    Colours follow the console: none when the output is piped.
    """
    record = with_short_names(record)
    wide = 24 + _CELL * len(select_audited(record)) <= console.width
    for block in blocks(record):
        if isinstance(block, Text):
            console.print(block)
        elif block:
            console.print((side_by_side if wide else _stack)(record, block).terminal())
    if report is not None:
        # One unbroken line: a path cut by a line break cannot be copied or clicked.
        console.print(Text.assemble("Report: ", (str(report), "bold")), soft_wrap=True)


def blocks(record: Mapping[str, Any]) -> list[Text | list[str]]:
    """Return what is shown of a record in its order: lines of text, and keys of the measures of a table."""
    encoders, lines = select_audited(record), list[Text | list[str]]()
    first = first_keys(record) if encoders else []
    if encoders and (best := leader(record)):
        lines.append(Text.assemble((f"{best.heading}. ", "bold green" if best.tone == "good" else "bold"), best.text))
    lines += [
        Text.assemble((f"{name}: ", "bold"), " ".join(sentence.text for sentence in sentences))
        for _, name, sentences in each_answer(record)
    ]
    others = [key for key in titles(record) if key not in first] if encoders else []
    return [*lines, first, *_validity(encoders), others, *notes(record)]


def select_audited(record: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """Return the encoders that could be audited."""
    return [encoder for encoder in record["encoders"] if not encoder.get("error")]


def notes(record: Mapping[str, Any]) -> list[Text]:
    """Return what stands below the tables: what their marks mean, failures, and the scope."""
    encoders, lines = select_audited(record), []
    if encoders and titles(record):
        if any(bracket(m["scores"], m["unit"], m["better"]) for e in encoders for m in e["measures"].values()):
            lines.append(Text("proved, and broken by an attack: the truth for these images is between them", "dim"))
        if any(s.get("standing") in ONE_SIDE for s in _headlines(encoders)):
            lines.append(Text("at least, at most: a bound on one side, for a check above FAILED", "dim"))
        if any(entry.get("best") for entry in record["comparison"].values()):
            lines.append(Text("* best: its paired intervals against every other encoder exclude zero", style="dim"))
    lines += [Text(line, style="yellow") for line in explain_uncertified(encoders)]
    lines += [Text(line, style="yellow") for line in [explain_stop(record)] if line]
    lines += [Text(line, style="yellow") for line in [duplicates(record["data"])] if line and encoders]
    lines += [Text(line, style="bold red") for line in _problems(record)]
    if encoders:
        lines += [Text(f"within {ball}", style="dim") for ball in threats(record)]
        lines += [Text(line, style="dim") for line in rendering(record)]
        return [*lines, Text(f"{scope(record)}, {duration(record['run']['seconds'])}", style="dim")]
    return [*lines, Text("Nothing was audited.", style="bold red")]


def round_lines(record: Mapping[str, Any]) -> Iterator[str]:
    """Yield what there is to say after a round: how many images, the time, and what it answers for each encoder.

    The first round answers in words, as the summary of the last one will; those between tell the first number.
    """
    rounds, run = record["run"]["rounds"], record["run"]
    spent = duration(rounds["before"] + run["seconds"])
    yield f"after {spent}: {count(record['data']['attacked'])} of {count(rounds['of'])} images attacked"
    record = with_short_names(record)
    if rounds["number"] == 1:
        yield from (f"  {encoder}: {answer.text}" for encoder, answer in answers(record))
    else:
        numbers = brief(record)
        for line in numbers.lines:
            for (title, *_), cell in zip(numbers.heads[:1], line.figures[:1], strict=True):
                yield f"  {line.name}: {title} {cell.value} {cell.interval}".rstrip()


def _headlines(encoders: list[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """Return the headline scores of all measures that have one."""
    return [m["scores"].get(m.get("headline"), {}) for e in encoders for m in e["measures"].values()]


def side_by_side(record: Mapping[str, Any], keys: Sequence[str]) -> Table:
    """Return measures down, audited encoders across."""
    encoders, lines = select_audited(record), list[list[str | Text]]()
    for key in keys:
        lines.append([_title(record, key), *(_cell(record, encoder, key) for encoder in encoders)])
        if any(chosen := [_format_best_budget(encoder, key) for encoder in encoders]):
            lines.append([f"  {BEST_BUDGET}", *chosen])
    return Table(["measure", *(encoder["name"] for encoder in encoders)], lines)


def _stack(record: Mapping[str, Any], keys: Sequence[str]) -> Table:
    """Return one block per measure with a line per encoder: fits any number of encoders."""
    lines: list[tuple[str | Text, str | Text]] = []
    for key in keys:
        lines.append((_title(record, key), ""))
        for encoder in select_audited(record):
            lines.append((f"  {encoder['name']}", _cell(record, encoder, key)))
            if chosen := _format_best_budget(encoder, key):
                lines.append((f"    {BEST_BUDGET}", chosen))
    return Table(("measure / encoder", "value"), lines)


def _title(record: Mapping[str, Any], key: str) -> Text:
    m = next(e["measures"][key] for e in record["encoders"] if key in e.get("measures", {}))
    return Text.assemble((m["title"], "bold"), f" {_ARROW[m['better']]}")


def _cell(record: Mapping[str, Any], encoder: Mapping[str, Any], key: str) -> Text:
    m = encoder["measures"].get(key)
    if m is None:
        return Text("not measured", style="dim")
    if m.get("error"):
        return Text("failed", style="bold red")
    if m.get("not_certified"):
        return Text("not certified", style="yellow")
    score = m["scores"].get(m.get("headline"), {})
    best = record["comparison"].get(key, {}).get("best") == encoder["name"]
    style = "bold green" if best else "" if score.get("value") is not None else "yellow"
    both = bracket(m["scores"], m["unit"], m["better"])
    shown = (both, "") if both else format_score(score, m["unit"], in_levels(m))
    return Text.assemble((shown[0], style), " ", (shown[1], "dim"), (" *" if best else "  ", style))


def _format_best_budget(encoder: Mapping[str, Any], key: str) -> Text:
    """Return which ε a measure found to be best for an encoder; empty where it is not asked for."""
    score = (encoder["measures"].get(key) or {}).get("scores", {}).get(BEST_BUDGET)
    return Text(f"{choice(score)}  " if score else "")


def _validity(encoders: list[Mapping[str, Any]]) -> list[Text]:
    """Return one line per outcome: whose checks passed, and which did not; encoders with one outcome share it."""
    groups: dict[tuple[tuple[str, str], ...], list[str]] = {}
    for encoder in encoders:
        groups.setdefault(tuple(_outcome(list(encoder["checks"].values()))), []).append(encoder["name"])
    lines = []
    for outcome, names in groups.items():
        line = Text.assemble((listing(names), "bold"), ": ")
        for i, (text, style) in enumerate(outcome):
            line.append("; " if i else "").append(text, style=style)
        lines.append(line)
    return lines


def _outcome(checks: list[Mapping[str, Any]]) -> list[tuple[str, str]]:
    if not checks:
        return [("no validity check was run", "yellow")]
    groups = {status: [c["title"].lower() for c in checks if c["status"] == status] for status in _STATUS}
    passed = [(f"{plural(len(groups['pass']), 'check')} passed", _STATUS["pass"])] if groups["pass"] else []
    words = {"warn": f"warning{'s'[: len(groups['warn']) > 1]}", "fail": "FAILED", "skip": "skipped"}
    return passed + [(f"{words[s]}: {listing(groups[s], 6)}", _STATUS[s]) for s in words if groups[s]]


def _problems(record: Mapping[str, Any]) -> list[str]:
    """Return every failure once: the record's own list, and errors of parts that it does not mention."""
    # What failed
    failures = [str(text) for text in record["failures"]]
    lines = [
        (e["error"], f"{e['whole']} could not be audited: {e['error']}") for e in record["encoders"] if e.get("error")
    ]
    lines += [
        (m["error"], f"{m['title']} failed for {e['name']}: {m['error']}")
        for e in record["encoders"]
        for m in e.get("measures", {}).values()
        if m.get("error")
    ]
    failures += [line for error, line in lines if not any(error in text for text in failures)]
    lost = list_omissions(record)  # which says more than that it could not be observed
    failures = [text for text in failures if not any(text.endswith(line.partition("”: ")[2]) for line in lost)] + lost

    # What was left out, or made again
    if same := (record["data"].get("train") or {}).get("left_out"):
        failures.append(f"{plural(same, 'training image')} left out: the audit has the same")
    if runs := record["data"].get("runs_left_out"):
        failures.append(f"left out what audits wrote into {plural(runs, 'run folder')} among the images")
    if remade := record["run"].get("remade_shards"):
        failures.append(
            f"{plural(remade, 'stored shard')} did not fit and {'was' if remade == 1 else 'were'} made again"
        )
    if skipped := record["data"].get("skipped"):
        failures.append(f"left out {plural(len(skipped), 'file')}: {listing([name for name, _ in skipped], 4)}")
    return failures
