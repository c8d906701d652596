"""Golden records: what Holdfast answers today, kept, so that every later version can be held against it.

    python -m benchmarks.golden make FOLDER [--only NAME,NAME]      # keep what is answered now, and how long it took
    python -m benchmarks.golden compare FOLDER [--only NAME,NAME] [--ignore KEY,KEY]
    python -m benchmarks.golden make tests/golden/digits.json       # the profiles on digits alone, 6 digits, one file

Every profile audits a small encoder of digits; three also audit real networks, where HOLDFAST_SHARED names their
folder. Beside them a comparison, requirements, a training, a hardening and a small table of a paper. All is asked by
the command line in processes of one thread, so nothing depends on how the package is built inside. Kept are numbers,
names and verdicts, not times, versions, paths or prose; of tables and long lists count, mean and a weighted mean.
`compare` asks again and prints every difference beyond rounding; status 1 where there is one.
"""

import argparse
import json
import math
import os
import subprocess
import sys
import tomllib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

ROOT = Path(__file__).parents[1]
SHARED = Path(os.environ.get("HOLDFAST_SHARED", ROOT / "shared")).absolute()
ROUNDING = (1e-5, 1e-9)
"""Floats agree within one of these, relative or absolute; counts, names and verdicts must be equal."""

DROPPED = {
    "holdfast", "plan", "environment", "run", "runs", "files", "seal", "command", "started", "finished", "seconds",
    "audit_seconds", "identity", "fingerprint", "origin", "serves", "place", "record", "slug", "description",
    "assumed", "schema", "conditions", "title", "question", "how_to_read", "reference", "finding", "meaning",
    "promises",
}  # fmt: skip
"""Keys of times, versions, digests, places and prose."""
LABELS = ("title", "name", "encoder", "measure", "requirement", "id")


def read_commands(group: str) -> dict[str, str]:
    """Command lines of a group by name; {shared} stays in them, for it is there or absent command by command."""
    content = tomllib.loads(Path(__file__).with_suffix(".toml").read_text(encoding="utf-8"))
    places = {"shared": "{shared}", "root": str(ROOT)}
    texts = {name: text.format(**places) for name, text in content["texts"].items()}
    return {name: text.format(**places, **texts) for name, text in content[group].items()}


DIGITS = {
    name: f"audit zoo:digits-simclr --profile {name} {sizes}" for name, sizes in read_commands("profiles").items()
}
COMMANDS = {**DIGITS, **read_commands("commands")}


def folders_read(name: str) -> list[str]:
    """Which commands leave the folders that a command reads: those it names."""
    verb, *words = COMMANDS[name].split()
    return [word for word in words if word in COMMANDS] if verb in ("compare", "check") else []


def absent(name: str) -> str | None:
    """A file or folder of the shared data that a command reads and that is not there."""
    words = [word.format(shared=SHARED) for word in COMMANDS[name].split() if "{shared}" in word]
    paths = [word[word.index(str(SHARED)) :].partition("?")[0] for word in words]  # without the source and its options
    return next((path for path in paths if not Path(path).exists()), None)


def summary(numbers: Sequence[float | None] | np.ndarray) -> list[float]:
    """How many of the numbers are finite, their mean, and a mean with weights 1/N ... 1, which their order changes."""
    array = np.asarray(numbers, dtype=np.float64)  # None becomes NaN
    (places,) = np.nonzero(np.isfinite(array))
    if not len(places):
        return [0]
    means = array[places].mean(), np.average(array[places], weights=places + 1)
    return [len(places), *(float(f"{mean:.12g}") for mean in means)]  # parts are compared as text


def canonical_table(path: Path) -> dict[str, Any]:
    """Rows of a Parquet file and, for each column, its summary; of text how many values differ."""
    table = pq.read_table(path)
    columns: dict[str, Any] = {}
    for name, column in zip(table.column_names, table.columns, strict=True):
        if "second" not in name:
            columns[name] = len(column.unique()) if pa.types.is_string(column.type) else summary(column.to_numpy())
    return {"rows": table.num_rows, "columns": columns}


