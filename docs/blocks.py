"""Blocks of pages that programs write: a comment that asks, what is asked for, and a comment that ends it.

    <!-- facts: breakaway_risk -->
    what is asked for, for those who read the page as it is in the repository
    <!-- facts: end -->

The site is built with what the code says then. `python docs/fill.py` writes it into the pages; a test compares.
"""

import re
from collections.abc import Callable


def pattern(*kinds: str) -> re.Pattern[str]:
    """Return what finds the blocks of some kinds, filled or not: their kind, and what they are of."""
    # No block holds another one, so whatever begins as a comment does ends it
    filled = r"(?:\n(?:(?!<!-- ).*\n)*<!-- \1: end -->)?"
    return re.compile(rf"^<!-- ({'|'.join(kinds)})(?:: (?!end -->|begin -->)([^\n]+))? -->$" + filled, re.MULTILINE)


def replace(asked: re.Pattern[str], markdown: str, make: Callable[[str, str | None], str]) -> str:
    """Return a page with what its blocks ask for in their place, as the site has it."""
    return asked.sub(lambda found: make(found[1], found[2]), markdown)


def fill(asked: re.Pattern[str], markdown: str, make: Callable[[str, str | None], str], but: str = "") -> str:
    """Return a page with what its blocks ask for between their comments, as the repository has it; `but` one kind."""

    def write(found: re.Match[str]) -> str:
        kind, of = found[1], found[2]
        if kind == but:
            return found[0]
        return f"<!-- {kind}{f': {of}' if of else ''} -->\n\n{make(kind, of).strip()}\n\n<!-- {kind}: end -->"

    return asked.sub(write, markdown)
