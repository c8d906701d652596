"""MAE: a vision transformer sees a quarter of an image's patches, and a decoder paints the others."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor, nn

from holdfast.core import Batch, EncodedView, Encoder, Facts, Images, Method, Rng, Student, View
from holdfast.parts.methods.shared.targets import pairs
from holdfast.runtime.distributed import gather, share
from holdfast.runtime.errors import BadValue, Unsupported
from holdfast.runtime.optional import optional

LOOKED_AT = 32
"""Images of each process that are encoded whole, to see whether representations have collapsed."""


@dataclass(frozen=True)
class Mae(Method):
    """Mean over images, hidden patches p and their pixels of (d(f(visible patches of x))_p - x_p)².

    Which patches are hidden depends on the seed, the image and the epoch alone. Of an attacked x' the visible patches
    are read; those to be painted are the clean ones of x, since noise in what is hidden would raise the loss without
    telling anything of f. Only for vision transformers of timm.

    Attributes:
        hidden: share of the patches that are hidden, between 0 and 1.
        normalise: whether each patch to be painted is brought to mean 0 and variance 1 first.
        dim: width of the decoder; 512 in the paper.
        depth: blocks of the decoder; 8 in the paper.
        heads: attention heads of the decoder; 16 in the paper.

    Source: He et al. (2022).

    Example:
        >>> Mae(hidden=0.75).least
        2
    """

    hidden: float = 0.75
    normalise: bool = True
    dim: int = 128
    depth: int = 2
    heads: int = 4

    def __post_init__(self) -> None:
        if not 0 < self.hidden < 1 or min(self.dim, self.depth, self.heads) < 1:
            raise BadValue(f"mae: expected hidden between 0 and 1, and positive dim, depth and heads, got {self}")
        if self.dim % 4 or self.dim % self.heads:
            raise BadValue(f"mae: expected a dim that 4 and heads divide, got dim={self.dim}, heads={self.heads}")

    def student(self, encoder: Encoder, facts: Facts) -> Student:
        """Return the encoder with a decoder.

        Raises:
            HoldfastError: an encoder that is no vision transformer of timm with square patches and images.
        """
        return _Student(encoder, self)


class _Student(Student):
    same_view = True  # the second one is what is to be painted

    def __init__(self, encoder: Encoder, method: Mae):
        modules = optional("lightly.models.modules", "lightly", "train", "mae")
        super().__init__(encoder)
        self._utils, self._normalise = optional("lightly.models.utils", "lightly", "train", "mae"), method.normalise
        network = _network(encoder)
        patches, prefix = network.patch_embed.num_patches, network.num_prefix_tokens
        self._side, self._patches, self._prefix = network.patch_embed.patch_size[0], patches, prefix
        # At least one patch to see, and one to paint
        self._visible = max(1, min(patches - 1, int(patches * (1 - method.hidden))))
        unused = nn.Parameter(torch.zeros(1, 1, network.embed_dim), requires_grad=False)  # what is hidden is left out
        self.tokens = modules.MaskedVisionTransformerTIMM(network, unused, "skip", pos_embed_initialization="skip")
        self.narrow = nn.Linear(network.embed_dim, method.dim)
        self.decoder = modules.MaskedVisionTransformerDecoderTIMM(
            patches, method.dim, method.depth, method.heads, prefix
        )
        self.paint = nn.Linear(method.dim, self._side**2 * network.patch_embed.proj.in_channels)
        # Drawn with the first weights, and kept in checkpoints: an epoch hides the same patches again
        self.seed: Tensor
        self.register_buffer("seed", torch.randint(2**62, ()))

    def predicts(self, view: int) -> bool:
        return view == 0

    def see(
        self,
        views: Sequence[View],
        roles: Sequence[int],
        *,
        targets: bool = True,
        batch: Batch | None = None,
        attacked: int = 0,
    ) -> list[EncodedView]:
        assert batch is not None
        # The same split for the attacked view, the clean one and the target
        visible, hidden = self._split_patches(batch)
        return [
            self._reconstruct(x, visible, hidden)
            if self.predicts(role)
            else EncodedView(None, None, self._target(x, hidden))
            for x, role in zip(views, roles, strict=True)
        ]

    def loss(self, views: Sequence[EncodedView], batch: Batch) -> Float[Tensor, ""]:
        return torch.stack([F.mse_loss(out, target) for out, target in pairs(views)]).mean()

    @torch.no_grad()
    def select_reps(self, views: Sequence[View], encoded: Sequence[EncodedView]) -> Float[Tensor, "some dim"]:
        # whole images: visible patches are of different places, and differ even where pixels no longer matter
        return gather(self.encoder(views[0][:LOOKED_AT]))

    def _split_patches(self, batch: Batch) -> tuple[Int[Tensor, "b visible"], Int[Tensor, "b hidden"]]:
        """Patches of the images of this process that are visible, and those that are not."""
        # Random numbers by the image's place among all: the split into processes changes nothing
        ids = [str(position) for position in share(batch.positions).tolist()]
        order = Rng(int(self.seed), ("hidden", str(batch.epoch)), tuple(ids)).uniform(self._patches).argsort(1)
        order = order.to(batch.positions.device)
        return order[:, : self._visible], order[:, self._visible :]

    def _reconstruct(
        self, x: Images, visible: Int[Tensor, "b visible"], hidden: Int[Tensor, "b hidden"]
    ) -> EncodedView:
        """Pixels that the decoder paints where patches are hidden, [B, hidden, pixels]."""
        # Class and register tokens stand before the patches, and are always seen
        first = torch.arange(self._prefix, device=x.device).expand(len(x), -1)
        kept, left = torch.cat([first, visible + self._prefix], 1), hidden + self._prefix
        normalised = self.encoder.normalisation(x)
        # Only visible patches pass the encoder: that is what makes it cheap
        tokens = self.tokens.encode(normalised, idx_keep=kept)
        narrow = self.narrow(tokens)
        # The decoder sees all places; the mask token stands where patches are hidden
        canvas = narrow.new_zeros(len(x), self.decoder.sequence_length, narrow.shape[2])
        decoded = self.decoder(self._utils.set_at_index(canvas, kept, narrow), idx_mask=left)
        out = self.paint(self._utils.get_at_index(decoded, left))
        return EncodedView(gather(tokens.mean(1)), gather(out), None)

    def _target(self, x: Images, hidden: Int[Tensor, "b hidden"]) -> Tensor:
        """Return the hidden patches themselves, [B, hidden, pixels]."""
        patches = self._utils.get_at_index(self._utils.patchify(x, self._side), hidden)
        return gather(self._utils.normalize_mean_var(patches) if self._normalise else patches)


def _network(encoder: Encoder) -> Any:
    """Return the vision transformer inside an encoder."""
    network: Any = encoder.module.get_submodule(encoder.root)
    kind = optional("timm.models.vision_transformer", "timm", "timm", "mae").VisionTransformer
    if not isinstance(network, kind) or getattr(network, "pos_embed", None) is None:
        raise Unsupported(
            f"mae: expected a vision transformer of timm, got {encoder.name!r} ({type(network).__name__}); for example "
            "timm:vit_tiny_patch16_224?weights=random"
        )
    patches: Any = network.patch_embed
    (high, wide), (rows, columns) = patches.patch_size, patches.grid_size
    if high != wide or rows != columns or rows < 2:
        raise Unsupported(
            f"mae: expected at least 2x2 square patches of a square image, got {rows}x{columns} of {high}x{wide} "
            f"pixels in {encoder.name!r}"
        )
    return network
