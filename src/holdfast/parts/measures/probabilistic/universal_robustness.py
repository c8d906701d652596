"""Universal robustness: how many images hold under the worst perturbation that is the same for all of them."""

from collections.abc import Mapping
from dataclasses import dataclass

import torch

from holdfast.core import Ball, Chart, Observation, Score, Subject, Table
from holdfast.numerics import statistics
from holdfast.parts.learners.universal import Universal
from holdfast.parts.measures.shared.chance import NPPR, ChanceMeasure
from holdfast.parts.observations.clean import Clean
from holdfast.parts.observations.perturbed import Perturbed
from holdfast.parts.observations.universal_perturbation import UniversalPerturbation
from holdfast.parts.threats.linf import Linf


@dataclass(frozen=True)
class UniversalRobustness(ChanceMeasure):
    """AR_unconditional = min_{δ in ball} E_x 1[x + δ does not fail], as a learned δ comes near to it: an upper bound.

    AR <= AR_unconditional <= NPPR of noise that knows nothing of the image: such a noise is a mean over perturbations,
    of which one does at least as much harm. δ is learned on images that the audit does not attack, and judged on those
    that it does: their share is that of any new image, with an exact interval; that of the images learned from stands
    beside it, and is too low. The bound relies on no search: it holds for whatever δ was found.

    Table, one row per image: `held`, 1 or 0; `value`, above 0 where it fails under δ; `failed`, 1 or 0; `wrong`, 1
    where the image fails as it is; `fitted` and `learned_on`, the same in every row: the share of the images learned
    from that hold (those that are right without a disturbance), and their number.

    Attributes:
        learner: how δ is found.
        ball: where it lies.
    """

    learner: Universal = Universal()
    ball: Ball = Linf(0.05)

    condition = "given the learned perturbation"
    question = (
        "What share of images holds under the most harmful single perturbation that could be found, the same for all "
        "images?"
    )
    how_to_read = (
        "This is the most that an attacker who cannot see the image can do, or one spot on a lens. It lies above "
        "adversarial robustness, which picks a perturbation for each image, and below robustness to any noise that "
        "does not depend on the image. It is an upper bound: another perturbation in the ball may do more harm."
    )
    reference = f"{NPPR}, Prop. 2 and appendix 7"

    @property
    def learned(self) -> UniversalPerturbation:
        """The perturbation."""
        return UniversalPerturbation(self.learner, self.ball, self.failure)

    @property
    def perturbed(self) -> Perturbed:
        """The images under it."""
        return Perturbed(self.learned, first=self.first)

    def observations(self) -> tuple[Observation, ...]:
        """Clean representations, the perturbation, images under it."""
        return Clean(), self.learned, self.perturbed

    def observe(self, subject: Subject) -> Table:
        """Return which images hold."""
        learned, judged = subject.read(self.learned), subject.read(self.perturbed)
        failed = (judged["value"] > 0).double()
        rows = torch.ones_like(failed)
        return {
            "held": self.kept((1 - failed) * (1 - judged["wrong"]), judged["wrong"]),
            "value": judged["value"],
            "failed": failed,
            "wrong": judged["wrong"],
            "fitted": float(learned["held"]) * rows,
            "learned_on": float(learned["learned_on"]) * rows,
        }

    def score(self, table: Table) -> dict[str, Score]:
        """Return the share of the images learned from that hold, and that of the others."""
        fitted, count = float(table["fitted"][0]), int(table["learned_on"][0])
        own = Score(fitted, None, None, count, "none: the perturbation was fitted to these images")
        held = statistics.share(table["held"], condition=self.condition)
        bound = "an upper bound: the learned perturbation is one of those allowed"
        return {"images learned from that hold": own, "images that hold": self.noted(table, held, bound)}

    def charts(self, table: Table, scores: Mapping[str, Score]) -> tuple[Chart, ...]:
        """Return its row among worst cases and given noises, above the noise that knows nothing of the image."""
        row = self.row(f"one perturbation ({self.learner.algorithm})", (1, 2, 1), self.ball)
        return row, *super().charts(table, scores)
