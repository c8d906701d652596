"""Does a very large perturbation break the encoder, as it must?"""

from collections.abc import Collection
from dataclasses import dataclass

import torch

from holdfast.core import Attack, Ball, Check, Examination, Observation, Search, Subject, Verdict
from holdfast.numerics.geometry import pairwise
from holdfast.numerics.geometry.invariance import EVERY
from holdfast.parts.attacks.pgd import Pgd
from holdfast.parts.attacks.square import Square
from holdfast.parts.divergences.l2 import L2
from holdfast.parts.objectives.untargeted import Untargeted
from holdfast.parts.observations.attacked import Attacked
from holdfast.parts.observations.clean import Clean
from holdfast.parts.threats.linf import Linf


@dataclass(frozen=True)
class LargeRadius(Check):
    """With ε = 0.5 every image can be turned into uniform grey, so hardly any can stay nearest to itself.

    Attributes:
        attack: the attack.
        ball: a ball in which any image loses its content.
        examined: images that are attacked.
        warn: share of images still found above which the panel warns.
        fail: share above which it fails.
    """

    doubt = "even a huge change breaks little"
    invariant = EVERY

    attack: Attack = Pgd(20)
    ball: Ball = Linf(0.5)
    examined: int = 16
    warn: float = 0.1
    fail: float = 0.5

    consequence = "one side"
    place = 19

    def concerns(self, searches: Collection[Search]) -> bool:
        """Return whether anything was searched."""
        return bool(searches)

    @classmethod
    def checks_for(cls, audit: Examination) -> tuple[Check, ...]:
        """Audits that search."""
        # Where nothing follows gradients, the encoder may have none
        follows = any(member.passes.backward for search in audit.searches for member in search.attack.members)
        attack = Pgd(20) if follows else Square(100)
        return (cls(attack, examined=audit.images),) if audit.searches else ()

    def observations(self) -> tuple[Observation, ...]:
        """Clean representations, and the attack on a few images."""
        return Clean(), self._trajectory

    @property
    def _trajectory(self) -> Attacked:
        return Attacked(self.attack, self.ball, Untargeted(), first=self.examined)

    def judge(self, subject: Subject) -> Verdict:
        """Count the images whose nearest clean neighbour is still themselves."""
        reps = subject.read(self._trajectory)[f"reps@{self.attack.steps}"]
        # How many other clean images are nearer to f(x') than its own; 0: it is still found
        nearer, _ = pairwise.closer(reps, Clean.of(subject), torch.arange(len(reps)), L2())
        intact = float((nearer == 0).double().mean())
        finding = (
            f"at ε = {self.ball.radius:g}, {100 * intact:.0f} % of {len(reps)} images are still nearest to themselves"
        )
        if intact > self.fail:
            meaning = "No encoder is this robust: the attack does not work here, or the encoder is constant."
            return Verdict("fail", finding, meaning, {"found": intact})
        if intact > self.warn:
            meaning = "The attack may be too weak for this encoder; look at the other checks."
            return Verdict("warn", finding, meaning, {"found": intact})
        return Verdict("pass", finding, "A large perturbation breaks the encoder, as it should.", {"found": intact})
