"""Misclassified: a linear head on the representation no longer gives the image's class."""

from dataclasses import dataclass

import torch
from jaxtyping import Float, Int
from torch import Tensor
from typing_extensions import override

from holdfast.core import Event, Failure, LinearProbe, Margin, Rivals, Shard
from holdfast.core.registry import part_name
from holdfast.parts.probes.linear import Linear
from holdfast.runtime.errors import no_labels

TIED = 1e-30
"""The value of a tie: above 0, also in float32."""


@dataclass(frozen=True)
class Misclassified(Failure):
    """max_{j≠y} z_j - z_y >= 0 for the logits z of a linear head h on f(x'); a tie is not the class.

    Attributes:
        probe: how the head comes about; `logits` for an encoder that is a classifier itself.

    Source: Wang et al. (2025), Def. 1 to 3 and Eq. 11.

    Example:
        >>> Misclassified().title
        'misclassified, linear'
    """

    probe: LinearProbe = Linear()

    reads_labels = True

    @property
    @override
    def title(self) -> str:
        return f"misclassified, {part_name(self.probe)}"

    @property
    @override
    def clause(self) -> str:
        return "are misclassified"

    def bind(self, shard: Shard) -> Event:
        """Return the event for the labels of these images.

        Raises:
            HoldfastError: images without labels, or of a class that the head does not know.
        """
        if shard.labels is None or shard.head is None:
            raise no_labels("the failure misclassified", "the source of images")
        head, labels = shard.head(self.probe), shard.labels[shard.positions]
        # The row of each image's class in the head, whose classes may have any numbers
        own = head.numbers(labels).to(shard.x.device)
        weights, bias = head.weights.to(shard.x.device).double(), head.bias.to(shard.x.device).double()

        def event(reps: Float[Tensor, "rows draws dim"], rows: Int[Tensor, "rows"]) -> Float[Tensor, "rows draws"]:
            # NPPR, Eq. 11 without its softplus: the logit margin, [rows, S, C] -> [rows, S]
            logits = reps.double() @ weights.T + bias
            index = own[rows.to(own.device), None, None].expand(-1, reps.shape[1], 1)
            ahead = logits.scatter(2, index, -torch.inf).amax(2) - logits.gather(2, index).squeeze(2)
            # A tie fails, but events fail above zero alone
            return torch.where(ahead == 0, TIED, ahead)

        return event

    def rivals(self, shard: Shard, count: int | None = None) -> Rivals:
        """Return the margins z_y - z_j of the other classes, those with the nearest boundaries first."""
        if shard.labels is None or shard.head is None:
            raise no_labels("the failure misclassified", "the source of images")
        margin = shard.head(self.probe).margins(shard.labels[shard.positions]).to(shard.x.device).to(torch.float64)
        assert shard.clean is not None  # clean representations are always observed first
        clean = shard.clean[shard.positions].to(shard.x.device).double()
        # Distances from the boundaries in representation space: logits of classes with
        # long weights do not count more
        apart = margin(clean) / margin.weights.norm(dim=2).clamp_min(TIED)
        order, images = apart.argsort(dim=1, stable=True)[:, :count], torch.arange(len(apart))[:, None]
        return Rivals(Margin(margin.weights[images, order], margin.bias[images, order]))
