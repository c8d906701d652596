"""Do numbers rely on a search that nothing examines?"""

from dataclasses import dataclass

from holdfast.core import Check, Examination, Observation, Subject, Verdict
from holdfast.core.registry import part_name
from holdfast.numerics.geometry.invariance import EVERY


@dataclass(frozen=True)
class UnexaminedSearch(Check):
    """Warns where measures follow gradients without saying which attack, ball and objective they rely on.

    Attributes:
        measures: their names.
    """

    doubt = "an attack that nothing examines"
    invariant = EVERY

    measures: tuple[str, ...] = ()

    place = 30

    @classmethod
    def checks_for(cls, audit: Examination) -> tuple[Check, ...]:
        """Measures that follow gradients on images of the population and do not say how they search."""
        silent = dict.fromkeys(
            part_name(measure) for measure in audit.measures if any(map(_silent, measure.observations()))
        )
        return (cls(tuple(silent)),) if silent and audit.reads_images else ()

    def observations(self) -> tuple[Observation, ...]:
        """None: it is known from the plan."""
        return ()

    def judge(self, subject: Subject) -> Verdict:
        """Name them."""
        names = ", ".join(self.measures)
        if names:
            meaning = "Nobody knows whether that search was strong enough; let the observation declare its `searches`."
            return Verdict("warn", f"{names}: the search behind it is not examined", meaning)
        return Verdict("pass", "every search is examined", "Every search behind a number is examined by a check.")


def _silent(observation: Observation) -> bool:
    """Whether it follows gradients of the audited encoder on the population without naming its searches."""
    # Training images and surrogates are no subject of the checks of searches
    of_population = not (observation.scope.at_once or observation.scope.training or observation.surrogate)
    return of_population and observation.passes.backward > 0 and not observation.searches
