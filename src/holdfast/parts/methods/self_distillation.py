"""Self-distillation: the encoder keeps what it made of an image before training, also where the image is attacked."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn

from holdfast.core import (
    Batch,
    EncodedView,
    Encoder,
    Facts,
    HoldfastError,
    Images,
    Margin,
    Method,
    Reps,
    Rng,
    Rows,
    Student,
    View,
)
from holdfast.parts.methods.shared.targets import pairs
from holdfast.runtime.distributed import gather
from holdfast.runtime.errors import unknown

DIVERGENCES, BOUNDED = ("l2", "cosine"), ("others", "distance")


@dataclass(frozen=True)
class SelfDistillation(Method):
    """Mean over images of d(f(x), f_0(x)), f_0 the encoder as it was before training: d = ‖·‖² / D, or 1 - cos.

    Attacked images keep their clean representation too, d(f(x'), f_0(x)), so heads that were learned before still fit.
    Without an adversary there is nothing to learn but to undo what augmented images and BatchNorm change. With targeted
    attacks and clean = weight = 1/2, or untargeted ones and clean = 0, this is listing 3.

    Attributes:
        divergence: "l2" or "cosine".
        bounded: what certified training proves small: "distance", ‖f(x') - f_0(x)‖² / D by its coordinates, of which
            a network with one point for all images has least; or "others", how near x' comes to other images, see
            `Student.bound`.

    Source: Petrov & Kwiatkowska (2022), section C.3 and listing 3.

    Example:
        >>> from holdfast.sources.encoders.shared.copies import trainable
        >>> encoder = trainable(Encoder(torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(4, 3)), mean=0, std=1))
        >>> student = SelfDistillation().student(encoder, Facts(dim=3, images=8, classes=2))
        >>> views = student.see([torch.rand(8, 1, 2, 2)] * student.views, range(student.views))
        >>> bool(student.loss(views, Batch(torch.arange(8), torch.arange(8) % 2)).isfinite())
        True
    """

    divergence: Literal["l2", "cosine"] = "l2"
    bounded: Literal["others", "distance"] = "others"

    def __post_init__(self) -> None:
        if self.divergence not in DIVERGENCES:
            raise unknown("divergence", self.divergence, DIVERGENCES)
        if self.bounded not in BOUNDED:
            raise unknown("bounded", self.bounded, BOUNDED)
        if (self.divergence, self.bounded) == ("cosine", "distance"):
            raise HoldfastError("self_distillation: expected divergence=l2 beside bounded=distance, got cosine")

    def student(self, encoder: Encoder, facts: Facts) -> Student:
        """Return the encoder with itself, frozen, as its twin."""
        return _Student(encoder, self)


class _Student(Student):
    same_view = True

    def __init__(self, encoder: Encoder, method: SelfDistillation):
        super().__init__(encoder, twin=True)
        self._divergence, self._bounded = method.divergence, method.bounded
        self._referred: tuple[Images, Reps] | None = None
        self.train()

    def train(self, mode: bool = True) -> Student:
        super().train(mode)
        assert self.twin is not None
        self.twin.eval()  # f_0 is a function: its BatchNorm sees no batch
        return self

    def predicts(self, view: int) -> bool:
        return view != 1

    def is_target(self, view: int) -> bool:
        return view == 1

    def reference(self, x: Images) -> Reps:
        assert self.twin is not None
        # Attacks measure from f_0, where the loss does. It is frozen, so its answer serves the loss too.
        reps = self.twin[0](x)
        self._referred = x, reps
        return reps

    def _encode(self, network: nn.Module, views: Mapping[int, View], clean: int) -> dict[int, Reps]:
        assert self.twin is not None
        if network is not self.twin[0] or self._referred is None:
            return super()._encode(network, views, clean)
        (x, reps), self._referred = self._referred, None
        # The very tensor that was asked about, not an equal one: nothing is compared pixel by pixel
        if any(view is not x for view in views.values()):
            return super()._encode(network, views, clean)
        return {place: gather(reps) for place in views}  # the attack has asked f_0 of these images already

    def loss(self, views: Sequence[EncodedView], batch: Batch) -> Float[Tensor, ""]:
        return torch.stack([self._apart(out, target) for out, target in pairs(views)]).mean()

    def bound(
        self, x: Images, lower: Callable[[Margin], Rows], batch: Batch, rng: Rng, most: int | None = None
    ) -> Float[Tensor, ""]:
        if self._bounded == "others":
            # In units of the distance, so that the two losses weigh alike whatever the scale of representations
            unit = self.reference(x).var(0).mean() if self._divergence == "l2" else 1.0
            return unit * super().bound(x, lower, batch, rng, most)
        target = self.reference(x)
        # All coordinates, or some in a random order, which stand for the others in the mean
        dim = target.shape[1]
        drawn = torch.arange(dim) if most is None else torch.randperm(dim, generator=rng.generator())[:most]
        axes, aims = torch.eye(dim).to(target)[drawn], target[:, drawn]
        # f(x') - f_0(x) and its opposite, [B, 2 · coordinates]: the farther end of each range is the worst
        least = lower(Margin(torch.cat([axes, -axes])[None], torch.cat([-aims, aims], 1)))
        return (-least).unflatten(1, (2, -1)).amax(1).square().mean()

    def _apart(self, out: Tensor, target: Tensor) -> Float[Tensor, ""]:
        if self._divergence == "l2":
            # MSELoss of listing 3: the mean over images and features, which is ||·||² / D
            return F.mse_loss(out, target)
        return (1 - F.cosine_similarity(out, target)).mean()
