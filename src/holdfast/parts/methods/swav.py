"""SwAV: every view predicts how the other view would be shared out evenly among prototypes."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn

from holdfast.core import Batch, EncodedView, Encoder, Facts, Method, Reps, Student
from holdfast.runtime.checked import Count, Positive
from holdfast.runtime.errors import BadValue
from holdfast.runtime.optional import optional


@dataclass(frozen=True)
class Swav(Method):
    """Mean over whole views i, other views j and images of -q_i · log softmax(C z_j / T), z = g(f(x)) / ‖g(f(x))‖.

    The codes q_i are exp(C z_i / ε), scaled by `iterations` of Sinkhorn's until each image weighs 1 and each row of C,
    a unit vector, gets as much of the batch as any other. A queue lets earlier batches share in this. Small views have
    no codes.

    Attributes:
        prototypes: rows of C; 3000 in the paper, about ten for each class.
        hidden: width of the projector's hidden layer.
        dim: width of the projection.
        temperature: T > 0.
        epsilon: ε > 0, how soft codes are.
        iterations: of Sinkhorn's algorithm.
        queue: images of earlier batches that are kept; 0 for none, 3840 in the paper for small batches.
        queue_from: share of the training after which they take part, once the queue is full.
        frozen: epochs at the beginning in which prototypes are not trained.

    Source: Caron et al. (2020).

    Example:
        >>> encoder = Encoder(torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(4, 3)), mean=0, std=1)
        >>> student = Swav(prototypes=4, hidden=8, dim=4).student(encoder, Facts(dim=3, images=8))
        >>> student.views, student.many
        (2, True)
    """

    prototypes: Count = 300
    hidden: Count = 2048
    dim: Count = 128
    temperature: Positive = 0.1
    epsilon: Positive = 0.05
    iterations: Count = 3
    queue: int = 0
    queue_from: float = 0.15
    frozen: int = 1

    def __post_init__(self) -> None:
        if self.queue_from > 1:
            raise BadValue(f"swav: expected queue_from in [0, 1], got {self.queue_from:g}")

    def student(self, encoder: Encoder, facts: Facts) -> Student:
        """Return the encoder with projector and prototypes."""
        return _Student(encoder, facts, self)


class _Student(Student):
    many = True

    def __init__(self, encoder: Encoder, facts: Facts, method: Swav):
        heads = optional("lightly.models.modules.heads", "lightly", "train", "swav")
        losses = optional("lightly.loss", "lightly", "train", "swav")
        super().__init__(encoder, heads.SwaVProjectionHead(facts.dim, method.hidden, method.dim))
        self.prototypes = nn.Linear(method.dim, method.prototypes, bias=False)  # lightly's have a bias, SwAV's do not
        self._normalise()
        self._criterion = losses.SwaVLoss(method.temperature, method.iterations, method.epsilon)
        self._method = method
        self.queue: Tensor
        self.queued: Tensor
        # For each of the two whole views, newest first
        self.register_buffer("queue", torch.zeros(2, method.queue, method.dim))
        self.register_buffer("queued", torch.zeros((), dtype=torch.int64))

    def heads(self, rep: Reps | None, twin: Reps | None) -> tuple[Tensor | None, Tensor | None]:
        assert rep is not None
        z = F.normalize(self.projector(rep), dim=1)
        return z, z

    def loss(self, views: Sequence[EncodedView], batch: Batch) -> Float[Tensor, ""]:
        rows = self.prototypes.weight
        if batch.epoch < self._method.frozen:
            rows = rows.detach() + 0 * rows  # a gradient of 0: processes that train together wait for one
        scores = [view.out @ rows.T for view in views if view.out is not None]
        # Not before it is full: zeros would be shared out among prototypes like images
        ready = self._method.queue and batch.progress >= self._method.queue_from and self.queued >= self._method.queue
        with torch.no_grad():
            earlier = list(self.queue @ rows.T) if ready else None
        # Whole views have codes and predict, small ones predict only
        return self._criterion(scores[:2], scores[2:], earlier)[0]

    @torch.no_grad()
    def remember(self, views: Sequence[EncodedView], batch: Batch) -> None:
        new = torch.stack([view.out for view in views[:2] if view.out is not None]).to(self.queue.dtype)
        # In place is safe: the loss read the queue without a gradient
        self.queue.copy_(torch.cat([new, self.queue], 1)[:, : self._method.queue])
        self.queued.add_(new.shape[1])

    def after_step(self, progress: float) -> None:
        # The optimiser does not know that rows are unit vectors
        self._normalise()

    @torch.no_grad()
    def _normalise(self) -> None:
        self.prototypes.weight.copy_(F.normalize(self.prototypes.weight, dim=1))
