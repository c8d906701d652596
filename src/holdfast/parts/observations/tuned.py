"""How a fine-tuned encoder classifies images, as they are or under a threat."""

from dataclasses import dataclass

import torch
from torch import Tensor
from typing_extensions import override

from holdfast.core import Passes, Shard, Threat
from holdfast.parts.observations.fine_tuned import FineTuned
from holdfast.parts.observations.shared.first import OfFirst
from holdfast.runtime.errors import NotFinite


@dataclass(frozen=True)
class Tuned(OfFirst):
    """The logits of x' = threat(x), as `logits` [M, C] in the order of the classes of what was fine-tuned.

    Attributes:
        fine_tuned: how the encoder was fine-tuned; observed first.
        threat: what befalls the images; None: nothing. Of a noise, one draw for each image, that of `represented`.
    """

    fine_tuned: FineTuned = FineTuned()
    threat: Threat | None = None

    reads_labels = True

    @property
    @override
    def title(self) -> str:
        return f"{self.fine_tuned.title}; tested" + ("" if self.threat is None else f": {self.threat.title}")

    @property
    def passes(self) -> Passes:
        """One forward pass."""
        return Passes(forward=1)

    def run(self, shard: Shard) -> dict[str, Tensor]:
        """Classify one shard.

        Raises:
            HoldfastError: a threat that these images do not fit.
        """
        encoder, head = self.fine_tuned.read_from(shard)
        # The stream of `represented`, so that a frozen encoder is tested on
        # the very same disturbed images
        x = shard.x if self.threat is None else shard.disturb(self.threat, shard.rng.child("represented"))
        with torch.no_grad():
            logits = head.scores(encoder(x))
        if not bool(logits.isfinite().all()):
            raise NotFinite(f"fine-tuned {shard.encoder.name!r}: logits of test images are NaN or infinite")
        # The copy's passes cost what the encoder's do, and count as these
        shard.encoder.count(Passes(forward=len(x)))
        return {"logits": logits.float()}
