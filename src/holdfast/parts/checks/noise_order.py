"""Order of robustness: what an attack leaves standing, what the worst noise leaves, what a given noise leaves."""

import itertools
from dataclasses import dataclass

import torch
from jaxtyping import Bool
from torch import Tensor

from holdfast.core import (
    Ball,
    Check,
    Examination,
    Failure,
    Noise,
    Observation,
    Score,
    Subject,
    Table,
    Verdict,
    registry,
)
from holdfast.numerics import statistics
from holdfast.parts.failures.nearest import Nearest
from holdfast.parts.measures.probabilistic.adversarial_robustness import AdversarialRobustness
from holdfast.parts.measures.probabilistic.probabilistic_robustness import ProbabilisticRobustness
from holdfast.parts.measures.probabilistic.universal_robustness import UniversalRobustness
from holdfast.parts.measures.probabilistic.worst_noise_robustness import WorstNoiseRobustness
from holdfast.parts.measures.shared.chance import ChanceMeasure, DrawnMeasure
from holdfast.parts.threats.linf import Linf
from holdfast.parts.threats.mixture import Mixture
from holdfast.runtime.errors import BadValue

KNOWS_MORE = {"independent": ("label", "input", "joint"), "label": ("joint",), "input": ("joint",), "joint": ()}
"""For each structure of a noise those that know all it knows of an image, and more."""

CHANCE = 0.05
"""Of a false alarm, over all pairs that are compared."""


@dataclass(frozen=True)
class NoiseOrder(Check):
    """AR <= NPPR <= PR on the same images, and no noise is worse than a learned one that knows more of the image.

    One perturbation for all images stands between: AR is not above it, noise that knows nothing of the image not below.

    The true values obey both; what is measured may not: an attack that stops short, or a noise that was not learned to
    the end. A pair counts where the interval of its paired difference excludes 0, at a level that leaves 5 % for a
    false alarm in any pair (Bonferroni). One draw that fails for an image that the attack left standing proves that the
    attack missed it.

    Attributes:
        failure: what counts as a failure.
        ball: where the disturbances lie.
        measures: those that are compared, about this failure in this ball.

    Source: Wang et al. (2025), Prop. 1 (Eq. 5) and Prop. 2 (Eq. 8).
    """

    failure: Failure = Nearest()
    ball: Ball = Linf(0.05)
    measures: tuple[ChanceMeasure, ...] = (AdversarialRobustness(), WorstNoiseRobustness(), ProbabilisticRobustness())

    doubt = "weak attack or noise"
    place = 33

    def __post_init__(self) -> None:
        for measure in self.measures:
            if measure.failure != self.failure or ball_of(measure) != self.ball:
                raise BadValue(
                    f"noise_order: expected measures of the failure {self.failure} in {self.ball}, got {measure}; the "
                    "order holds for one failure in one ball"
                )
        if len({measure.among for measure in self.measures}) > 1:
            raise BadValue("noise_order: expected measures among the same images, got right and all; choose one")

    @classmethod
    def checks_for(cls, audit: Examination) -> tuple[Check, ...]:
        """The measures of each failure in one ball, where there is more than one."""
        # Props. 1 and 2 compare noises for one failure, in one ball and on the same images
        groups: dict[tuple[Failure, Ball, str], list[ChanceMeasure]] = {}
        for measure in audit.measures:
            if isinstance(measure, ChanceMeasure) and (ball := ball_of(measure)) is not None:
                groups.setdefault((measure.failure, ball, measure.among), []).append(measure)
        return tuple(cls(failure, ball, tuple(group)) for (failure, ball, _), group in groups.items() if len(group) > 1)

    def observations(self) -> tuple[Observation, ...]:
        """Those of the measures."""
        return tuple(dict.fromkeys(o for measure in self.measures for o in measure.observations()))

    def judge(self, subject: Subject) -> Verdict:
        """Compare every pair of measures of which one must not be above the other."""
        # pairs (a, b) of which a must not be above b, each tested at its part of the chance of a false alarm
        ordered = sorted(self.measures, key=_rank)
        names, tables = _names(ordered), _together([measure.observe(subject) for measure in ordered])
        pairs = [
            (lower, upper)
            # Both orders of each pair: theory gives a place to one of them, or to neither
            for lower, upper in itertools.permutations(range(len(ordered)), 2)
            if must_not_exceed(ordered[lower], ordered[upper])
        ]
        # Bonferroni: the chance of a false alarm is shared out among the pairs
        level = 1 - CHANCE / max(1, len(pairs))
        # The intervals that `exceeds` reads have this level
        scores = [_score_table(measure, table, level) for measure, table in zip(ordered, tables, strict=True)]
        values = [score.value for score in scores]
        if any(value is None for value in values):
            return Verdict("skip", "no image holds without a disturbance", "Nothing to compare.")
        # orders broken beyond their paired interval; turned within it; images that fail for a draw, but for no attack
        finding = ", ".join(f"{name} {100 * (value or 0.0):.4g} %" for name, value in zip(names, values, strict=True))
        broken = [(a, b) for a, b in pairs if exceeds(tables[a], tables[b], scores[a], scores[b])]
        # The wrong way round, but chance may have done that
        turned = [(a, b) for a, b in pairs if (a, b) not in broken and (values[a] or 0.0) > (values[b] or 0.0)]
        missed = _count_missed(ordered, tables)
        details = {name: value or 0.0 for name, value in zip(names, values, strict=True)} | {"missed": float(missed)}
        for order, words in ((broken, "above"), (turned, "not below, though not beyond its interval,")):
            finding += "".join(f"; {names[a]} {words} {names[b]}" for a, b in order)
        if missed:
            finding += f"; {missed} images that the attack did not break fail for a random draw"
        if broken:
            return Verdict(
                "warn",
                finding,
                "The true values must be in order, and these are not, beyond chance: the attack is too weak or a noise "
                "is not fully learned; use a stronger attack, or more epochs and images for the learner.",
                details,
            )
        if missed:
            meaning = "The attack is too weak: failures found by draws count, others are missed. Use a stronger one."
            return Verdict("warn", finding, meaning, details)
        hint = " A noise that does no more harm than one that knows less may not be fully learned." if turned else ""
        return Verdict("pass", finding, f"The values are in order, within their intervals.{hint}", details)


