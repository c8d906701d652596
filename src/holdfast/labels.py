"""The one use of labels: a linear head on frozen representations, and how it comes about."""

from abc import ABC, abstractmethod
from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from holdfast.encoder import Reps
from holdfast.errors import HoldfastError
from holdfast.worst_case import Margin


@dataclass(frozen=True)
class Head:
    """A linear classifier on representations: logits = weights · f(x) + bias.

    Attributes:
        weights: [C, D].
        bias: [C].
        classes: the label that each logit stands for, increasing, [C].
    """

    weights: Float[Tensor, "classes dim"]
    bias: Float[Tensor, "classes"]
    classes: Int[Tensor, "classes"]

    def numbers(self, labels: Int[Tensor, "batch"]) -> Int[Tensor, "batch"]:
        """Return which logit each label is.

        Raises:
            HoldfastError: a label that is not among the classes.
        """
        found = labels[:, None] == self.classes
        if not found.any(1).all():
            strange = sorted(set(labels[~found.any(1)].tolist()))
            raise HoldfastError(
                f"labels {strange[:5]}: expected classes that the head knows, {self.classes.tolist()[:10]}; leave such "
                "images out or use a head of all classes"
            )
        return found.long().argmax(1)

    def margins(self, labels: Int[Tensor, "batch"]) -> Margin:
        """Return what has to stay positive for a class to stay: rows e_y - e_j, j != y, in the order of classes.

        weights [B, C-1, D], bias [B, C-1]. The smallest row of a representation tells whether it is classified as y.

        Raises:
            HoldfastError: a label that is not among the classes.
        """
        own = self.numbers(labels)
        every = torch.arange(len(self.classes)).expand(len(labels), -1)
        others = every[every != own[:, None]].view(len(labels), -1)
        return Margin(
            self.weights[own, None] - self.weights[others],
            self.bias[own, None] - self.bias[others],
        )

    def correct(self, reps: Reps, labels: Int[Tensor, "batch"]) -> Bool[Tensor, "batch"]:
        """Return whether each representation is classified as its label; a tie is not."""
        return (self.margins(labels)(reps.to(self.weights.dtype)) > 0).all(1)


class Probe(ABC):
    """How a linear head on frozen clean representations comes about: the one use of labels; a frozen dataclass."""

    trains: bool = True
    """Whether it reads the representations and labels it is given; a head from a file does not."""

    @abstractmethod
    def fit(self, reps: Reps, labels: Int[Tensor, "batch"]) -> Head:
        """Return a head for some representations, [N, D], and their labels, [N].

        Raises:
            HoldfastError: representations that are not finite, or of one class only.
        """
