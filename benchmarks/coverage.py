"""How often every measure's interval holds the truth, and how often encoders that are equal are told apart.

    python -m benchmarks.coverage [--runs 1000] [--only NAME,NAME] [--write] [--scores]

Tables of two encoders equal in law (see laws.py) are drawn again and again, for few and many images and for weak and
strong encoders; `score`, `influence` and `statistics.difference` are those of an audit. --write puts the rows into the
table of docs/statistics.md. --scores: of the scores that are no headline, which can be compared as well.
"""

import argparse
import math
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import torch

from benchmarks import laws
from benchmarks.tables import read_table, replace_table
from holdfast.core import Score, registry
from holdfast.numerics import statistics

SIZES = (40, 300)
STRENGTHS = ("weak", "strong")
SETTINGS = tuple((size, strength) for size in SIZES for strength in STRENGTHS)
OF_SIZE = (
    "adversarial_hubness", "caption_retrieval", "certified_hubness",
    "certified_nearest_neighbour_accuracy", "effective_rank", "margin_calibration", "margin_distribution",
    "nearest_neighbour_accuracy",
    "edited_retrieval", "hubness", "neighbour_consistency", "retrieval", "smoothed_accuracy", "synbench",
    "transfer_rate",
)  # fmt: skip
"""Measures whose value depends on how many images there are; their truth is their expectation at that number."""

LARGE, TIMES = 1000, 20
"""The truth of the others is the mean of so many populations of so many images."""

PAGE = Path(__file__).parents[1] / "docs" / "statistics.md"


@dataclass(frozen=True)
class Cell:
    """What became of one measure in one setting.

    Attributes:
        covered: share of intervals that hold the truth.
        false: share of pairs of encoders, equal in law, whose paired interval excludes 0.
        without: share of scores that say "no interval"; they are no part of the others.
        truth: the true score.
        width: mean width of the intervals.
    """

    covered: float
    false: float
    without: float
    truth: float
    width: float


def simulate(name: str, size: int, strength: str, runs: int) -> Cell:
    """Return what becomes of a measure's intervals in a setting; the seed is the setting's."""
    return simulate_scores(name, size, strength, runs, headline=True)["headline"]


def simulate_scores(name: str, size: int, strength: str, runs: int, *, headline: bool) -> dict[str, Cell]:
    """Return what becomes of the intervals of a measure's scores: of its headline, or of all others by their names."""
    measure = laws.measure(name)
    random = torch.Generator().manual_seed(1000 * size + STRENGTHS.index(strength))
    drawn: dict[str, tuple[list[Score], list[bool]]] = {}
    for _ in range(runs):
        both = laws.tables(measure, name, laws.World(size, strength == "strong", random))
        first, second = (measure.reduce(table) for table in both)
        last = list(first)[-1]
        # Scores such as "lowest: class 3" are not those of every encoder
        for title in [last] if headline else [title for title in first if title in second and title != last]:
            pair = first[title].score(), second[title].score()
            rho = statistics.correlation(first[title].influence(), second[title].influence())
            gap = statistics.difference(*pair, rho)
            scores, apart = drawn.setdefault("headline" if headline else title, ([], []))
            scores += pair
            if gap.low is not None and gap.high is not None:
                apart.append(gap.low > 0 or gap.high < 0)
    return {title: _cell(name, strength == "strong" if headline else None, *seen) for title, seen in drawn.items()}


def _cell(name: str, strong: bool | None, scores: Sequence[Score], apart: Sequence[bool]) -> Cell:
    """Return what became of the intervals of a score, a headline of weak or strong encoders; None: another score."""
    known = [score for score in scores if score.low is not None and score.high is not None]
    # Whether the value of another score depends on the number of images nobody has written down
    if name in OF_SIZE or strong is None:
        values = [score.value for score in scores if score.value is not None]
        truth = sum(values) / max(len(values), 1)
    else:
        truth = value_of(name.partition(" of ")[0], strong)  # a sample's truth is that of all pairs
    held = [(score.low or 0.0) <= truth <= (score.high or 0.0) for score in known]
    wide = [(score.high or 0.0) - (score.low or 0.0) for score in known]
    count = max(len(known), 1)
    return Cell(
        sum(held) / count if known else math.nan,
        sum(apart) / len(apart) if apart else math.nan,
        1 - len(known) / len(scores),
        truth,
        sum(wide) / count,
    )


