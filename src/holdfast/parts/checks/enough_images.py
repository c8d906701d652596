"""Are there enough images for the intervals to say anything?"""

from dataclasses import dataclass

from holdfast.core import Check, Observation, Subject, Verdict
from holdfast.numerics.geometry.invariance import EVERY


@dataclass(frozen=True)
class EnoughImages(Check):
    """Warns when few images were attacked, or when the population is too small to break away into.

    Attributes:
        attacked: number below which intervals are wide.
        population: number below which nearest neighbours are far apart, and risks look small.
    """

    doubt = "few images"
    consequence = "no winner"
    invariant = EVERY

    attacked: int = 50
    population: int = 200

    place = 17

    def observations(self) -> tuple[Observation, ...]:
        """None: it counts."""
        return ()

    def judge(self, subject: Subject) -> Verdict:
        """Count images."""
        attacked, population = subject.attacked, subject.population
        finding = f"{attacked} images attacked in a population of {population}"
        # Few attacked images concern every number, a small population those about neighbours
        if attacked < self.attacked:
            meaning = "The intervals are wide, and bootstrap intervals from so few images are too narrow."
            return Verdict("warn", finding, meaning)
        if population < self.population:
            meaning = "In a small population neighbours are far apart, so neighbour measures look too good."
            return Verdict("warn", finding, meaning)
        return Verdict("pass", finding, "The sample is large enough for the intervals to hold.")
