"""Miscaptioned: an image and its own captions no longer find each other."""

from dataclasses import dataclass
from typing import Literal

import torch
from jaxtyping import Float, Int
from torch import Tensor
from typing_extensions import override

from holdfast.core import Event, Failure, Shard
from holdfast.numerics.geometry.cross_modal import TIE
from holdfast.numerics.geometry.directions import unit
from holdfast.numerics.geometry.invariance import LENGTHS
from holdfast.parts.failures.shared.ahead import in_units_at_x, rivals_ahead
from holdfast.parts.failures.shared.captions import Captions, read_captions
from holdfast.parts.failures.shared.population import bank_of
from holdfast.runtime.checked import Count


@dataclass(frozen=True)
class Miscaptioned(Failure):
    """At least k rivals are strictly nearer, by cosine, than what should be found.

    query = "image": f(x') searches among all captions t; k of other images are nearer than every own one,
    c_(k) - max_own cos(t, f(x')) > 0 with c_(k) the k-th largest cosine of the others. query = "text": each own caption
    searches among the clean images, its own one replaced by x'; for every caption k of them are nearer,
    min_own [c_(k)(t) - cos(t, f(x'))] > 0. The value is that over its size at x: -1 at x where x does not fail.

    Attributes:
        path: the captions, a safetensors file that `holdfast embed-names --captions` wrote.
        k: how many results are looked at.
        query: "image" or "text".

    Source: image-text retrieval, see the measure `caption_retrieval`.

    Example:
        >>> import tempfile
        >>> from safetensors.torch import save_file
        >>> from holdfast.core import Encoder, Rng
        >>> clean, identity = torch.eye(2), Encoder(torch.nn.Flatten(), mean=0, std=1)
        >>> shard = Shard(identity, clean.view(2, 1, 1, 2), torch.arange(2), Rng(0, ids=("a", "b")), clean)
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     save_file({"embeddings": torch.eye(2)}, f"{folder}/captions.safetensors", {"ids": '["a", "b"]'})
        ...     event = Miscaptioned(f"{folder}/captions.safetensors").bind(shard)
        >>> (event(torch.tensor([[[0.9, 0.1], [0.1, 0.9]]]), torch.tensor([0])) > 0).tolist()
        [[False, True]]
    """

    invariant = LENGTHS

    path: str = ""
    k: Count = 1
    query: Literal["image", "text"] = "image"

    @property
    @override
    def title(self) -> str:
        if self.query == "image":
            return f"no own caption in the first {self.k}"
        return f"not in the first {self.k} of its captions"

    @property
    @override
    def clause(self) -> str:
        how = "do not find an own caption" if self.query == "image" else "are not found by their captions"
        return f"{how} among the first {self.k}"

    def bind(self, shard: Shard) -> Event:
        """Return the event against all captions, or against the whole population.

        Raises:
            HoldfastError: captions that cannot be read, have another width, or are missing of an image.
        """
        bank, own = bank_of(shard, "miscaptioned")
        captions = read_captions(self.path, bank.shape[1])
        owners = captions.owners(shard.rng.ids)
        ahead = self._among_captions if self.query == "image" else self._among_images
        return ahead(captions, owners, bank, own)

    def _among_captions(
        self, captions: Captions, owners: Int[Tensor, "captions"], bank: Tensor, own: Int[Tensor, "batch"]
    ) -> Event:
        texts = captions.texts.to(bank)
        # [B, T]: which texts are an image's own
        wanted = owners.to(own.device) == torch.arange(len(own), device=own.device)[:, None]
        # a text that an image shares with others is never ahead of itself: as a rival it would be a plateau
        _, same = texts.unique(dim=0, return_inverse=True)
        # Row by row, as every image has texts of its own that must not be its rivals
        rival = ~torch.stack([torch.isin(same, same[mine]) for mine in wanted])

        def ahead(reps: Float[Tensor, "rows draws dim"], rows: Int[Tensor, "rows"]) -> Float[Tensor, "rows draws"]:
            rows = rows.to(own.device)
            # Unit vectors on both sides, so the product is the cosine: [rows, S, T]
            return _level(rivals_ahead(unit(reps.double()) @ texts.T, wanted[rows], rival[rows], self.k))

        # With fewer than k rivals no image can be pushed out of the first k
        return in_units_at_x(ahead, bank[own], rival.sum(1) < self.k)

    def _among_images(
        self, captions: Captions, owners: Int[Tensor, "captions"], bank: Tensor, own: Int[Tensor, "batch"]
    ) -> Event:
        # what each caption of these images must reach: the k-th best of the other images
        texts, owners = (values[owners >= 0].to(own.device) for values in (captions.texts, owners))
        # [T, N], for the captions of these images alone; the own image of each is
        # out, as x' stands in its place
        others = (texts @ unit(bank).T).scatter(1, own[owners, None], -torch.inf)
        reach = others.topk(min(self.k, len(bank)), dim=1).values[:, -1]
        wanted = owners == torch.arange(len(own), device=own.device)[:, None]

        def ahead(reps: Float[Tensor, "rows draws dim"], rows: Int[Tensor, "rows"]) -> Float[Tensor, "rows draws"]:
            mine = wanted[rows.to(own.device)]
            # How far x' falls behind the k-th best, for every text; only its own ones
            # count, and the best of them decides
            behind = reach - unit(reps.double()) @ texts.T
            return _level(behind.masked_fill(~mine[:, None], torch.inf).amin(2))

        # As above: k other images are needed
        hopeless = torch.full((len(own),), self.k > len(bank) - 1, device=own.device)
        return in_units_at_x(ahead, bank[own], hopeless)


def _level(ahead: Float[Tensor, "rows draws"]) -> Float[Tensor, "rows draws"]:
    """Return values with those of equal cosines exactly zero."""
    return ahead.masked_fill(ahead.abs() <= TIE, 0.0)
