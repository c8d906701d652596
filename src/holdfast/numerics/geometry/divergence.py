"""How far two representations are apart, and all that comparisons, attacks and certificates must know of it."""

from abc import abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, fields, replace
from typing import Any, ClassVar

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from holdfast.numerics.bounds.margin import Margin
from holdfast.numerics.geometry.blocks import Side
from holdfast.numerics.geometry.directions import unit
from holdfast.numerics.geometry.invariance import NOTHING
from holdfast.numerics.statistics.score import Score
from holdfast.runtime.checked import Checked, derive_name

Vectors = Float[Tensor, "*batch dim"]
PerPair = Float[Tensor, "*batch"]
Bank = Float[Tensor, "bank dim"]
Queries = Float[Tensor, "queries dim"]
Rivals = Float[Tensor, "batch rows dim"]
All = Float[Tensor, "queries bank"]

TIE = 1e-9
"""Share of two numbers by which they must differ to be told apart."""


class Divergence(metaclass=Checked):
    """d(a, b), how far the representation a of an image, such as a query, is from another one, b; a frozen dataclass.

    The smaller, the nearer. It is differentiable, with a finite gradient where a = b, or says what attacks `pursue`.

    Attributes:
        title: what people call its values, "cosine distance"; "" where only its name says it.
        symmetric: whether d(a, b) = d(b, a); where not, both orders of a pair of images count.
        signed: whether it may be below 0, so that a representation need not be nearest to itself.
        negated: whether people know its values with the other sign, as of an inner product: the larger, the nearer.
        of_directions: whether it reads the directions of representations alone, not their lengths.
        exact: whether blocks hold the very values of the definition, as of whole numbers.
        invariant: which changes of representations change it by a common factor at most, see `invariance`.
    """

    title: ClassVar[str] = ""
    symmetric: ClassVar[bool] = True
    signed: ClassVar[bool] = False
    negated: ClassVar[bool] = False
    of_directions: ClassVar[bool] = False
    exact: ClassVar[bool] = False
    invariant: ClassVar[frozenset[str] | None] = NOTHING

    @abstractmethod
    def __call__(self, a: Vectors, b: Vectors) -> PerPair:
        """Return d(a, b), one value for each pair of vectors."""

    @abstractmethod
    def block(self, rows: Side, columns: Side) -> Float[Tensor, "rows columns"]:
        """Return d(a_i, b_j) of all pairs of two sides, embedded, in float64, as far as rounding allows."""

    def pursue(self, a: Vectors, b: Vectors) -> PerPair:
        """Return what attacks follow: d itself, or a smooth stand-in where it has no gradient."""
        return self(a, b)

    def floor(self, reps: Queries, bank: Bank) -> float:
        """Return the absolute rounding of blocks, where they subtract; 0: a block is 0 where d is, exactly."""
        return 0.0

    def embed(self, reps: Vectors) -> Vectors:
        """Return representations in float64 as blocks take them."""
        return reps

    def points(self, reps: Vectors) -> Vectors:
        """Return representations without what it does not read: those that are alike here are alike to it."""
        return unit(reps) if self.of_directions else reps

    @property
    def kernel(self) -> "Divergence":
        """What blocks hold where distances are only compared: one of the same order that costs less."""
        return self

    def to_kernel(self, distances: Tensor) -> Tensor:
        """Return what the kernel is where this divergence has some values, in the same order."""
        return distances

    def from_kernel(self, distances: Tensor) -> Tensor:
        """Return this divergence where the kernel has some values."""
        return distances

    @property
    def in_words(self) -> str:
        """What its values are, in a sentence."""
        return self.title or f"divergence {self}"

    def show(self, value: float) -> float:
        """Return one of its values as people know it, or from what people know its value: see `negated`."""
        return -value if self.negated else value

    def show_score(self, score: Score) -> Score:
        """Return a score of its values as people know them."""
        if not self.negated:
            return score
        value, low, high = (None if end is None else -end for end in (score.value, score.high, score.low))
        return replace(score, value=value, low=low, high=high)

    def __str__(self) -> str:
        """Return the name, and the fields, as commands take them."""
        own: Any = self  # a dataclass; what is remembered beside its fields is none of them
        values = [f"{field.name}={getattr(self, field.name)}" for field in fields(own)]
        return derive_name(type(self)) + (f"[{','.join(values)}]" if values else "")


