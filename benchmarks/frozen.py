"""Everything that a version shows, held against another commit word by word: for changes that must change nothing.

    python -m benchmarks.frozen COMMIT [--only NAME,NAME] [--quick]

The commands of golden.toml, and those of frozen.toml, which show what these left, are run twice: by the code of COMMIT,
in a worktree of its own, and by the code of this checkout. What they print, their exit status and every file that they
leave must be equal: records and plans as JSON, tables by a digest of every column's bits, reports as the text that
people read, pictures by their bytes. Times, versions, digests of code and paths are left out. Then this checkout
continues the audits that the other code left, of which it must make no shard again. Prints what differs; status 1 where
anything does.
"""

import argparse
import difflib
import hashlib
import html
import json
import os
import re
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Iterator, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pyarrow.parquet as pq

from benchmarks.golden import COMMANDS, ROOT, SHARED, absent, folders_read

SHOWN: dict[str, str] = tomllib.loads(Path(__file__).with_suffix(".toml").read_text(encoding="utf-8"))
"""Command lines by name, beside those of golden.toml."""

QUICK = ("quick", "two", "compare", "check")
"""Commands of golden.toml that `--quick` runs."""

LEFT_OUT = frozenset((
    "started", "finished", "seconds", "audit_seconds", "environment", "holdfast", "seal", "record", "command",
    "versions", "pace",
))  # fmt: skip
"""Keys of times, of the machine and of digests that follow from these."""

WIDTH = 200
"""Characters of a line that are shown where it differs."""

VOLATILE = (
    (re.compile(r"\b\d{4}-\d\d-\d\d([T ]\d\d:\d\d(:\d\d(\.\d+)?)?)?(Z|[+-]\d\d:\d\d)?"), "DATE"),
    (re.compile(r"\b\d\d:\d\d:\d\d\b"), "TIME"),
    (re.compile(r"\b\d+(\.\d+)?( | )?(ms|s|min|h|seconds?|minutes?)\b"), "SPAN"),
    (re.compile(r"\b[0-9a-f]{64}\b|\b[0-9a-f]{40}\b|^[0-9a-f]{8}(?=-|$)", re.MULTILINE), "DIGEST"),  # and commits
    (re.compile(r"\d+% ?[^\n]*left"), "PROGRESS"),
    (re.compile(r"\d+(\.\d+)? [KMG]i?B"), "SIZE"),
)
"""What is different each time."""

Seen = dict[str, str]
"""Texts by what they are: "status", "stdout", "stderr", or a file."""


def run(words: Sequence[str], tree: Path, folder: Path) -> Seen:
    """Run holdfast from a tree inside a folder; return what it says."""
    environment = {**os.environ, "PYTHONPATH": str(tree / "src"), "OMP_NUM_THREADS": "1", "COLUMNS": "120"}
    process = subprocess.run(
        [sys.executable, "-m", "holdfast", *words],
        cwd=folder, env=environment, capture_output=True, text=True, check=False,
    )  # fmt: skip
    places = name_places(tree, folder)
    said = format_json(process.stdout) if process.stdout.startswith(("{", "[")) else process.stdout
    return {
        "status": str(process.returncode),
        "stdout": settle(said, places),
        "stderr": settle(process.stderr, places),
    }


def name_places(tree: Path, folder: Path) -> dict[str, str]:
    """Return words for the places that differ between two runs."""
    return {str(folder): "WORK", str(tree): "TREE", str(SHARED): "SHARED", str(ROOT): "TREE"}


def settle(text: str, places: dict[str, str]) -> str:
    """Return a text without what is different each time."""
    for place, name in places.items():
        text = text.replace(place, name)
    for pattern, name in VOLATILE:
        text = pattern.sub(name, text)
    return text


def read_files(folder: Path, places: dict[str, str]) -> Seen:
    """Return the files of a folder, but for shards, as texts."""
    texts: Seen = {}
    for path in sorted(path for path in folder.rglob("*") if path.is_file()):
        name = path.relative_to(folder)
        if "cache" in name.parts or path.suffix in (".lock", ".log"):
            continue
        match path.suffix:
            case ".json":
                text = format_json(path.read_text(encoding="utf-8"))
            case ".parquet":
                text = describe_table(path)
            case ".html":
                text = read_visible(path.read_text(encoding="utf-8"))
            case ".md" | ".csv" | ".tex" | ".txt" | ".toml" | ".svg" | ".xml":
                text = path.read_text(encoding="utf-8")
            case _:
                text = hashlib.sha256(path.read_bytes()).hexdigest()[:16]
        texts[str(name)] = settle(text, places)
    return texts


def format_json(text: str) -> str:
    """Return JSON with a line for each of its leaves, without times."""
    return json.dumps(_drop_volatile(json.loads(text)), indent=1, sort_keys=True)


