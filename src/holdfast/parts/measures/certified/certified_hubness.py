"""Certified hubness: how many searches no change of an image within a ball can take, and how many one was seen to."""

from dataclasses import dataclass, field

import torch
from typing_extensions import override

from holdfast.core import AnyDivergence, Attack, Observation, Search, Subject, Table
from holdfast.core.divergence import require
from holdfast.numerics.geometry.divergence import EuclideanDivergence
from holdfast.numerics.geometry.index import Index
from holdfast.numerics.statistics.statistic import Statistic
from holdfast.parts.attacks.apgd import Apgd
from holdfast.parts.divergences.cosine import Cosine
from holdfast.parts.failures.hub import Hub
from holdfast.parts.measures.shared.bracket import Bracket
from holdfast.parts.measures.shared.hubs import HUBS, columns, index_size, mean_over_hubs
from holdfast.parts.observations.broken import Broken
from holdfast.parts.observations.clean import Clean
from holdfast.parts.observations.entry_radii import EntryRadii
from holdfast.parts.rescalings.plain import Plain
from holdfast.runtime.checked import Count
from holdfast.runtime.errors import Failed
from holdfast.runtime.sizes import size_in_words


@dataclass(frozen=True)
class CertifiedHubness(Bracket):
    """P[ d(q, f(x̂)) < r_q for some x̂ of the ball around x ], over images x and searches q; r_q as in `EntryRadii`.

    attack: x̂ is anything that a search of the run met in the ball, such as the hubs of `adversarial_hubness`.
    certificate: a pair of image and search counts unless it is proved that no image of the ball is among the first k
    results; so no single image of the ball can take more searches than those that count.

    Table, one row per image of the population, a query: `attack by IMAGE` and `certificate by IMAGE`, 1 where they
    count, NaN of the search for the image itself; `radius by IMAGE`, up to which it is proved to stay out; and
    `certificate`, the mean over images.

    Attributes:
        k: how many results are looked at.
        divergence: how representations are compared: cosine or l2.
        attack: how the attack's side is searched; it pursues a hub, see `adversarial_hubness`.
    """

    first: Count | None = field(default=HUBS, kw_only=True)
    k: Count = field(default=1, kw_only=True)
    divergence: AnyDivergence = field(default=Cosine(), kw_only=True)
    attack: Attack = field(default=Apgd(100), kw_only=True)

    better = "lower"
    unit = "share"
    question = "How many searches could a changed image take, for all that is proved?"
    how_to_read = (
        "The truth, for the strongest adversary, lies between the two. A certificate of 5 % means that 95 % of the "
        "pairs of image and search are safe: whatever is done to the image within the ball, that search does not "
        "return it. One image of the ball can take all the remaining searches at most, so no hub is larger."
    )
    reference = "Zhang et al. (2024) for hubs; Wu et al. (2022) prove the first result of a search, by smoothing"

    @override
    def __post_init__(self) -> None:
        require(self.divergence, EuclideanDivergence, "divergence of certified_hubness")
        super().__post_init__()

    @property
    def radii(self) -> EntryRadii:
        """How far every image is proved to stay out of every search."""
        return EntryRadii(self.k, self.divergence, self.certifier, self.ball, first=self.first)

    @property
    def search_for_hubs(self) -> Broken:
        """Where the attack's search ended."""
        failure = Hub(self.k, queries="known", divergence=self.divergence)
        return Broken(self.attack, self.ball, failure, first=self.first)

    def observations(self) -> tuple[Observation, ...]:
        """Clean representations, the search and the certificates."""
        return Clean(), self.search_for_hubs, self.radii

    def relies_on(self, score: str) -> tuple[Search, ...]:
        """Return the search for the attack's side."""
        return super().relies_on(score) if score.startswith("attack") else ()

    def observe(self, subject: Subject) -> Table:
        """Return which searches are taken, and which are not proved to be safe.

        Raises:
            HoldfastError: an attack that took what was proved to be safe.
        """
        clean, (radius,) = Clean.of(subject), subject.read(self.radii).values()
        hosts = torch.arange(len(radius))
        index = Index.of(clean, self.k, self.divergence, Plain())
        reach = index.reach_without(hosts)
        # Whatever any search met in the ball
        taken = torch.zeros_like(radius, dtype=torch.bool)
        for points in subject.collect_points(self.ball):
            count = min(len(points), len(hosts))
            for reps in points[:count].unbind(1):
                taken[:count] |= index.apart(reps.double(), hosts[:count]) < reach[:count] - index.slack
        # The ball's own radius was probed, so this is no rounding of a search for radii
        safe = radius >= self.ball.radius
        if (refuted := taken & safe).any():
            image, query = refuted.nonzero()[0].tolist()
            raise Failed(
                f"image {subject.ids[image]!r} is proved to stay out of the search for {subject.ids[query]!r} within "
                f"{self.ball.radius_text}, and an attack took it; this is a fault of Holdfast, or of an encoder that "
                "gives other numbers in batches of another size: please report it"
            )
        # The search for the image itself is none
        own = reach.isinf()
        unsafe, won = ((~safe).double().masked_fill(own, torch.nan), taken.double().masked_fill(own, torch.nan))
        return {
            "certificate": unsafe.nanmean(0),
            **columns("attack", won),
            **columns("certificate", unsafe),
            **columns("radius", radius.masked_fill(own, torch.nan)),
        }

    def reduce_column(self, table: Table, column: str) -> Statistic:
        """Return the mean over images and searches."""
        return mean_over_hubs(table, column, f"given the index of {index_size(table):,} images")

    def remarks(self, table: Table) -> str:
        """Return up to which radius half of the pairs are proved to be safe."""
        # Of all pairs, whichever image
        radii = torch.cat([values for name, values in table.items() if name.startswith("radius by ")])
        middle = float(radii[~radii.isnan()].median())
        return f"half of the pairs are safe up to {size_in_words(middle, self.ball.is_box)}"
