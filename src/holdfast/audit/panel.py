"""The validity panel: which checks belong to some measures."""

from collections import Counter
from collections.abc import Iterable

from holdfast.attacks.apgd import Apgd
from holdfast.attacks.ensemble import Ensemble
from holdfast.attacks.pgd import Pgd
from holdfast.attacks.square import Square
from holdfast.audit.plan import unread
from holdfast.checks.batch_independence import BatchIndependence
from holdfast.checks.collapse import Collapse
from holdfast.checks.dimension_collapse import DimensionCollapse
from holdfast.checks.enough_images import EnoughImages
from holdfast.checks.frozen import Frozen
from holdfast.checks.gradient_health import GradientHealth
from holdfast.checks.input_range import InputRange
from holdfast.checks.large_radius import LargeRadius
from holdfast.checks.masking import Masking
from holdfast.checks.noise_order import NoiseOrder, ball_of
from holdfast.checks.precision import Precision
from holdfast.checks.preprocessing import Preprocessing
from holdfast.checks.radius_order import RadiusOrder
from holdfast.checks.steps_converged import StepsConverged
from holdfast.checks.stronger_attack import StrongerAttack
from holdfast.core import Attack, Ball, Check, Failure, Measure
from holdfast.measures._attack_measure import AttackMeasure
from holdfast.measures._chance import ChanceMeasure
from holdfast.measures._population import AgainstPopulation
from holdfast.measures.adversarial_robustness import AdversarialRobustness
from holdfast.measures.certified_drift import CertifiedDrift
from holdfast.measures.certified_radius import CertifiedRadius
from holdfast.measures.instance_accuracy import InstanceAccuracy
from holdfast.measures.linear_radius import LinearRadius
from holdfast.threats.linf import Linf

DEFAULT_BALL = Linf(0.05)
"""The ball of the paper's risks."""


def validity_panel(
    measures: Iterable[Measure], examined: int, queries: int, precision: str = "float32"
) -> tuple[Check, ...]:
    """Return the checks that belong to some measures: where these attack, they judge the attack that is relied on.

    Where no measure reads the audit's images, what could be wrong with these is not examined.

    Args:
        measures: the questions of the audit.
        examined: images on which the checks that cost passes are made.
        queries: budget of the gradient-free attack.
        precision: of searches.
    """
    measures = tuple(measures)
    if unread(measures):
        return Preprocessing(), Frozen(), BatchIndependence()
    pairs = [measure for measure in measures if isinstance(measure, CertifiedRadius)]
    classes = [measure for measure in measures if isinstance(measure, LinearRadius)]
    order = (RadiusOrder(pairs[0], classes[0]),) if pairs and classes else ()
    attacks = any(seen.passes.backward for measure in measures for seen in measure.observations())
    return (
        InputRange(),
        Preprocessing(),
        Frozen(),
        BatchIndependence(),
        Collapse(),
        DimensionCollapse(),
        EnoughImages(),
        *(_of_attacks(measures, examined, queries) if attacks else ()),
        *((_of_precision(measures, examined),) if precision != "float32" else ()),
        *order,
        *_orders(measures),
    )


def _of_attacks(measures: tuple[Measure, ...], examined: int, queries: int) -> tuple[Check, ...]:
    attack, ball = _relied_on(measures)
    return (
        GradientHealth(),
        StepsConverged(attack, ball),
        StrongerAttack(attack, Apgd(2 * attack.steps, restarts=2), ball, examined),
        Masking(attack, Square(queries), ball, examined),
        LargeRadius(examined=examined),
    )


def _of_precision(measures: tuple[Measure, ...], examined: int) -> Precision:
    """Return the check of reduced precision, on the attack that is relied on where a measure attacks."""
    searches = any(seen.remade for measure in measures for seen in measure.observations())
    attack, ball = _relied_on(measures)
    return Precision(attack if searches else None, ball, examined)


def _orders(measures: Iterable[Measure]) -> tuple[NoiseOrder, ...]:
    """Return a check for the measures of each failure in one ball, where there is more than one."""
    groups: dict[tuple[Failure, Ball, str], list[ChanceMeasure]] = {}
    for measure in measures:
        if isinstance(measure, ChanceMeasure) and (ball := ball_of(measure)) is not None:
            groups.setdefault((measure.failure, ball, measure.among), []).append(measure)
    return tuple(NoiseOrder(where[0], where[1], tuple(group)) for where, group in groups.items() if len(group) > 1)


def _relied_on(measures: Iterable[Measure]) -> tuple[Attack, Ball]:
    """Return the gradient attack that most of the measures use (first among equals), and its ball."""
    uses: Counter[tuple[Attack, Ball]] = Counter()
    for measure in measures:
        if isinstance(measure, (AttackMeasure, AgainstPopulation, CertifiedDrift, InstanceAccuracy)):
            members = measure.attack.members if isinstance(measure.attack, Ensemble) else (measure.attack,)
            gradient = [member for member in members if member.passes.backward]
            uses.update([((gradient or members)[0], measure.ball)])
    if uses:
        return uses.most_common(1)[0][0]
    others = (m for m in measures if isinstance(m, AdversarialRobustness) and m.attack.passes.backward)
    first = next(others, None)  # no measure pursues drift; this is the attack that the others stand by
    return (first.attack, first.ball) if first else (Pgd(), DEFAULT_BALL)
