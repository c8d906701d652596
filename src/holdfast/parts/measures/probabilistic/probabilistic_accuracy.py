"""Probabilistic accuracy: how many images provably fail more rarely than γ under a noise."""

from dataclasses import dataclass

from holdfast.core import Observation, Subject, Table, Threat
from holdfast.core.registry import part_name
from holdfast.numerics.statistics.statistic import Share, Statistic
from holdfast.parts.estimators.sequential import Sequential
from holdfast.parts.measures.shared.chance import ChanceMeasure, outcomes
from holdfast.parts.observations.clean import Clean
from holdfast.parts.observations.sampled import Sampled
from holdfast.parts.threats.uniform import Uniform
from holdfast.runtime.errors import BadValue


@dataclass(frozen=True)
class ProbabilisticAccuracy(ChanceMeasure):
    """Prob.Acc(γ) = P_x[ P_{x' ~ noise(x)}[x' fails] <= γ ]: the share of images for which the draws prove it.

    An image's draws end when the answer is proved, or at the estimator's `most`; then it is undecided, and does not
    count as proved.

    Table, one row per image: `held`, 1 where P[failure] <= γ is proved; `frequent`, 1 where P[failure] >= γ is;
    `undecided`; `failed` and `drawn`, up to the answer; `wrong`, 1 where the image fails without a disturbance.

    Attributes:
        noise: any threat that draws.
        estimator: γ, the confidence of each image's answer, and the most draws that it may take.
    """

    among: str = "all"
    noise: Threat = Uniform()
    estimator: Sequential = Sequential()

    question = "For what share of images is it proved that this noise makes them fail less often than γ?"
    how_to_read = (
        "Each image is decided at its own confidence with as few draws as that takes; undecided images are counted "
        "separately. 100 % means that every image is proved to fail less often than γ."
    )
    reference = "Robey et al. (2022) for Prob.Acc; Waudby-Smith & Ramdas (2024) for the sequential bound"

    def __post_init__(self) -> None:
        super().__post_init__()
        if not isinstance(self.estimator, Sequential):
            raise BadValue(
                f"probabilistic_accuracy: expected the estimator sequential, got {part_name(self.estimator)}"
            )

    @property
    def draws(self) -> Sampled:
        """The draws that it reads."""
        return Sampled(self.noise, ((self.failure, self.estimator),), first=self.first)

    def observations(self) -> tuple[Observation, ...]:
        """Clean representations and draws."""
        return Clean(), self.draws

    def observe(self, subject: Subject) -> Table:
        """Return every image's answer."""
        outcome, wrong = outcomes(subject, self.draws, self.failure)
        # Up to this question's own answer: the stream may go on for others
        failed, drawn = self.estimator.count_until_stop(outcome)
        # Both bounds hold at every number of draws, so stopping at an answer costs no confidence
        rare, frequent = self.estimator.rare(failed, drawn), self.estimator.frequent(failed, drawn)
        return {
            # Undecided images count as not proved
            "held": self.exclude_wrong(rare.double(), wrong),
            "frequent": self.exclude_wrong(frequent.double(), wrong),
            "undecided": self.exclude_wrong((~(rare | frequent)).double(), wrong),
            "failed": failed,
            "drawn": drawn,
            "wrong": wrong,
        }

    def reduce(self, table: Table) -> dict[str, Statistic]:
        """Return the shares of images proved to fail often, undecided, and proved to fail rarely."""
        gamma, undecided = self.estimator.gamma, int(table["undecided"].nansum())
        words = (
            f"γ {gamma:g}, each image's answer on its own at confidence {1 - self.estimator.alpha:g}",
            f"{undecided} undecided after {self.estimator.most:,} draws, not counted as proved",
            f"{float(table['drawn'].double().mean()):,.0f} draws an image on average",
        )
        return {
            "proved to fail often": self.annotate(table, Share(table["frequent"]).say(better="lower")),
            "undecided": self.annotate(table, Share(table["undecided"]).say(better="neither")),
            "proved to fail rarely": self.annotate(table, Share(table["held"]), *words),
        }
