"""Order of robustness: what an attack leaves standing, what the worst noise leaves, what a given noise leaves."""

import itertools
from dataclasses import dataclass

import torch

from holdfast import registry, statistics
from holdfast.core import (
    Ball,
    Check,
    Failure,
    HoldfastError,
    Noise,
    Observation,
    Score,
    Subject,
    Table,
    Verdict,
)
from holdfast.failures.nearest import Nearest
from holdfast.measures._chance import ChanceMeasure
from holdfast.measures.adversarial_robustness import AdversarialRobustness
from holdfast.measures.probabilistic_robustness import ProbabilisticRobustness
from holdfast.measures.worst_noise_robustness import WorstNoiseRobustness
from holdfast.threats.linf import Linf

KNOWS_MORE = {"independent": ("label", "input", "joint"), "label": ("joint",), "input": ("joint",)}
"""For each structure of a learned noise those that know all it knows, and more."""


@dataclass(frozen=True)
class NoiseOrder(Check):
    """AR <= NPPR <= PR on the same images, and no learned noise is beaten by one that knows less of the image.

    The true values obey both; what is measured may not: an attack that stops short, or a noise that was not learned to
    the end. A difference counts where the interval of its paired difference excludes 0. One draw that fails for an
    image that the attack left standing proves that the attack missed it.

    Attributes:
        failure: what counts as a failure.
        ball: where the disturbances lie.
        measures: those that are compared, about this failure in this ball.

    Source: NPPR, Prop. 1 (Eq. 5) and Prop. 2 (Eq. 8).
    """

    failure: Failure = Nearest()
    ball: Ball = Linf(0.05)
    measures: tuple[ChanceMeasure, ...] = (AdversarialRobustness(), WorstNoiseRobustness(), ProbabilisticRobustness())

    def __post_init__(self) -> None:
        for measure in self.measures:
            if measure.failure != self.failure or ball_of(measure) != self.ball:
                raise HoldfastError(
                    f"noise_order: expected measures of the failure {self.failure} in {self.ball}, got {measure}; the "
                    "order holds for one failure in one ball"
                )

    def observations(self) -> tuple[Observation, ...]:
        """Those of the measures."""
        return tuple(dict.fromkeys(o for measure in self.measures for o in measure.observations()))

    def judge(self, subject: Subject) -> Verdict:
        """Compare every pair of measures of which one must not be above the other."""
        tables = _together({measure: measure.observe(subject) for measure in self.measures})
        scores = {measure: list(measure.score(table).values())[-1] for measure, table in tables.items()}
        names = {measure: _name(measure) for measure in self.measures}
        ranked = sorted(self.measures, key=lambda measure: scores[measure].value or 0.0)
        found = " <= ".join(f"{100 * (scores[measure].value or 0.0):.4g} % {names[measure]}" for measure in ranked)
        details = {names[measure]: score.value or 0.0 for measure, score in scores.items()}
        broken = [
            f"{names[lower]} above {names[upper]}"
            for lower, upper in itertools.permutations(self.measures, 2)
            if must_not_exceed(lower, upper) and exceeds(tables[lower], tables[upper], scores[lower], scores[upper])
        ]
        missed = _missed(tables)
        details["missed by the attack"] = missed
        if missed:
            found += f"; {missed} images fail for a draw though the attack left them standing"
        if broken:
            return Verdict(
                "warn",
                f"{found}; {', '.join(broken)}",
                "The order of the true values is broken (paired intervals of 95 % each): the attack is too weak, or a "
                "noise is not learned to the end; raise its epochs, samples or images.",
                details,
            )
        if missed:
            meaning = "Adversarial robustness is lower than the attack says: use a stronger attack."
            return Verdict("warn", found, meaning, details)
        return Verdict("pass", found, "Attack, learned noise and given noise are in the order they must be.", details)


def _together(tables: dict[ChanceMeasure, Table]) -> dict[ChanceMeasure, Table]:
    """Return the tables of the images that all of them have: the first ones."""
    count = min(len(table["held"]) for table in tables.values())
    return {measure: {name: column[:count] for name, column in table.items()} for measure, table in tables.items()}


def ball_of(measure: ChanceMeasure) -> Ball | None:
    """Return the ball that a measure's disturbances lie in; None where there is none."""
    match measure:
        case AdversarialRobustness() | WorstNoiseRobustness():
            return measure.ball
        case ProbabilisticRobustness(noise=Noise() as noise):
            return noise.ball
    return None


def _name(measure: ChanceMeasure) -> str:
    match measure:
        case AdversarialRobustness():
            return f"attack ({_part(measure.attack)})"
        case WorstNoiseRobustness():
            return f"worst noise ({measure.learner.structure})"
        case ProbabilisticRobustness():
            return _part(measure.noise)
    return _part(measure)


def _part(part: object) -> str:
    return registry.part_name(part).replace("_", " ")


def must_not_exceed(lower: ChanceMeasure, upper: ChanceMeasure) -> bool:
    """Return whether the true value of the first measure cannot be above that of the second."""
    match lower, upper:
        case (AdversarialRobustness(), WorstNoiseRobustness() | ProbabilisticRobustness()):
            return True
        case (WorstNoiseRobustness(), ProbabilisticRobustness()):
            return True
        case (WorstNoiseRobustness(), WorstNoiseRobustness()):
            return lower.learner.structure in KNOWS_MORE.get(upper.learner.structure, ())
    return False


def exceeds(first: Table, second: Table, score: Score, other: Score) -> bool:
    """Return whether the first is above the second by a paired interval that excludes 0, on the same images."""
    rho = statistics.correlation(*(statistics.influence_of_mean(table["held"]) for table in (first, second)))
    low = statistics.difference(score, other, rho).low
    return low is not None and low > 0


def _missed(tables: dict[ChanceMeasure, Table]) -> int:
    """Return how many images an attack left standing, none the less failed for a draw."""
    attacked = [table["held"] for measure, table in tables.items() if isinstance(measure, AdversarialRobustness)]
    drawn = [table["failed"] for measure, table in tables.items() if not isinstance(measure, AdversarialRobustness)]
    if not attacked or not drawn:
        return 0
    standing = torch.stack([held == 1 for held in attacked]).all(0)
    return int((standing & torch.stack([failed > 0 for failed in drawn]).any(0)).sum())
