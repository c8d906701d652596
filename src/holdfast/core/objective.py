"""What an adversary maximises, and the goal that it becomes for an encoder."""

from abc import abstractmethod
from collections.abc import Callable
from typing import ClassVar

from torch import Tensor

from holdfast.core.encoder import Encoder, Images, Reps
from holdfast.core.threat import PerImage
from holdfast.runtime.checked import Checked
from holdfast.runtime.errors import Missing

Goal = Callable[[Tensor], tuple[Tensor, Tensor]]
"""An objective bound to an encoder and to references: images -> (value to maximise, representations)."""


class Objective(metaclass=Checked):
    """What an adversary maximises, as a function of representations alone; a frozen dataclass.

    `needs_target` objectives read the representation of another image; `batchwise` ones couple the images of
    a batch, so their values depend on the batch; those `of_logits` read the logits of a classifier, and its classes.
    """

    needs_target: bool = False
    batchwise: bool = False
    of_logits: bool = False
    invariant: ClassVar[frozenset[str] | None] = None
    """Which changes of the representation change its values by a common factor alone; None: its divergence says so."""

    @abstractmethod
    def __call__(self, reps: Reps, clean: Reps, target: Reps | None = None) -> PerImage:
        """Return the value to maximise for every image.

        Args:
            reps: representations of the disturbed images, [B, D].
            clean: representations of the same images undisturbed (or of another view of them), [B, D].
            target: representations of the other images each is compared with, [B, D].
        """

    def of(self, encoder: Encoder) -> "Objective":
        """Return the objective of an encoder's representations: itself, unless it reads how these are arranged.

        Raises:
            HoldfastError: representations that are not arranged as it needs.
        """
        return self

    def pursue(self, encoder: Callable[[Images], Reps], clean: Reps, target: Reps | None = None) -> Goal:
        """Close over an encoder and the reference representations: the function that attacks call; see `of`."""
        # A bare function says nothing of how representations are arranged
        objective = self.of(encoder) if isinstance(encoder, Encoder) else self
        if self.needs_target and target is None:
            raise Missing(f"{type(self).__name__} compares each image with another: give target representations")

        def goal(x: Images) -> tuple[PerImage, Reps]:
            # Representations come back as well, so that a read-out needs no further pass
            reps = encoder(x)
            return objective(reps, clean, target), reps

        return goal
