"""Ready-made plans: quick, standard, certify, probabilistic and more; those of the papers are in papers.py."""

from collections.abc import Callable

from holdfast.auditing.panel import DEFAULT_BALL
from holdfast.auditing.papers import chances, contrastive, nppr, paper, robust_probing, rvcl, synbench
from holdfast.auditing.profile import COMMON, Profile
from holdfast.core import Attack, Ball, Measure
from holdfast.parts.attacks.apgd import Apgd
from holdfast.parts.attacks.ensemble import Ensemble
from holdfast.parts.attacks.pgd import Pgd
from holdfast.parts.attacks.square import Square
from holdfast.parts.certifiers.alpha_crown import AlphaCrown
from holdfast.parts.failures.nearest import Nearest
from holdfast.parts.learners.worst_mixture import WorstMixture
from holdfast.parts.measures.certified.certified_breakaway_risk import CertifiedBreakawayRisk
from holdfast.parts.measures.certified.certified_drift import CertifiedDrift
from holdfast.parts.measures.certified.certified_nearest_neighbour_accuracy import CertifiedNearestNeighbourAccuracy
from holdfast.parts.measures.certified.certified_overlap_risk import CertifiedOverlapRisk
from holdfast.parts.measures.certified.certified_radius import CertifiedRadius
from holdfast.parts.measures.certified.instance_accuracy import InstanceAccuracy
from holdfast.parts.measures.certified.margin_distribution import MarginDistribution
from holdfast.parts.measures.certified.tightness import Tightness
from holdfast.parts.measures.classifiers.few_shot_accuracy import FewShotAccuracy
from holdfast.parts.measures.classifiers.impersonation_rate import ImpersonationRate
from holdfast.parts.measures.classifiers.probe_accuracy import ProbeAccuracy
from holdfast.parts.measures.classifiers.robust_accuracy import RobustAccuracy
from holdfast.parts.measures.corruptions.corruption_drift import CorruptionDrift
from holdfast.parts.measures.corruptions.neighbour_consistency import NeighbourConsistency
from holdfast.parts.measures.drift.cosine_to_self import CosineToSelf
from holdfast.parts.measures.drift.cosine_to_target import CosineToTarget
from holdfast.parts.measures.drift.relative_quantile import RelativeQuantile
from holdfast.parts.measures.drift.universal_quantile import UniversalQuantile
from holdfast.parts.measures.feature_space.alignment import Alignment
from holdfast.parts.measures.feature_space.class_uniformity import ClassUniformity
from holdfast.parts.measures.feature_space.effective_rank import EffectiveRank
from holdfast.parts.measures.feature_space.feature_distance import FeatureDistance
from holdfast.parts.measures.feature_space.uniformity import Uniformity
from holdfast.parts.measures.neighbours.adversarial_margin import AdversarialMargin
from holdfast.parts.measures.neighbours.breakaway_risk import BreakawayRisk
from holdfast.parts.measures.neighbours.nearest_neighbour_accuracy import NearestNeighbourAccuracy
from holdfast.parts.measures.neighbours.overlap_risk import OverlapRisk
from holdfast.parts.measures.probabilistic.adversarial_robustness import AdversarialRobustness
from holdfast.parts.measures.probabilistic.probabilistic_robustness import ProbabilisticRobustness
from holdfast.parts.measures.probabilistic.worst_noise_robustness import WorstNoiseRobustness
from holdfast.parts.measures.shared.disturbed import SIX
from holdfast.parts.measures.smoothed.center_smoothing import CenterSmoothing
from holdfast.parts.measures.smoothed.smoothed_accuracy import SmoothedAccuracy
from holdfast.parts.measures.smoothed.smoothed_probe_accuracy import SmoothedProbeAccuracy
from holdfast.parts.measures.smoothed.smoothed_radius import SmoothedRadius
from holdfast.parts.objectives.cross_entropy import CrossEntropy
from holdfast.parts.probes.knn import Knn
from holdfast.parts.probes.linear import Linear
from holdfast.parts.threats.uniform import Uniform
from holdfast.runtime.errors import unknown


def _all_measures(attack: Attack, risk: Attack, ball: Ball) -> tuple[Measure, ...]:
    """Return every measure, with one attack; the two risks of untargeted attacks with another."""
    return (
        UniversalQuantile(attack, ball),
        CosineToSelf(attack, ball),
        BreakawayRisk(risk, ball),
        NearestNeighbourAccuracy(risk, ball),
        RelativeQuantile(attack, ball),
        CosineToTarget(attack, ball),
        OverlapRisk(attack, ball),
        AdversarialMargin(attack, ball),
    )


def _brackets(attack: Attack, ball: Ball, first: int) -> tuple[Measure, ...]:
    """Return the cheapest certificates, on few images, for the other side of the risks that attacks show.

    Radii are searched as finely as the ball is small: one below the tolerance of its search counts as 0.
    """
    return (
        CertifiedRadius(ball=ball, negatives=5, steps=20, tolerance=min(2e-3, ball.radius / 25), first=first),
        CertifiedBreakawayRisk(ball=ball, attack=attack, first=first),
        CertifiedNearestNeighbourAccuracy(ball=ball, attack=attack, first=first),
    )


def _chances(learner: WorstMixture, attack: Attack, ball: Ball) -> tuple[Measure, ...]:
    """Return AR, NPPR and PR without labels: what the worst point, the worst noise and uniform noise leave standing."""
    return (
        AdversarialRobustness(attack=attack, ball=ball),
        WorstNoiseRobustness(learner=learner, ball=ball),
        ProbabilisticRobustness(noise=Uniform(ball)),
    )