def ball_of(measure: ChanceMeasure) -> Ball | None:
    """Return the ball that a measure's disturbances lie in; None where there is none."""
    match measure:
        case AdversarialRobustness() | UniversalRobustness() | WorstNoiseRobustness():
            return measure.ball
        case ProbabilisticRobustness(noise=Noise() as noise):
            return noise.ball
    return None


def _structure(measure: ChanceMeasure) -> str:
    """Return what the noise of a measure knows of an image, as the structure of a learned one."""
    match measure:
        case WorstNoiseRobustness():
            # A learned noise, and below one that was learned elsewhere and is given as a file
            return measure.learner.structure
        case ProbabilisticRobustness(noise=Mixture() as mixture):
            return mixture.noise.generator.design.structure
    return "independent"


def _rank(measure: ChanceMeasure) -> tuple[int, int]:
    """Order by what theory says: attacks, learned noises (those that know more first), given noises.

    One perturbation for all images stands before the noise that knows nothing of them.
    """
    match measure:
        case AdversarialRobustness():
            return 0, 0
        case UniversalRobustness():
            return 1, 2
        case WorstNoiseRobustness():
            # The fewer structures know more, the more it knows itself, and the nearer it stands to attacks
            return 1, len(KNOWS_MORE[_structure(measure)])
    return 2, 0


def _names(measures: list[ChanceMeasure]) -> list[str]:
    """Return what measures are called here; of several alike the later ones have a number."""
    names = [_name(measure) for measure in measures]
    return [f"{name} #{names[:k].count(name) + 1}" if name in names[:k] else name for k, name in enumerate(names)]


def _name(measure: ChanceMeasure) -> str:
    match measure:
        case AdversarialRobustness():
            return f"attack ({_part(measure.attack)})"
        case UniversalRobustness():
            return f"one perturbation ({measure.learner.algorithm})"
        case WorstNoiseRobustness():
            return f"worst noise ({measure.learner.structure})"
        case ProbabilisticRobustness():
            return _part(measure.noise)
    return _part(measure)


def _part(part: object) -> str:
    return registry.part_name(part).replace("_", " ")


def _together(tables: list[Table]) -> list[Table]:
    """Return the tables of the images that all of them have: the first ones."""
    count = min(len(table["held"]) for table in tables)
    return [{name: column[:count] for name, column in table.items()} for table in tables]


def _score_table(measure: ChanceMeasure, table: Table, confidence: float) -> Score:
    if isinstance(measure, DrawnMeasure):
        return statistics.share_of_draws(table["held"], measure.estimator.common, confidence=confidence)
    return statistics.share(table["held"], confidence=confidence)


def must_not_exceed(lower: ChanceMeasure, upper: ChanceMeasure) -> bool:
    """Return whether the true value of the first measure cannot be above that of the second."""
    match lower, upper:
        # AR is never above anything drawn in the same ball: Prop. 1, Eq. 5
        case (AdversarialRobustness(), UniversalRobustness() | WorstNoiseRobustness() | ProbabilisticRobustness()):
            return True
        # One δ for all images is a point mass, the worst of noises that know nothing of the image
        case (UniversalRobustness(), WorstNoiseRobustness() | ProbabilisticRobustness()):
            return _structure(upper) == "independent"
        case (WorstNoiseRobustness(), ProbabilisticRobustness()):
            # The learned one could have been the given one, if it knows at least as much of the image
            return _structure(lower) in (_structure(upper), *KNOWS_MORE[_structure(upper)])
        case (WorstNoiseRobustness(), WorstNoiseRobustness()):
            # Prop. 2, Eq. 8: a noise that depends on the image is never milder than one that does not
            return _structure(lower) in KNOWS_MORE[_structure(upper)]
    return False


def exceeds(table_a: Table, table_b: Table, a: Score, b: Score) -> bool:
    """Return whether a is above b by a paired interval that excludes 0, on the same images."""
    # Both are means over the same images; what they have in common cancels in their difference
    rho = statistics.correlation(*(statistics.influence_of_mean(table["held"]) for table in (table_a, table_b)))
    low = statistics.difference(a, b, rho).low
    return low is not None and low > 0


def _count_missed(measures: list[ChanceMeasure], tables: list[Table]) -> int:
    """Return how many images an attack left standing, none the less failed for a draw."""
    # Images that every attack left standing, and that some draw of some noise broke
    attacked = [isinstance(measure, AdversarialRobustness) for measure in measures]
    if all(attacked) or not any(attacked):
        return 0
    standing = torch.stack([_standing(t) for t, a in zip(tables, attacked, strict=True) if a]).all(0)
    failed = torch.stack([t["failed"] > 0 for t, a in zip(tables, attacked, strict=True) if not a]).any(0)
    return int((standing & failed).sum())


def _standing(table: Table) -> Bool[Tensor, "images"]:
    """Return which images the attack itself left standing, whatever else made them fail."""
    return (table["value"] <= 0) & (table["wrong"] == 0)
