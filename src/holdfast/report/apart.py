"""Drawing apart: what cannot be drawn says so in its place, and nothing else is lost by it."""

from collections.abc import Callable
from functools import wraps
from typing import ParamSpec, TypeVar

from markupsafe import Markup

from holdfast.runtime.errors import first_line

P = ParamSpec("P")
T = TypeVar("T")


def reason(error: Exception) -> str:
    """Return why something could not be drawn, in one line."""
    return f"{type(error).__name__}: {first_line(error)}"


def catch_draw_errors(draw: Callable[P, str]) -> Callable[P, str]:
    """Let a function that draws a chart return a box with the reason where it cannot."""

    @wraps(draw)
    def apart(*args: P.args, **options: P.kwargs) -> str:
        try:
            return draw(*args, **options)
        except Exception as error:
            box = Markup('<p class="undrawn">this chart could not be drawn: {}</p>')
            return str(box.format(reason(error)))

    return apart


class Apart:
    """Makes the sections of a page one by one.

    Attributes:
        problems: (section, reason) of those that could not be made.
    """

    def __init__(self) -> None:
        self.problems: list[tuple[str, str]] = []

    def __call__(self, section: str, make: Callable[[], T], instead: T) -> T:
        """Return what a section shows; `instead` where it cannot be made, which is noted."""
        try:
            return make()
        except Exception as error:
            self.problems.append((section, reason(error)))
            return instead
