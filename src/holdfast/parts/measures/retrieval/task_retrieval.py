"""Task retrieval: whether attacked queries of a retrieval task still find what is judged relevant."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

import torch
from jaxtyping import Float
from torch import Tensor

from holdfast.core import AnyDivergence, Attack, Ball, Relevance, Score, Search, Subject, Table
from holdfast.core.chart import Chart
from holdfast.numerics.geometry.judged import score_retrieval
from holdfast.numerics.statistics.statistic import Mean, Statistic
from holdfast.parts.attacks.apgd import Apgd
from holdfast.parts.divergences.cosine import Cosine
from holdfast.parts.failures.outranked import Outranked
from holdfast.parts.measures.shared.outranking import CLEAN, WORST, Outranking
from holdfast.parts.measures.shared.searching import CONDITION, Recalling, recall
from holdfast.parts.observations.broken import Broken
from holdfast.parts.observations.clean import Clean
from holdfast.parts.threats.linf import Linf
from holdfast.runtime.checked import Count
from holdfast.runtime.errors import NotEnough, no_relevance


@dataclass(frozen=True)
class TaskRetrieval(Outranking, Recalling):
    """nDCG@k = DCG@k / best DCG@k, DCG@k = Σ_{r<=k} g_r / log2(r + 1), g_r the grade of result r; mean over queries.

    Also recall@k, the share of a query's relevant images among the first k; hit rate@k, whether any is; MAP@k, the mean
    over queries of the average precision of the first k, trec_eval's map_cut, for which any grade above 0 is relevant;
    and the mean reciprocal rank of the first one. Queries are attacked; the index, the task's corpus, stays as it is.

    Scores are told without an attack and for the worst, of each query and of each score, that any search of the run met
    in the ball. Among these are an attack on drift and, for each k, one on what `outranked` says.

    Table, one row per attacked image, NaN where it is no query with a relevant image in its index: `rank@QUERY` of the
    first relevant result, `recall@k@QUERY`, `map@k@QUERY` and `ndcg@k@QUERY`; `index`: images of the corpus that are
    searched, of `corpus` that the task has; `copies`: how often the index of the query holds the very same image.

    Attributes:
        attack: how drift and being outranked are searched.
        ball: where, in pixels.
        divergence: how representations are compared; tasks use cosine.
    """

    k: tuple[Count, ...] = (10, 1)
    attack: Attack = Apgd(50)
    ball: Ball = Linf(0.05)
    divergence: AnyDivergence = Cosine()

    better = "higher"
    unit = "share"
    needs_relevance = True
    question = "How well do the queries of a retrieval task find what is relevant, once they are attacked?"
    how_to_read = (
        "The scores without an attack are those of the task: nDCG@10 is 100 % if the most relevant images come first. "
        "How far the worst found lies below is what an attack on the query alone can take."
    )
    reference = "Järvelin & Kekäläinen (2002), the grade as gain, as in trec_eval and in Xiao et al. (2025)"

    def __post_init__(self) -> None:
        super().__post_init__()

    @property
    def rank_searches(self) -> dict[int, Broken]:
        """For each k the search for queries that find nothing relevant there."""
        return {k: Broken(self.attack, self.ball, Outranked(k, "qrels", self.divergence)) for k in self.k}

    def relies_on(self, score: str) -> tuple[Search, ...]:
        """Return the search for its k; those of all for a mean reciprocal rank; none without attack."""
        if score.endswith(CLEAN):
            return ()
        own = [search.searches for k, search in self.rank_searches.items() if score.endswith(f"@{k}, {WORST}")]
        return own[0] if own else self.searches

    @property
    def column(self) -> str:
        """The nDCG at the first k, of the worst that was found."""
        return f"ndcg@{self.k[0]}@{WORST}"

    def observe(self, subject: Subject) -> Table:
        """Return the scores of every attacked query, without and with an attack.

        Raises:
            HoldfastError: images that are no retrieval task, of which none of the attacked ones is a query, or an index
                of no more than k images.
        """
        if subject.relevance is None:
            raise no_relevance("the measure task_retrieval", "the audit's source of images")
        relevance, clean = subject.relevance.complete(), Clean.of(subject).double()
        # The index is the corpus alone, without queries; `fits` counts a query's own image as well
        self.fits(int((~relevance.queries).sum()) + 1)
        points = [reps for points in subject.collect_points(self.ball) for reps in points.unbind(1)]
        return self.table(clean, subject.attacked, relevance, points)

    def table(
        self, clean: Float[Tensor, "population dim"], attacked: int, relevance: Relevance, points: Sequence[Tensor]
    ) -> Table:
        """Return the table of representations.

        Args:
            clean: representations of the population.
            attacked: how many images, the first ones, were attacked.
            relevance: which images are relevant to which.
            points: what each search met of the first images, [M_i, D]; NaN where it met nothing.

        Raises:
            HoldfastError: nothing is relevant to any of the attacked images.
        """
        own = clean[:attacked]
        at = self._columns(own, clean, relevance)
        if at["rank"].isnan().all():
            raise NotEnough(
                "task_retrieval: expected attacked queries with a relevant image in their index, got none; repair the "
                "qrels, or leave skip_own out"
            )
        # The worst of each query and of each score by itself
        low = dict(at)
        for reps in points:
            # of what met nothing, the query where it is
            inside, moved = ~reps.isnan().any(1), own.clone()
            moved[: len(reps)][inside] = reps[inside]
            for name, values in self._columns(moved, clean, relevance).items():
                # A rank is worse where it is larger, all other scores where they are smaller
                low[name] = low[name].maximum(values) if name == "rank" else low[name].minimum(values)
        held = relevance.own[:0] if relevance.skip_own else relevance.own
        # Without those that `skip_own` has taken out of the index
        copies = torch.bincount(held[:, 0], minlength=len(clean))[:attacked].double()
        sizes = {"index": int((~relevance.queries).sum()), "corpus": relevance.corpus}
        table = {f"{name}@{query}": columns[name] for query, columns in ((CLEAN, at), (WORST, low)) for name in at}
        return table | {name: torch.full_like(copies, size) for name, size in sizes.items()} | {"copies": copies}

    def _columns(self, reps: Tensor, clean: Tensor, relevance: Relevance) -> dict[str, Float[Tensor, "images"]]:
        """Return rank, recall, average precision and nDCG of disturbed first images."""
        scores = score_retrieval(reps, clean, relevance, self.k, self.divergence)
        cut = {"recall": scores.recall, "map": scores.precision, "ndcg": scores.ndcg}
        columns = {f"{name}@{k}": values for name, rows in cut.items() for k, values in zip(self.k, rows, strict=True)}
        return {"rank": scores.rank, **columns}

    def reduce(self, table: Table) -> dict[str, Statistic]:
        """Return all scores without and with an attack; nDCG at the first k of the worst comes last."""
        mean = partial(Mean, condition=CONDITION, most=1.0)
        reduced: dict[str, Statistic] = {}
        for query in (CLEAN, WORST):
            reduced[f"mean reciprocal rank, {query}"] = mean(1 / table[f"rank@{query}"])
            for k in reversed(self.k):
                # Whether any relevant image is among the first k, which
                # the rank of the first one tells
                reduced[f"hit rate@{k}, {query}"] = recall(table[f"rank@{query}"], k)
                reduced[f"recall@{k}, {query}"] = mean(table[f"recall@{k}@{query}"])
                reduced[f"MAP@{k}, {query}"] = mean(table[f"map@{k}@{query}"])
                reduced[f"nDCG@{k}, {query}"] = mean(table[f"ndcg@{k}@{query}"])
        return {name: statistic.restate(partial(_add_caveats, table=table)) for name, statistic in reduced.items()}

    def charts(self, table: Table, scores: Mapping[str, Score]) -> tuple[Chart, ...]:
        """Return the hit rate against k."""
        about = f"Solid: attacked, {WORST}; dashed: {CLEAN}. Searches pursued the first place and the marked ones."
        recalls = [partial(recall, table[f"rank@{query}"]) for query in (WORST, CLEAN)]
        return (self.curve(int(table["index"][0]), recalls, about, pursued=True),)


def _add_caveats(score: Score, table: Table) -> Score:
    """Return a score whose note says what makes it another one than that of the task."""
    notes, copies = [score.note], int((table["copies"] > 0).sum())
    index, corpus = (int(table[name][0]) for name in ("index", "corpus"))
    if index < corpus:
        notes.append(f"{index:,} of the {corpus:,} images of the corpus are searched: easier than the task")
    if copies:
        notes.append(f"the index holds the very image of {copies} queries: ?skip_own=true leaves it out for them")
    return replace(score, note="; ".join(filter(None, notes)))
