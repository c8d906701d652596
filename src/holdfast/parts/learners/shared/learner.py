"""What learners of a worst noise have in common, and what they give back."""

from abc import abstractmethod
from dataclasses import dataclass

from jaxtyping import Float, Int
from torch import Tensor

from holdfast.core import Ball, Encoder, Event, Images, Passes, Reps, Rng
from holdfast.parts.threats.shared.learned import LearnedNoise
from holdfast.runtime.checked import Checked


@dataclass(frozen=True, eq=False)
class Learned:
    """A noise that was learned, and how that went.

    Attributes:
        noise: what was learned; bind it to images with `at`.
        images: how many images it was learned on.
        chance: share of the training draws of each epoch that did not fail, [epochs]. The draws are relaxed ones, so
            it is not yet an estimate of the robustness: draw from the noise for that, on other images.
        entropy: entropy ratio of the mixture weights, mean over the images of each epoch, [epochs]; NaN for one
            component.
    """

    noise: LearnedNoise
    images: int
    chance: Float[Tensor, "epochs"]
    entropy: Float[Tensor, "epochs"]


class Learner(metaclass=Checked):
    """How the noise of a ball under which an encoder fails most often is found; a frozen dataclass."""

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
        """Encoder passes that one training image costs."""
