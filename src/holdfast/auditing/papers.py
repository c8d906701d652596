"""Ready-made plans that ask what the five papers ask."""

from dataclasses import replace

from holdfast.auditing.profile import COMMON, Profile
from holdfast.core import Attack, Ball, Failure, Measure
from holdfast.parts.attacks.apgd import Apgd
from holdfast.parts.attacks.carlini_wagner import CarliniWagner
from holdfast.parts.attacks.ensemble import Ensemble
from holdfast.parts.attacks.pgd import Pgd
from holdfast.parts.attacks.square import Square
from holdfast.parts.failures.misclassified import Misclassified
from holdfast.parts.learners.worst_mixture import WorstMixture
from holdfast.parts.measures.certified.certified_accuracy import CertifiedAccuracy
from holdfast.parts.measures.certified.certified_radius import CertifiedRadius
from holdfast.parts.measures.certified.instance_accuracy import InstanceAccuracy
from holdfast.parts.measures.certified.linear_radius import LinearRadius
from holdfast.parts.measures.certified.tightness import Tightness
from holdfast.parts.measures.classifiers.probe_accuracy import ProbeAccuracy
from holdfast.parts.measures.classifiers.robust_probe import RobustProbe
from holdfast.parts.measures.corruptions.corrupted_accuracy import CorruptedAccuracy
from holdfast.parts.measures.corruptions.corruption_drift import CorruptionDrift
from holdfast.parts.measures.corruptions.neighbour_consistency import NeighbourConsistency
from holdfast.parts.measures.corruptions.relative_drop import RelativeDrop
from holdfast.parts.measures.drift.cosine_to_self import CosineToSelf
from holdfast.parts.measures.drift.cosine_to_target import CosineToTarget
from holdfast.parts.measures.drift.relative_quantile import RelativeQuantile
from holdfast.parts.measures.drift.universal_quantile import UniversalQuantile
from holdfast.parts.measures.neighbours.adversarial_margin import AdversarialMargin
from holdfast.parts.measures.neighbours.breakaway_risk import BreakawayRisk
from holdfast.parts.measures.neighbours.nearest_neighbour_accuracy import NearestNeighbourAccuracy
from holdfast.parts.measures.neighbours.overlap_risk import OverlapRisk
from holdfast.parts.measures.probabilistic.adversarial_robustness import AdversarialRobustness
from holdfast.parts.measures.probabilistic.failure_probability import FailureProbability
from holdfast.parts.measures.probabilistic.probabilistic_accuracy import ProbabilisticAccuracy
from holdfast.parts.measures.probabilistic.probabilistic_robustness import ProbabilisticRobustness
from holdfast.parts.measures.probabilistic.worst_noise_robustness import WorstNoiseRobustness
from holdfast.parts.measures.shared.disturbed import SIX
from holdfast.parts.measures.synbench.synbench import Synbench
from holdfast.parts.observations.mixtures import Mixtures
from holdfast.parts.probes.knn import Knn
from holdfast.parts.probes.linear import Linear
from holdfast.parts.probes.robust_linear import RobustLinear
from holdfast.parts.threats.laplace import Laplace
from holdfast.parts.threats.truncated_gaussian import TruncatedGaussian
from holdfast.parts.threats.uniform import Uniform

STRUCTURES = ("independent", "label", "input", "joint")


def paper(ball: Ball) -> Profile:
    """The label-free rows of Table 5: U-PGD with α .001 at both radii, ℓ2, ℓ∞ and cosine, the last iterate."""
    long, short, middle = (Pgd(steps, 0.001, keep="last") for steps in (50, 10, 25))
    twice = type(ball)(2 * ball.radius)  # pyright: ignore[reportCallIssue]
    measures: list[Measure] = []
    for where in (ball, twice):
        for divergence in ("l2", "linf"):
            measures.append(UniversalQuantile(long, where, divergence=divergence))
            measures.append(RelativeQuantile(long, where, divergence=divergence))
        measures.append(CosineToSelf(long, where))
        measures.append(CosineToTarget(long, where))
    measures += [
        BreakawayRisk(middle, ball),
        NearestNeighbourAccuracy(middle, ball, pursue="drift"),
        OverlapRisk(short, ball),
        AdversarialMargin(short, ball),
    ]
    return Profile(
        "Table 5 of the paper: ε .05 and .10, α .001, 5/10/30/50 steps, 1,000 of 10,000 images attacked",
        tuple(measures),
        images=10_000,
        attacked=1000,
        examined=32,
        queries=500,
        shared_searches=False,
    )


