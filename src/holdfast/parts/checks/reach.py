"""Can the attack's steps cross its ball?"""

from dataclasses import dataclass

from holdfast.core import Observation, Subject, Verdict
from holdfast.parts.checks.shared.search import SearchCheck


@dataclass(frozen=True)
class Reach(SearchCheck):
    """Fails where all steps of a search together are shorter than the way across its ball, see `Attack.reach`."""

    doubt = "steps too short"
    place = 20

    def observations(self) -> tuple[Observation, ...]:
        """None: it is known from the plan."""
        return ()

    def judge(self, subject: Subject) -> Verdict:
        """Compare the length of all steps with the way across."""
        reach = self.attack.reach(self.ball)
        if not self.attack.crosses(self.ball):
            meaning = "The attack cannot reach all of its ball: numbers that rely on it are one-sided bounds."
            finding = f"all its steps together cover {100 * reach:.3g} % of the ball of radius {self.ball.radius:g}"
            return Verdict("fail", finding, meaning, {"reach": reach})
        return Verdict("pass", "its steps can cross its whole ball", "The attack can reach every point of the ball.")
