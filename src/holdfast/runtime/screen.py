"""Where text goes to a terminal: no control characters of names and of other people's records, no credentials."""

import os
import re
import sys
from collections.abc import Iterable
from contextlib import suppress
from typing import Any, NoReturn

from rich.console import Console, ConsoleOptions, RenderableType
from rich.segment import Segment

from holdfast.runtime.foreign import Ended
from holdfast.runtime.privacy import redact_secrets

# C0 without tab and line feed, C1, separators of lines, marks of direction, halves of pairs
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")


def plain(text: str) -> str:
    """Return text with every control character as a visible one: ESC is "␛"; line ends and tabs stay.

    Also characters that turn the direction of writing, and halves of pairs, which no terminal can show.
    """
    return _CONTROL.sub(_visible, text)


def _visible(match: re.Match[str]) -> str:
    code = ord(match[0])
    # Pictures of control characters stand in their order from U+2400 on
    return chr(0x2400 + code) if code < 0x20 else "\u2421" if code == 0x7F else "\ufffd"


class Screen(Console):
    """A console for text that others wrote: `[bold]` and `:smile:` in a string are printed as they are.

    Style goes through `rich.text.Text`. Whatever is printed passes through `plain`.

    Args:
        options: of `rich.console.Console`.
    """

    def __init__(self, **options: Any):
        super().__init__(**{"markup": False, "emoji": False, **options})

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterable[Segment]:
        """Render something; all that is printed comes through here, rows of tables and bars too."""
        for segment in super().render(renderable, options):
            # Control segments move the cursor
            yield segment if segment.control else segment._replace(text=plain(redact_secrets(segment.text)))

    def point(self, file: Any) -> None:
        """Print into a text file; None: into stdout or stderr, whatever that is when something is printed."""
        self._file = file

    def on_broken_pipe(self) -> NoReturn:
        """End the process quietly: whoever reads what is printed has gone."""
        # Python flushes stdout at exit, which must not fail once more
        with suppress(OSError, ValueError):
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        raise Ended(1)