def specification(part: Mapping[str, Any]) -> str:
    """A part as name(parameter=value, ...), whose parameters may be parts."""
    parameters = {key: canonical(value) for key, value in part.items() if key not in ("kind", "name")}
    return f"{part['name']}({', '.join(f'{key}={value}' for key, value in parameters.items())})"


def canonical(node: Any) -> Any:
    """What is kept of JSON that a command printed: see the head of this file."""
    match node:
        case {"value": value, "low": low, "high": high}:  # a score; of its note, that there is one
            return [value, low, high, node.get("n"), node.get("standing"), bool(node.get("note"))]
        case {"kind": str(), "name": str()}:
            return specification(node)
        case dict():
            return {key: canonical(value) for key, value in node.items() if not volatile(key, value)}
        case list() if len(node) > 6 and all(isinstance(item, int | float | None) for item in node):
            return summary(node)
        case [dict(), *_]:
            for label in LABELS:  # by name where there are names, so that a difference tells where it is
                if len({item.get(label) for item in node if isinstance(item.get(label), str)}) == len(node):
                    return {item[label]: canonical({**item, label: None}) for item in node}
    return [canonical(item) for item in node] if isinstance(node, list) else node


def volatile(key: str, value: Any) -> bool:
    """Whether a key and its value say when, where or in which words: a file, or a dropped key that names no score."""
    if isinstance(value, str) and value.endswith((".parquet", ".png", ".safetensors", ".html")):
        return True
    return key in DROPPED and not (isinstance(value, dict) and "value" in value)


def ask(name: str, folder: Path) -> dict[str, Any]:
    """Run a command inside a folder and return what is kept of its exit status, JSON and tables."""
    out = folder / name
    words = [word.format(shared=SHARED) for word in COMMANDS[name].split()]
    options = ["--json"] if folders_read(name) else ["--json", "--quiet", "--out", name]
    process = subprocess.run(
        [sys.executable, "-m", "holdfast", *words, *options],
        cwd=folder, env={**os.environ, "OMP_NUM_THREADS": "1"}, capture_output=True, text=True, check=False,
    )  # fmt: skip
    if not process.stdout.startswith("{"):
        return {"status": process.returncode, "error": process.stderr[-600:]}
    text = process.stdout.replace(str(out), "RUN").replace(str(folder), "WORK").replace(str(SHARED), "SHARED")
    files = sorted(path for path in out.rglob("*.parquet") if "cache" not in path.relative_to(out).parts)
    tables = {str(path.relative_to(out)): canonical_table(path) for path in files}
    answer = {"status": process.returncode, "answer": canonical(json.loads(text)), "tables": tables}
    return json.loads(json.dumps(answer))  # as it will be read


def answers(names: Iterable[str]) -> Iterator[tuple[str, dict[str, Any], float, float]]:
    """Run commands, each after those whose folders it reads; yield name, answer, wall and processor seconds."""
    ordered = dict.fromkeys(needed for name in names for needed in (*folders_read(name), name))
    with TemporaryDirectory() as work:
        for name in ordered:
            if path := absent(name):
                print(f"{name}: skipped, {path} is absent; set HOLDFAST_SHARED", file=sys.stderr)
                continue
            before = os.times()
            answer = ask(name, Path(work))
            _, _, user, system, wall = (round(now - then, 2) for now, then in zip(os.times(), before, strict=True))
            print(f"{name}: {wall} s, {user + system:.1f} s of a processor", file=sys.stderr, flush=True)
            yield name, answer, wall, user + system


