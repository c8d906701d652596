"""Every ratio that was asked of Holdfast, what this run found, what an earlier one did, and why it falls short.

    python -m benchmarks.asked FILE.json...       # of results that were saved with --json; as Markdown

A row of this run is never mixed with an earlier one: what was measured before and not now says so, and when.
"""

import argparse
import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console
from rich.table import Table

from benchmarks.result import Result


@dataclass(frozen=True)
class Asked:
    """Something that was asked.

    Attributes:
        what: in a few words.
        target: as it was asked.
        rows: how the names of the results begin that answer it; the worst of them counts.
        most: the largest value allowed; None where nothing was fixed.
        before: what was measured earlier, where a run does not repeat it.
        why: why it is not met, or what else is to be known.
    """

    what: str
    target: str
    rows: tuple[str, ...]
    most: float | None
    before: str = ""
    why: str = ""


INDEX = ("index of 1,000,000, images", "index of 1,000,000, read")
COMPILED = "the peer is a compiled filter of SciPy or OpenCV"

ASKED = (
    Asked("passes of the Table 5 set / measures alone", "≤ 0.5", ("Table 5 set, passes",), 0.5),
    Asked("passes counted - predicted", "0", ("digits audit, counted", "digits audit with checks, counted"), 0.0),
    Asked("whole audit / its parts, time", "≤ 0.5", ("whole audit / measures",), 0.5),
    Asked("attack step / bare step", "≤ 1.05", ("Pgd step, from its own work", "Apgd step, from its own work"), 1.05,
          "1.0005 to 1.001 earlier",
          "the attack's own work; steps beside bare steps scatter by some percent where others use the machine"),
    Asked("all pairs of 10,000 x 2,048, memory", "≤ 2 GiB", ("share_below (", "closer ("), 2.0,
          "0.44 and 0.70 GiB earlier, with larger blocks"),
    Asked("certified radii / pair by pair", "≤ 0.033", ("certified radii,",), 1 / 30, "",
          "the peer is auto_LiRPA's CROWN in float32; 0.045 to 0.095 x"),
    Asked("α-CROWN radii / pair by pair", "≤ 0.05", ("α-CROWN radii,",), 0.05, "",
          "the peer is auto_LiRPA's α-CROWN; one step of it, scaled"),
    Asked("certified accuracy over time", "published values at ≤ 10 x CROWN", (), None,
          "30 of 26 %, 45 of 68 %, 95 of 96 % earlier", "other pairs than the paper's; the table above"),
    Asked("sampling / bare forward, ResNet-18", "≤ 1.11", ("sampling ResNet-18",), 1.111, "1.00 to 1.06 earlier"),
    Asked("sampling / bare forward, CNN-A, CNN-B", "≤ 1.11", ("sampling CNN",), 1.111, "1.04 to 1.19 (pairs)",
          "16 images share the numbers drawn; one alone draws for itself"),
    Asked("learning step / bare passes", "≤ 1.15", ("learning step,",), 1.15,
          "CNN-B 1.15 to 1.17, ResNet-20 0.97 earlier"),
    Asked("rare events, passes / plain draws, linear", "≤ 0.01", ("rare events, linear",), 0.01, "0.0089 earlier"),
    Asked("rare events, passes / plain draws, digits", "≤ 0.01", ("rare events, convolutional",), 0.01,
          "0.0175 earlier", "600 rivals; a half-space took 1/112 with 192 pixels, 1/86 in 100 dimensions"),
    *(Asked(f"corruption / published code, {name}", "≤ 0.1", (name,), 0.1, before, why) for name, before, why in (
        ("zoom_blur", "0.015 earlier", ""), ("glass_blur", "0.013 earlier", ""),
        ("motion_blur", "0.033 earlier", ""),
        ("elastic_transform", "0.11 earlier", COMPILED),
        ("gaussian_blur", "0.37 earlier", COMPILED),
        ("defocus_blur", "0.71 earlier", COMPILED),
    )),
    Asked("kNN / bare product", "≤ 2, aim 1.3", ("nearest of a bank / product", "nearest of a bank / whole"), 2.0,
          "1.2 of equal blocks on one thread, 1.37 on two earlier"),
    Asked("SynBench outside the encoder / encoder", "≤ 0.05", ("outside the encoder",), 0.05,
          "0.004 to 0.037 earlier"),
    Asked("adversarial training step / bare", "≤ 1.1", ("adversarial step",), 1.1, "1.035 to 1.085 earlier"),
    Asked("exponent of time over images", "≤ 1.05", ("images, exponent", "images, less fixed"), 1.05,
          why="comparing all pairs grows with their number: it shows where the encoder costs next to nothing"),
    Asked("memory beyond representations", "flat", ("images, memory",), 64.0),
    Asked("index of 10⁶: images read, not chosen", "0", INDEX, 0.0),
    Asked("holdfast --help", "≤ 0.2 s", ("holdfast --help, processor",), 0.2),
    Asked("holdfast list, show, Tab", "≤ 0.5 s, without torch",
          ("holdfast list, processor", "holdfast list measures, processor", "holdfast list encoders, processor",
           "holdfast show breakaway_risk, processor", "holdfast show quick, processor", "Tab after"), 0.5,
          "1.5 to 3 s earlier, with torch"),
    Asked("first encoder pass after torch's import", "≤ 2 s", ("first encoder pass of an audit, processor",), 2.0),
    Asked("2 workers / 1", "≤ 0.588", ("2 workers / 1 worker, busy",), 1 / 1.7,
          why="wall time with two cores free of other work; starting a worker takes seconds of processor time"),
)  # fmt: skip
"""In the order in which they were asked."""


def answer(one: Asked, results: Sequence[Result]) -> tuple[str, str]:
    """Return the worst value of this run, or the earlier one marked as such, and whether the target is met."""
    found = [result for result in results if result.name.startswith(one.rows)] if one.rows else []
    if one.what.startswith("corruption"):
        found = [result for result in results if result.name == one.rows[0]]
    if not found:
        return (f"({one.before}, not repeated)" if one.before else "(not measured)"), ""
    worst = max(found, key=lambda result: result.value)
    verdict = "" if one.most is None else "met" if worst.value <= one.most else "**not met**"
    return f"{worst.value:.3g} {worst.unit}".strip(), verdict


def rows(results: Sequence[Result]) -> list[tuple[str, str, str, str, str]]:
    """Return what was asked, the target, what was found, whether it is met, and why not or what else is to be known."""
    return [(one.what, one.target, *answer(one, results), one.why) for one in ASKED]


def show(results: Sequence[Result]) -> None:
    """Print what was asked as a table."""
    table = Table("asked", "target", "found (worst)", "", "remark", title="What was asked")
    for row in rows(results):
        table.add_row(*row)
    Console(width=None if Console().is_terminal else 180).print(table)


def markdown(results: Sequence[Result]) -> str:
    """Return the same as a Markdown table."""
    lines = ["| asked | target | found (worst) | | remark |", "|---|---|---|---|---|"]
    return "\n".join([*lines, *("| " + " | ".join(row) + " |" for row in rows(results))])


def read(path: Path) -> list[Result]:
    """Return the results of a file that `--json` wrote, without their curves."""
    known = ("name", "value", "lowest", "unit", "target", "note")
    return [Result(*(entry[key] for key in known)) for entry in json.loads(path.read_text(encoding="utf-8"))]


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("files", nargs="+", type=Path)
    print(markdown([result for path in parser.parse_args().files for result in read(path)]))
