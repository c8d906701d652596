"""Distance to a vector that an index keeps as a code of product quantisation."""

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import ClassVar

import torch
from jaxtyping import Float
from torch import Tensor

from holdfast.core import Margin
from holdfast.numerics.geometry.blocks import Side, rows_in_memory, square_distances
from holdfast.numerics.geometry.divergence import Bank, LinearDivergence, PerPair, Rivals, Scores, Vectors
from holdfast.runtime.errors import BadData, Mismatch, Missing, NotFinite
from holdfast.sources.data.shared.array_file import map_array

MOST = 2**24
"""Numbers of codebooks, at most: 256 centroids of 65,536 dimensions."""


@dataclass(frozen=True)
class ProductQuantised(LinearDivergence):
    """||a - q(b)||², q(b) = (c_1, …, c_M), c_m the centroid of codebook m that is nearest to the m-th piece of b.

    What an index of codes compares, asymmetrically: the query is whole, what it keeps is a code. An image need not be
    nearest to its own code, and two images may share one; what shares the code is as near, and not nearer. An index
    that normalises vectors first needs an encoder that does.

    Attributes:
        path: a .npy file of the index's codebooks, [M, K, D / M]: M pieces of each vector, K centroids for each.

    Source: Jégou et al. (2011), Eq. 13, asymmetric distance computation; FAISS as `IndexPQ`.

    Example:
        >>> ProductQuantised("codebooks.npy").symmetric
        False
    """

    path: str = ""

    symmetric: ClassVar[bool] = False

    @cached_property
    def codebooks(self) -> Float[Tensor, "pieces centroids width"]:
        """The centroids in the file, read when they are first asked for.

        Raises:
            HoldfastError: no file, or one that holds something else.
        """
        if not self.path:
            raise Missing(
                "product_quantised: expected path=FILE.npy, the codebooks of an index, [pieces, centroids, width], "
                "got none; of FAISS's pq: faiss.vector_to_array(pq.centroids).reshape(pq.M, pq.ksub, pq.dsub)"
            )
        held = map_array(Path(self.path))
        if held.ndim != 3 or held.dtype.kind != "f" or not 0 < held.size <= MOST:
            raise BadData(
                f"codebooks {self.path!r}: expected floating-point numbers [pieces, centroids, width], got "
                f"{held.dtype} {list(held.shape)}"
            )
        centroids = torch.tensor(held, dtype=torch.float64)
        if not bool(centroids.isfinite().all()):
            raise NotFinite(f"codebooks {self.path!r}: expected finite numbers, got others; train the index again")
        return centroids

    def quantise(self, reps: Vectors) -> Vectors:
        """Return q(b) of each vector in float64: what its code stands for.

        Raises:
            HoldfastError: vectors of another length than the codebooks.
        """
        books = self.codebooks.to(reps.device)
        pieces, _, width = books.shape
        if reps.shape[-1] != pieces * width:
            raise Mismatch(
                f"codebooks {self.path!r}: expected representations of {pieces} x {width} = {pieces * width} numbers, "
                f"got {reps.shape[-1]}; give the codebooks of an index of this encoder's vectors"
            )
        each = torch.arange(pieces, device=reps.device)
        # From differences, not a matrix product, whose rounding could give a vector another code in other company
        found = [
            books[each, (rows[:, :, None] - books).square().sum(-1).argmin(-1)]
            for rows in reps.double().reshape(-1, pieces, width).split(rows_in_memory(books.numel()))
        ]
        return torch.cat(found).reshape(reps.shape) if found else reps.double()

    def __call__(self, a: Vectors, b: Vectors) -> PerPair:
        """Return the squared distance of each vector from what the code of another one stands for."""
        return (a - self.quantise(b.detach()).to(b)).square().sum(-1)

    def embed(self, reps: Vectors) -> Vectors:
        """Return each vector, and behind it what its code stands for: blocks read rows whole, columns as codes."""
        return torch.cat([reps, self.quantise(reps)], -1)

    def block(self, rows: Side, columns: Side) -> Float[Tensor, "rows columns"]:
        """Return the distances of all pairs, by a matrix product."""
        dim = rows.reps.shape[1] // 2
        codes = columns.reps[:, dim:]
        return square_distances(Side(rows.reps[:, :dim], codes[:1]), Side(codes, codes[:1]))

    def points(self, reps: Vectors) -> Vectors:
        """Return what codes stand for: images of one code are alike to the index."""
        return self.quantise(reps)

    def between(self, positive: Float[Tensor, "batch dim"], negatives: Rivals) -> Margin:
        """Return 2 (q⁺ - q⁻) · f(x') + ||q⁻||² - ||q⁺||², which is d(f', f⁻) - d(f', f⁺)."""
        own, rivals = self.quantise(positive)[:, None], self.quantise(negatives)
        return Margin(2 * (own - rivals), ((rivals - own) * (rivals + own)).sum(-1))

    def scores(self, bank: Bank) -> Scores:
        """Return -||f' - q_j||² without ||f'||², around the middle of the codes: less cancels."""
        codes = self.quantise(bank)
        middle = codes.mean(0)
        return Scores(2 * (codes - middle), -(codes - middle).square().sum(1), middle)
