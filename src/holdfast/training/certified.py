"""Certified training: the loss has a proved upper bound of itself over a ball, in place of attacked images."""

import math
from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from holdfast.core import Ball, Batch, Certifier, Images, Margin, Rng, Rows, Student, registry
from holdfast.numerics.bounds.trace import Tracing
from holdfast.runtime.checked import Checked, Count
from holdfast.runtime.distributed import processes
from holdfast.runtime.errors import BadValue, NotCertified, Unsupported
from holdfast.training.adversary import use_eval_mode


@dataclass(frozen=True)
class Certified(metaclass=Checked):
    """min_θ  clean · L(x_0, x_1, ...) + weight · B_ε(x_0),  where no x' in the ε-ball around x loses more than B_ε(x).

    What x' loses is the method's to say, see `Student.bound`. B is proved of the network in eval mode: BatchNorm has
    the statistics that it keeps, which clean images move unless batchnorm is frozen. Bounds of a network that was never
    trained for them are too wide to learn from at the full radius, so ε grows from 0 along a line; and with it the
    bound goes over to interval arithmetic, where that is asked for,

        bound = β · certifier + (1 - β) · intervals,  β from 1 to `mix`.

    Both follow the share of the training that is done, so that a training that goes on has the same.

    Attributes:
        threat: where x' may be.
        certifier: what bounds: one whose bounds have gradients, crown_ibp or interval.
        clean: weight of the loss of undisturbed views.
        weight: weight of the bound.
        warmup: share of the training before ε begins to grow.
        ramp: share of the training in which it grows, from there on.
        mix: what β is in the end.
        most: how many functions of the representation are bounded for each image, the others that are nearest to it
            or coordinates that are drawn, see `Student.bound`; None: all, which is dear for a certifier that goes
            backwards.

    Source: Zhang et al. (2020), "Towards stable and efficient training of verifiably robust neural networks", section
    4 (CROWN-IBP, β and the schedule of ε); Gowal et al. (2018) for interval arithmetic.
    """

    threat: Ball = registry.part("threats", "linf", radius=2 / 255)
    certifier: Certifier = registry.part("certifiers", "crown_ibp")
    clean: float = 1.0
    weight: float = 1.0
    warmup: float = 0.1
    ramp: float = 0.5
    mix: float = 1.0
    most: Count | None = 8

    def __post_init__(self) -> None:
        if not (0 <= self.clean < math.inf and 0 < self.weight < math.inf):
            raise BadValue(f"certified: expected clean >= 0 and weight > 0, got {self.clean} and {self.weight}")
        if not (self.warmup >= 0 and self.ramp >= 0 and self.warmup + self.ramp <= 1):
            raise BadValue(
                f"certified: expected warmup and ramp from 0 on, together at most 1, got {self.warmup} and {self.ramp}"
            )
        if not 0 <= self.mix <= 1:
            raise BadValue(f"certified: mix: expected a share from 0 to 1, got {self.mix}")
        if not self.certifier.differentiable:
            raise BadValue(
                "certified: certifier: expected one whose bounds can be learned from, crown_ibp or interval, got "
                f"{registry.part_name(self.certifier)}"
            )

    def growth(self, progress: float) -> float:
        """Return how far ε has grown when this share of the training is done, from 0 to 1."""
        if progress < self.warmup or not self.ramp:
            return float(progress >= self.warmup)
        return min(1.0, (progress - self.warmup) / self.ramp)

    def prepare(self, student: Student, x: Images) -> Tracing:
        """Return what reads the student's network at every step, for images such as these.

        Raises:
            HoldfastError: a network that cannot be bounded; see `Certifier`.
        """
        if processes() > 1:
            raise Unsupported(f"certified: expected one process, got {processes()}; train in one")
        with use_eval_mode(student):  # BatchNorm as the bounds take it, and no unit dropped
            tracing = Tracing(student.encoder, tuple(x.shape[1:]))
            # A method that has no bound says so now
            numbers = torch.arange(len(x))
            student.bound(x, lambda margin: margin.bias, Batch(numbers, numbers), Rng(0), self.most)
        if normalised := tracing.network(student.encoder).normalised:
            raise NotCertified(
                f"not certified: {normalised} of encoder {student.encoder.name!r} normalises the representation, of "
                "which no loss can be bounded; take the layer before it (?layer=)"
            )
        return tracing

    def bound(self, tracing: Tracing, student: Student, x: Images, batch: Batch, rng: Rng) -> Float[Tensor, ""]:
        """Return the upper bound of the loss over the ball that ε has grown to, with its gradients."""
        network, grown = tracing.network(student.encoder), self.growth(batch.progress)
        radii = torch.full((len(x),), grown * self.threat.radius, dtype=torch.float64, device=x.device)
        # Before ε grows there is nothing to bound, and both are the loss itself
        beta = 1 - grown * (1 - self.mix) if grown else 0.0
        bounds = [
            (share, certifier.bounds_of(network, x, self.threat, radii))
            for share, certifier in ((beta, self.certifier), (1 - beta, registry.part("certifiers", "interval")))
            if share
        ]

        def lower(margin: Margin) -> Rows:
            # Each is below the truth, and so is their mean
            return torch.stack([share * bound(margin) for share, bound in bounds]).sum(0)

        with use_eval_mode(student):
            return student.bound(x, lower, batch, rng, self.most)
