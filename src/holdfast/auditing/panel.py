"""The validity panel: the checks that belong to some measures, each search that these rely on examined once."""

from collections.abc import Iterable

from holdfast.auditing.plan import unread
from holdfast.core import Attack, Ball, Check, Failure, Measure, Search, registry
from holdfast.parts.attacks.apgd import Apgd
from holdfast.parts.attacks.ensemble import Ensemble
from holdfast.parts.attacks.pgd import Pgd
from holdfast.parts.attacks.square import Square
from holdfast.parts.checks.batch_independence import BatchIndependence
from holdfast.parts.checks.collapse import Collapse
from holdfast.parts.checks.dimension_collapse import DimensionCollapse
from holdfast.parts.checks.enough_images import EnoughImages
from holdfast.parts.checks.frozen import Frozen
from holdfast.parts.checks.gradient_health import GradientHealth
from holdfast.parts.checks.input_range import InputRange
from holdfast.parts.checks.large_radius import LargeRadius
from holdfast.parts.checks.masking import Masking
from holdfast.parts.checks.noise_order import NoiseOrder, ball_of
from holdfast.parts.checks.precision import Precision
from holdfast.parts.checks.preprocessing import Preprocessing
from holdfast.parts.checks.radius_order import RadiusOrder
from holdfast.parts.checks.reach import Reach
from holdfast.parts.checks.shared.search import SearchCheck
from holdfast.parts.checks.steps_converged import StepsConverged
from holdfast.parts.checks.stronger_attack import StrongerAttack
from holdfast.parts.checks.trained import Trained
from holdfast.parts.checks.unexamined_search import UnexaminedSearch
from holdfast.parts.measures.certified.certified_radius import CertifiedRadius
from holdfast.parts.measures.certified.linear_radius import LinearRadius
from holdfast.parts.measures.shared.chance import ChanceMeasure
from holdfast.parts.threats.linf import Linf

DEFAULT_BALL = Linf(0.05)
"""The ball of the paper's risks."""


def validity_panel(
    measures: Iterable[Measure], examined: int, queries: int, precision: str = "float32"
) -> tuple[Check, ...]:
    """Return the checks that belong to some measures.

    Where no measure reads the audit's images, what could be wrong with these is not examined.

    Args:
        measures: the questions of the audit.
        examined: images on which the checks that cost passes are made.
        queries: budget of the gradient-free attack.
        precision: of searches.
    """
    measures = tuple(measures)
    if unread(measures):
        return Preprocessing(), Frozen(), BatchIndependence(), Trained()
    searches = searches_of(measures)
    return (
        InputRange(),
        Preprocessing(),
        Frozen(),
        BatchIndependence(),
        Collapse(),
        DimensionCollapse(),
        Trained(),
        EnoughImages(),
        *((GradientHealth(), LargeRadius(examined=examined)) if searches else ()),
        *(check for search in searches for check in _of_search(search, searches, examined, queries)),
        *_unexamined(measures),
        *((_of_precision(searches, examined),) if precision != "float32" else ()),
        *_radius_order(measures),
        *_noise_orders(measures),
    )


def searches_of(measures: Iterable[Measure]) -> tuple[Search, ...]:
    """Return the searches that any score of some measures may rely on, each once."""
    return tuple(dict.fromkeys(search for measure in measures for search in measure.searches))


def _of_search(search: Search, searches: tuple[Search, ...], examined: int, queries: int) -> tuple[Check, ...]:
    """Return the checks of one search: whether it crosses its ball, had finished, and is beaten by costlier ones.

    Searches for one thing in one ball are compared with the same costlier one, which is run once.
    """
    members = _members(search)
    alike = [one for one in searches if (one.ball, one.objective) == (search.ball, search.objective)]
    most = max(_steps(member) for one in alike for member in _members(one))

    def check(kind: type[SearchCheck], **fields: Attack) -> SearchCheck:
        return kind(search.attack, search.ball, search.objective, examined, **fields)  # pyright: ignore[reportCallIssue]

    return (
        check(Reach),
        *((check(StepsConverged),) if len(members) == 1 and search.attack.steps > 1 else ()),
        check(StrongerAttack, stronger=Apgd(2 * most, restarts=2)),
        *(() if any(isinstance(member, Square) for member in members) else (check(Masking, free=Square(queries)),)),
    )


def _members(search: Search) -> tuple[Attack, ...]:
    return search.attack.members if isinstance(search.attack, Ensemble) else (search.attack,)


def _steps(attack: Attack) -> int:
    """Return how many gradient steps an attack makes, at least ten."""
    return max(10, attack.passes.backward)


def _of_precision(searches: tuple[Search, ...], examined: int) -> Precision:
    """Return the check of reduced precision, on the first search along gradients where there is one."""
    gradient = (search for search in searches if search.attack.passes.backward and search.attack.steps > 1)
    first = next(gradient, None)
    attack, ball = (first.attack, first.ball) if first else (Pgd() if searches else None, DEFAULT_BALL)
    return Precision(attack, ball, examined)


def _unexamined(measures: tuple[Measure, ...]) -> tuple[UnexaminedSearch, ...]:
    """Return a check where measures search without saying how."""
    silent = tuple(
        registry.part_name(measure)
        for measure in measures
        for seen in measure.observations()
        if seen.passes.backward and not (seen.searches or seen.scope.at_once or seen.scope.training)
    )
    return (UnexaminedSearch(tuple(dict.fromkeys(silent))),) if silent else ()


def _radius_order(measures: tuple[Measure, ...]) -> tuple[RadiusOrder, ...]:
    """Return the order of radii where both kinds are measured."""
    pairs = [measure for measure in measures if isinstance(measure, CertifiedRadius)]
    classes = [measure for measure in measures if isinstance(measure, LinearRadius)]
    return (RadiusOrder(pairs[0], classes[0]),) if pairs and classes else ()


def _noise_orders(measures: Iterable[Measure]) -> tuple[NoiseOrder, ...]:
    """Return a check for the measures of each failure in one ball, where there is more than one."""
    groups: dict[tuple[Failure, Ball, str], list[ChanceMeasure]] = {}
    for measure in measures:
        if isinstance(measure, ChanceMeasure) and (ball := ball_of(measure)) is not None:
            groups.setdefault((measure.failure, ball, measure.among), []).append(measure)
    return tuple(NoiseOrder(where[0], where[1], tuple(group)) for where, group in groups.items() if len(group) > 1)
