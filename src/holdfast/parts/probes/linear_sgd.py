"""Linear probe of representations that do not fit in memory: stochastic gradient descent over a stream."""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial

import torch
import torch.nn.functional as F
from jaxtyping import Int
from torch import Tensor

from holdfast.core import Bank, Head, LinearProbe, Reps
from holdfast.numerics.geometry.invariance import AXES
from holdfast.numerics.rng import Rng
from holdfast.parts.probes.shared.stream import Labelled, blocks, moments, select, shuffle_stream
from holdfast.parts.probes.shared.training import classes_of
from holdfast.runtime.checked import Count, Positive
from holdfast.runtime.errors import BadValue, NotFinite

SAMPLE = 2048
"""Training images from which the curvature is taken."""


@dataclass(frozen=True)
class LinearSgd(LinearProbe):
    """The problem of `linear`, 1/N Σ_i -log softmax(W z_i + b)_{y_i} + penalty/2N ||W||², by SGD with momentum.

    z = (f(x) - m) / s feature by feature; m and s, from a first pass over the training images, are folded into the
    head. (Of two classes scikit-learn, and so `linear`, counts ||W||² twice.)
    The learning rate is rate/L and falls to 0 as a cosine, with L = (λ + D/B) / 2 the smoothness of the loss of a batch
    of B images and λ the largest eigenvalue of the covariance of z; so one rate serves all representations.

    The bank is read epoch by epoch and mixed in a pool, see `shuffle_stream`; of N x D numbers no more than the pool
    and a chunk are in memory. Where its order tells the classes, the pool must be larger than a class.

    Attributes:
        epochs: passes over the training images.
        rate: learning rate at the beginning, in units of 1/L; with this momentum it must be below 3.8.
        momentum: share of the last step that is made again.
        batch_size: B, images per step.
        penalty: weight of ||W||²/2, as of `linear`.
        pool: images that are mixed with each other.
        seed: of the order of images.

    Source: the linear evaluation of Chen et al. (2020a); L as in Gower et al. (2019).

    Example:
        >>> reps, labels = torch.tensor([[1.0, 0.0], [1.1, 0.1], [0.0, 1.0], [0.1, 1.2]]), torch.tensor([0, 0, 1, 1])
        >>> LinearSgd().fit(reps, labels).scores(reps).argmax(1).tolist()
        [0, 0, 1, 1]
    """

    invariant = AXES

    epochs: Count = 100
    rate: Positive = 2.0
    momentum: float = 0.9
    batch_size: Count = 256
    penalty: float = 1.0
    pool: int = 2**16
    seed: int = 0

    def __post_init__(self) -> None:
        if self.momentum >= 1 or self.pool < 2 * self.batch_size:
            raise BadValue(f"linear_sgd: expected 0 <= momentum < 1 and a pool of two batches or more, got {self}")

    def fit(self, reps: Reps, labels: Int[Tensor, "batch"]) -> Head:
        """Return the head of one chunk."""
        return self.learn(Bank(labels, lambda: iter([reps])))

    def learn(self, bank: Bank) -> Head:
        """Return the head in float32, [C, D].

        Raises:
            HoldfastError: representations that are not finite or not as many as labels, one class only, or a rate at
                which the descent diverges.
        """
        classes, targets = classes_of(bank.labels)
        stream = partial(blocks, bank, targets, self.pool // 2 // self.batch_size * self.batch_size)
        # standardise, and set the rate by the smoothness of the loss on a sample
        centre, scale = moments(stream())
        random = Rng(self.seed, ("linear_sgd",)).generator()
        sample = torch.randperm(len(targets), generator=random)[:SAMPLE]
        rate = self.rate / self._smoothness((select(bank, sample) - centre) / scale)
        weights = torch.zeros(len(classes), len(centre), device=centre.device)  # convex: no need of a random beginning
        bias = torch.zeros(len(classes), device=centre.device)
        decay = {"weight_decay": self.penalty / len(targets)}
        # SGD with momentum and a cosine schedule; the bias is not penalised
        with torch.enable_grad():
            groups = [{"params": [weights.requires_grad_()], **decay}, {"params": [bias.requires_grad_()]}]
            sgd = torch.optim.SGD(groups, rate, momentum=self.momentum)
            done, total = 0, self.epochs * len(targets)
            for _ in range(self.epochs):
                for reps, numbers in self._batches(shuffle_stream(stream(), random)):
                    done += len(reps)
                    for group in sgd.param_groups:
                        group["lr"] = rate * (1 + math.cos(math.pi * done / total)) / 2
                    sgd.zero_grad()
                    F.cross_entropy(F.linear(((reps - centre) / scale).float(), weights, bias), numbers).backward()
                    sgd.step()
        # undo the standardisation
        weights = weights.detach().double() / scale
        bias = bias.detach().double() - weights @ centre
        if not (weights.isfinite().all() and bias.isfinite().all()):
            raise NotFinite(f"linear_sgd: the descent diverges at a rate of {self.rate:g}; expected one below 3.8")
        return Head(weights.float().cpu(), bias.float().cpu(), classes.cpu())

    def _batches(self, stream: Iterator[Labelled]) -> Iterator[Labelled]:
        for reps, targets in stream:
            parts = -(-len(reps) // self.batch_size)  # of equal size, so that no image is left alone
            yield from zip(reps.tensor_split(parts), targets.tensor_split(parts), strict=True)

    def _smoothness(self, z: Tensor) -> float:
        covariance = z.T @ z if len(z) > z.shape[1] else z @ z.T  # whose largest eigenvalues are the same
        largest = float(torch.linalg.eigvalsh(covariance / len(z))[-1])
        return (max(largest, 1.0) + z.shape[1] / self.batch_size) / 2
