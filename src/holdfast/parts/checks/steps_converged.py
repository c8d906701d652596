"""Had the attack finished, or was the objective still rising?"""

from dataclasses import dataclass

from holdfast.core import Check, Examination, Observation, Search, Subject, Verdict
from holdfast.parts.checks.shared.search import SearchCheck, rise, runs
from holdfast.parts.observations.clean import Clean


@dataclass(frozen=True)
class StepsConverged(SearchCheck):
    """Warns when the last fifth of the steps still raised the median objective noticeably.

    Attributes:
        tolerance: relative rise above which the curve counts as rising.
    """

    tolerance: float = 0.05

    doubt = "attack stopped early"
    place = 21

    @classmethod
    def checks_of(cls, search: Search, audit: Examination) -> tuple[Check, ...]:
        """Searches by one attack that makes several steps."""
        several = search.attack.steps > 1 and len(search.attack.members) == 1
        return super().checks_of(search, audit) if several else ()

    def observations(self) -> tuple[Observation, ...]:
        """The trajectory that measures read anyway."""
        return Clean(), *runs(self.search, self.examined)

    def judge(self, subject: Subject) -> Verdict:
        """Compare the objective at the end with that at four fifths of the steps."""
        curve = rise(subject, self.search, self.examined).median(0).values
        if subject.encoder.draws is not None:
            curve = curve[:-1]  # its end is judged by other draws than the search saw
        steps = len(curve) - 1
        # Of the median curve: single images may still rise where the whole has settled
        then, end = float(curve[steps * 4 // 5]), float(curve[-1])
        gain = end / then - 1 if then > 0 else 0.0
        finding = f"the last {steps - steps * 4 // 5} of {steps} steps brought it {100 * gain:.1f} % farther (median)"
        if gain > self.tolerance:
            meaning = "The attack had not converged: the encoder is less robust than the numbers say. Use more steps."
            return Verdict("warn", finding, meaning, {"rise": gain})
        return Verdict("pass", finding, "More steps of this attack would change little.", {"rise": gain})
