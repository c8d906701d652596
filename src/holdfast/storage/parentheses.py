"""Text of nested parentheses, as SMT-LIB and VNN-LIB files are, read into lists that know their lines."""

import re
from collections.abc import Iterator

from holdfast.runtime.errors import BadData

TOKEN = re.compile(r"[()]|[^\s()]+", re.ASCII)

DEEPEST = 64
"""Parentheses inside each other, at most."""


class Form(list["Form | str"]):
    """What stands between two parentheses, and the line where it begins."""

    line: int = 0

    def __str__(self) -> str:
        """Return its beginning, for errors."""
        text = " ".join(str(part) for part in self[:6]) + (" …" if len(self) > 6 else "")
        return f"({text if len(text) <= 60 else text[:60] + '…'})"


def forms(text: str, name: str) -> Iterator[Form]:
    r"""Yield what stands between outermost parentheses; a ";" begins a comment, up to the end of its line.

    Example:
        >>> [(form, form.line) for form in forms("(a (b c)) ; d\n(e)", "file")]
        [(['a', ['b', 'c']], 1), (['e'], 2)]
    """
    open_forms: list[Form] = []
    for number, line in enumerate(text.replace("\r\n", "\n").split("\n"), 1):
        code = line.partition(";")[0]
        if "\r" in line or '"' in code or "|" in code:
            raise BadData(f"{name}, line {number}: expected plain words, got a quote, '|' or a carriage return")
        for token in TOKEN.findall(code):
            if token == "(":
                if len(open_forms) == DEEPEST:
                    raise BadData(f"{name}, line {number}: expected at most {DEEPEST} nested parentheses")
                open_forms.append(Form())
                open_forms[-1].line = number
            elif not open_forms:
                raise BadData(f"{name}, line {number}: expected '(', got {token[:40]!r}")
            elif token != ")":
                open_forms[-1].append(token)
            elif len(open_forms) > 1:
                inner = open_forms.pop()
                open_forms[-1].append(inner)
            else:
                yield open_forms.pop()
    if open_forms:
        raise BadData(f"{name}, line {open_forms[-1].line}: expected ')', got the end of the file")
