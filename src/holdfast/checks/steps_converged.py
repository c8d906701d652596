"""Had the attack finished, or was the objective still rising?"""

from dataclasses import dataclass

from holdfast.attacks.pgd import Pgd
from holdfast.core import Attack, Ball, Check, Observation, Subject, Verdict
from holdfast.objectives.untargeted import Untargeted
from holdfast.observations.attacked import Attacked
from holdfast.threats.linf import Linf


@dataclass(frozen=True)
class StepsConverged(Check):
    """Warns when the last fifth of the steps still raised the median drift noticeably.

    Attributes:
        attack: the untargeted attack of the measures.
        ball: its ball.
        tolerance: relative rise above which the curve counts as rising.
    """

    attack: Attack = Pgd()
    ball: Ball = Linf()
    tolerance: float = 0.05

    def observations(self) -> tuple[Observation, ...]:
        """The trajectory that measures read anyway."""
        return (self._attacked,)

    @property
    def _attacked(self) -> Attacked:
        return Attacked(self.attack, self.ball, Untargeted())

    def judge(self, subject: Subject) -> Verdict:
        """Compare the drift at the end with that at four fifths of the steps."""
        curve = subject.read(self._attacked)["values"].double().median(0).values[: self.attack.steps + 1]
        steps = len(curve) - 1
        then, end = float(curve[steps * 4 // 5]), float(curve[-1])
        rise = end / then - 1 if then > 0 else 0.0
        finding = f"the last {steps - steps * 4 // 5} of {steps} steps raised the median drift by {100 * rise:.1f} %"
        if rise > self.tolerance:
            meaning = "The attack had not finished: the encoder is less robust than the numbers say. Use more steps."
            return Verdict("warn", finding, meaning, {"rise": rise})
        return Verdict("pass", finding, "More steps of the same attack would change little.", {"rise": rise})
