"""A profile in the terminal: what it asks, in which ball, with how many steps, and how long each answer takes."""

from pathlib import Path

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from holdfast.report.numbers import duration, plural
from holdfast.report.profile_page import profile_page

PACE = 100
"""Encoder passes a second at which times are told: those of an encoder that takes 10 ms for an image."""


def print_profile(name: str, console: Console) -> None:
    """Print a profile's questions, each with the time that it takes, and that of all."""
    page = profile_page(name)
    console.print(Text.assemble((Path(name).stem, "bold"), f" (profile): {page.description}\n"))
    console.print(Text(page.ball))
    console.print(Text(f"At most {plural(page.images, 'image')}, of which {page.attacked:,} are attacked.\n"))

    # Each question: what it takes by itself, and what it adds to those above
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    table.add_column("question", overflow="fold", ratio=1)
    for column in ("per image", "in all"):
        table.add_column(column, justify="right")
    for question in page.questions:
        words = Text.assemble(question.text, (f"\n{question.measure}", "dim"))
        table.add_row(words, _time(question.per_image), _time(question.added) if question.added > 0 else "shared")
    checks = f"May the answers be believed?\n{plural(page.checks, 'validity check')}"
    table.add_row(checks, "", _time(page.passes - sum(question.added for question in page.questions)))
    console.print(table)
    console.print(
        f"In all at most {_time(page.passes)} for an encoder that takes {1000 // PACE} ms an image, forward or "
        "backward. How long yours takes: holdfast audit ENCODER --data IMAGES --dry-run."
    )
    if page.budget is not None:
        console.print(Text(f"After {duration(page.budget)} no further round begins, unless --budget says so."))


def _time(passes: float) -> str:
    return duration(passes / PACE)
