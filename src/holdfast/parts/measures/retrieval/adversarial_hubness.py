"""Adversarial hubness: how many searches a single image takes that was changed to come first."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from holdfast.core import AnyDivergence, Attack, Ball, InWords, Measure, Observation, Score, Search, Subject, Table
from holdfast.numerics.geometry.index import Index
from holdfast.numerics.geometry.rescaling import Rescaling
from holdfast.numerics.statistics.statistic import Share, Statistic
from holdfast.numerics.statistics.universal import pad_to_population
from holdfast.parts.attacks.apgd import Apgd
from holdfast.parts.divergences.l2 import L2
from holdfast.parts.failures.hub import Hub
from holdfast.parts.measures.shared.hubs import HUBS, columns, index_size, mean_over_hubs
from holdfast.parts.observations.broken import Broken
from holdfast.parts.observations.clean import Clean
from holdfast.parts.rescalings.plain import Plain
from holdfast.parts.threats.linf import Linf
from holdfast.runtime.checked import Count
from holdfast.runtime.sizes import size_in_words

CHOOSE, JUDGE = 1, 3
"""Which quarters of the queries choose the best hub, and judge it."""

FLAGGED = 0.01
"""Share of the images as they are that stand out as hubs: the false positives of whoever looks for hubs."""


@dataclass(frozen=True)
class AdversarialHubness(Measure):
    """P_q[ d(q, f(x̂)) < r_q ], the share of searches among whose first k results one changed image x̂ stands.

    Every image of the population is a query q, the others are its index, and r_q is the distance of its k-th result.
    x̂ stands in the place of its original x. Half of the queries, every second image, are known to the search, which
    makes x̂ the first of as many of them as it can. A quarter says which of several hubs is the best one, and the last
    quarter, which nobody has seen, judges it: all numbers are about these.

    With a `rescaling` hubs are made twice, for searches that go by the distance itself and for those that use the
    rescaling, and the kind is judged that takes more of the quarter that chooses.

    A hub stands out if it is among the first k results of more known queries than 99 % of the images as they are.

    Table, one row per image of the population: `taken`, 1 where the best hub takes its search, NaN where it does not
    judge; `taken by HUB` and `before by HUB`, the same for every hub, and for its original; `best`, 1 for the image
    that became the best hub; `stands out`, 1 or 0 for images that became hubs.

    Attributes:
        k: how many results are looked at.
        divergence: how representations are compared.
        rescaling: what searches make of a distance, against hubs.
        attack: how a hub is searched.
        ball: where, in pixels.
        hubs: how many images are made hubs, the first of those that the audit attacks.
    """

    k: Count = 1
    divergence: AnyDivergence = L2()
    rescaling: Rescaling = Plain()
    attack: Attack = Apgd(100)
    ball: Ball = Linf(0.05)
    hubs: Count = HUBS

    better = "lower"
    unit = "share"
    question = "How many searches can one image take that somebody changes to come first?"
    how_to_read = (
        "30 % means that one changed image is among the first k results of 30 % of searches that whoever changed it "
        "has never seen. Without a change an image has k in N - 1 of them on average. Larger indexes are harder to "
        "take, so compare encoders on the same images."
    )
    reference = "Zhang et al. (2024)"

    @property
    def searches_for_hubs(self) -> tuple[Broken, ...]:
        """The hubs: those that the searches make, each against another way to measure distances."""
        # Once where searches go by the distance itself
        ways = dict.fromkeys((self.rescaling, Plain()))
        hubs = (Hub(self.k, queries="known", divergence=self.divergence, rescaling=way) for way in ways)
        return tuple(Broken(self.attack, self.ball, hub, first=self.hubs) for hub in hubs)

    def observations(self) -> tuple[Observation, ...]:
        """Clean representations, and the hubs."""
        return Clean(), *self.searches_for_hubs

    def relies_on(self, score: str) -> tuple[Search, ...]:
        """Return the searches, but for what the images take as they are."""
        return () if score.startswith("unchanged") else super().relies_on(score)

    def if_weak(self, score: str) -> Literal["at least", "at most", "void"]:
        """A stronger search takes more; whether its hubs stand out as often nobody knows."""
        return "void" if score.startswith("hubs") else "at least"

    @property
    def column(self) -> str:
        """Whether the best hub takes a query."""
        return "taken"

    def observe(self, subject: Subject) -> Table:
        """Return which queries the hubs take."""
        clean = Clean.of(subject)
        index = Index.of(clean, self.k, self.divergence, self.rescaling)
        made = [subject.read(observation)["reps"].double() for observation in self.searches_for_hubs]
        # Seeded and random is the order of the population, so every fourth image is a random quarter
        hosts, part = torch.arange(len(made[0])), torch.arange(len(clean)) % 4
        # Of all queries, by every hub of each kind, [kinds, M, N]
        reach = index.reach_without(hosts)
        taken = torch.stack([index.apart(reps, hosts) < reach - index.slack for reps in made])
        # One quarter says which kind and which hub is best, of equals the first; another one judges them
        chosen = taken[:, :, part == CHOOSE].sum(2)
        kind = int(chosen.sum(1).argmax())
        best = int(chosen[kind].argmax())
        judged = (part == JUDGE) & ~reach.isinf()
        # Whoever logs searches sees who is found more often than images are
        known, of_all = part % 2 == 0, torch.arange(len(clean))
        found = index.positions[known, : self.k].flatten().bincount(minlength=len(clean))
        usual = found.double().quantile(1 - FLAGGED, interpolation="higher")
        stands_out = taken[kind][:, known].sum(1) > usual
        return {
            "taken": _of(taken[kind], judged)[best],
            "best": (of_all == best).double(),
            "stands out": pad_to_population(stands_out.double(), len(clean)),
            **columns("taken", _of(taken[kind], judged)),
            **columns("before", _of(index.hold(hosts), judged)),
        }

    def reduce(self, table: Table) -> dict[str, Statistic]:
        """Return which hubs stand out, what images take as they are, what hubs take, and what the best one takes."""
        condition = f"given the index of {index_size(table):,} images"
        of_hub = f"{condition} and the hub, which other queries chose"
        unchanged, taken = (mean_over_hubs(table, name, condition) for name in ("before", "taken"))
        # Of the images that became hubs, and of the queries that judge the best one
        out, best = (
            Share(table[column], condition=given, among=~table[column].isnan())
            for column, given in (("stands out", condition), (self.column, of_hub))
        )
        return {
            "hubs that stand out": out.say(better="higher"),
            "unchanged images": unchanged,
            "mean over hubs": taken,
            "best hub": best,
        }

    def in_words(self, table: Table, scores: Mapping[str, Score]) -> InWords | None:
        """Return how many searches one image takes."""
        value = scores[list(scores)[-1]].value  # the headline
        if value is None:
            return None
        # As people say it who search
        place = "comes first" if self.k == 1 else f"is among the first {self.k} results"
        size, searches = size_in_words(self.ball.radius, self.ball.is_box), f"{100 * value:.3g} % of searches"
        by = "" if self.rescaling.plain else f" by {self.rescaling.title}"
        return InWords(f"one image, changed by {size}, {place} in {searches}{by} that it was not made for")


def _of(values: Bool[Tensor, "hubs queries"], judged: Bool[Tensor, "hubs queries"]) -> Float[Tensor, "hubs queries"]:
    """Return 1 or 0 of what is judged, else NaN."""
    return values.double().masked_fill(~judged, torch.nan)
