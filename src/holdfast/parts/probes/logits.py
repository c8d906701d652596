"""A classifier under audit: its representation is its logits."""

from dataclasses import dataclass

import scipy
import torch
from jaxtyping import Int
from torch import Tensor

from holdfast.core import Head, LinearProbe, Reps
from holdfast.numerics.geometry.invariance import NOTHING
from holdfast.runtime.errors import Mismatch, Unsupported

CERTAIN = 0.01
"""How rarely guesses may be right as seldom, for a classifier to count as worse than they are."""


@dataclass(frozen=True)
class Logits(LinearProbe):
    """The identity: logit c of label c is coordinate c of f(x), for an encoder that is a classifier itself.

    Nothing is learned, so every image is unseen.

    Example:
        >>> Logits().fit(torch.tensor([[2.0, 0.0], [0.0, 1.0]]), torch.tensor([0, 1])).weights.tolist()
        [[1.0, 0.0], [0.0, 1.0]]
    """

    invariant = NOTHING

    trains = False

    def fit(self, reps: Reps, labels: Int[Tensor, "batch"]) -> Head:
        """Return the identity as a head.

        Raises:
            HoldfastError: outputs that are probabilities instead of logits, one output only, a label without one, or
                outputs that are right about the labels less often than guesses are.
        """
        count = reps.shape[1]
        if count < 2 or int(labels.max()) >= count or int(labels.min()) < 0:
            raise Mismatch(
                f"logits: expected an output for every class, got {count} outputs and labels from {int(labels.min())} "
                f"to {int(labels.max())}; use an encoder that is a classifier of these classes, or the probe linear"
            )
        # A softmax is told by what no logits do: none is negative, and every sum is 1
        if bool((reps >= 0).all()) and torch.allclose(reps.sum(1), torch.ones_like(reps[:, 0]), atol=1e-3):
            raise Unsupported(
                "logits: the encoder's outputs are probabilities (none is negative, their sums are 1); give the "
                "network without its softmax: their margins have no gradient where the classifier is sure"
            )
        _check_classes(reps, labels)
        return Head(torch.eye(count), torch.zeros(count), torch.arange(count))


def _check_classes(reps: Reps, labels: Int[Tensor, "batch"]) -> None:
    """Refuse outputs that are no classes of the labels: features of a network, or classes in another order.

    A guess among the classes of the images is right once in so many. As many outputs as classes are refused where they
    are right so seldom that guesses hardly are; others, of which some stand for no label, where guesses are better.
    """
    count, classes, images = reps.shape[1], max(len(labels.unique()), 2), len(labels)
    right = int((reps.argmax(1).cpu() == labels.cpu()).sum())
    guesses = images / classes
    # How probable it is that guesses are right no more often
    as_seldom = scipy.stats.binom.cdf(right, images, 1 / classes)
    if right < guesses and (count != classes or as_seldom < CERTAIN):
        raise Mismatch(
            f"logits: expected outputs that are the classes, in the order of the labels, got {count} outputs that are "
            f"right about {right} of {images} images of {classes} classes, where guesses are about {guesses:.3g}; give "
            "the layer of the classifier, or a head: the probe trained or linear"
        )
