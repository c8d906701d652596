"""Does an attack without gradients find more than the gradient attack?"""

from dataclasses import dataclass

from holdfast.attacks.pgd import Pgd
from holdfast.attacks.square import Square
from holdfast.core import Attack, Ball, Check, Observation, Subject, Verdict
from holdfast.objectives.untargeted import Untargeted
from holdfast.observations.attacked import Attacked
from holdfast.threats.linf import Linf


@dataclass(frozen=True)
class Masking(Check):
    """Compares the gradient attack with a gradient-free one; losing to it means that the gradients mislead.

    Attributes:
        attack: the untargeted gradient attack of the measures.
        free: the gradient-free attack.
        ball: the ball of both.
        examined: images on which they are compared.
        warn: share of images won by the gradient-free attack (by more than 1 %) above which the panel warns.
        fail: share above which it fails.
    """

    attack: Attack = Pgd()
    free: Attack = Square()
    ball: Ball = Linf()
    examined: int = 16
    warn: float = 0.05
    fail: float = 0.25

    def observations(self) -> tuple[Observation, ...]:
        """The measures' trajectory, and the gradient-free one on a few images."""
        return self._gradient, self._free

    @property
    def _gradient(self) -> Attacked:
        return Attacked(self.attack, self.ball, Untargeted(), first=self.examined)

    @property
    def _free(self) -> Attacked:
        return Attacked(self.free, self.ball, Untargeted(), first=self.examined)

    def judge(self, subject: Subject) -> Verdict:
        """Count the images on which the gradient-free attack moves the representation farther."""
        gradient = subject.read(self._gradient)["values"][:, self.attack.steps].double()
        free = subject.read(self._free)["values"][:, -1].double()
        won = float((free > 1.01 * gradient).double().mean())
        finding = f"without gradients an attack gets farther on {won:.0%} of {len(free)} images"
        if won > self.fail:
            meaning = "Gradients are masked: the gradient attack's numbers do not show how fragile the encoder is."
            return Verdict("fail", finding, meaning, {"won": won})
        if won > self.warn:
            meaning = "Gradients mislead for some images; prefer the ensemble, which includes both attacks."
            return Verdict("warn", finding, meaning, {"won": won})
        return Verdict("pass", finding, "No sign of masked gradients.", {"won": won})
