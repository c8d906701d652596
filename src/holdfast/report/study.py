"""The table of a corruption study: accuracy and Δ of every method on every version of the data."""

from collections.abc import Iterator, Mapping
from typing import Any

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from holdfast.report._format import score

AVERAGE = "Avg Δ ↓"


def print_study(record: Mapping[str, Any], console: Console) -> None:
    """Print one table for every probe and setting, with intervals."""
    for title, head, lines in tables(record):
        table = Table(box=box.SIMPLE_HEAD, pad_edge=False, title=title, title_justify="left")
        for number, name in enumerate(head):
            table.add_column(Text(name), justify="right" if number else "left")
        for line in lines:
            table.add_row(*map(Text, line))
        console.print(table)
    for problem in problems(record):
        console.print(Text(problem, style="bold red"))


def markdown(record: Mapping[str, Any]) -> str:
    """Return the same as Markdown."""
    parts = []
    for title, head, lines in tables(record):
        rows = [head, ["---", *["---:"] * (len(head) - 1)], *lines]
        parts.append(f"**{title}**\n\n" + "\n".join(f"| {' | '.join(row)} |" for row in rows) + "\n")
    parts += [f"- {problem}\n" for problem in problems(record)]
    if record["command"]:
        parts.append(f"    {record['command']}\n")
    return "\n".join(parts)


def tables(record: Mapping[str, Any]) -> Iterator[tuple[str, list[str], list[list[str]]]]:
    """Yield (title, head, lines) for every probe and setting: two lines for a method, accuracy and Δ."""
    columns = [column["title"] for column in record["study"]["columns"]]
    for setting, meaning in record["study"]["settings"].items():
        for probe in dict.fromkeys(row["probe"] for row in record["rows"]):
            lines = []
            for row in record["rows"]:
                if (row["probe"], row["setting"]) == (probe, setting):
                    lines.append([row["method"], *(_cell(row["accuracy"].get(c), c, row) for c in columns), ""])
                    drops = (_cell(row["drop"].get(c), c, {}) for c in columns)
                    lines.append(["  Δ", *drops, score(row["average"], "share") if row["average"] else ""])
            yield f"{probe}, {setting}: {meaning}", ["method", *columns, AVERAGE], lines


def _cell(entry: Mapping[str, Any] | None, column: str, row: Mapping[str, Any]) -> str:
    if entry is not None:
        return score(entry, "share")
    return "failed" if column in row.get("problems", {}) else ""


def problems(record: Mapping[str, Any]) -> list[str]:
    """Return a sentence for every training or test that failed."""
    said = [f"{row['method']}, {title}: {text}" for row in record["rows"] for title, text in row["problems"].items()]
    return list(dict.fromkeys(said))
