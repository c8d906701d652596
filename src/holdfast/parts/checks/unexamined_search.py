"""Do numbers rely on a search that nothing examines?"""

from dataclasses import dataclass

from holdfast.core import Check, Observation, Subject, Verdict


@dataclass(frozen=True)
class UnexaminedSearch(Check):
    """Warns where measures follow gradients without saying which attack, ball and objective they rely on.

    Attributes:
        measures: their names.
    """

    measures: tuple[str, ...] = ()

    def observations(self) -> tuple[Observation, ...]:
        """None: it is known from the plan."""
        return ()

    def judge(self, subject: Subject) -> Verdict:
        """Name them."""
        names = ", ".join(self.measures)
        if names:
            meaning = "Nothing tells whether that search was strong enough; let the observation say its `searches`."
            return Verdict("warn", f"{names}: the search behind it is not examined", meaning)
        return Verdict("pass", "every search is examined", "No number rests on a search that nobody looked at.")
