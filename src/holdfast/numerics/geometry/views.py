"""Augmented views of images, drawn for a whole batch at once and for each image by its id."""

import math
from collections.abc import Callable
from dataclasses import dataclass, fields

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float
from torch import Tensor

from holdfast.numerics.geometry.colour import YIQ, chroma_maps
from holdfast.numerics.rng import Rng
from holdfast.numerics.shapes import Images
from holdfast.runtime.checked import Checked, Count
from holdfast.runtime.errors import BadValue, Mismatch, Unsupported, first_line
from holdfast.runtime.waiting import move_to

LUMA = YIQ[0]
NUMBERS = 21
"""Uniform numbers that one view of one image takes."""


@dataclass(frozen=True)
class Views(metaclass=Checked):
    """Another look at each image: a turned, scaled and moved window, its colours, blur, noise and a hole.

    What happens to an image depends on the seed, its id, the epoch and the view alone. Defaults are those of Table C.3
    for CIFAR: crop, flip, colour (0.4 with probability 0.8) and grey (0.2).

    Attributes:
        crop: lowest and highest share of the area that a crop keeps.
        ratio: lowest and highest width/height of a crop.
        flip: probability of a mirror image.
        rotate: largest angle, in degrees.
        scale: lowest and highest factor by which what is shown grows.
        shift: largest move, as a share of the side.
        colour: largest relative change of brightness, contrast and saturation; a quarter of it turns the hue.
        colour_share: probability of such a change.
        light: largest relative change of brightness and contrast of images of one channel, which have no colours; with
            the same probability.
        grey: probability that colours are lost.
        gain: lowest and highest factor of all pixels.
        blur: lowest and highest σ of a Gaussian blur, in pixels.
        blur_share: its probability.
        solarize: probability that pixels above one half are turned over.
        noise: σ of Gaussian noise, in pixels of a [0, 1] image.
        hole: side of a black square, in pixels; 0 for none.
        hole_share: its probability.
        local: how many further, small views there are (multi-crop; for methods that take more than two).
        local_crop: share of the area that these keep.
        local_size: their side, in pixels, for networks that take images of any size; None: that of the images.

    Source: "Is self-supervised contrastive learning more robust than supervised learning?", Table C.3; Chen et al.
    (2020), appendix A; Caron et al. (2020) for multi-crop.

    Example:
        >>> x = torch.arange(4.0).view(1, 1, 2, 2) / 4
        >>> Views(crop=(1, 1), flip=1)(x, Rng(0, ids=("image",)))[0, 0]
        tensor([[0.2500, 0.0000],
                [0.7500, 0.5000]])
    """

    crop: tuple[float, float] = (0.2, 1.0)
    ratio: tuple[float, float] = (3 / 4, 4 / 3)
    flip: float = 0.5
    rotate: float = 0.0
    scale: tuple[float, float] = (1.0, 1.0)
    shift: float = 0.0
    colour: float = 0.4
    colour_share: float = 0.8
    light: float = 0.0
    grey: float = 0.2
    gain: tuple[float, float] = (1.0, 1.0)
    blur: tuple[float, float] = (0.1, 2.0)
    blur_share: float = 0.0
    solarize: float = 0.0
    noise: float = 0.0
    hole: int = 0
    hole_share: float = 0.0
    local: int = 0
    local_crop: tuple[float, float] = (0.05, 0.2)
    local_size: Count | None = None

    def __post_init__(self) -> None:
        ranges = [self.crop, self.ratio, self.scale, self.gain, self.blur, self.local_crop]
        if any(not 0 < low <= high for low, high in ranges):
            raise BadValue(f"views: expected ranges [low, high] with 0 < low <= high, got {self}")
        if max(self.crop[1], self.local_crop[1]) > 1:
            raise BadValue(f"views: a crop keeps a share of the area, at most 1; got {self.crop}, {self.local_crop}")
        shares = {f.name: getattr(self, f.name) for f in fields(self) if f.name in _SHARES}
        if wrong := [f"{name}={value}" for name, value in shares.items() if value > 1]:
            raise BadValue(f"views: expected probabilities in [0, 1], got {', '.join(wrong)}")
        for name, value in (("colour", self.colour), ("light", self.light)):
            if value >= 1:
                raise BadValue(f"views: expected {name} in [0, 1), got {value:g}")

    def check(self, encode: Callable[[Images], object], name: str, x: Images, *, many: bool) -> None:
        """Refuse small views that nobody takes.

        Args:
            encode: the encoder to be trained.
            name: what it is called in errors.
            x: two images, [2, C, H, W].
            many: whether the method takes more than whole views.

        Raises:
            HoldfastError: a method of whole views, or an encoder of one size, does not take them.
        """
        if self.local and not many:
            raise Unsupported(
                f"views: local={self.local}: this method takes whole views only; leave it out, or choose one that "
                "takes small views (dino, swav, deepcluster_v2)"
            )
        if not (self.local and self.local_size):
            return
        try:
            with torch.no_grad():
                encode(self(x, Rng(0, ids=("first", "second")), local=True))
        except (RuntimeError, AssertionError) as error:
            raise Mismatch(
                f"views: local_size={self.local_size}: {name!r} does not take images of that size "
                f"({first_line(error)}); leave it out, and small views are as large as the images"
            ) from error

    def __call__(self, x: Images, rng: Rng, *, local: bool = False) -> Float[Tensor, "batch channel high wide"]:
        """Draw one view of every image.

        Args:
            x: images in [0, 1], [B, C, H, W].
            rng: random numbers bound to the ids of these images.
            local: whether the view is one of the small ones.
        """
        # Every change has columns of its own, so switching one off leaves all others as they are
        u = move_to(rng.uniform(NUMBERS), x)
        size = (self.local_size, self.local_size) if local and self.local_size else (x.shape[2], x.shape[3])
        x = self._window(x, u[:, :9], self.local_crop if local else self.crop, size)
        if x.shape[1] == 3:
            x = self._colours(x, u[:, 9:15])
        elif self.light and self.colour_share:
            # Grey images have only brightness and contrast, by the numbers that colours would take
            x = _choose(
                u[:, 9] < self.colour_share,
                _adjust_light(x, torch.ones_like(x[:1]), self.light, u[:, 10:12]).clamp(0, 1),
                x,
            )
        x = x * _between(self.gain, u[:, 15]).view(-1, 1, 1, 1) if self.gain != (1.0, 1.0) else x
        if self.blur_share:
            x = _choose(u[:, 16] < self.blur_share, _blur_images(x, _between(self.blur, u[:, 17]), self.blur[1]), x)
        if self.solarize:
            x = _choose(u[:, 18] < self.solarize, torch.where(x > 0.5, 1 - x, x), x)
        if self.noise:
            x = x + self.noise * move_to(rng.child("noise").normal(*x.shape[1:]), x)
        if self.hole and self.hole_share:
            x = self._cut_hole(x, u[:, 19:21], move_to(rng.child("hole").uniform(1), x)[:, 0] < self.hole_share)
        return x.clamp(0, 1)

    def _window(
        self, x: Images, u: Float[Tensor, "batch 9"], crop: tuple[float, float], size: tuple[int, int]
    ) -> Float[Tensor, "batch channel high wide"]:
        """Each image in a window of its own, bilinearly; beyond its edge the edge goes on."""
        still = not (self.flip or self.rotate or self.shift) and self.scale == (1.0, 1.0)
        if crop == (1.0, 1.0) and still and size == x.shape[2:]:
            return x
        # random resized crop: area and aspect of the window, then its place, size, turn and mirror
        area, angle = _between(crop, u[:, 0]), math.radians(self.rotate) * (2 * u[:, 2] - 1)
        # Even in the logarithm, so that wide and high windows are equally likely
        aspect = _between((math.log(self.ratio[0]), math.log(self.ratio[1])), u[:, 1]).exp()
        wide, high = (area * aspect).sqrt().clamp(max=1), (area / aspect).sqrt().clamp(max=1)
        if crop == (1.0, 1.0):
            wide, high = torch.ones_like(wide), torch.ones_like(high)
        factor = _between(self.scale, u[:, 3])
        move = 2 * self.shift * (2 * u[:, 4:6] - 1)  # grid units: half a side each
        # As far from the middle as keeps the window inside
        centre = torch.stack([(1 - wide) * (2 * u[:, 6] - 1), (1 - high) * (2 * u[:, 7] - 1)], 1) + move
        mirror = torch.where(u[:, 8] < self.flip, -1.0, 1.0)
        # the affine map from the window to the image
        tall = x.shape[2] / x.shape[3]  # turning is done in pixels, not in shares of unequal sides
        # [B, 2, 2]: columns are the window's two axes, in the coordinates of the image; a mirror
        # turns the first one over
        turn = torch.stack(
            [
                torch.stack([mirror * wide * angle.cos() / factor, -high * angle.sin() / factor * tall], 1),
                torch.stack([mirror * wide * angle.sin() / factor / tall, high * angle.cos() / factor], 1),
            ],
            1,
        )
        grid = F.affine_grid(torch.cat([turn, centre[..., None]], 2), [*x.shape[:2], *size], align_corners=False)
        return F.grid_sample(x, grid, padding_mode="border", align_corners=False)

    def _colours(self, x: Images, u: Float[Tensor, "batch 6"]) -> Images:
        """Return images with other brightness, contrast, saturation and hue, some without colours."""
        weights = torch.tensor(LUMA, device=x.device, dtype=x.dtype).view(1, 3, 1, 1)
        if self.colour and self.colour_share:
            # Brightness and contrast, then saturation and hue: of a full turn a quarter of `colour`
            colourful = 1 + self.colour * (2 * u[:, 3].view(-1, 1, 1, 1) - 1)
            new = _adjust_light(x, weights, self.colour, u[:, 1:3])
            luma = (new * weights).sum(1, keepdim=True)
            new = luma + colourful * _rotate_hue(new - luma, math.pi / 2 * self.colour * (2 * u[:, 4] - 1))
            x = _choose(u[:, 0] < self.colour_share, new.clamp(0, 1), x)
        if self.grey:
            x = _choose(u[:, 5] < self.grey, (x * weights).sum(1, keepdim=True).expand_as(x), x)
        return x

    def _cut_hole(self, x: Images, u: Float[Tensor, "batch 2"], chosen: Bool[Tensor, "batch"]) -> Images:
        """Return images with a black square around a random pixel."""
        inside = chosen.view(-1, 1, 1)
        # Near in both axes: [B, H, 1] and [B, 1, W]
        for axis, place in ((1, u[:, 0]), (2, u[:, 1])):
            side = x.shape[1 + axis]
            at = torch.arange(side, device=x.device)
            near = (at - (place * side).floor()[:, None]).abs() <= self.hole // 2
            inside = inside & (near.unsqueeze(3 - axis))
        return x.masked_fill(inside[:, None], 0)