def rvcl(ball: Ball) -> Profile:
    """The deterministic rows of RVCL: ACR_CL beside ACR_LE, instance accuracy beside accuracy; needs labels."""
    attack = Apgd(50)
    return Profile(
        "RVCL's rows: radii and accuracies of pairs and of a linear head by CROWN; needs labels; 100 of 1,000 images",
        (
            CertifiedRadius(ball=ball, steps=100),
            LinearRadius(ball=ball, steps=100),
            InstanceAccuracy(ball=ball, attack=attack),
            CertifiedAccuracy(ball=ball, attack=attack),
            Tightness(ball=ball, attack=attack),
        ),
        images=1000,
        attacked=100,
        examined=8,
        queries=200,
        shared_searches=False,
    )


def nppr(ball: Ball) -> Profile:
    """NPPR's tables for a linear head on the representation; needs labels."""
    return Profile(
        "NPPR's rows for a linear head: PGD-20 and C&W, the four learned noises, Gaussian and uniform noise; needs "
        "labels; 500 of 2,000 images",
        chances(Misclassified(), WorstMixture(components=7, side=4, groups="labels", loss="softplus"), ball),
        images=2000,
        attacked=500,
        examined=8,
        queries=200,
        shared_searches=False,
    )


def chances(failure: Failure, learner: WorstMixture, ball: Ball) -> tuple[Measure, ...]:
    """Return AR by three attacks, NPPR for four structures, PR under three noises, Prob.Acc, and rare failures."""
    attacks: tuple[Attack, ...] = (Pgd(20), CarliniWagner(), Ensemble((Apgd(50), Pgd(50), Square(200))))
    learners = [replace(learner, structure=structure) for structure in STRUCTURES]
    noises = (TruncatedGaussian(ball), Uniform(ball), Laplace(ball))
    return (
        *(AdversarialRobustness(failure, attack=attack, ball=ball) for attack in attacks),
        *(WorstNoiseRobustness(failure, learner=learner, ball=ball) for learner in learners),
        *(ProbabilisticRobustness(failure, noise=noise) for noise in noises),
        ProbabilisticAccuracy(failure, noise=Uniform(ball)),
        FailureProbability(failure, noise=Uniform(ball), first=20),
    )


def contrastive(ball: Ball) -> Profile:
    """The tests of "Is self-supervised contrastive learning more robust ...": drops beside their label-free twins."""
    return Profile(
        "probes under corruptions: relative drops with clean and with corrupted training images beside their twins "
        "without labels; needs labels; 1,000 images, and training images where there are some",
        (
            ProbeAccuracy(Knn()),
            ProbeAccuracy(Linear()),
            RelativeDrop(),
            RelativeDrop(consistent=True),
            RelativeDrop(threats=COMMON),
            CorruptedAccuracy(threats=COMMON),
            CorruptionDrift(SIX + COMMON),
            NeighbourConsistency(SIX + COMMON),
        ),
        images=1000,
        attacked=1000,
        examined=8,
        queries=200,
    )


def synbench(ball: Ball) -> Profile:
    """The synthetic benchmark, which needs no images."""
    return Profile(
        "SynBench: how much of the trade-off of two synthetic Gaussian classes is left in the representation; needs no "
        "images; 200,704 forward passes",
        (Synbench(),),
        images=512,
        attacked=512,
        examined=8,
        queries=200,
    )


def robust_probing(ball: Ball) -> Profile:
    """What SynBench is for: a linear probe trained on attacked images, at the ε that it recommends."""
    return Profile(
        "SynBench, and the linear probe that learns from attacked images at the ε it recommends, beside the standard "
        "one, on clean, corrupted and attacked images; needs labels; 1,000 images",
        (Synbench(), RobustProbe(robust=RobustLinear(chosen_by=Mixtures()), threats=COMMON, ball=ball)),
        images=1000,
        attacked=1000,
        examined=8,
        queries=200,
    )
