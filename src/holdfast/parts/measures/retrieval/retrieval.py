"""Retrieval: what a search returns for attacked images."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial

import torch
from jaxtyping import Float
from torch import Tensor

from holdfast.core import Attack, Ball, Score, Search, Subject, Table
from holdfast.core.chart import Chart
from holdfast.numerics.statistics.statistic import Statistic
from holdfast.parts.attacks.apgd import Apgd
from holdfast.parts.failures.nearest import Nearest
from holdfast.parts.failures.outranked import Outranked
from holdfast.parts.measures.shared.outranking import CLEAN, WORST, Outranking
from holdfast.parts.measures.shared.searching import Searching, recall
from holdfast.parts.observations.breaking_radii import BreakingRadii
from holdfast.parts.observations.broken import Broken
from holdfast.parts.observations.clean import Clean
from holdfast.parts.observations.shared.worst import worst
from holdfast.parts.threats.linf import Linf

Found = tuple[Float[Tensor, "images"], Float[Tensor, "images"], Float[Tensor, "images dim"]]
"""Rank of the first relevant result, average precision, and the representations that were searched for."""


@dataclass(frozen=True)
class Retrieval(Outranking, Searching):
    """recall@k = 1/|D'| Σ_{x∈D'} 1[rank(x̂) <= k]; mean reciprocal rank = 1/|D'| Σ 1/rank(x̂), rank(x̂) = 1 + #{nearer}.

    The index is the population D. By default an image's own original is searched for, which it finds at rank 1 without
    an attack; #{nearer} counts the images strictly nearer to f(x̂). With classes any other image of the class is
    relevant: recall asks for the first one, and mean average precision for all of them.

    Scores are told of three kinds of queries: the images themselves (`clean`, with classes only); where an attack on
    drift ended; and, of each image, the worst that any search of the run met in the ball. Among these are searches for
    what `outranked` says, one for each k, and for the first place that for the smallest change after which another
    image is nearer.

    Table, one row per attacked image: `rank@QUERY` of the first relevant result, and `precision@QUERY`, its average
    precision, which is 1 / rank where the original alone is relevant. With classes one row per image of the population,
    NaN where it was not attacked or has no other of its class; and `parts@QUERY`, what it contributes to the mean
    average precision, as a query and in the index. `population`: the size of the index.

    Attributes:
        attack: how drift and being outranked are searched.
        ball: where, in pixels.
        passes: of the search for the smallest change, for each image.
    """

    attack: Attack = Apgd(50)
    ball: Ball = Linf(0.05)
    passes: int = 100

    better = "higher"
    unit = "share"
    question = "How high does a search among clean images rank the original of an attacked image?"
    how_to_read = (
        "A recall@10 of 90 % means that the original is among the first ten results for 9 attacked images in 10. The "
        "mean reciprocal rank is 100 % if it always comes first, 50 % if it always comes second, and close to 0 if it "
        "is lost."
    )
    reference = "Voorhees (1999) for the mean reciprocal rank; Philbin et al. (2007) for mean average precision"

    @property
    def rank_searches(self) -> dict[int, BreakingRadii | Broken]:
        """For each k the search for images that are not found among the first k."""
        known = {k: Broken(self.attack, self.ball, Outranked(k, self.relevant, self.divergence)) for k in self.k}
        nearest = BreakingRadii(self.ball.of_usual_radius, Nearest(self.divergence), self.passes)
        # For the first place the smallest change tells of every ball, and
        # is shared with `breaking_radius`
        return known | ({1: nearest} if self.relevant == "original" else {})

    def relies_on(self, score: str) -> tuple[Search, ...]:
        """Return the search for drift; where the worst counts, those for its k, or all; none of clean queries."""
        if score.endswith(CLEAN):
            return ()
        if not score.endswith(WORST):
            return self.searches[:1]
        at = {f"recall@{k}, {WORST}": observation.searches for k, observation in self.rank_searches.items()}
        return at.get(score, self.searches)

    @property
    def queries(self) -> tuple[str, ...]:
        """What the kinds of queries are called; those of the headline last."""
        clean = (CLEAN,) if self.relevant == "class" else ()
        return (*clean, self.attack.label(self.attack.steps), WORST)

    @property
    def column(self) -> str:
        """The average precision of the worst that was found."""
        return f"precision@{WORST}"

    def observe(self, subject: Subject) -> Table:
        """Return rank and average precision of every attacked image, for each kind of query."""
        clean = Clean.of(subject).double()
        (drifted,) = worst(subject, self.attack, self.drift).values()
        ended = (*self.rank_results(subject, drifted, clean), drifted)
        known = {self.attack.label(self.attack.steps): ended, WORST: self._worst(subject, clean, ended)}
        if self.relevant == "class":
            own = clean[: subject.attacked]
            # With an original to find every clean query ranks it first,
            # so only classes have this score
            known[CLEAN] = (*self.rank_results(subject, own, clean), own)
        return self.columns(subject, clean, {query: known[query] for query in self.queries})

    def _worst(self, subject: Subject, clean: Tensor, ended: Found) -> Found:
        """Return the largest rank and the lowest precision of all that any search met, and the points of the latter."""
        rank, precision, worst_reps = (values.clone() for values in ended)
        for points in subject.collect_points(self.ball):
            for reps in points.unbind(1):
                # A search that met nothing of an image leaves NaN; the clean
                # representation stands in, and is not counted
                inside = ~reps.isnan().any(1)
                ranks, precisions = self.rank_results(
                    subject, torch.where(inside[:, None], reps, clean[: len(reps)]), clean
                )
                some = torch.arange(len(reps))[inside]
                # Rank and precision have their own worst points: the one need not be
                # lowest where the other is highest
                rank[some] = rank[some].maximum(ranks[inside])
                lower = some[precisions[inside] < precision[some]]
                precision[lower], worst_reps[lower] = precisions[lower], reps[lower]
        return rank, precision, worst_reps

    def reduce(self, table: Table) -> dict[str, Statistic]:
        """Return recall at every k and the mean average precision, for each kind of query."""
        reduced: dict[str, Statistic] = {}
        for query in self.queries:
            reduced |= {f"recall@{k}, {query}": recall(table[f"rank@{query}"], k) for k in self.k}
            reduced[f"{self.summary}, {query}"] = self.mean(table, [query])
        return reduced

    def charts(self, table: Table, scores: Mapping[str, Score]) -> tuple[Chart, ...]:
        """Return recall against k: of the worst that was found, and where drift ended or of clean queries."""
        # Of clean queries where there are any, else where drift ended
        second = self.queries[0]
        about = f"Solid: attacked, {WORST}; dashed: {second}. Searches pursued the first place and the marked ones."
        recalls = [partial(recall, table[f"rank@{query}"]) for query in (WORST, second)]
        return (self.curve(int(table["population"][0]) - 1, recalls, about, pursued=True),)
