"""Retrieval: what a search returns for attacked images."""

from collections.abc import Mapping
from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from holdfast.core import Attack, Ball, Observation, Score, Search, Subject, Table
from holdfast.core.chart import Chart
from holdfast.numerics import statistics
from holdfast.numerics.geometry.margins import DIVERGENCES
from holdfast.parts.attacks.apgd import Apgd
from holdfast.parts.failures.nearest import Nearest
from holdfast.parts.measures.shared.searching import Searching, recall
from holdfast.parts.measures.shared.worst import trajectories, worst
from holdfast.parts.objectives.untargeted import Untargeted
from holdfast.parts.observations.attacked import Attacked
from holdfast.parts.observations.breaking_radii import BreakingRadii
from holdfast.parts.observations.clean import Clean
from holdfast.parts.threats.linf import Linf

CLEAN, WORST = "clean", "worst found"


@dataclass(frozen=True)
class Retrieval(Searching):
    """recall@k = 1/|D'| Σ_{x∈D'} 1[rank(x̂) <= k]; mean reciprocal rank = 1/|D'| Σ 1/rank(x̂), rank(x̂) = 1 + #{nearer}.

    The index is the population D. By default an image's own original is searched for, which it finds at rank 1 without
    an attack; #{nearer} counts the images strictly nearer to f(x̂). With classes any other image of the class is
    relevant: recall asks for the first one, and mean average precision for all of them.

    Scores are told of three kinds of queries: the images themselves (`clean`, with classes only); where an attack on
    drift ended; and, of each image, the worst that any search of the run met in the ball. Among these is the search for
    the smallest change after which another image is nearer, where the original is searched for. No search pursues rank
    2 and beyond, or another class: below the first place recall may be less than what was found.

    Table, one row per attacked image: `rank@QUERY` of the first relevant result, and `precision@QUERY`, its average
    precision, which is 1 / rank where the original alone is relevant; NaN where the index has nothing relevant.

    Attributes:
        attack: how the attack on drift searches.
        ball: where, in pixels.
        passes: of the search for the smallest change, for each image.
    """

    attack: Attack = Apgd(50)
    ball: Ball = Linf(0.05)
    passes: int = 100

    better = "higher"
    unit = "share"
    question = "How early does a search in an index of clean images return what an attacked image was?"
    how_to_read = (
        "recall@10 of 90 %: of 9 attacked images in 10 the original is among the first ten results. The mean "
        "reciprocal rank is 100 % where it always comes first, 50 % where always second, near 0 where it is lost."
    )
    reference = (
        "Voorhees (1999), “The TREC-8 question answering track report”, for the mean reciprocal rank; Philbin et al. "
        "(2007), “Object retrieval with large vocabularies and fast spatial matching”, for mean average precision"
    )

    @property
    def drift(self) -> tuple[Attacked, ...]:
        """The trajectories that move representations as far as they can."""
        return trajectories(self.attack, self.ball, Untargeted(), (self.attack.steps,))

    @property
    def event(self) -> BreakingRadii | None:
        """The search for images that are nearer to another one; None where classes count, or none is linear."""
        if self.relevant == "class" or self.divergence not in DIVERGENCES:
            return None
        return BreakingRadii(type(self.ball)(), Nearest(self.divergence), self.passes)

    def observations(self) -> tuple[Observation, ...]:
        """Clean representations, the trajectories, and the search for the event."""
        return Clean(), *self.drift, *((self.event,) if self.event else ())

    @property
    def searches(self) -> tuple[Search, ...]:
        """The search for drift, as a whole where it is that of an ensemble, and that for the event."""
        event = self.event.searches if self.event else ()
        return (Search(self.attack, self.ball, Untargeted()), *event)

    def relies_on(self, score: str) -> tuple[Search, ...]:
        """Return the search for drift; also that for the event where the worst counts; none of clean queries."""
        if score.endswith(CLEAN):
            return ()
        return self.searches if score.endswith(WORST) else self.searches[:1]

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
        clean = subject.read(Clean())["reps"].double()
        (drifted,) = worst(subject, self.attack, self.drift).values()
        label = self.attack.label(self.attack.steps)
        known = {label: self.found(subject, drifted, clean)}
        if self.relevant == "class":
            known[CLEAN] = self.found(subject, clean[: subject.attacked], clean)
        rank, precision = (values.clone() for values in known[label])
        for points in subject.reached(self.ball):
            for reps in points.unbind(1):
                inside = ~reps.isnan().any(1)
                ranks, precisions = self.found(subject, torch.where(inside[:, None], reps, clean[: len(reps)]), clean)
                some = torch.arange(len(reps))[inside]
                rank[some] = rank[some].maximum(ranks[inside])
                precision[some] = precision[some].minimum(precisions[inside])
        known[WORST] = rank, precision
        columns = {query: known[query] for query in self.queries}
        ranked = {f"rank@{query}": ranks for query, (ranks, _) in columns.items()}
        return ranked | {f"precision@{query}": precisions for query, (_, precisions) in columns.items()}

    def score(self, table: Table) -> dict[str, Score]:
        """Return recall at every k and the mean average precision, for each kind of query."""
        scores: dict[str, Score] = {}
        for query in self.queries:
            scores |= {f"recall@{k}, {query}": recall(table[f"rank@{query}"], k) for k in self.k}
            scores[f"{self.summary}, {query}"] = self.mean(table[f"precision@{query}"])
        return scores

    def charts(self, table: Table, scores: Mapping[str, Score]) -> tuple[Chart, ...]:
        """Return recall against k: of the worst that was found, and where drift ended or of clean queries."""
        second = self.queries[0]
        lines = [[table[f"rank@{query}"]] for query in (WORST, second)]
        return (self.curve(lines, f"Solid: attacked, {WORST}; dashed: {second}."),)

    def influence(self, table: Table) -> Float[Tensor, "units"]:
        """Return each image's influence on the mean."""
        return statistics.influence_of_mean(table[self.column])
