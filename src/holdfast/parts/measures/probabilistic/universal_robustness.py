"""Universal robustness: how many images hold under the worst perturbation that is the same for all of them.

Also where those go that fail: whether they are all taken for one and the same image.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace

import torch
from jaxtyping import Bool, Int
from torch import Tensor

from holdfast.core import Ball, Chart, Observation, Score, Subject, Table
from holdfast.numerics.statistics.statistic import Fixed, Share, Statistic
from holdfast.parts.learners.given import Given
from holdfast.parts.learners.universal import Universal
from holdfast.parts.measures.shared.chance import ChanceMeasure
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

    Where do they go? Of the images that fail, the share that is taken for one and the same image: that for which most
    of the images are taken that δ was learned on, so that it is chosen before these are counted and the interval is
    exact.
    With a patch as the ball, one patch is pasted on all images.

    Table, one row per image: `held`, 1 or 0; `value`, above 0 where it fails under δ; `failed`, 1 or 0; `wrong`, 1
    where the image fails as it is; `taken`, the position of the image that a failing one is taken for, else -1; the
    same in every row: `fitted` and `learned_on`, the share of the images learned from that hold (those that are right
    without a disturbance), and their number; `target`, the position of the image for which most of them are taken.

    Attributes:
        learner: how δ is found: `universal`, or `given`, a file with one that was learned on another encoder.
        ball: where it lies.
    """

    learner: Universal | Given = Universal()
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
    reference = "Wang et al. (2025), Prop. 2 and appendix 7"

    @property
    def perturbation(self) -> UniversalPerturbation:
        """The perturbation."""
        return UniversalPerturbation(self.learner, self.ball, self.failure)

    @property
    def evaluation(self) -> Perturbed:
        """The images under it."""
        return Perturbed(self.perturbation, first=self.first)

    def observations(self) -> tuple[Observation, ...]:
        """Clean representations, the perturbation, images under it."""
        return Clean(), self.perturbation, self.evaluation

    def observe(self, subject: Subject) -> Table:
        """Return which images hold."""
        learned, judged = subject.read(self.perturbation), subject.read(self.evaluation)
        failed = (judged["value"] > 0).double()
        rows = torch.ones_like(failed)
        return {
            # An image that fails as it is does not hold under δ, even where δ happens to mend it
            "held": self.exclude_wrong((1 - failed) * (1 - judged["wrong"]), judged["wrong"]),
            "value": judged["value"],
            "failed": failed,
            "wrong": judged["wrong"],
            "taken": judged["taken"].double(),
            "target": float(learned["target"]) * rows,
            "fitted": float(learned["held"]) * rows,
            "learned_on": float(learned["learned_on"]) * rows,
        }

    def reduce(self, table: Table) -> dict[str, Statistic]:
        """Return the share of the images learned from that hold, where failing ones go, and how many others hold."""
        reduced: dict[str, Statistic] = {}
        # A given perturbation was learned elsewhere, on images that are not known
        if count := int(table["learned_on"][0]):
            fitted = "none: the perturbation was fitted to these images"
            learned_from = Score(float(table["fitted"][0]), None, None, count, fitted)
            reduced["images learned from that hold"] = Fixed(learned_from)
        # Images that δ alone makes fail
        taken = table["taken"]
        failing = (taken >= 0) & (table["wrong"] == 0)
        if failing.any():
            same = self._same(taken.long(), failing, int(table["target"][0]))
            reduced["failing images that are taken for the same one"] = same
        held = Share(table["held"], condition=self.condition)
        bound = f"an upper bound: the {self._adjective} perturbation is one of those allowed"
        return reduced | {"images that hold": self.annotate(table, held, bound)}

    def _same(self, taken: Int[Tensor, "images"], failing: Bool[Tensor, "images"], target: int) -> Statistic:
        """Return how many failing images are taken for one image, the commonest among those learned from."""
        count = int(failing.sum())
        images = len(taken[failing].unique())
        different = f"they are taken for {images} different image{'s' * (images > 1)}"
        if target >= 0:
            # Chosen by other images, the target is fixed before these are
            # counted: the interval is exact
            note = f"{different}; the image was chosen by the images learned from"
            share = Share((taken == target).double(), None, f"{self.condition}, of those that fail", among=failing)
            return share.restate(lambda score: replace(score, note=note, better="neither"))
        # Chosen among those counted, the commonest is too common, so it gets no interval
        most = float(taken[failing].bincount().max()) / count
        return Fixed(
            Score(most, None, None, count, "none: the image was chosen among those counted", note=different)
        ).say(better="neither")

    @property
    def _adjective(self) -> str:
        return "given" if isinstance(self.learner, Given) else "learned"

    def charts(self, table: Table, scores: Mapping[str, Score]) -> tuple[Chart, ...]:
        """Return its row among worst cases and given noises, above the noise that knows nothing of the image."""
        # NPPR, Prop. 1 and 2: unconditional AR lies between AR and the noise
        # that knows nothing of the image
        row = self.row(f"one perturbation ({self.learner.algorithm})", (1, 2, 1), self.ball)
        return row, *super().charts(table, scores)
