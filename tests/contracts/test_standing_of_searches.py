"""What a search that was outdone says of others: of all that follow gradients in the same norm."""

import pytest

from holdfast.core import Check, Search
from holdfast.parts.attacks.apgd import Apgd
from holdfast.parts.attacks.ensemble import Ensemble
from holdfast.parts.attacks.minimum_norm import MinimumNorm
from holdfast.parts.attacks.pgd import Pgd
from holdfast.parts.attacks.square import Square
from holdfast.parts.checks.masking import Masking
from holdfast.parts.checks.smaller_change import SmallerChange
from holdfast.parts.checks.steps_converged import StepsConverged
from holdfast.parts.checks.stronger_attack import StrongerAttack
from holdfast.parts.failures.nearest import Nearest
from holdfast.parts.objectives.untargeted import Untargeted
from holdfast.parts.threats.l2 import L2
from holdfast.parts.threats.linf import Linf

DRIFT, NEAREST = Untargeted(), Nearest()
OWN = Search(Apgd(20), Linf(0.1), DRIFT)
OTHERS = {
    "smallest": Search(MinimumNorm(100), Linf(0.03), NEAREST, smallest=True),
    "other radius": Search(Pgd(10), Linf(0.2), DRIFT),
    "longer": Search(Pgd(500), Linf(0.1), DRIFT),
    "other norm": Search(Apgd(20), L2(1.0), DRIFT),
    "square": Search(Square(100), Linf(0.1), DRIFT),
    "ensemble": Search(Ensemble((Apgd(20), Square(100))), Linf(0.1), DRIFT),
}
ALONG = {"smallest", "other radius", "longer"}


@pytest.mark.parametrize(
    ("check", "bounded"),
    [
        (Masking(OWN.attack, OWN.ball, OWN.objective), ALONG),
        (SmallerChange(Linf(0.03), NEAREST), ALONG),
        (StrongerAttack(OWN.attack, OWN.ball, OWN.objective), {"other radius"}),
        (StepsConverged(OWN.attack, OWN.ball, OWN.objective), set()),
    ],
    ids=lambda value: type(value).__name__,
)
def test_which_numbers_become_bounds(check: Check, bounded: set[str]) -> None:
    assert {name for name, search in OTHERS.items() if check.concerns([search])} == bounded
    assert check.concerns([OWN])
    assert not check.concerns([])
