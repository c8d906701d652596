"""Would more steps and restarts change the answer?"""

from dataclasses import dataclass

from holdfast.attacks.apgd import Apgd
from holdfast.attacks.pgd import Pgd
from holdfast.core import Attack, Ball, Check, Observation, Subject, Verdict
from holdfast.objectives.untargeted import Untargeted
from holdfast.observations.attacked import Attacked
from holdfast.threats.linf import Linf


@dataclass(frozen=True)
class StrongerAttack(Check):
    """Compares the drift with that of a costlier attack on the same first images.

    Attributes:
        attack: the untargeted attack of the measures.
        stronger: the costlier one.
        ball: the ball of both.
        examined: images on which they are compared.
        tolerance: relative gain in median drift above which the panel warns; four times that fails.
    """

    attack: Attack = Pgd()
    stronger: Attack = Apgd(100, restarts=2)
    ball: Ball = Linf()
    examined: int = 16
    tolerance: float = 0.1

    def observations(self) -> tuple[Observation, ...]:
        """The measures' trajectory, and the stronger one on a few images."""
        return self._usual, self._stronger

    @property
    def _usual(self) -> Attacked:
        return Attacked(self.attack, self.ball, Untargeted(), first=self.examined)

    @property
    def _stronger(self) -> Attacked:
        return Attacked(self.stronger, self.ball, Untargeted(), first=self.examined)

    def judge(self, subject: Subject) -> Verdict:
        """Compare the final drift of both, image by image."""
        usual = subject.read(self._usual)["values"][:, self.attack.steps].double()
        stronger = subject.read(self._stronger)["values"][:, self.stronger.steps].double()
        gain = float((stronger / usual.clamp_min(1e-30)).median()) - 1 if float(stronger.max()) > 0 else 0.0
        finding = f"a costlier attack moves {len(usual)} images {100 * gain:+.1f} % (median)"
        if gain > 4 * self.tolerance:
            meaning = "The attack is far from the worst case: treat every number as optimistic and use a stronger one."
            return Verdict("fail", finding, meaning, {"gain": gain})
        if gain > self.tolerance:
            meaning = "The attack is not yet the worst case: use more steps, restarts or the ensemble."
            return Verdict("warn", finding, meaning, {"gain": gain})
        return Verdict("pass", finding, "More steps and restarts hardly change the answer.", {"gain": gain})