def quick(ball: Ball) -> Profile:
    """A first look, in minutes without a GPU: one attack of 20 steps in each direction."""
    attack = Pgd(20)
    return Profile(
        "a first look: PGD of 20 steps, 64 images attacked in a population of 256; nothing is proved",
        _all_measures(attack, attack, ball),
        images=256,
        attacked=64,
        examined=8,
        queries=200,
    )


def standard(ball: Ball) -> Profile:
    """The default for a decision: parameter-free attacks, and the strongest of three where it matters."""
    attack = Apgd(50)
    strongest = Ensemble((Apgd(50), Pgd(50), Square(200)))
    return Profile(
        "for a decision: APGD of 50 steps, risks by the strongest of three attacks, 500 of 2,000 images attacked, "
        "8 certified",
        (
            *_all_measures(attack, strongest, ball),
            *_brackets(strongest, ball, 8),
            *_chances(WorstMixture(covariance="diagonal", images=250), strongest, ball),
        ),
        images=2000,
        attacked=500,
        examined=32,
        queries=500,
    )


def certify(ball: Ball) -> Profile:
    """Proofs beside attacks: every risk from both sides, and smoothing for what bound propagation cannot reach."""
    attack, alpha = Apgd(50), AlphaCrown()
    return Profile(
        "proofs beside attacks: radii by CROWN, margins and drift by alpha-CROWN, smoothing; 100 of 300 images",
        (
            CertifiedRadius(ball=ball, steps=100, tolerance=min(1e-4, ball.radius / 500)),
            InstanceAccuracy(alpha, ball, attack),
            Tightness(alpha, ball, attack),
            CertifiedBreakawayRisk(alpha, ball, attack, first=50),
            CertifiedNearestNeighbourAccuracy(alpha, ball, attack, first=50),
            CertifiedOverlapRisk(alpha, ball, attack, first=50),
            CertifiedDrift(alpha, ball, attack, first=50),
            SmoothedRadius(),
            SmoothedAccuracy(),
            CenterSmoothing(first=5),
            MarginDistribution(ball=ball),
        ),
        images=300,
        attacked=100,
        examined=8,
        queries=200,
    )


def probabilistic(ball: Ball) -> Profile:
    """How likely a failure is, from the worst point to a given noise, without labels."""
    return Profile(
        "how likely a failure is: attacks, noise learned as bad as it gets, given noises, rare failures; 100 of 600 "
        "images",
        chances(Nearest(), WorstMixture(covariance="diagonal"), ball),
        images=600,
        attacked=100,
        examined=8,
        queries=200,
    )


def corruptions(ball: Ball) -> Profile:
    """What corruptions do to representations, without labels; no ball is read."""
    return Profile(
        "what corruptions do, without labels: drift and neighbours kept under gamma, shuffles and ImageNet-C's 15; "
        "1,000 images",
        (CorruptionDrift(SIX + COMMON), NeighbourConsistency(SIX + COMMON)),
        images=1000,
        attacked=1000,
        examined=8,
        queries=200,
    )


def feature_space(ball: Ball) -> Profile:
    """The shape of the feature space and a kNN probe, as the curves over checkpoints need them; no ball is read."""
    return Profile(
        "the shape of the feature space and a kNN probe, of an encoder or of the checkpoints of a training; needs "
        "labels; 2,000 images",
        (
            Uniformity(),
            ClassUniformity(),
            FeatureDistance(),
            EffectiveRank(),
            Alignment(),
            ProbeAccuracy(Knn()),
        ),
        images=2000,
        attacked=1000,
        examined=8,
        queries=200,
    )


def hardening(ball: Ball) -> Profile:
    """What hardening is judged by: attacks, noise and corruptions, without labels and without proofs."""
    return Profile(
        "before and after hardening: PGD of 20 steps, uniform noise, gamma and shuffles; 200 of 500 images",
        (
            *_all_measures(Pgd(20), Pgd(20), ball),
            AdversarialRobustness(ball=ball),
            ProbabilisticRobustness(noise=Uniform(ball)),
            CorruptionDrift(SIX),
            NeighbourConsistency(SIX),
        ),
        images=500,
        attacked=200,
        examined=8,
        queries=200,
    )


def downstream(ball: Ball) -> Profile:
    """What becomes of classifiers on the representation, beside the label-free numbers that may foretell it."""
    attack, pgd = Apgd(50), Pgd(20)
    return Profile(
        "attacks on classifiers, impersonation in twice the ball, smoothing, beside numbers without labels; needs "
        "labels; 500 of 2,000 images",
        (
            UniversalQuantile(attack, ball),
            BreakawayRisk(attack, ball),
            OverlapRisk(attack, ball),
            Uniformity(),
            ProbeAccuracy(Knn()),
            ProbeAccuracy(Linear()),
            FewShotAccuracy(),
            RobustAccuracy(ball=ball, attacks=(pgd,), objectives=(CrossEntropy(),)),
            RobustAccuracy(ball=ball),
            ImpersonationRate(ball=type(ball)(2 * ball.radius)),  # pyright: ignore[reportCallIssue]
            SmoothedProbeAccuracy(first=50),
        ),
        images=2000,
        attacked=500,
        examined=8,
        queries=200,
    )


PROFILES: dict[str, Callable[[Ball], Profile]] = {
    f.__name__: f
    for f in (
        quick,
        standard,
        certify,
        probabilistic,
        corruptions,
        feature_space,
        hardening,
        downstream,
        rvcl,
        nppr,
        contrastive,
        synbench,
        robust_probing,
        paper,
    )
}


def profile(name: str, ball: Ball = DEFAULT_BALL) -> Profile:
    """Return a profile by name, in another ball than the paper's where one is given.

    Raises:
        HoldfastError: a name that is not known.
    """
    if name not in PROFILES:
        raise unknown("profile", name, PROFILES)
    return PROFILES[name](ball)
