"""Probabilistic robustness: how often an image holds under a noise that is given."""

from collections.abc import Mapping
from dataclasses import dataclass

from typing_extensions import override

from holdfast.core import Chart, Observation, Score, Table, Threat
from holdfast.core.registry import part_name
from holdfast.parts.measures.shared.chance import DrawnMeasure
from holdfast.parts.observations.clean import Clean
from holdfast.parts.observations.sampled import Sampled
from holdfast.parts.threats.uniform import Uniform


@dataclass(frozen=True)
class ProbabilisticRobustness(DrawnMeasure):
    """PR = E_x P_{x' ~ noise(x)}[x' does not fail].

    Attributes:
        noise: any threat that draws: uniform, truncated_gaussian, laplace, rotation, brightness, mixture, ...
    """

    noise: Threat = Uniform()

    in_brief = True
    question = "How often does an image keep its identity under this noise?"
    how_to_read = (
        "99 % means that one noisy image in a hundred fails, averaged over images and draws. Other noise of the same "
        "size may do more harm: worst noise robustness learns such noise, adversarial robustness looks for single "
        "worst points."
    )
    reference = "Wang et al. (2025), Def. 2 and 4"

    @property
    @override
    def draws(self) -> Sampled:
        return Sampled(self.noise, ((self.failure, self.estimator),), first=self.first)

    def observations(self) -> tuple[Observation, ...]:
        """Clean representations and draws."""
        return Clean(), self.draws

    def charts(self, table: Table, scores: Mapping[str, Score]) -> tuple[Chart, ...]:
        """Return its row among worst cases and given noises, and how `column` spreads over the images.

        A noise without a ball, such as rotation, has no row: nothing is known of its order.
        """
        # AR <= NPPR <= PR (NPPR, Prop. 1) is about distributions in one ball
        ball = getattr(self.noise, "ball", None)
        row = () if ball is None else (self.row(part_name(self.noise), (2,), ball),)
        return *row, *super().charts(table, scores)
