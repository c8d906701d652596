"""The one use of labels: classifiers of frozen representations, and how they come about."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import ClassVar

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from holdfast.core.certificate import Margin
from holdfast.core.encoder import Reps
from holdfast.runtime.checked import Checked
from holdfast.runtime.errors import Mismatch, Unsupported


@dataclass(frozen=True)
class Bank:
    """Labelled representations that a probe learns from, in chunks that need not be in memory together.

    Attributes:
        labels: the class of each, [N].
        chunks: begins anew with the first ones, whenever it is called; chunks [n, D], N rows in all.
    """

    labels: Int[Tensor, "bank"]
    chunks: Callable[[], Iterator[Reps]]

    def reps(self) -> Reps:
        """Return all of them together, [N, D]."""
        return torch.cat(list(self.chunks()))


class Classifier(ABC):
    """What a probe learned: scores of classes for representations.

    Attributes:
        classes: the label that each score stands for, increasing, [C].
    """

    classes: Int[Tensor, "classes"]

    @abstractmethod
    def scores(self, reps: Reps) -> Float[Tensor, "batch classes"]:
        """Return a score of each class, the larger the likelier, [B, C]."""

    def ranks(self, reps: Reps, labels: Int[Tensor, "batch"]) -> Int[Tensor, "batch"]:
        """Number of other classes that score at least as high as the image's own, [B]: 0 where it is the first.

        A tie counts against the image.

        Raises:
            HoldfastError: a label that is not among the classes.
        """
        own, scores = self.numbers(labels), self.scores(reps).cpu()  # [B], [B, C]
        # Classes that are not below the own one, less that one itself
        return (~(scores < scores.gather(1, own[:, None]))).sum(1) - 1  # NaN is no answer

    def numbers(self, labels: Int[Tensor, "batch"]) -> Int[Tensor, "batch"]:
        """Position of each label among the logits.

        Raises:
            HoldfastError: a label that is not among the classes.
        """
        # [B, C]; classes and labels are numbers that the data give, no positions
        matches = labels[:, None] == self.classes
        if not matches.any(1).all():
            strange = sorted(set(labels[~matches.any(1)].tolist()))
            raise Mismatch(
                f"labels {strange[:5]}: expected classes that the head knows, {self.classes.tolist()[:10]}; leave such "
                "images out or use a head of all classes"
            )
        return matches.long().argmax(1)


@dataclass(frozen=True)
class Head(Classifier):
    """A linear classifier on representations: logits = weights · f(x) + bias.

    Attributes:
        weights: [C, D].
        bias: [C].
        classes: the label that each logit stands for, increasing, [C].
    """

    weights: Float[Tensor, "classes dim"]
    bias: Float[Tensor, "classes"]
    classes: Int[Tensor, "classes"]

    def scores(self, reps: Reps) -> Float[Tensor, "batch classes"]:
        """Return the logits."""
        return reps.to(self.weights.dtype) @ self.weights.T + self.bias

    def margins(self, labels: Int[Tensor, "batch"]) -> Margin:
        """Margins that are all positive while the class stays: rows e_y - e_j, j != y, in the order of classes.

        weights [B, C-1, D], bias [B, C-1]. The smallest row of a representation tells whether it is classified as y.

        Raises:
            HoldfastError: a label that is not among the classes.
        """
        own = self.numbers(labels)
        # A row of the margin for every class but the own one
        classes = torch.arange(len(self.classes)).expand(len(labels), -1)
        # Each image loses one class, so what is left folds into rows again, [B, C-1]
        rivals = classes[classes != own[:, None]].view(len(labels), -1)
        # Row j is (w_y - w_j) · f(x) + b_y - b_j, the logit of the class minus that of a rival
        return Margin(
            self.weights[own, None] - self.weights[rivals],
            self.bias[own, None] - self.bias[rivals],
        )

    def correct(self, reps: Reps, labels: Int[Tensor, "batch"]) -> Bool[Tensor, "batch"]:
        """Whether each representation is classified as its label; a tie is not."""
        return (self.margins(labels)(reps.to(self.weights.dtype)) > 0).all(1)


class Probe(metaclass=Checked):
    """How a classifier of frozen representations comes about: the one use of labels; a frozen dataclass."""

    trains: bool = True
    """Whether it reads the representations and labels it is given; a head from a file does not."""

    invariant: ClassVar[frozenset[str] | None] = None
    """Which changes of the representation change no class that it tells; None: it does not say."""

    through: str = ""
    """The observation in which it learns through the encoder, from images, by its name; it has the fields `probe` and
    `threat`, and `fit` refuses. Empty where it learns from representations."""

    @abstractmethod
    def fit(self, reps: Reps, labels: Int[Tensor, "batch"]) -> Classifier:
        """Return a classifier for some representations, [N, D], and their labels, [N].

        Raises:
            HoldfastError: representations that are not finite, or of one class only.
        """

    def learn(self, bank: Bank) -> Classifier:
        """Return the same for representations that may be too many for memory; here they are put together."""
        return self.fit(bank.reps(), bank.labels)

    def build_classifier(self, results: Mapping[str, Tensor]) -> Classifier:
        """Return what it learned through the encoder, from what that observation saw; see `through`."""
        raise Unsupported(f"{type(self).__name__}: expected representations to learn from, not an observation")


class LinearProbe(Probe):
    """A probe whose classifier is linear, so that its margins can be attacked and bounded; a frozen dataclass."""

    @abstractmethod
    def fit(self, reps: Reps, labels: Int[Tensor, "batch"]) -> Head:
        """Return a head for some representations, [N, D], and their labels, [N]; see `Probe.fit`."""

    def learn(self, bank: Bank) -> Head:
        """Return the same for representations that may be too many for memory; see `Probe.learn`."""
        return self.fit(bank.reps(), bank.labels)

    def build_classifier(self, results: Mapping[str, Tensor]) -> Head:
        """Return what it learned through the encoder: the columns `weights`, `bias` and `classes`."""
        return Head(results["weights"], results["bias"], results["classes"])