@dataclass(frozen=True)
class Scores:
    """How near each image of the population is to representations: weights · (f' - middle) + bias, largest for nearest.

    Attributes:
        weights: a row for each image of the population, [N, D].
        bias: [N].
        middle: [D].
    """

    weights: Bank
    bias: Float[Tensor, "bank"]
    middle: Float[Tensor, "dim"]

    def __call__(self, reps: Vectors) -> Float[Tensor, "*batch bank"]:
        """Return the scores of representations in float64."""
        # [*, D] @ [D, N]: all images of the population by one matrix product
        return (reps.double() - self.middle) @ self.weights.T + self.bias


class LinearDivergence(Divergence):
    """A divergence of which two values, d(f', b) and d(f', c), compare as a linear function of f' does.

    So "nearer to b than to c" is a half-space, of which certificates can speak.
    """

    @abstractmethod
    def between(self, positive: Float[Tensor, "batch dim"], negatives: Rivals) -> Margin:
        """Return the margins that are positive exactly where f' is nearer to `positive` than to each negative.

        Args:
            positive: representations of the images x⁺, [B, D].
            negatives: of the images that each is compared with, [B, R, D].
        """

    @abstractmethod
    def scores(self, bank: Bank) -> Scores:
        """Return what scores representations against a whole bank, in float64; the nearest one scores highest."""

    def against(self, reps: Float[Tensor, "queries dim"], bank: Bank, own: Int[Tensor, "queries"]) -> tuple[All, All]:
        """Return the margins of representations against a whole bank, and within what they are ties.

        Args:
            reps: representations f(x'), in float64, [M, D].
            bank: clean representations, in float64, [N, D].
            own: position in the bank of each one's clean image, [M].
        """
        scores = self.scores(bank)
        found = scores(reps)
        # Ties in units of the products that scores are made of
        size = (reps - scores.middle).norm(dim=1, keepdim=True) * scores.weights.norm(dim=1).max()
        return found.gather(1, own[:, None]) - found, TIE * size.expand_as(found)


class EuclideanDivergence(LinearDivergence):
    """A linear divergence that orders representations as Euclidean distances of their `points` do."""

    @abstractmethod
    def lead(self, reps: Float[Tensor, "batch dim"]) -> Float[Tensor, "batch"]:
        """Return c_i, by which scores differ at f_i itself: s_i(f_i) - s_j(f_i) = c_i ||p_i - p_j||², p its `points`.

        Args:
            reps: clean representations, in float64, [B, D].
        """


@dataclass(frozen=True)
class DistanceMargin:
    """Margins m(x') = d(f', f⁻) - d(f', f⁺) of a divergence without linear ones: what its attacks pursue.

    Attributes:
        divergence: d.
        positive: representations of the images x⁺, [B, D].
        negatives: of the images that each is compared with, [B, R, D].
        none: which of these are no rivals: their margins are 1, [B, R].
    """

    divergence: Divergence
    positive: Float[Tensor, "batch dim"]
    negatives: Rivals
    none: Bool[Tensor, "batch rows"]

    def __call__(self, reps: Float[Tensor, "batch dim"]) -> Float[Tensor, "batch rows"]:
        """Return the margins of some representations."""
        return torch.stack([self.row(number)(reps) for number in range(self.none.shape[1])], 1)

    def row(self, number: int) -> Callable[[Float[Tensor, "batch dim"]], Float[Tensor, "batch"]]:
        """Return the margins against one negative of each image."""

        def margin(reps: Float[Tensor, "batch dim"]) -> Float[Tensor, "batch"]:
            # Near ones would be told apart by rounding
            moved = reps.double()
            apart = self.divergence.pursue(moved, self.negatives[:, number])
            return (
                (apart - self.divergence.pursue(moved, self.positive)).masked_fill(self.none[:, number], 1.0).to(reps)
            )

        return margin
