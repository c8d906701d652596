"""DINO: every view predicts which prototypes a slowly following twin sees in whole views; there are no negatives."""

import warnings
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor, nn

from holdfast.core import Batch, EncodedView, Encoder, Facts, Method, Student
from holdfast.parts.methods.shared.targets import momentum_at
from holdfast.runtime.checked import Count, Positive
from holdfast.runtime.errors import BadValue
from holdfast.runtime.optional import optional


@dataclass(frozen=True)
class Dino(Method):
    """Mean over whole views i, other views j and images of -softmax((p_i - c) / t) · log softmax(g(f(x_j)) / T).

    p_i = g'(f'(x_i)) is the twin's, which follows f and g with a momentum that rises to 1 as a cosine. g ends in a
    layer of unit rows, one for each prototype. The centre follows the batch, c <- m c + (1 - m) mean p; t begins at
    `first_temperature` and changes linearly. Small views predict only.

    Attributes:
        prototypes: width of the output; 65536 in the paper.
        hidden: width of the two hidden layers of the head.
        dim: width of the unit vectors before the last layer.
        batchnorm: whether the head normalises its layers over the batch; the paper's does not for transformers.
        temperature: T > 0.
        teacher_temperature: t after the warm-up, > 0.
        first_temperature: t at the beginning, > 0.
        warmup: share of the training in which t rises.
        momentum: of the twin, at the beginning.
        centre_momentum: m, in [0, 1].
        frozen: epochs at the beginning in which the last layer is not trained.

    Source: Caron et al. (2021).

    Example:
        >>> encoder = Encoder(torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(4, 3)), mean=0, std=1)
        >>> student = Dino(prototypes=16, hidden=8, dim=4).student(encoder, Facts(dim=3, images=8))
        >>> student.views, student.many
        (2, True)
    """

    prototypes: Count = 4096
    hidden: Count = 2048
    dim: Count = 256
    batchnorm: bool = False
    temperature: Positive = 0.1
    teacher_temperature: Positive = 0.04
    first_temperature: Positive = 0.04
    warmup: float = 0.3
    momentum: float = 0.996
    centre_momentum: float = 0.9
    frozen: int = 1

    def __post_init__(self) -> None:
        if max(self.warmup, self.momentum, self.centre_momentum) > 1:
            raise BadValue(f"dino: expected warmup, momentum and centre_momentum in [0, 1], got {self}")

    def teacher_temperature_at(self, progress: float) -> float:
        """Return t when this share of the training is done."""
        done = min(1.0, progress / self.warmup) if self.warmup else 1.0
        return self.first_temperature + (self.teacher_temperature - self.first_temperature) * done

    def student(self, encoder: Encoder, facts: Facts) -> Student:
        """Return the encoder with its head, and their twin."""
        return _Student(encoder, facts, self)


class _Student(Student):
    many = True

    def __init__(self, encoder: Encoder, facts: Facts, method: Dino):
        losses = optional("lightly.loss", "lightly", "train", "dino")
        super().__init__(encoder, _head(facts.dim, method), twin=True)
        criterion = losses.DINOLoss(method.prototypes, student_temp=method.temperature, center_momentum=1.0)
        self._criterion, self._method = criterion, method  # its forward pass would move the centre: 1 keeps it
        # A gradient of 0 freezes the last layer, and the graph stays the same in all epochs
        self._trained, last = True, self.projector.get_submodule("last_layer.parametrizations.weight")
        last.get_parameter("original1").register_hook(lambda gradient: gradient * self._trained)

    def is_target(self, view: int) -> bool:
        return view < 2

    def loss(self, views: Sequence[EncodedView], batch: Batch) -> Float[Tensor, ""]:
        self._trained = batch.epoch >= self._method.frozen  # when this loss is taken back
        ordered = sorted(views, key=lambda view: view.target is None)  # pairs of a view with itself on the diagonal
        targets = [view.target for view in ordered if view.target is not None]
        outs = [view.out for view in ordered]
        return self._criterion(targets, outs, self._method.teacher_temperature_at(batch.progress))

    @torch.no_grad()
    def remember(self, views: Sequence[EncodedView], batch: Batch) -> None:
        # Over both whole views and the batch of all processes, [prototypes]
        mean = torch.stack([view.target for view in views if view.target is not None]).mean((0, 1))
        self._criterion.center.lerp_(mean.view_as(self._criterion.center), 1 - self._method.centre_momentum)

    def after_step(self, progress: float) -> None:
        self.follow(momentum_at(self._method.momentum, progress))


def _head(dim: int, method: Dino) -> nn.Module:
    """Return lightly's head, its last layer with the kind of weight normalisation that can be copied."""
    make = optional("lightly.models.modules.heads", "lightly", "train", "dino").DINOProjectionHead
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)  # of torch, at lightly
        head = make(dim, method.hidden, method.dim, method.prototypes, batch_norm=method.batchnorm)
    nn.utils.remove_weight_norm(head.last_layer)
    nn.utils.parametrizations.weight_norm(head.last_layer)
    head.last_layer.parametrizations.weight.original0.requires_grad_(False)  # rows of unit length
    return head
