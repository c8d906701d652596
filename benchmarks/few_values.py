"""How often intervals of correlations, and of means of few values, hold the truth: of laws with skew and heavy tails.

    python -m benchmarks.few_values [--runs 1000] [--write]

Beside each interval stands the textbook's: Fisher's, Bonett and Wright's, and Student's. --write puts the tables into
docs/statistics.md.
"""

import argparse
import math
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import scipy
import torch
from torch import Tensor

from benchmarks.tables import line, markdown, replace_table
from holdfast.core import Score
from holdfast.numerics.statistics import means
from holdfast.numerics.statistics.correlations import pearson, spearman

PAGE = Path(__file__).parents[1] / "docs" / "statistics.md"

ENCODERS, VALUES = (5, 8, 16, 40), (8, 16, 40)
CORRELATION, MANY = 0.8, 2_000_000
"""Of normal scores before they are transformed; and pairs that tell the truth."""

Z = float(scipy.stats.norm.ppf(0.975))

Law = Callable[[Tensor], Tensor]


def quantile(law: scipy.stats.rv_continuous, **named: float) -> Law:
    """Return what makes numbers of a law of normal ones."""
    return lambda z: torch.from_numpy(law(**named).ppf(scipy.stats.norm.cdf(z.numpy())))


PAIRS: dict[str, Callable[[Tensor, Tensor, torch.Generator], tuple[Tensor, Tensor]]] = {
    "normal": lambda x, y, random: (x, y),
    "lognormal": lambda x, y, random: (x.exp(), y.exp()),
    "Student's, 3 degrees": lambda x, y, random: (x / (scale := shared(len(x), random)), y / scale),
    "Pareto's, 2.5": lambda x, y, random: (pareto(x), pareto(y)),
    "lognormal against normal": lambda x, y, random: (x.exp(), y),
}
"""Scores of two measures, made of correlated normal ones; Student's are far out together."""

RANKED = ("normal", "Student's, 3 degrees")
"""Laws whose ranks differ: those of the others are the ranks of normal scores."""

pareto = quantile(scipy.stats.pareto, b=2.5)


def shared(n: int, random: torch.Generator) -> Tensor:
    """Return the root of the mean of 3 squares, one for each pair."""
    return torch.randn(3, n, dtype=torch.float64, generator=random).square().mean(0).sqrt()


MEANS: dict[str, tuple[Law, float]] = {
    "normal": (lambda z: z, 0.0),
    "exponential": (quantile(scipy.stats.expon), 1.0),
    "lognormal, σ 1": (torch.exp, math.exp(0.5)),
    "lognormal, σ 1.5": (lambda z: (1.5 * z).exp(), math.exp(1.5**2 / 2)),
    "Pareto's, 2.5": (quantile(scipy.stats.pareto, b=2.5), 2.5 / 1.5),
    "half are 0": (lambda z: torch.where(z < 0, 0.0, -(2 * torch.special.ndtr(-z)).log()), 0.5),
    "9 of 10 are 0 (with a note)": (
        lambda z: torch.where(torch.special.ndtr(z) < 0.9, 0.0, -(10 * torch.special.ndtr(-z)).log()), 0.1,
    ),
}  # fmt: skip
"""Values of normal numbers, and their mean."""


def normal_pairs(random: torch.Generator, n: int) -> tuple[Tensor, Tensor]:
    """Return correlated normal numbers."""
    first, second = torch.randn(2, n, dtype=torch.float64, generator=random)
    return first, CORRELATION * first + math.sqrt(1 - CORRELATION**2) * second


def truths(name: str) -> dict[str, float]:
    """Return Pearson's and Spearman's correlation of a law, to three figures."""
    random = torch.Generator().manual_seed(1)
    x, y = normal_pairs(random, MANY)
    pairs = torch.stack(PAIRS[name](x, y, random))
    ranks = torch.stack([row.argsort().argsort().double() for row in pairs])
    return {kind: float(torch.corrcoef(both)[0, 1]) for kind, both in (("Pearson", pairs), ("Spearman", ranks))}


def plain(kind: str, score: Score) -> tuple[float, float]:
    """Return the textbook's interval of a correlation: Fisher's, or Bonett and Wright's."""
    value, n = score.value or 0.0, score.n
    most = 1 - 6 / (n**3 - n) if kind == "Spearman" else 1 - 1e-12
    inner = max(-most, min(most, value))
    reach = Z * math.sqrt((1 + (inner**2 / 2 if kind == "Spearman" else 0)) / (n - 3))
    low, high = math.tanh(math.atanh(inner) - reach), math.tanh(math.atanh(inner) + reach)
    return (-1.0 if inner > value else low), (1.0 if inner < value else high)


def correlations(runs: int) -> Iterator[list[str]]:
    """Yield a row for each law and each correlation: coverage of the textbook's interval, and of ours."""
    for name, pairs in PAIRS.items():
        truth = truths(name)
        for kind, correlate in (("Pearson", pearson), ("Spearman", spearman))[: 2 if name in RANKED else 1]:
            random, cells = torch.Generator().manual_seed(0), []
            for n in ENCODERS:
                held = [0, 0]
                for _ in range(runs):
                    x, y = normal_pairs(random, n)
                    score = correlate(*pairs(x, y, random))
                    for which, (low, high) in enumerate((plain(kind, score), (score.low, score.high))):
                        held[which] += low is None or high is None or low <= truth[kind] <= high
                cells.append(arrow(held, runs))
            yield [name, kind, *cells]


def of_means(runs: int) -> Iterator[list[str]]:
    """Yield a row for each law: coverage of Student's interval, and of ours."""
    for name, (law, truth) in MEANS.items():
        random, cells = torch.Generator().manual_seed(0), []
        for n in VALUES:
            held, t = [0, 0], float(scipy.stats.t.ppf(0.975, n - 1))
            for _ in range(runs):
                values = law(torch.randn(n, dtype=torch.float64, generator=random))
                score = means.mean(values, most=math.inf)
                held[1] += score.low is None or score.high is None or score.low <= truth <= score.high
                held[0] += abs(float(values.mean()) - truth) <= t * float(values.std()) / math.sqrt(n)
            cells.append(arrow(held, runs))
        yield [name, *cells]


def arrow(held: Sequence[int], runs: int) -> str:
    """Return in how many of the samples the textbook's interval holds the truth, and ours, in percent."""
    return " → ".join(f"{100 * count / runs:.0f}" for count in held)


def told(rows: Iterator[list[str]]) -> Iterator[list[str]]:
    """Yield rows, and say them as they are found."""
    for row in rows:
        print(line(row), file=sys.stderr, flush=True)
        yield row


def main() -> None:
    """Run as a program."""
    parser = argparse.ArgumentParser("python -m benchmarks.few_values", description=__doc__)
    parser.add_argument("--runs", type=int, default=1000, help="samples for each cell")
    parser.add_argument("--write", action="store_true", help="put the tables into docs/statistics.md")
    options = parser.parse_args()
    tables = {
        "correlations": markdown(
            ["scores", "correlation", *(f"{n} encoders" for n in ENCODERS)], told(correlations(options.runs))
        ),
        "means of few values": markdown(["values", *map(str, VALUES)], told(of_means(options.runs))),
    }
    for name, table in tables.items():
        print(table)
        if options.write:
            replace_table(PAGE, name, table)


if __name__ == "__main__":
    main()
