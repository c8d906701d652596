"""Patch breakaway: how many patches of an attacked image are taken for others, there and in other images."""

from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from holdfast.core import Objective, Observation, Search, Subject, Table
from holdfast.core.divergence import require
from holdfast.numerics.geometry import pairwise, patches
from holdfast.numerics.geometry.divergence import EuclideanDivergence
from holdfast.numerics.statistics.statistic import Mean, Statistic
from holdfast.parts.divergences.l2 import L2
from holdfast.parts.measures.shared.patches import (
    Bank,
    PatchMeasure,
    Tokens,
    bank,
    measure_breakaway,
    measure_breakaway_within,
    to_additive_mask,
)
from holdfast.parts.objectives.token_drift import TokenDrift
from holdfast.parts.objectives.token_margin import TokenMargin
from holdfast.parts.observations.attacked import Attacked
from holdfast.parts.observations.shared.worst import trajectories
from holdfast.runtime.checked import Count

OTHERS = "among other images, worst found"


@dataclass(frozen=True)
class PatchBreakaway(PatchMeasure):
    """b(x) = 1/P Σ_p 1[min_{q≠p} d(t_p(x̂), t_q(x)) < d(t_p(x̂), t_p(x))], strict; the mean over images.

    Within the image the rivals q are its own other patches, and the attack pursues that. Among other images they are
    patches of the population, and the worst counts that any search of the run met in the ball; drift of all tokens is
    searched for it. Patches whose clean tokens are as good as equal (a thousandth of the mean distance) are no rivals.

    Table, one row per attacked image: `lost@STEP`, b(x) within the image; `others`, among other images.

    Attributes:
        bank: patches of other images at most, see `parts/measures/shared/patches.py`; more of them are nearer.
    """

    objective: Objective = TokenMargin()
    bank: Count = 2000

    usual = (5, 10, 30, 50)
    per_image = "lost"
    better = "lower"
    in_brief = True
    unit = "share"
    question = "After an attack, what share of an image's patches is closer to another patch than to what it was?"
    how_to_read = (
        "0 % means that every patch is still found at its place, as matching and tracking need it. A representation "
        "of which nothing is left keeps one patch in P by chance: 98 % are lost in a grid of 7 × 7."
    )
    reference = (
        "breakaway of Petrov & Kwiatkowska (2022), Eq. 1, among patches; correspondence by the nearest token as in "
        "Amir et al. (2022)"
    )

    def __post_init__(self) -> None:
        require(self.divergence, EuclideanDivergence, "divergence of patches")
        super().__post_init__()

    @property
    def drifting(self) -> tuple[Attacked, ...]:
        """The trajectories that move all tokens as far as they can."""
        return trajectories(self.attack, self.ball, TokenDrift(divergence=self.divergence), (self.attack.steps,))

    def observations(self) -> tuple[Observation, ...]:
        """Clean representations and both kinds of trajectories."""
        return tuple(dict.fromkeys((*super().observations(), *self.drifting)))

    @property
    def searches(self) -> tuple[Search, ...]:
        """The search within the image, and that for drift."""
        drift = Search(self.attack, self.ball, TokenDrift(divergence=self.divergence))
        return tuple(dict.fromkeys((*super().searches, drift)))

    def relies_on(self, score: str) -> tuple[Search, ...]:
        """Return the search within the image; all of them for other images."""
        return self.searches if score == OTHERS else super().relies_on(score)

    def observe(self, subject: Subject) -> Table:
        """Return the share of every attacked image's patches that are lost.

        Raises:
            HoldfastError: an encoder without patches.
        """
        clean, attacked = self.tokens(subject)
        table: Table = {}
        for step, moved in attacked.items():
            # Clean tokens are those of the whole population, of which
            # the first images were attacked
            pairs = zip(moved, clean, strict=False)
            shares = [measure_breakaway_within(m, c, self.divergence) for m, c in pairs]
            table[f"lost@{step}"] = torch.tensor(shares, dtype=torch.float64)
        return table | {"others": self._among_others(subject, clean)}

    def _among_others(self, subject: Subject, clean: Tokens) -> Float[Tensor, "attacked"]:
        """Return the largest share of lost patches among all that any search met, for each attacked image."""
        # Rivals of every image: the patches of the bank that are of
        # other images and do not look alike
        others = bank(subject, clean, self.bank)
        # Cosines as distances between directions, so that "alike"
        # means the same for both divergences
        compared = Bank(self.divergence.points(others.tokens), others.image)
        # A thousandth of the mean distance, of all pairs of patches of different images
        alike = patches.ALIKE * compared.apart(L2()).mean()
        worst = torch.full((subject.attacked,), torch.nan, dtype=torch.float64)
        known = subject.collect_points(self.ball)
        for image in range(subject.attacked):
            own = clean[image].double()
            apart = pairwise.pairwise(self.divergence.points(own), compared.tokens, L2())
            # [P, bank]: 0 or infinity, added to distances
            rivals = to_additive_mask((compared.image != image) & (apart > alike))
            # All that searches met of this image, which those that attack fewer images never saw
            points = torch.cat([points[image] for points in known if image < len(points)])
            for reps in points[~points.isnan().any(1)]:
                share = measure_breakaway(reps.unflatten(0, own.shape), own, others.tokens, self.divergence, rivals)
                # The worst of each image, whichever search met it
                worst[image] = share if worst[image].isnan() else max(share, float(worst[image]))
        return worst

    def reduce(self, table: Table) -> dict[str, Statistic]:
        """Return the share among other images, and that within the image at every read-out."""
        condition = f"given {self.bank} patches of the population at most"
        return {OTHERS: Mean(table["others"], condition=condition, most=1.0)} | super().reduce(table)
