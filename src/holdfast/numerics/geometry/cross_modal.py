"""How early images and their texts find each other, by cosine, where each image may have several texts."""

from collections.abc import Iterator

import torch
from jaxtyping import Float, Int
from torch import Tensor

from holdfast.numerics.geometry.directions import cosine, unit

TIE = 1e-12
"""Cosines that differ by no more are equal: rounding in float64."""

ENTRIES = 2**22
"""Cosines that are held at a time: 32 MiB."""

Reps = Float[Tensor, "images dim"]
Texts = Float[Tensor, "texts dim"]
Owners = Int[Tensor, "texts"]


def ranks_among_texts(reps: Reps, texts: Texts, owners: Owners) -> Float[Tensor, "images"]:
    """Return the rank of the first own text of each image: 1 + #{texts of others strictly nearer than all own ones}.

    Args:
        reps: representations of the images, [M, D].
        texts: embeddings of all texts, [T, D].
        owners: which image each text belongs to; images without a row, and -1, own texts of others.

    Returns:
        Ranks in float64, [M]; NaN where an image has no text.

    Example:
        >>> texts, owners = torch.tensor([[1.0, 0.0], [1.0, 1.0], [0.0, 1.0]]), torch.tensor([0, 1, 0])
        >>> ranks_among_texts(torch.tensor([[1.0, 0.9], [0.1, 1.0]]), texts, owners).tolist()
        [2.0, 2.0]
    """
    ranks = torch.empty(len(reps), dtype=torch.float64)
    for rows in _rows(len(reps), len(texts)):
        apart = _distances(reps[rows], texts)
        # [rows, texts]
        own = owners == rows[:, None]
        nearest = apart.masked_fill(~own, torch.inf).amin(1, keepdim=True)
        # Texts of others that are nearer than the nearest own one; ties have the better rank
        ahead = 1.0 + ((apart < nearest - TIE) & ~own).sum(1)
        ranks[rows] = ahead.double().masked_fill(~own.any(1), torch.nan)
    return ranks


def reciprocal_without_each(reps: Reps, texts: Texts, owners: Owners) -> Float[Tensor, "images"]:
    """Return the mean of 1 / rank (see `ranks_among_texts`) where the texts of each image in turn do not rank others.

    Args:
        reps: representations of the images, [M, D].
        texts: embeddings of all texts, [T, D].
        owners: which image each text belongs to; -1 for none of them.

    Example:
        >>> texts, owners = torch.tensor([[1.0, 0.0], [1.0, 1.0], [0.0, 1.0]]), torch.tensor([0, 1, 0])
        >>> reciprocal_without_each(torch.tensor([[1.0, 0.9], [0.1, 1.0]]), texts, owners).tolist()
        [0.75, 0.75]
    """
    gained, total, count = torch.zeros(len(reps), dtype=torch.float64), 0.0, 0
    owned = owners >= 0
    for rows in _rows(len(reps), len(texts)):
        apart = _distances(reps[rows], texts)
        own = owners == rows[:, None]
        nearest = apart.masked_fill(~own, torch.inf).amin(1, keepdim=True)
        # Images without a text have no rank
        ahead = ((apart < nearest - TIE) & ~own)[own.any(1)].double()
        ranks = 1 + ahead.sum(1, keepdim=True)
        # [rows, images]: how many of these texts are each image's, by which the rank falls without it
        by_owner = torch.zeros(len(ahead), len(reps), dtype=torch.float64).index_add_(1, owners[owned], ahead[:, owned])
        gained += (1 / (ranks - by_owner) - 1 / ranks).sum(0)
        total, count = total + float((1 / ranks).sum()), count + len(ranks)
    return (total + gained) / max(count, 1)


def ranks_among_images(
    texts: Texts, owners: Owners, moved: Float[Tensor, "moved dim"], images: Reps
) -> Float[Tensor, "texts"]:
    """Return the rank of the moved image of each text among clean ones: 1 + #{other images strictly nearer to it}.

    The index holds `images` with the text's own one replaced by its moved version.

    Args:
        texts: embeddings of the texts, [T, D].
        owners: which image each belongs to, one of the moved ones, [T].
        moved: representations of the first images after a disturbance, [M, D].
        images: clean representations of all images, [N, D].

    Example:
        >>> text, moved = torch.tensor([[1.0, 0.5]]), torch.tensor([[-1.0, 0.0]])
        >>> ranks_among_images(text, torch.tensor([0]), moved, images=torch.eye(2)).tolist()
        [2.0]
    """
    ranks = torch.empty(len(texts), dtype=torch.float64)
    for rows in _rows(len(texts), len(images)):
        own = owners[rows]
        apart = _distances(texts[rows], images)
        reached = cosine(texts[rows].double(), moved[own].double())
        # The index does not hold the clean version of the own image
        nearer = (apart < reached[:, None] - TIE).scatter(1, own[:, None], value=False)
        ranks[rows] = 1.0 + nearer.sum(1).double()
    return ranks


def _rows(count: int, width: int) -> Iterator[Int[Tensor, "rows"]]:
    return iter(torch.arange(count).split(max(1, ENTRIES // max(1, width))))


def _distances(queries: Float[Tensor, "rows dim"], bank: Float[Tensor, "bank dim"]) -> Float[Tensor, "rows bank"]:
    """Return the cosine distances of all pairs."""
    return (1 - unit(queries.double()) @ unit(bank.double()).T).clamp_min_(0)
