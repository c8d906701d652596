"""How often intervals hold the truth where some pictures are there several times: images counted, and pictures.

    python -m benchmarks.copied_coverage [--runs 400] [--write]

Worlds are those of coverage.py, of pictures of which half are there once, others two to six times; copies differ by
little. The truth is what the score is on average at this number of pictures. --write renews the table of
docs/statistics.md.
"""

import argparse
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import torch
from torch import Tensor

from benchmarks import laws
from benchmarks.tables import replace_table
from holdfast.core import Score
from holdfast.numerics import statistics
from holdfast.numerics.statistics.copies import rows_of_pictures, score_pictures

PICTURES = (20, 100)
NAMES = (
    "nearest_neighbour_accuracy", "robust_accuracy", "breaking_edit", "cosine_to_self", "alignment", "breakaway_risk",
    "universal_quantile", "relative_quantile", "retrieval",
)  # fmt: skip
NOISE = 0.05
"""By how much copies differ, where images differ by 1."""

PAGE = Path(__file__).parents[1] / "docs" / "statistics.md"


class Copied(laws.World):
    """A world in which some pictures are there several times.

    Attributes:
        of: the number of each image's picture; copies follow the first.
    """

    def __init__(self, pictures: int, strong: bool, random: torch.Generator):
        times = torch.randint(2, 7, (pictures,), generator=random)
        times[torch.rand(pictures, generator=random) < 0.5] = 1
        times[-1] += times.sum() % 2  # all images have a partner
        self.of = torch.arange(pictures).repeat_interleave(times)
        self.pictures = pictures
        super().__init__(len(self.of), strong, random)

    def normal(self, *shape: int) -> Tensor:
        """Return numbers that copies of one picture share, but for a little."""
        if shape[:1] != (self.images,):
            return super().normal(*shape)
        shared = super().normal(self.pictures, *shape[1:])[:, self.of]
        return shared + NOISE * super().normal(*shape)

    @property
    def labels(self) -> Tensor:  # pyright: ignore[reportIncompatibleVariableOverride]
        """The class of every image, which is its picture's."""
        return self.of % laws.CLASSES

    @property
    def first(self) -> Tensor:
        """The place of the first image of each one's picture."""
        return torch.searchsorted(self.of, self.of)


@dataclass
class Tally:
    """Scores, and how many differences exclude 0."""

    scores: list[Score] = field(default_factory=list)
    apart: list[bool] = field(default_factory=list)

    def text(self) -> str:
        """Coverage, then false differences, in percent."""
        known = [score for score in self.scores if score.low is not None and score.high is not None]
        truth = sum(score.value or 0.0 for score in known) / len(known)
        held = sum((score.low or 0.0) <= truth <= (score.high or 0.0) for score in known) / len(known)
        return f"{100 * held:.1f} / {100 * sum(self.apart) / max(len(self.apart), 1):.1f}"


def simulate(name: str, pictures: int, runs: int) -> tuple[str, str]:
    """Return coverage and false differences where images count, and where pictures do."""
    measure, random = laws.measure(name), torch.Generator().manual_seed(pictures)
    images, once = Tally(), Tally()
    for _ in range(runs):
        world = Copied(pictures, False, random)
        tables = laws.tables(measure, name, world)
        ways: tuple[tuple[Tally, Callable[[laws.Table], Score], list[laws.Table]], ...] = (
            (images, lambda table: list(measure.score(table).values())[-1], tables),
            (
                once,
                lambda table, first=world.first: list(score_pictures(measure, table, first).values())[-1],
                [rows_of_pictures(measure, table, world.first) for table in tables],
            ),
        )
        for tally, score, seen in ways:
            first, second = map(score, tables)
            tally.scores += [first, second]
            gap = statistics.difference(first, second, statistics.correlation(*map(measure.influence, seen)))
            if gap.low is not None and gap.high is not None:
                tally.apart.append(gap.low > 0 or gap.high < 0)
    return images.text(), once.text()


def table(runs: int) -> str:
    """Return the table in Markdown."""
    heads = " | ".join(f"{size} pictures: images | pictures" for size in PICTURES)
    lines = [f"| measure | {heads} |", "|---|" + "---|" * 2 * len(PICTURES)]
    for name in NAMES:
        cells = [cell for size in PICTURES for cell in simulate(name, size, runs)]
        lines.append(f"| {name.replace('_', ' ')} | {' | '.join(cells)} |")
        print(lines[-1], file=sys.stderr, flush=True)
    return "\n".join(lines)


def main() -> None:
    """Run as a program."""
    parser = argparse.ArgumentParser("python -m benchmarks.copied_coverage", description=__doc__)
    parser.add_argument("--runs", type=int, default=400, help="pairs of encoders for each cell")
    parser.add_argument("--write", action="store_true", help="renew the table of docs/statistics.md")
    options = parser.parse_args()
    lines = table(options.runs)
    print(lines)
    if options.write:
        replace_table(PAGE, "coverage with copies", lines)


if __name__ == "__main__":
    main()
