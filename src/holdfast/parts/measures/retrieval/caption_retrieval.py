"""Caption retrieval: whether attacked images and their captions still find each other."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Literal

import torch
from jaxtyping import Float, Int
from torch import Tensor

from holdfast.core import Attack, Ball, Score, Search, Subject, Table
from holdfast.core.chart import Chart
from holdfast.numerics.geometry.cross_modal import ranks_among_images, ranks_among_texts, reciprocal_without_each
from holdfast.numerics.geometry.invariance import LENGTHS
from holdfast.numerics.statistics.drawn_pairs import DrawnMean
from holdfast.numerics.statistics.statistic import Mean, Share, Statistic
from holdfast.parts.attacks.apgd import Apgd
from holdfast.parts.failures.miscaptioned import Miscaptioned
from holdfast.parts.failures.shared.captions import read_captions
from holdfast.parts.measures.shared.outranking import CLEAN, WORST, Outranking
from holdfast.parts.measures.shared.searching import Recalling
from holdfast.parts.observations.broken import Broken
from holdfast.parts.observations.clean import Clean
from holdfast.parts.threats.linf import Linf

TO_TEXT, TO_IMAGE = "image to text", "text to image"
QUERY: dict[str, Literal["image", "text"]] = {TO_TEXT: "image", TO_IMAGE: "text"}

CONDITION = "given these captions and images"


@dataclass(frozen=True)
class CaptionRetrieval(Outranking, Recalling):
    """Image to text: recall@k = 1/|D'| Σ_{x∈D'} 1[rank(x̂) <= k]; rank(x̂) = 1 + #{t of others nearer than all own t}.

    Text to image: the same over the captions t of D', rank(t) = 1 + #{x' ≠ x : f(x') nearer to t than f(x̂)}: each own
    caption searches among the clean images D, where the image x that it belongs to is replaced by its attacked version.
    Mean reciprocal rank = the mean of 1/rank. Nearer is by cosine, and strictly. Index of texts: all captions of the
    file, whichever images the audit draws.

    Scores are told without an attack and for the worst, of each query, that any search of the run met in the ball.
    Among these are an attack on drift and, for each k, one on what `miscaptioned` says of either direction.

    Intervals of ranks hold given the index. That of the headline also knows that the captions of each image are in the
    index of all others, where other images would have brought other captions.

    Table, one row per attacked image: `rank@QUERY`, of the first own caption; `reciprocal@QUERY`, 1 / rank;
    `parts@QUERY`, what each image contributes to the mean of these, as a query and by its captions in the index;
    `text rank NUMBER@QUERY`, that of the image for each of its captions, NaN where it has fewer; `captions` and
    `population`: the sizes of both indexes.

    Attributes:
        path: the captions, a safetensors file that `holdfast embed-names --captions` wrote.
        attack: how drift and both directions are searched.
        ball: where, in pixels.
    """

    invariant = LENGTHS

    path: str = ""
    attack: Attack = Apgd(50)
    ball: Ball = Linf(0.05)

    better = "higher"
    unit = "share"
    question = "Do an attacked image and its captions still find each other?"
    how_to_read = (
        "Image to text: 90 % at recall@5 means that for 9 attacked images in 10 an own caption is among the five "
        "nearest texts. Text to image: that 9 captions in 10 still return their image among the first five, once it is "
        "attacked. The scores without an attack say what the encoder can do at all."
    )
    reference = (
        "recall@k in both directions as in Karpathy & Fei-Fei (2015); attacked as in Zhang et al. (2022), on the "
        "image alone"
    )

    @property
    def rank_searches(self) -> dict[tuple[str, int], Broken]:
        """For each direction and each k the search for images that are not found, or do not find."""
        return {
            (direction, k): Broken(self.attack, self.ball, Miscaptioned(self.path, k, query))
            for direction, query in QUERY.items()
            for k in self.k
        }

    def relies_on(self, score: str) -> tuple[Search, ...]:
        """Return the search for its direction and k; those of all k for a mean reciprocal rank; none without attack."""
        if score.endswith(CLEAN):
            return ()
        # Searches of the score's direction; those for its k alone where it names one
        own = {at: observation.searches for at, observation in self.rank_searches.items() if score.startswith(at[0])}
        exact = [searches for (way, k), searches in own.items() if score == f"{way} recall@{k}, {WORST}"]
        return tuple(search for searches in exact or own.values() for search in searches)

    def check(self, ids: Sequence[str]) -> None:
        """Read the captions, of which every image has one.

        Raises:
            HoldfastError: a file that is none of captions, or an image without one.
        """
        read_captions(self.path).owners(ids)

    @property
    def column(self) -> str:
        """The reciprocal rank of the first own caption, of the worst that was found."""
        return f"reciprocal@{WORST}"

    def observe(self, subject: Subject) -> Table:
        """Return how early every attacked image and its captions find each other, without and with an attack.

        Raises:
            HoldfastError: captions that do not fit, or an index of no more than k other images.
        """
        clean = Clean.of(subject).double()
        self.fits(len(clean))
        captions = read_captions(self.path, clean.shape[1])
        # One tensor for each search and each of its points, of the first images
        points = [reps for points in subject.collect_points(self.ball) for reps in points.unbind(1)]
        return self.table(captions.texts, captions.owners(subject.ids), clean, subject.attacked, points)

    def table(
        self,
        texts: Float[Tensor, "texts dim"],
        owners: Int[Tensor, "texts"],
        clean: Float[Tensor, "population dim"],
        attacked: int,
        points: Sequence[Tensor],
    ) -> Table:
        """Return the table of representations.

        Args:
            texts: embeddings of all texts.
            owners: which image of the population each belongs to, -1 for none.
            clean: representations of the population.
            attacked: how many images, the first ones, were attacked.
            points: what each search met of the first images, [M_i, D]; NaN where it met nothing.
        """
        # Captions of the attacked images are queries; all captions of
        # the file are the index of texts
        own = (owners >= 0) & (owners < attacked)
        owners = owners.masked_fill(~own, -1)
        # of what met no or few images, these where they are
        met = [clean[:attacked].clone() for _ in points]
        for moved, reps in zip(met, points, strict=True):
            # NaN: the search met nothing in the ball for this image
            inside = ~reps.isnan().any(1)
            moved[: len(reps)][inside] = reps[inside]
        # Both directions, as functions of the representations of the attacked images
        among = {
            "rank": lambda reps: ranks_among_texts(reps, texts, owners),
            "text rank": lambda reps: ranks_among_images(texts[own], owners[own], reps, clean),
        }
        table: Table = {}
        for name, ranked in among.items():
            at = ranked(clean[:attacked])
            # The largest rank of each query, clean ones included, and what it was met at
            worst, which = torch.stack([at, *map(ranked, met)]).max(0)
            for query, ranks in ((CLEAN, at), (WORST, worst)):
                # Images have one rank, but captions one each, and the
                # table has a row for each image
                columns = {name: ranks} if name == "rank" else _split_by_caption(ranks, owners[own], attacked)
                table |= {f"{column}@{query}": values for column, values in columns.items()}
            if name == "rank":
                # The representations at which the worst ranks were met, [attacked, D]
                reached = torch.stack([clean[:attacked], *met])[which, torch.arange(attacked)]
                for query, reps in ((CLEAN, clean[:attacked]), (WORST, reached)):
                    reciprocal = 1 / table[f"rank@{query}"]
                    # The mean where the texts of each image in turn are out of the
                    # index: an influence by leaving out
                    others = reciprocal_without_each(reps, texts, owners)
                    # As a query, and by its texts as rivals of other queries; the mean
                    # of the parts is the mean itself
                    parts = reciprocal - attacked * (others - others.mean())
                    table |= {f"reciprocal@{query}": reciprocal, f"parts@{query}": parts}
        sizes = {"captions": len(owners), "population": len(clean)}
        return table | {name: torch.full_like(table[self.column], size) for name, size in sizes.items()}

    def reduce(self, table: Table) -> dict[str, Statistic]:
        """Return recall at every k and the mean reciprocal rank: both directions, without and with an attack."""
        reduced: dict[str, Statistic] = {}
        for direction in (TO_IMAGE, TO_TEXT):
            for query in (CLEAN, WORST):
                recall = partial(_recall, table, direction, query)
                reduced |= {f"{direction} recall@{k}, {query}": recall(k) for k in self.k}
                ranks, units = _queries(table, direction, query)
                reduced[f"{direction} mean reciprocal rank, {query}"] = (
                    # The headline's interval is over images and
                    # captions, as its parts know both roles
                    DrawnMean(1 / ranks, table[f"parts@{query}"], "over images and captions", most=1.0)
                    if direction == TO_TEXT
                    else Mean(1 / ranks, units, CONDITION, most=1.0)
                )
        return reduced

    def charts(self, table: Table, scores: Mapping[str, Score]) -> tuple[Chart, ...]:
        """Return recall against k, for each direction."""
        about = f"Solid: attacked, {WORST}; dashed: {CLEAN}. Searches pursued the first place and the marked ones."
        sizes = {TO_TEXT: "captions", TO_IMAGE: "population"}
        return tuple(
            self.curve(
                int(table[size][0]) - 1,
                [partial(_recall, table, direction, query) for query in (WORST, CLEAN)],
                about,
                pursued=True,
                title=direction,
            )
            for direction, size in sizes.items()
        )


def _split_by_caption(ranks: Tensor, owners: Int[Tensor, "texts"], images: int) -> dict[str, Float[Tensor, "images"]]:
    """Return a column for the first caption of each image, one for the second, ...; NaN where it has fewer."""
    # Captions sorted by their image, in the order of the file within each
    order = owners.argsort(stable=True)
    ordered = owners[order]
    # the number of each caption among those of its image
    number = torch.arange(len(ordered)) - torch.searchsorted(ordered, ordered)
    filled = torch.full((images, int(number.max()) + 1), torch.nan, dtype=torch.float64)
    filled[ordered, number] = ranks[order]
    return {f"text rank {column}": values for column, values in enumerate(filled.unbind(1), 1)}


def _queries(table: Table, direction: str, query: str) -> tuple[Float[Tensor, "queries"], Tensor | None]:
    """Return the ranks that all queries of a direction have, and which belong to one image; None: one for each."""
    if direction == TO_TEXT:
        return table[f"rank@{query}"], None
    names = (name for name in table if name.startswith("text rank ") and name.endswith(f"@{query}"))
    # [images, captions of each at most], NaN where an image has fewer
    ranks = torch.stack([table[name] for name in names], 1)
    image, number = (~ranks.isnan()).nonzero(as_tuple=True)
    return ranks[image, number], image if ranks.shape[1] > 1 else None


def _recall(table: Table, direction: str, query: str, k: int) -> Statistic:
    """Return the share of queries that find what they should among the first k."""
    ranks, units = _queries(table, direction, query)
    return Share((ranks <= k).double(), units, CONDITION)
