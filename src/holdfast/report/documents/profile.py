"""A profile: what it asks, in which ball, with how many steps, and how long each answer takes."""

from pathlib import Path

from rich.text import Text

from holdfast.report.document import Document, Heading
from holdfast.report.numbers import duration, plural
from holdfast.report.profile_page import profile_page
from holdfast.report.table import Table

PACE = 100
"""Encoder passes a second at which times are told: those of an encoder that takes 10 ms for an image."""


def document(name: str) -> Document:
    """Return a profile's questions, each with the time that it takes, and that of all."""
    page = profile_page(name)

    # Each question: what it takes by itself, and what it adds to those above
    rows: list[list[str | Text]] = []
    for question in page.questions:
        words = Text.assemble(question.text, (f"\n{question.measure}", "dim"))
        rows.append([words, _time(question.per_image), _time(question.added) if question.added > 0 else "shared"])
    checks = f"May the answers be believed?\n{plural(page.checks, 'validity check')}"
    rows.append([checks, "", _time(page.passes - sum(question.added for question in page.questions))])

    closing = [
        f"In all at most {_time(page.passes)} for an encoder that takes {1000 // PACE} ms an image, forward or "
        "backward. How long yours takes: holdfast audit ENCODER --data IMAGES --dry-run."
    ]
    if page.budget is not None:
        closing.append(f"After {duration(page.budget)} no further round begins, unless --budget allows it.")
    return [
        Heading(Text.assemble((Path(name).stem, "bold"), f" (profile): {page.description}\n"), level=1),
        Text(page.ball),
        Text(f"At most {plural(page.images, 'image')}, of which {page.attacked:,} are attacked.\n"),
        Table(("question", "per image", "in all"), rows),
        *map(Text, closing),
    ]


def _time(passes: float) -> str:
    return duration(passes / PACE)
