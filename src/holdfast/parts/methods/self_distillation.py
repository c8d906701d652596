"""Self-distillation: an encoder makes of an image, also of an attacked one, what it or a teacher made before."""

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
from holdfast.runtime.errors import Conflict, Failed, Mismatch, Missing, first_line, unknown
from holdfast.sources.encoders import open_encoder
from holdfast.sources.encoders.shared.fit import fit_to

DIVERGENCES, BOUNDED = ("l2", "cosine"), ("others", "distance")


@dataclass(frozen=True)
class SelfDistillation(Method):
    """Mean over images of d(f(x), f_0(x)), f_0 the encoder as it was before training: d = ‖·‖² / D, or 1 - cos.

    Attacked images keep their clean representation too, d(f(x'), f_0(x)), so heads that were learned before still fit.
    Without an adversary there is nothing to learn but to undo what augmented images and BatchNorm change. With targeted
    attacks and clean = weight = 1/2, or untargeted ones and clean = 0, this is listing 3.

    With a teacher, f_0 is another encoder, a larger or a more robust one, whose representations have the same size. It
    sees the same [0, 1] pixels, at its own size, and normalises them itself.

    Attributes:
        divergence: "l2" or "cosine".
        teacher: spec of another encoder; None: this one as it was before training.
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
    teacher: str | None = None
    bounded: Literal["others", "distance"] = "others"

    def __post_init__(self) -> None:
        if self.divergence not in DIVERGENCES:
            raise unknown("divergence", self.divergence, DIVERGENCES)
        if self.bounded not in BOUNDED:
            raise unknown("bounded", self.bounded, BOUNDED)
        if (self.divergence, self.bounded) == ("cosine", "distance"):
            raise Conflict("self_distillation: expected divergence=l2 beside bounded=distance, got cosine")

    def _open_teacher(self) -> Encoder | None:
        """Return the teacher, opened anew, for its file may have changed; None where it is the encoder itself."""
        if self.teacher is None:
            return None
        try:
            return open_encoder(self.teacher)
        except HoldfastError as error:
            raise error.retell(f"self_distillation: teacher: {error}") from error

    def fingerprints(self) -> list[str]:
        """Return that of the teacher."""
        teacher = self._open_teacher()
        return [] if teacher is None else [teacher.fingerprint]

    def student(self, encoder: Encoder, facts: Facts) -> Student:
        """Return the encoder with itself, frozen, or with its teacher as its twin.

        Raises:
            HoldfastError: a teacher that cannot be opened or run on the images, or of another size.
        """
        teacher = self._open_teacher()
        return _Student(encoder, self, None if teacher is None else _as_teacher(teacher, facts))


def _as_teacher(teacher: Encoder, facts: Facts) -> nn.Module:
    """Return an encoder that maps the images to representations of the same size as the student's."""
    if facts.shape is None:
        raise Missing("self_distillation: teacher: expected to know the shape of the images, got None")
    # Attacks move the student's pixels, so the scaling is part of what has a gradient
    fit = fit_to(teacher, facts.shape)
    network = nn.Sequential(fit or nn.Identity(), teacher)
    try:
        with torch.no_grad():
            dim = network(torch.zeros(1, *facts.shape, device=teacher.device)).shape[1]
    except Exception as error:  # whatever a user's network raises about images of another shape
        raise Failed(
            f"self_distillation: teacher {teacher.name!r} fails on images {list(facts.shape)}: {first_line(error)}; "
            "give one that takes them"
        ) from error
    if dim != facts.dim:
        raise Mismatch(
            f"self_distillation: expected a teacher whose representations are as large as the encoder's, {facts.dim}, "
            f"got {dim} of {teacher.name!r}; choose one of the same size, or another layer (?layer=)"
        )
    return network


class _Student(Student):
    same_view = True

    def __init__(self, encoder: Encoder, method: SelfDistillation, teacher: nn.Module | None):
        super().__init__(encoder, twin=teacher is None)
        # In the place of a copy of the encoder: a checkpoint holds it, and nothing moves it
        if teacher is not None:
            self.twin = nn.ModuleList([teacher, nn.Identity()])
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