def differences(before: Any, now: Any, where: str, rounding: tuple[float, float] = ROUNDING,
                ignore: Sequence[str] = ()) -> Iterator[str]:  # fmt: skip
    """Describe, one line each, where two answers differ; keys in `ignore` are not compared."""
    if isinstance(before, dict) and isinstance(now, dict):
        for key in dict.fromkeys([*before, *now]):
            if key in ignore:
                continue
            if key not in now or key not in before:
                yield f"{where} / {key}: {'gone' if key in before else 'new'}"
            else:
                yield from differences(before[key], now[key], f"{where} / {key}", rounding, ignore)
    elif isinstance(before, list) and isinstance(now, list) and len(before) == len(now):
        for index, (first, second) in enumerate(zip(before, now, strict=True)):
            yield from differences(first, second, f"{where} [{index}]", rounding, ignore)
    elif not same(before, now, rounding):
        yield f"{where}: {before!r} -> {now!r}"


def same(before: Any, now: Any, rounding: tuple[float, float]) -> bool:
    """Whether two leaves agree: floats within rounding (and NaN with NaN), everything else exactly."""
    if isinstance(before, float) and isinstance(now, float):
        close = math.isclose(before, now, rel_tol=rounding[0], abs_tol=rounding[1])
        return close or (math.isnan(before) and math.isnan(now))
    return before == now and isinstance(before, bool) == isinstance(now, bool)


def compact(answer: Mapping[str, Any]) -> dict[str, Any]:
    """Of an audit the scores, checks and passes of each observation alone, with six significant digits."""

    def values(items: Any) -> Any:
        return items.values() if isinstance(items, dict) else items  # a list where two have one title

    kept = {
        encoder: {
            "scores": {name: measure["scores"] for name, measure in content["measures"].items()},
            "checks": {name: [check["status"], check["details"]] for name, check in content["checks"].items()},
            "passes": [observation["passes"] for observation in values(content["observations"])],
        }
        for encoder, content in answer["answer"]["encoders"].items()
    }
    return json.loads(json.dumps(kept), parse_float=lambda digits: float(f"{float(digits):.6g}"))


def read(path: Path) -> dict[str, Any]:
    """What a file keeps; nothing where there is none."""
    return json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}


def make(place: Path, names: Iterable[str]) -> None:
    """Keep what is answered now: in a folder one file a command and `times.json`, or rounded in one .json.

    Raises:
        SystemExit: a command failed.
    """
    kept: dict[str, Any] = {}
    for name, answer, *seconds in answers(names):
        if "error" in answer:
            raise SystemExit(f"{name}: {answer['error']}")
        kept[name] = answer
        if place.suffix != ".json":
            place.mkdir(parents=True, exist_ok=True)
            times = {**read(place / "times.json"), name: seconds}
            for file, content in ((name, answer), ("times", times)):
                (place / f"{file}.json").write_text(json.dumps(content, indent=1), encoding="utf-8")
    if place.suffix == ".json":
        lines = [f"{json.dumps(name)}: {json.dumps(compact(answer))}" for name, answer in kept.items()]
        place.write_text("{\n" + ",\n".join(lines) + "\n}\n", encoding="utf-8")


def compare(folder: Path, names: Iterable[str], ignore: Sequence[str] = ()) -> list[str]:
    """Ask again what a folder keeps and return every difference, one line each."""
    pairs = ((read(folder / f"{name}.json"), answer, name) for name, answer, *_ in answers(names))
    return [line for pair in pairs for line in differences(*pair, ignore=ignore)]


def main() -> None:
    """Run as a program."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("do", choices=("make", "compare"))
    parser.add_argument("place", type=Path, help="folder of golden records; make also takes a .json")
    parser.add_argument("--only", type=lambda text: text.split(","), help="some of them, separated by commas")
    parser.add_argument("--ignore", type=lambda text: text.split(","), default=[], help="keys that are not compared")
    options = parser.parse_args()
    names = options.only or list(DIGITS if options.place.suffix == ".json" else COMMANDS)
    if strange := [name for name in names if name not in COMMANDS]:
        parser.error(f"expected names among {', '.join(COMMANDS)}; got {', '.join(strange)}")
    if options.do == "make":
        return make(options.place, names)
    lines = compare(options.place, names, options.ignore)
    print(*lines, f"{len(lines)} differences in {len(names)} commands", sep="\n")
    raise SystemExit(bool(lines))


if __name__ == "__main__":
    main()