def value_of(name: str, strong: bool) -> float:
    """Return a measure's true score, as the mean over large populations."""
    measure, random = laws.measure(name), torch.Generator().manual_seed(int(strong))
    values = []
    for _ in range(TIMES):
        for table in laws.tables(measure, name, laws.World(LARGE, strong, random)):
            values.append(list(measure.score(table).values())[-1].value)
    return sum(values) / len(values)


def scores_of(names: Sequence[str], runs: int) -> Iterator[str]:
    """Yield a row of Markdown for each score that is no headline: coverage in percent, then false differences."""
    for name in names:
        cells = [simulate_scores(name, *setting, runs, headline=False) for setting in SETTINGS]
        for title in cells[0]:
            known = [seen[title] for seen in cells if title in seen]
            yield f"| {name.replace('_', ' ')}: {title} | " + " | ".join(map(shown, known)) + f" | {runs} |"


def rows(names: Sequence[str], runs: int) -> dict[str, str]:
    """Return a row of Markdown for each measure: in every setting coverage in percent, then false differences."""
    lines = {}
    for name in names:
        began = time.perf_counter()
        cells = [simulate(name, size, strength, runs) for size, strength in SETTINGS]
        title = name.replace("_", " ")
        lines[title] = f"| {title} | " + " | ".join(map(shown, cells)) + f" | {runs} |"
        values = ", ".join(f"{cell.truth:.3g} ± {cell.width / 2:.2g}" for cell in cells)
        print(f"{lines[title]}  {values}  {time.perf_counter() - began:.0f} s", file=sys.stderr, flush=True)
    return lines


def table(lines: dict[str, str]) -> str:
    """Return the rows of measures as a table."""
    heads = " | ".join(f"{size} images, {strength}" for size, strength in SETTINGS)
    head = [f"| measure | {heads} | runs |", "|---|" + "---|" * (len(SETTINGS) + 1)]
    return "\n".join([*head, *(lines[name] for name in sorted(lines))])


def shown(cell: Cell) -> str:
    """Return a cell's text."""
    if math.isnan(cell.covered):
        return "no interval"
    rest = f" ({100 * cell.without:.0f} without)" if cell.without >= 0.005 else ""
    return f"{100 * cell.covered:.1f} / {100 * cell.false:.1f}{rest}"


def main() -> None:
    """Run as a program."""
    parser = argparse.ArgumentParser("python -m benchmarks.coverage", description=__doc__)
    parser.add_argument("--runs", type=int, default=1000, help="pairs of encoders for each measure and setting")
    parser.add_argument("--only", metavar="NAMES", help="some measures, separated by commas")
    parser.add_argument("--write", action="store_true", help="put the rows into the table of docs/statistics.md")
    parser.add_argument("--scores", action="store_true", help="print the scores that are no headline, as they are done")
    options = parser.parse_args()
    if options.scores:
        for line in scores_of(options.only.split(",") if options.only else registry.names("measures"), options.runs):
            print(line, flush=True)
        return
    lines = rows(
        options.only.split(",") if options.only else [*registry.names("measures"), *laws.SAMPLED], options.runs
    )
    print(table(lines))
    if options.write:
        old = read_table(PAGE, "coverage")
        kept = [line for line in old.splitlines() if line.startswith("| ")][1:]  # without the heads
        known = {line.split(" | ")[0].removeprefix("| "): line for line in kept}
        replace_table(PAGE, "coverage", table(known | lines))


if __name__ == "__main__":
    main()
