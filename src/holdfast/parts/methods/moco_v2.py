"""MoCo v2: a query finds its key, which a slowly following twin makes, among the keys of earlier batches."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor

from holdfast.core import Batch, EncodedView, Encoder, Facts, Method, Student
from holdfast.parts.methods.shared.targets import pairs
from holdfast.runtime.checked import Count, Positive
from holdfast.runtime.errors import BadValue
from holdfast.runtime.optional import optional


@dataclass(frozen=True)
class MocoV2(Method):
    """InfoNCE: mean of -log( e^{q·k/T} / (e^{q·k/T} + Σ_n e^{q·n/T}) ), n the keys of a queue, all of unit length.

    q = g(f(x_0)), k = g'(f'(x_1)); after every step θ' <- m θ' + (1 - m) θ and the batch's keys replace the oldest of
    the queue. It begins with random directions, which are negatives until they have left. It may be larger than the
    data, and need not be a multiple of the batch. Batches are not shuffled between processes for BatchNorm.

    With an adversary whose weights are clean = weight = 1/2 this is listing 1.

    Attributes:
        temperature: T > 0.
        momentum: m.
        queue: how many keys are kept.
        hidden: width of the projector's hidden layer; the authors take that of the representation.
        dim: width of the projection.

    Source: Chen et al. (2020b); defaults of Zhong et al. (2022), Table C.3, for CIFAR; Petrov & Kwiatkowska (2022),
    listing 1.

    Example:
        >>> from holdfast.sources.encoders.shared.copies import trainable
        >>> encoder = trainable(Encoder(torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(4, 3)), mean=0, std=1))
        >>> student = MocoV2(hidden=8, dim=4, queue=8).student(encoder, Facts(dim=3, images=8, classes=2))
        >>> views = student.see([torch.rand(8, 1, 2, 2)] * student.views, range(student.views))
        >>> bool(student.loss(views, Batch(torch.arange(8), torch.arange(8) % 2)).isfinite())
        True
    """

    temperature: Positive = 0.1
    momentum: float = 0.99
    queue: Count = 4096
    hidden: Count = 512
    dim: Count = 128

    def __post_init__(self) -> None:
        if self.momentum > 1:
            raise BadValue(f"moco_v2: expected a momentum in [0, 1], got {self.momentum:g}")

    def student(self, encoder: Encoder, facts: Facts) -> Student:
        """Return the encoder with its projector, their twin and the queue."""
        return _Student(encoder, facts, self)


class _Student(Student):
    queue: Float[Tensor, "keys dim"]

    def __init__(self, encoder: Encoder, facts: Facts, method: MocoV2):
        heads = optional("lightly.models.modules.heads", "lightly", "train", "moco_v2")
        super().__init__(encoder, heads.MoCoProjectionHead(facts.dim, method.hidden, method.dim), twin=True)
        # A buffer, so that checkpoints keep it
        self.register_buffer("queue", F.normalize(torch.randn(method.queue, method.dim), dim=1))
        self._method = method

    def predicts(self, view: int) -> bool:
        # View 0 and its attacked versions are queries, view 1 is the key
        return view != 1

    def is_target(self, view: int) -> bool:
        return view == 1

    def loss(self, views: Sequence[EncodedView], batch: Batch) -> Float[Tensor, ""]:
        losses = []
        for out, target in pairs(views):
            q, k = F.normalize(out, dim=1), F.normalize(target, dim=1)
            # [B, 1 + queue]: the positive is the first, so every label is 0 (listing 1)
            logits = torch.cat([(q * k).sum(1, keepdim=True), q @ self.queue.T], 1) / self._method.temperature
            losses.append(F.cross_entropy(logits, torch.zeros(len(q), dtype=torch.long, device=q.device)))
        return torch.stack(losses).mean()

    def remember(self, views: Sequence[EncodedView], batch: Batch) -> None:
        keys = [F.normalize(view.target, dim=1) for view in views if view.target is not None]
        # a new tensor: the old one is still read by the backward pass of this batch
        self.queue = torch.cat([*keys, self.queue])[: len(self.queue)]

    def after_step(self, progress: float) -> None:
        self.follow(self._method.momentum)
