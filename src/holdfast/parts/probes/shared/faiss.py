"""The nearest members of a bank by faiss's exact search: what `nearest_in_chunks` gives, from an optional package."""

from collections.abc import Iterable

import torch
from jaxtyping import Float, Int
from torch import Tensor

from holdfast.core import Reps
from holdfast.numerics.geometry.directions import unit
from holdfast.parts.probes.shared.training import check_finite
from holdfast.runtime.optional import optional


def top(queries: Reps, bank: Iterable[Tensor], k: int) -> tuple[Float[Tensor, "queries k"], Int[Tensor, "queries k"]]:
    """Return the cosines to the k bank members most similar to each query, and where they stand, most similar first.

    Which of equal cosines comes first is faiss's choice.

    Args:
        queries: representations, [Q, D].
        bank: representations in chunks [n, D]; read once, in order.
        k: how many.

    Raises:
        HoldfastError: faiss is not installed, or representations that are not finite.
    """
    faiss = optional("faiss", "faiss-cpu", "faiss", "knn with index=faiss")
    directions = _unit(queries)
    cosines, places, start = torch.empty(len(directions), 0), torch.empty(len(directions), 0, dtype=torch.int64), 0
    for chunk in bank:
        members = _unit(chunk)
        # The best of this chunk, then the best of these and those of the chunks before
        similarities, at = faiss.knn(
            directions.numpy(), members.numpy(), min(k, len(members)), metric=faiss.METRIC_INNER_PRODUCT
        )
        cosines = torch.cat([cosines, torch.from_numpy(similarities)], 1)
        places = torch.cat([places, torch.from_numpy(at) + start], 1)
        cosines, best = cosines.topk(min(k, cosines.shape[1]))
        places, start = places.gather(1, best), start + len(members)
    return cosines, places


def _unit(reps: Reps) -> Reps:
    check_finite(reps)
    return unit(reps.detach().cpu().float()).contiguous()
