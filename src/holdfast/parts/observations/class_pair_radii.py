"""Radii of pairs of images, of pairs of classes and of several classes, of heads that learned from the same images."""

from dataclasses import dataclass

import torch
from jaxtyping import Int
from torch import Tensor
from typing_extensions import override

from holdfast.core import LinearProbe, Margin, Shard
from holdfast.core.registry import part_name
from holdfast.parts.divergences.cosine import Cosine
from holdfast.parts.observations.shared.both_radii import BothRadii
from holdfast.parts.observations.shared.margins import clean_of
from holdfast.parts.probes.linear import Linear
from holdfast.runtime.errors import BadValue, NotEnough, no_labels


@dataclass(frozen=True, kw_only=True)
class ClassPairRadii(BothRadii):
    """R_CL(x⁺, x_ij⁻), R_LE(g_j; x⁺) and R_LE(g_M; x⁺) for each image x⁺, K negatives of each of p other classes.

    The binary head g_j learns from x⁺ and the K negatives of class j, g_M from x⁺ and all pK; the margin of each is
    that of the class of x⁺. Columns [M, p(K + 2)]: those of the pK pairs, class by class; of the p binary heads; and of
    the p margins of g_M, whose least is its radius. The classes are those that follow the image's own in order, the
    negatives the images of a class that follow x⁺ in the population, both around the end.

    Attributes:
        classes: p; all others where there are fewer.
        negatives: K, of each class.
        probe: how the heads come about.

    Source: Wang & Liu (2023), Theorems 15 and 17.
    """

    classes: int = 3
    negatives: int = 5
    probe: LinearProbe = Linear()

    reads_labels = True

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.classes < 1 or self.negatives < 1:
            raise BadValue(
                f"class_pair_radii: expected classes >= 1 and negatives >= 1, got {self.classes} and {self.negatives}"
            )

    @property
    @override
    def title(self) -> str:
        return f"radii of pairs and classes, {self.classes} x {self.negatives}: {part_name(self.certifier)}"

    @property
    def margins_each(self) -> int:
        """Pairs, binary heads, and margins of the head of all classes."""
        return self.classes * (self.negatives + 2)

    def compare(self, shard: Shard) -> tuple[Margin, Int[Tensor, "batch rows"]]:
        """Return the margins of pairs, of binary heads and of the head of all classes."""
        if shard.labels is None:
            raise no_labels("the observation class_pair_radii", "the source of images")
        clean, labels = clean_of(shard), shard.labels
        chosen = torch.stack([self._negatives(labels, int(place)) for place in shard.positions])  # [M, p, K]
        pairs = Cosine().between(clean[shard.positions], clean[chosen.flatten(1)])
        # heads that learn from x⁺ and its negatives alone
        weights, bias = [pairs.weights], [pairs.bias]
        # First the p binary heads g_j of Theorem 17, each from K negatives of
        # one class, then g_M from all pK
        for groups in (chosen.unbind(1), (chosen.flatten(1),)):
            heads = [self._margins(clean, labels, shard.positions, group) for group in groups]
            weights += [head.weights for head in heads]
            bias += [head.bias for head in heads]
        margin = Margin(torch.cat(weights, 1), torch.cat(bias, 1))
        # Where the search for a head's margin begins: the first negative of the class
        nearest = chosen[:, :, 0]
        return margin, torch.cat([chosen.flatten(1), nearest, nearest], 1).cpu()

    def _negatives(self, labels: Tensor, place: int) -> Int[Tensor, "classes negatives"]:
        known = labels.unique()
        own = int((known == labels[place]).nonzero())
        # The classes behind the own one, around the end
        rivals = known.roll(-own)[1 : self.classes + 1]
        chosen = []
        for rival in rivals:
            members = (labels == rival).nonzero().flatten()
            if len(members) < self.negatives:
                raise NotEnough(
                    f"class_pair_radii: expected {self.negatives} images of every class, got {len(members)} of class "
                    f"{int(rival)}; use more images or fewer negatives"
                )
            # The first member behind x⁺ in the population; the very first where there is none
            first = int((members > place).long().argmax()) if bool((members > place).any()) else 0
            chosen.append(members.roll(-first)[: self.negatives])
        if not chosen:
            raise NotEnough("class_pair_radii: expected images of at least 2 classes, got 1")
        return torch.stack(chosen)

    def _margins(self, clean: Tensor, labels: Tensor, places: Tensor, group: Tensor) -> Margin:
        """Return the margins of the heads that learn from each image and its group."""
        heads = []
        for place, others in zip(places, group, strict=True):
            sample = torch.cat([place[None], others])
            # A head for each image, from x⁺ itself and its negatives: the sample Ŝ of Theorem 15
            head = self.probe.fit(clean[sample].float(), labels[sample])
            heads.append(head.margins(labels[place][None]))
        weights = torch.cat([head.weights for head in heads])
        return Margin(weights.to(clean), torch.cat([head.bias for head in heads]).to(clean))