def _drop_volatile(node: Any) -> Any:
    if isinstance(node, dict):
        return {key: _drop_volatile(value) for key, value in node.items() if key not in LEFT_OUT}
    return [_drop_volatile(item) for item in node] if isinstance(node, list) else node


def describe_table(path: Path) -> str:
    """Return the columns of a Parquet file, each with a digest of its values' bits."""
    content = pq.read_table(path)
    lines = [f"{content.num_rows} rows"]
    for name, column in zip(content.column_names, content.columns, strict=True):
        values = column.combine_chunks().to_pylist()
        digest = "not kept" if "second" in name else hashlib.sha256(repr(values).encode()).hexdigest()[:16]
        lines.append(f"{name}: {column.type}, {digest}")
    return "\n".join(lines)


def read_visible(page: str) -> str:
    """Return the text of a page, an element a line; of pictures and scripts nothing but that they are there."""
    page = re.sub(r"<(script|style)\b.*?</\1>", r"\n[\1]\n", page, flags=re.DOTALL)
    page = re.sub(r'"data:[^"]*"', '"data:"', page)
    lines = (" ".join(html.unescape(line).split()) for line in re.sub(r"<[^>]*>", "\n", page).splitlines())
    return "\n".join(line for line in lines if line)


def look(names: Sequence[str], tree: Path, folder: Path) -> Iterator[tuple[str, Seen]]:
    """Run commands of golden.toml, each after those of which it reads the folders, then those of frozen.toml."""
    places = name_places(tree, folder)
    for name in dict.fromkeys(needed for asked in names for needed in (*folders_read(asked), asked)):
        words = [word.format(shared=SHARED) for word in COMMANDS[name].split()]
        options = [] if folders_read(name) else ["--quiet", "--out", name]
        seen = run([*words, *options], tree, folder)
        yield name, {**seen, **{f"file {file}": text for file, text in read_files(folder / name, places).items()}}
    for name, command in SHOWN.items():
        yield name, run(command.split(), tree, folder)


def find_remade(names: Sequence[str], tree: Path, folder: Path) -> Iterator[str]:
    """Continue audits that another version left, and yield those of which a shard is made again."""
    for name in names:
        if COMMANDS[name].startswith("audit"):
            before = list_shards(folder / name)
            words = [word.format(shared=SHARED) for word in COMMANDS[name].split()]
            run([*words, "--quiet", "--out", name], tree, folder)
            if again := [path for path, written in list_shards(folder / name).items() if before.get(path) != written]:
                yield f"{name}: {len(again)} shards are made again, such as {again[0].name}"


def list_shards(folder: Path) -> dict[Path, int]:
    """Return the shards of a run folder, and when each was written."""
    return {path: path.stat().st_mtime_ns for path in (folder / "cache").rglob("*.safetensors")}


def differences(name: str, before: Seen, now: Seen) -> Iterator[str]:
    """Yield a unified diff of every text that differs."""
    for key in dict.fromkeys([*before, *now]):
        if before.get(key) != now.get(key):
            old, new = (texts.get(key, "(is not there)").splitlines() for texts in (before, now))
            lines = [*difflib.unified_diff(old, new, f"{name}: {key}, before", f"{name}: {key}, now", lineterm="", n=1)]
            yield "\n".join(line[:WIDTH] for line in lines[:40])


def main(arguments: Sequence[str] | None = None) -> int:
    """Run as a program; return the exit status."""
    parser = argparse.ArgumentParser(
        "python -m benchmarks.frozen", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("commit", help="what this checkout is held against")
    parser.add_argument("--only", type=lambda text: text.split(","), help="some commands of golden.toml")
    parser.add_argument("--quick", action="store_true", help="few audits, and all that is shown")
    options = parser.parse_args(arguments)
    names = options.only or (QUICK if options.quick else tuple(COMMANDS))
    names = [name for name in names if absent(name) is None]
    found: list[str] = []
    with TemporaryDirectory() as place:
        tree, folders = Path(place) / "tree", (Path(place) / "before", Path(place) / "now")
        git = ["git", "-C", str(ROOT), "worktree"]
        subprocess.run([*git, "add", "--quiet", "--detach", str(tree), options.commit], check=True)
        try:
            for folder in folders:
                folder.mkdir()
            both = zip(look(names, tree, folders[0]), look(names, ROOT, folders[1]), strict=True)
            for (name, before), (_, now) in both:
                lines = [*differences(name, before, now)]
                print(f"{name}: {'equal' if not lines else f'{len(lines)} texts differ'}", file=sys.stderr, flush=True)
                found += lines
            found += find_remade(names, ROOT, folders[0])
        finally:
            shutil.rmtree(tree, ignore_errors=True)
            subprocess.run([*git, "prune"], check=True)
    print(*found, f"{len(found)} texts differ", sep="\n")
    return int(bool(found))


if __name__ == "__main__":
    sys.exit(main())
