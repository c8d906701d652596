"""How often the robustness curve's band, its median's interval and the band of two curves' difference hold the truth.

    python -m benchmarks.curve_coverage [--runs 1000] [--sizes 8,16,64] [--write]

Radii of two encoders on the same images are drawn from laws whose curves are known: a log-normal one, the same with
images that fail as they are and images that nothing breaks, and one of a grid. A band holds the truth where it holds
it at every size of a change, looked for where a curve jumps, on both sides. --write puts the table into
docs/statistics.md.
"""

import argparse
import math
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
from jaxtyping import Float
from torch import Tensor

from benchmarks.tables import replace_table
from holdfast.numerics import statistics
from holdfast.numerics.statistics.survival import survival
from holdfast.numerics.statistics.survival_differences import survival_difference

SIZES = (8, 16, 64, 256, 500)
SHARED, LEAD = 0.8, 0.3
"""Correlation of the logarithms of one image's two radii, and by how much those of the first encoder are larger."""

WHOLE, UNBROKEN = 0.9, 1.2
"""Below and above, a radius of the law with ties is 0 and infinite: the median lies in a thin slice between."""

STEP, MOVED = 0.5, 1.5
"""The grid; how much larger a radius of a twin is, where it differs."""

RARE = 0.03
"""Share of images in which twins differ."""

PAGE = Path(__file__).parents[1] / "docs" / "statistics.md"

Curve = Callable[[Float[Tensor, "places"]], Float[Tensor, "places"]]
"""Size of a change -> the true share of images that hold."""


def log_normal(at: Float[Tensor, "places"], lead: float = 0.0) -> Float[Tensor, "places"]:
    """Return P[exp(Z + lead) > t]."""
    return torch.special.ndtr(lead - at.clamp_min(0).log())


@dataclass(frozen=True)
class Law:
    """Radii of two encoders.

    Attributes:
        name: of the law.
        transform: radii from those of the log-normal law.
        curve: P[radius > t] of the one whose log-normal radii are larger by a factor e^lead.
        median: the medians of the second encoder's radii: the lowest, the highest.
        twins: whether the first encoder's radii are the second's, but for a few.
    """

    name: str
    transform: Callable[[Tensor], Tensor]
    curve: Callable[[Tensor, float], Tensor]
    median: tuple[float, float] = (1.0, 1.0)
    twins: bool = False

    def draw(self, n: int, random: torch.Generator) -> tuple[Tensor, Tensor]:
        """Return radii of both encoders, [n] each."""
        z = torch.randn(3, n, generator=random, dtype=torch.float64)
        shared = math.sqrt(SHARED) * z[0]
        own = [(shared + math.sqrt(1 - SHARED) * each).exp() for each in z[1:]]
        if self.twins:
            other = torch.rand(n, generator=random, dtype=torch.float64) < RARE
            return torch.where(other, MOVED * own[1], own[1]), own[1]
        return self.transform(math.exp(LEAD) * own[0]), self.transform(own[1])

    def first(self, at: Tensor) -> Tensor:
        """Return the first encoder's curve."""
        if self.twins:
            return (1 - RARE) * log_normal(at) + RARE * log_normal(at / MOVED)
        return self.curve(at, LEAD)

    def second(self, at: Tensor) -> Tensor:
        """Return the second encoder's curve."""
        return self.curve(at, 0.0)


def tied(radius: Tensor) -> Tensor:
    """Return radii of which the small ones are 0 and the large ones infinite."""
    return radius.masked_fill(radius < WHOLE, 0.0).masked_fill(radius > UNBROKEN, torch.inf)


LAWS = (
    Law("continuous", lambda radius: radius, log_normal),
    Law("ties at 0 and ∞", tied, lambda at, lead: log_normal(at.clamp(WHOLE, UNBROKEN), lead)),
    Law(
        "a grid", lambda radius: (radius / STEP).round() * STEP,
        lambda at, lead: log_normal(((at / STEP).floor() + 0.5) * STEP, lead),
    ),
    Law("twins", lambda radius: radius, log_normal, twins=True),
)  # fmt: skip


@dataclass(frozen=True)
class Covered:
    """Shares of samples whose band, interval, band of the difference hold the truth, and the widths of the last."""

    band: float
    median: float
    difference: float
    width: float


def simulate(law: Law, n: int, runs: int) -> Covered:
    """Return how often the truth is held; the seed is the size's."""
    random = torch.Generator().manual_seed(n)
    band, median, difference, width = 0, 0, 0, 0.0
    for run in range(runs):
        first, second = law.draw(n, random)
        # just below every jump and at it: there the curves are farthest from the truth
        jumps = torch.cat([first, second]).unique()
        jumps = jumps[jumps.isfinite()]
        at = torch.cat([jumps[jumps > 0] * (1 - 1e-12), jumps])
        truth = law.second(at)
        _, low, high = survival(second, at)
        band += bool(((low <= truth) & (truth <= high)).all())
        score = statistics.median(second)
        low_end, high_end = (
            math.inf * sign if end is None else end for sign, end in ((-1, score.low), (1, score.high))
        )
        median += low_end <= law.median[1] and law.median[0] <= high_end
        gap = survival_difference(first, second, at, seed=run)
        truth = law.first(at) - truth
        difference += bool(((gap.low <= truth) & (truth <= gap.high)).all())
        width += float((gap.high - gap.low).max()) / 2
    return Covered(band / runs, median / runs, difference / runs, width / runs)


def table(sizes: Sequence[int], runs: int) -> str:
    """Return coverage in percent as a table in Markdown."""
    heads = " | ".join(f"{n} images" for n in sizes)
    lines = [f"| radii | {heads} |", "|---|" + "---|" * len(sizes)]
    for law in LAWS:
        began = time.perf_counter()
        cells = [simulate(law, n, runs) for n in sizes]
        shown = (f"{100 * c.band:.1f} / {100 * c.median:.1f} / {100 * c.difference:.1f}" for c in cells)
        lines.append(f"| {law.name} | {' | '.join(shown)} |")
        widths = ", ".join(f"{cell.width:.3f}" for cell in cells)
        print(f"{lines[-1]} ± {widths}, {time.perf_counter() - began:.0f} s", file=sys.stderr, flush=True)
    return "\n".join(lines)


def main() -> None:
    """Run as a program."""
    parser = argparse.ArgumentParser("python -m benchmarks.curve_coverage", description=__doc__)
    parser.add_argument("--runs", type=int, default=1000, help="samples of each law and size")
    parser.add_argument("--sizes", default=",".join(map(str, SIZES)), help="images, separated by commas")
    parser.add_argument("--write", action="store_true", help="put the table into docs/statistics.md")
    options = parser.parse_args()
    rows = table([int(n) for n in options.sizes.split(",")], options.runs)
    print(rows)
    if options.write:
        replace_table(PAGE, "curve coverage", rows)


if __name__ == "__main__":
    main()
