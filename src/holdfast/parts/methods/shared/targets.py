"""What views predict of each other, and how slowly a twin that gives targets follows."""

import math
from collections.abc import Iterator, Sequence

from torch import Tensor

from holdfast.core import EncodedView


def pairs(views: Sequence[EncodedView]) -> Iterator[tuple[Tensor, Tensor]]:
    """Yield (out of one view, target of another) for all ordered pairs of views that have them."""
    for i, first in enumerate(views):
        for j, second in enumerate(views):
            # A view does not predict itself; some views only predict, others are only predicted
            if i != j and first.out is not None and second.target is not None:
                yield first.out, second.target


def momentum_at(first: float, progress: float) -> float:
    """Return 1 - (1 - first) (1 + cos(π · progress)) / 2: a momentum that rises from `first` to 1."""
    return 1 - (1 - first) * (1 + math.cos(math.pi * progress)) / 2
