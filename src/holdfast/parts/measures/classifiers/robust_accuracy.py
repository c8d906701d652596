"""Robust accuracy: how often a linear classifier on the representation is right under an ensemble of attacks."""

from dataclasses import dataclass

from jaxtyping import Float
from torch import Tensor

from holdfast.core import Attack, Ball, LinearProbe, Measure, Objective, Observation, Search, Subject, Table
from holdfast.numerics.statistics.statistic import Share, Statistic
from holdfast.parts.attacks.apgd import Apgd
from holdfast.parts.attacks.minimum_norm import MinimumNorm
from holdfast.parts.attacks.square import Square
from holdfast.parts.objectives.class_margin import ClassMargin
from holdfast.parts.objectives.cross_entropy import CrossEntropy
from holdfast.parts.objectives.dlr import Dlr
from holdfast.parts.observations.clean import Clean
from holdfast.parts.observations.fooled import WRONG, Fooled
from holdfast.parts.probes.linear import Linear
from holdfast.parts.threats.linf import Linf
from holdfast.runtime.checked import Count

CLEAN = "no attack"
"""The score before any attack."""


@dataclass(frozen=True)
class RobustAccuracy(Measure):
    """E_x 1[h(f(x')) = y(x) for every x' of the ball that the attacks looked at]; h a linear head, a tie is wrong.

    An upper bound of the accuracy under the strongest adversary, who knows the encoder and the head. With
    `attacks=(Pgd(20),), objectives=(CrossEntropy(),)` it is the usual PGD accuracy, which the ensemble never exceeds by
    more than chance.

    Table, one row per image: `right`, 1 or 0; `broken_by`, the first member that fooled the head, -1 for none and -2
    for an image that it gets wrong without attack.

    Attributes:
        probe: how the head comes about; trained on images that are not attacked.
        ball: where x' may be, in pixels of a [0, 1] image.
        attacks: members of the ensemble, one after the other.
        objectives: what each member maximises, a function of the logits.
        first: attack only the first images; None: all that the audit attacks.
    """

    probe: LinearProbe = Linear()
    ball: Ball = Linf(0.05)
    attacks: tuple[Attack, ...] = (Apgd(100), Apgd(100), MinimumNorm(100), Square(1000))
    objectives: tuple[Objective, ...] = (CrossEntropy(), Dlr(), ClassMargin(), ClassMargin())
    first: Count | None = None

    reads_labels = True
    better = "higher"
    in_brief = True
    unit = "share"
    question = "How accurate is a linear classifier on the representation when its images are attacked?"
    how_to_read = (
        "The share of images that are classified correctly and that no attack of the ensemble could change; the shares "
        "after each attack alone stand beside it. A certificate says how much lower a stronger attack could bring it."
    )
    reference = "AutoAttack, Croce & Hein (2020a), on a linear probe as in Wang & Liu (2023), section 6 (robust test)"

    def __post_init__(self) -> None:
        self.attack_outcome.key()  # refuses attacks and objectives that do not go together

    @property
    def attack_outcome(self) -> Fooled:
        """What the attacks did."""
        return Fooled(self.attacks, self.objectives, self.ball, self.probe, first=self.first)

    @property
    def column(self) -> str:
        """Whether each image stayed right."""
        return "right"

    def observations(self) -> tuple[Observation, ...]:
        """Clean representations and the attacks."""
        return Clean(), self.attack_outcome

    def relies_on(self, score: str) -> tuple[Search, ...]:
        """Return the searches; without an attack there is none."""
        return () if score == CLEAN else super().relies_on(score)

    def observe(self, subject: Subject) -> Table:
        """Return which attack turned every image."""
        broken_by = subject.read(self.attack_outcome)["broken_by"]
        return {"right": (broken_by == -1).double(), "broken_by": broken_by}

    def reduce(self, table: Table) -> dict[str, Statistic]:
        """Return the accuracy without an attack, after each member and those before it, and after all."""
        # Every other image was right without an attack, whatever fooled the head later
        clean = {CLEAN: self._share((table["broken_by"] != WRONG).double())}
        return clean | {name: self._share(_right(table, members)) for name, members in self._members_after.items()}

    @property
    def _members_after(self) -> dict[str, int]:
        """Name of each score under attack -> how many members it is after."""
        names = self.attack_outcome.members
        members = {}
        for number, name in enumerate(names, 1):
            # A member may occur twice; the last one of several is the headline
            once = f"after {name}" if name not in names[: number - 1] else f"after {name} ({number})"
            members["after all" if number == len(names) > 1 else once] = number
        return members

    def _share(self, right: Float[Tensor, "images"]) -> Statistic:
        return Share(right, condition="given the head")


def _right(table: Table, members: int) -> Float[Tensor, "images"]:
    """Return, for every image, 1 where the first members of the ensemble have not turned it, else 0."""
    broken_by = table["broken_by"]
    # Never fooled, or fooled by a later member only; wrong without attack is -2, and neither
    return ((broken_by == -1) | (broken_by >= members)).double()
