"""What learners of a worst noise have in common, and what they give back."""

from abc import abstractmethod
from dataclasses import dataclass

import torch
from jaxtyping import Float, Int
from torch import Tensor

from holdfast.core import Ball, Encoder, Event, Images, Passes, Reps, Rng
from holdfast.parts.threats.shared.learned import LearnedNoise
from holdfast.runtime.checked import Checked
from holdfast.runtime.errors import NotEnough, NotFinite


@dataclass(frozen=True, eq=False)
class Learned:
    """What was learned, and how that went.

    Attributes:
        images: how many images it was learned on.
        chance: share of the disturbed training images of each epoch that did not fail, [epochs].
    """

    images: int
    chance: Float[Tensor, "epochs"]


@dataclass(frozen=True, eq=False)
class LearnedMixture(Learned):
    """A mixture that was learned. Its `chance` is that of relaxed draws: not yet an estimate of the robustness.

    Attributes:
        noise: what was learned; bind it to images with `at`, and draw from it for other images.
        entropy: entropy ratio of the mixture weights, mean over the images of each epoch, [epochs]; NaN for one
            component.
    """

    noise: LearnedNoise
    entropy: Float[Tensor, "epochs"]


@dataclass(frozen=True, eq=False)
class LearnedPerturbation(Learned):
    """One perturbation for all images. Its `chance` is that of the perturbation as it was after each epoch.

    Attributes:
        delta: what every image is disturbed by, see `Ball.under`, in pixels, [C, H, W].
        held: the share of the training images that it leaves standing, the least that was met; NaN without any.
        rows: where these stand among the images that were given, [N].
        reps: their representations under it, [N, D].
    """

    delta: Float[Tensor, "channel height width"]
    held: float
    rows: Int[Tensor, "rows"]
    reps: Float[Tensor, "rows dim"]


class Learner(metaclass=Checked):
    """How the noise of a ball under which an encoder fails most often is found; a frozen dataclass."""

    images: int | None

    @abstractmethod
    def learn(
        self,
        encoder: Encoder,
        x: Images,
        clean: Reps,
        event: Event,
        labels: Int[Tensor, "batch"] | None,
        ball: Ball,
        rng: Rng,
    ) -> Learned:
        """Learn the noise on some images, which must not be those it is then evaluated on.

        Args:
            encoder: the frozen encoder.
            x: training images, [B, C, H, W]; those whose clean representation fails already take no part.
            clean: their representations, [B, D].
            event: the failure, bound to these images.
            labels: their classes, [B]; None where they are not known.
            ball: where every draw must lie.
            rng: decides first weights, the order of images and all draws.

        Raises:
            HoldfastError: too few images that do not fail without noise, or representations that are not finite.
        """

    @property
    def needs_labels(self) -> bool:
        """Whether it reads labels itself; the failure that it seeks may do so anyway."""
        return False

    @property
    @abstractmethod
    def passes(self) -> Passes:
        """Encoder passes that one training image costs in a ball that has one place."""

    def passes_in(self, ball: Ball) -> Passes:
        """Encoder passes that one training image costs in a ball, with those that choose its place."""
        return self.passes


def find_unharmed(clean: Reps, event: Event, most: int | None) -> Int[Tensor, "rows"]:
    """Return the images that take part: the first ones, `most` of them at most, that do not fail without noise.

    Args:
        clean: clean representations, [B, D].
        event: the failure, bound to these images.
        most: None for all.

    Raises:
        HoldfastError: representations that are not finite, or fewer than two images.
    """
    bad = int((~clean.isfinite().all(1)).sum())
    if bad:
        raise NotFinite(
            f"expected finite representations to learn a noise from, {bad} of {len(clean)} hold NaN or infinity; "
            "check the encoder's weights and normalisation"
        )
    with torch.no_grad():
        # The clean representation as the one draw of each image, [B, 1, D]
        fails = event(clean[:, None], torch.arange(len(clean), device=clean.device))[:, 0] > 0
    # The first ones, so that more images add to those of fewer
    rows = (~fails).nonzero()[:, 0][:most]
    if len(rows) < 2:
        hint = ", or look at the encoder: it fails without any noise" if fails.any() else ""
        raise NotEnough(
            f"expected at least 2 training images that do not fail without noise, got {len(rows)} of {len(clean)}; "
            f"use more images{hint}"
        )
    return rows