_SHARES = ("flip", "colour_share", "grey", "blur_share", "solarize", "hole_share")


def _between(pair: tuple[float, float], u: Float[Tensor, "batch"]) -> Float[Tensor, "batch"]:
    return pair[0] + (pair[1] - pair[0]) * u


def _choose(chosen: Bool[Tensor, "batch"], new: Images, old: Images) -> Images:
    return torch.where(chosen.view(-1, 1, 1, 1), new, old)


def _adjust_light(x: Images, weights: Tensor, most: float, u: Float[Tensor, "batch 2"]) -> Images:
    """Return images of another brightness, and of another contrast around the mean of their luma."""
    bright, contrast = (1 + most * (2 * u[:, :, None, None, None] - 1)).unbind(1)  # [B, 1, 1, 1] each
    new = x * bright
    mean = (new * weights).sum(1, keepdim=True).mean((2, 3), keepdim=True)
    return mean + contrast * (new - mean)


def _rotate_hue(chroma: Images, angle: Float[Tensor, "batch"]) -> Images:
    """Return colours without luma turned round the grey axis."""
    along, across = (part.to(chroma) for part in chroma_maps())
    cos, sin = angle.cos().view(-1, 1, 1), angle.sin().view(-1, 1, 1)
    # One map of three colours, [d, c], for each image
    return torch.einsum("bdc,bchw->bdhw", cos * along + sin * across, chroma)


def _blur_images(x: Images, sigma: Float[Tensor, "batch"], most: float) -> Images:
    """Return images blurred by Gaussians of their own σ, reflected at the edges."""
    # 2 σ of the largest; reflection needs more pixels than it adds
    reach = min(math.ceil(2 * most), min(x.shape[2:]) - 1)
    at = torch.arange(-reach, reach + 1, device=x.device, dtype=x.dtype)
    kernel = torch.exp(-(at**2) / (2 * sigma[:, None] ** 2))
    kernel = (kernel / kernel.sum(1, keepdim=True)).repeat_interleave(x.shape[1], 0)
    # All channels of all images as channels of one image, in groups of one, so that each has a kernel
    # of its own
    flat = F.pad(x, (reach,) * 4, mode="reflect").flatten(0, 1)[None]
    # A Gaussian is a product of one down the columns and one along the rows
    flat = F.conv2d(flat, kernel[:, None, :, None], groups=len(kernel))
    return F.conv2d(flat, kernel[:, None, None, :], groups=len(kernel))[0].view_as(x)
