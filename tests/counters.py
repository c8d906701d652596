"""What the house is held to: counts that may only fall, and comments, which may only rise.

`python tests/counters.py` takes the counts of today into `tests/counters.toml` as the limits of tomorrow. It refuses to
loosen one.
"""

import ast
import re
import sys
import tokenize
import tomllib
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[1]
SOURCE, TESTS = ROOT / "src" / "holdfast", ROOT / "tests"
LIMITS = Path(__file__).with_suffix(".toml")

RISING = ("comments per 1,000 lines of code",)
"""Counts that may only rise."""

PARTICIPLES = frozenset((
    "begun", "bought", "broken", "brought", "built", "caught", "chosen", "dealt", "done", "drawn", "driven",
    "fed", "felt", "forgotten", "fought", "found", "frozen", "given", "gone", "grown", "heard", "held",
    "hidden", "kept", "known", "laid", "led", "left", "lent", "lit", "lost", "made", "meant", "met", "paid",
    "proven", "ridden", "said", "seen", "sent", "shown", "sold", "sought", "spelt", "spent", "spoken",
    "stood", "stuck", "struck", "sunk", "swept", "taken", "taught", "thought", "thrown", "told", "torn",
    "understood", "won", "worn", "written",
))  # fmt: skip
"""Irregular past participles that are no verbs."""

VERBS = frozenset(("embed", "exceed", "feed", "need", "proceed", "seed", "speed", "succeed", "weed"))
"""Verbs that end like a participle."""

ASIDE = re.compile(r"# (pyright|noqa|fmt|type)\b")
"""Comments for tools."""

PHRASE = re.compile(r"[a-z]{2,}[,;:]* [a-z]{2,}", re.IGNORECASE)
"""Two words beside each other, which no name has, no number, and no name with a number."""


def counts() -> dict[str, int]:
    """Return all counts."""
    files = sorted(SOURCE.rglob("*.py"))
    texts = [path.read_text(encoding="utf-8") for path in files]
    nodes = [node for text in texts for node in ast.walk(ast.parse(text))]
    tests = [node for path in TESTS.rglob("*.py") for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))]
    return {
        "annotations of untyped mappings": sum(map(_is_untyped_mapping, _annotations(nodes))),
        "string keys read or written": sum(map(_is_string_key, nodes)),
        "functions named by a participle": sum(isinstance(n, ast.FunctionDef) and is_participle(n.name) for n in nodes),
        "complaints of the type checker that are silenced": sum(text.count("pyright: ignore") for text in texts),
        "public names": (TESTS / "surface.txt").read_text(encoding="utf-8").count("\n"),
        "patterns of prose in tests": sum(map(_prose, tests)),
        "comments per 1,000 lines of code": _comments(files),
    }


def is_participle(name: str) -> bool:
    """Return whether a function is named by a past participle and not by a verb: what came back, not what it does.

    Example:
        >>> [is_participle(name) for name in ("told", "judged_again", "_laid", "judge", "read", "embed")]
        [True, True, True, False, False, False]
    """
    first = name.strip("_").split("_")[0]
    return first in PARTICIPLES or (first.endswith("ed") and len(first) > 4 and first not in VERBS)


def _annotations(nodes: list[ast.AST]) -> Iterator[ast.AST]:
    for node in nodes:
        if isinstance(node, ast.FunctionDef):
            annotation = node.returns
        elif isinstance(node, ast.arg | ast.AnnAssign):
            annotation = node.annotation
        else:
            continue
        yield from ast.walk(annotation) if annotation is not None else ()


def _is_untyped_mapping(node: ast.AST) -> bool:
    """Whether a node is Mapping[str, Any] or dict[str, Any]."""
    return isinstance(node, ast.Subscript) and ast.unparse(node) in ("Mapping[str, Any]", "dict[str, Any]")


def _is_string_key(node: ast.AST) -> bool:
    """Whether a node is x["key"] or x.get("key")."""
    key: ast.AST | None = None
    if isinstance(node, ast.Subscript):
        key = node.slice
    elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "get" and node.args:
        key = node.args[0]
    return isinstance(key, ast.Constant) and isinstance(key.value, str)


def _prose(test: ast.AST) -> int:
    """Return how many patterns of errors, match=, of a function hold a phrase, or come from where it is not seen."""
    if not isinstance(test, ast.FunctionDef):
        return 0
    columns = dict(_columns(test))
    patterns = [node.value for node in ast.walk(test) if isinstance(node, ast.keyword) and node.arg == "match"]
    texts = [columns.get(p.id, []) if isinstance(p, ast.Name) else _texts(p) for p in patterns]
    return sum(not own or any(map(PHRASE.search, own)) for own in texts)


def _columns(test: ast.FunctionDef) -> Iterator[tuple[str, list[str]]]:
    """Yield the names that a test is parametrised by, or loops over, with the texts that they stand for."""
    tables = [
        (ast.unparse(d.args[0]), d.args[1]) for d in test.decorator_list if isinstance(d, ast.Call) and d.args[1:]
    ]
    tables += [(ast.unparse(loop.target), loop.iter) for loop in ast.walk(test) if isinstance(loop, ast.For)]
    for head, table in tables:
        names, rows = re.findall(r"\w+", head), getattr(table, "elts", [])
        for place, name in enumerate(names):
            cells = [row.elts[place] if names[1:] and isinstance(row, ast.Tuple) else row for row in rows]
            yield name, [text for cell in cells for text in _texts(cell)]


def _texts(node: ast.AST) -> list[str]:
    return [part.value for part in ast.walk(node) if isinstance(part, ast.Constant) and isinstance(part.value, str)]


def _comments(files: list[Path]) -> int:
    """Return the comments beside each 1,000 lines with code that is neither a comment nor a docstring."""
    layout = (tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT, tokenize.ENCODING)
    comments = code = 0
    for path in files:
        lines: set[int] = set()
        begins = True  # a statement, which a string at its beginning is alone
        with path.open("rb") as file:
            for token in tokenize.tokenize(file.readline):
                if token.type == tokenize.COMMENT:
                    comments += not ASIDE.match(token.string)
                elif token.type in layout:
                    begins = begins or token.type != tokenize.NL
                else:
                    if not (begins and token.type == tokenize.STRING):
                        lines.update(range(token.start[0], token.end[0] + 1))
                    begins = False
        code += len(lines)
    return round(1000 * comments / code)


def limits() -> dict[str, int]:
    """Return the limits."""
    return tomllib.loads(LIMITS.read_text(encoding="utf-8")) if LIMITS.exists() else {}


def worse(now: dict[str, int], before: dict[str, int]) -> list[str]:
    """Return the counts that are beyond their limits, with both numbers."""
    signs = {name: -1 if name in RISING else 1 for name in before}
    return [
        f"{name}: {now[name]}, limit {before[name]}" for name in before if signs[name] * (now[name] - before[name]) > 0
    ]


if __name__ == "__main__":
    counted = counts()
    if loosened := worse(counted, limits()):
        sys.exit("beyond its limit: " + "; ".join(loosened))
    lines = "\n".join(f'"{name}" = {count}' for name, count in counted.items())
    LIMITS.write_text(f"# What tests/counters.py counted last; none may get worse.\n{lines}\n", encoding="utf-8")
