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
        warn: share of images that the gradient-free attack moves at least 5 % farther, above which the panel warns.
        fail: median gain of the gradient-free attack above which it fails.
    """

    attack: Attack = Pgd()
    free: Attack = Square()
    ball: Ball = Linf()
    examined: int = 16
    warn: float = 0.15
    fail: float = 0.1

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
        free = subject.read(self._free)["values"][:, self.free.steps].double()
        ratio = free / gradient.clamp_min(1e-30)
        won, gain = float((ratio > 1.05).double().mean()), float(ratio.median()) - 1
        details = {"won": won, "gain": gain}
        finding = f"without gradients an attack gets at least 5 % farther on {100 * won:.0f} % of {len(free)} images"
        if gain > self.fail:
            meaning = "Gradients are masked, or the attack is far from finished: its numbers hide how fragile it is."
            return Verdict("fail", f"{finding}, {100 * gain:.0f} % in the median", meaning, details)
        if won > self.warn:
            meaning = "The gradient attack misses some worst cases (masking, or local optima); trust the ensemble more."
            return Verdict("warn", finding, meaning, details)
        return Verdict("pass", finding, "No sign of masked gradients.", details)
