"""A classifier under audit: its representation is its logits."""

from dataclasses import dataclass

import torch
from jaxtyping import Int
from torch import Tensor

from holdfast.core import Head, HoldfastError, LinearProbe, Reps


@dataclass(frozen=True)
class Logits(LinearProbe):
    """The identity: logit c of label c is coordinate c of f(x), for an encoder that is a classifier itself.

    Nothing is learned, so every image is unseen.

    Example:
        >>> Logits().fit(torch.tensor([[2.0, 0.0], [0.0, 1.0]]), torch.tensor([0, 1])).weights.tolist()
        [[1.0, 0.0], [0.0, 1.0]]
    """

    trains = False

    def fit(self, reps: Reps, labels: Int[Tensor, "batch"]) -> Head:
        """Return the identity as a head.

        Raises:
            HoldfastError: outputs that are probabilities instead of logits, one output only, or a label without one.
        """
        count = reps.shape[1]
        if count < 2 or int(labels.max()) >= count or int(labels.min()) < 0:
            raise HoldfastError(
                f"logits: expected an output for every class, got {count} outputs and labels from {int(labels.min())} "
                f"to {int(labels.max())}; use an encoder that is a classifier of these classes, or the probe linear"
            )
        if bool((reps >= 0).all()) and torch.allclose(reps.sum(1), torch.ones_like(reps[:, 0]), atol=1e-3):
            raise HoldfastError(
                "logits: the encoder's outputs are probabilities (none is negative, their sums are 1); give the "
                "network without its softmax: their margins have no gradient where the classifier is sure"
            )
        return Head(torch.eye(count), torch.zeros(count), torch.arange(count))
