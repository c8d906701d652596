"""Write what the code says into the pages, for those who read them in the repository.

python docs/fill.py
"""

from collections.abc import Iterator
from pathlib import Path

import generated
import measured
from blocks import fill

DOCS = Path(__file__).parent

ELSEWHERE = "examples"
"""Blocks of what stands in files of its own in the repository."""


def pages() -> Iterator[tuple[Path, str]]:
    """Yield every page with what it should hold."""
    for path in sorted(DOCS.rglob("*.md")):
        text = path.read_text(encoding="utf-8")
        for hook in (generated, measured):
            text = fill(hook.ASKED, text, hook.make, but=ELSEWHERE)
        yield path, text


def main() -> None:
    """Write the pages that are not as they should be."""
    for path, text in pages():
        if text != path.read_text(encoding="utf-8"):
            path.write_text(text, encoding="utf-8")
            print(path.relative_to(DOCS.parent))


if __name__ == "__main__":
    main()
