"""A patch: the pixels of one window may take any value, all others stay as they are."""

import math
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import ClassVar

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from holdfast.core import Ball, Images, PerImage, Rng
from holdfast.core.threat import Frame, Shape, towards
from holdfast.numerics.bounds.box import least_in_box
from holdfast.parts.threats.linf import Linf
from holdfast.parts.threats.shared.window import Size, best, rectangle, spread, sums
from holdfast.runtime.checked import Positive
from holdfast.runtime.errors import BadValue, Mismatch, unknown
from holdfast.runtime.waiting import move_to

CORNERS = MappingProxyType(
    {
        "centre": (0.5, 0.5),
        "top-left": (0.0, 0.0),
        "top-right": (0.0, 1.0),
        "bottom-left": (1.0, 0.0),
        "bottom-right": (1.0, 1.0),
    }
)
"""Places by name, as shares of the room that the window has."""

ANYWHERE, RANDOM = "anywhere", "random"

GRID = 5
"""Rows and columns of places among which searches choose."""


@dataclass(frozen=True)
class Patch(Ball):
    """All images that differ from x only inside one window of h x w pixels, and there by max |x' - x| <= radius.

    h = round(√(share · H · W · aspect)), w = round(h / aspect), with h not yet rounded. At a fixed place this is a box.
    "anywhere" it is the union of the boxes of all places: not convex, so that of what lies between two of its images
    nothing is known. `project` then takes the window that retains most of ||δ||², `ascend` the one in which the
    gradient's sum of absolute values is largest; attacks choose one of 5 x 5 evenly spaced places first and search
    there alone; the bound of `least_on` is the minimum over all windows, exact for a linear function of the image.

    Attributes:
        radius: the largest change of a pixel, in (0, 1]; with 1 a pixel may take any value.
        share: of the image's area that the window covers, about, in (0, 1].
        place: "anywhere", each image its own worst; or the same for all images: "centre", "top-left", "top-right",
            "bottom-left", "bottom-right", (row, column), each a share of the room from the first place to the last, or
            "random", drawn from `seed`.
        aspect: height / width of the window.
        seed: of a random place.

    Source: Brown et al. (2017); Karmon et al. (2018) (patches of about 2 % of the area); Chiang et al. (2020) (a bound
    for every place).

    Example:
        >>> delta = torch.tensor([[[[0.5, 0.0, 0.0, 0.0], [0.0, 0.0, 0.9, 2.0]]]])
        >>> [round(v, 4) for v in Patch(share=0.125).project(delta).flatten().tolist()]
        [0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 1.0]
    """

    radius: float = 1.0
    share: float = 0.03
    place: str | tuple[float, float] = ANYWHERE
    aspect: Positive = 1.0
    seed: int = 0

    usual: ClassVar[float | None] = 1.0

    def __post_init__(self) -> None:
        if not 0 < self.radius <= 1:
            raise BadValue(
                f"patch radius: expected the largest change of a pixel of a [0, 1] image, in (0, 1], got {self.radius}"
            )
        if not 0 < self.share <= 1:
            meant = f"; did you mean {self.share / 100:g}?" if 1 < self.share <= 100 else ""
            raise BadValue(f"patch share: expected a share of the image's area, in (0, 1], got {self.share}{meant}")
        if isinstance(self.place, tuple):
            if not all(0 <= share <= 1 for share in self.place):
                raise BadValue(
                    f"patch place: expected (row, column) as shares in [0, 1] of the room that it has, got {self.place}"
                )
        elif self.place not in (*CORNERS, ANYWHERE, RANDOM):
            raise unknown("place of patch", self.place, (ANYWHERE, RANDOM, *CORNERS))

    @property
    def is_box(self) -> bool:  # pyright: ignore[reportIncompatibleVariableOverride]
        """Whether its place is fixed."""
        return self.place != ANYWHERE

    @property
    def places(self) -> int:
        """Those of a square grid, from the first row and column to the last; 1 where the place is fixed."""
        return 1 if self.is_box else GRID * GRID

    def fix_place(self, numbers: Int[Tensor, "batch"]) -> Ball:
        """Return the patch at places of the grid, numbered row by row; see `Ball.fix_place`."""
        return self if self.is_box else _Placed(self.radius, self.share, self.place, self.aspect, numbers=numbers)

    @property
    def norm(self) -> str:
        """For example "patch of 3 % anywhere"."""
        match self.place:
            case tuple():
                where = "at ({:g}, {:g})".format(*self.place)
            case "anywhere":
                where = self.place
            case "random":
                where = f"at a random place (seed {self.seed})"
            case _:
                where = f"at the {self.place.replace('-', ' ')}" if self.place != "centre" else "in the centre"
        shape = "" if self.aspect == 1 else f", {self.aspect:g} times as high as wide,"
        return f"patch of {100 * self.share:g} %{shape} {where}"

    @property
    def title(self) -> str:
        """As `norm`, and by how much a pixel may change, where that is not any value."""
        return self.norm if self.radius == 1 else f"{self.norm}, pixels by ≤ {self.radius_text}"

    def even(self, shape: Shape) -> float:
        """Return 1: the largest change of a pixel."""
        return 1.0

    def in_words(self, shape: Shape) -> str:
        """Return how many pixels may change, and by how much."""
        high, wide = self.window(shape[1], shape[2])
        by = "take any value" if self.radius == 1 else f"change by up to {255 * self.radius:.3g}/255"
        return f"{high} x {wide} of {shape[1]} x {shape[2]} pixels may {by}"

    def window(self, height: int, width: int) -> Size:
        """Return the height and the width of the window in images of a size.

        Raises:
            HoldfastError: a window of no pixel, or one that is larger than the image.
        """
        # From the height before rounding, or the width would inherit its error
        exact = math.sqrt(self.share * height * width * self.aspect)
        size = (round(exact), round(exact / self.aspect))
        image = f"images of {height} x {width} pixels"
        if min(size) < 1:
            least = max(self.aspect, 1 / self.aspect) / (height * width)
            raise Mismatch(
                f"patch: a share of {self.share:g} holds no pixel of {image}; give share={least:.2g} or more"
            )
        if size[0] > height or size[1] > width:
            raise Mismatch(
                f"patch: a window of {size[0]} x {size[1]} pixels does not fit into {image}; give a smaller share, or "
                "an aspect nearer to theirs"
            )
        return size

    def sample(self, x: Images, rng: Rng) -> Images:
        """Draw a place, where it is not fixed, and every pixel of the window uniformly around x; clamped to [0, 1]."""
        inside = rectangle(*self.frame(x, rng), (x.shape[2], x.shape[3]), x.device)[:, None]
        noise = move_to(rng.child("pixels").uniform(*x.shape[1:]), x) * (2 * self.radius) - self.radius
        return towards(x, torch.where(inside, self._pixels.project(noise), 0))

    def frame(self, x: Images, rng: Rng) -> Frame:
        """Return the window, drawn evenly from all places where it is not fixed."""
        over = (x.shape[2], x.shape[3])
        size = self.window(*over)
        shares = self._shares()
        if shares is None:
            # One place more than there are free rows or columns
            room = torch.tensor([whole - side + 1 for side, whole in zip(size, over, strict=True)])
            places = (rng.child("place").uniform(2) * room).long()
        else:
            places = torch.tensor(_place(shares, size, over)).expand(len(x), 2)
        places = places.to(x.device)
        return places[:, 0], places[:, 1], size

    def project(self, delta: Images) -> Images:
        """Clamp pixels to the radius, and keep the window that retains the most: the nearest point of the ball."""
        # On a window, projecting brings ||δ||² down to ||δ - moved||²; the window that
        # gains most holds the nearest point
        moved = self._pixels.project(delta)
        return torch.where(self._where(moved, delta.square() - (delta - moved).square()), moved, 0)

    def ascend(self, gradient: Images) -> Images:
        """Return the gradient's sign in the window where its absolute values sum up to the most."""
        # A unit step in a window raises a linear function by the sum of absolute slopes there
        return torch.where(self._where(gradient, gradient.abs()), gradient.sign(), 0)

    def squash(self, u: Float[Tensor, "*batch channel height width"]) -> Float[Tensor, "*batch channel height width"]:
        """Return radius · tanh(u) in the window, that of the largest u² where the place is not fixed; else 0."""
        # Which window it is has no gradient
        return torch.where(self._where(u, u.detach().square()), self._pixels.squash(u), 0)

    def size(self, delta: Images) -> PerImage:
        """Return max |delta| of each image; infinite where no window holds all that changed."""
        moved = (delta != 0).any(1)
        if (fixed := self._mask_window(delta)) is not None:
            outside = (moved & ~fixed.squeeze(-3)).flatten(1).any(1)
        else:
            high, wide = self.window(*delta.shape[2:])
            # The smallest window around all that changed must not exceed that of the patch
            tall, broad = spread(moved)
            outside = (tall > high) | (broad > wide)
        return self._pixels.size(delta).masked_fill(outside, torch.inf)

    def contains(self, inner: Ball) -> bool:
        """Whether another patch is one of these: at one of its places, no larger, and with no larger change."""
        if not isinstance(inner, Patch) or inner.radius > self.radius or inner.aspect != self.aspect:
            return False
        if self.place == ANYWHERE:
            return inner.share <= self.share
        return (inner.share, inner.place, inner.seed) == (self.share, self.place, self.seed)

    def box(self, x: Images, radii: PerImage) -> tuple[Images, Images]:
        """Return the range of every pixel: that of `Linf` in the window, or everywhere where the place is not fixed."""
        low, high = super().box(x, radii)
        inside = self._mask_window(x)
        return (low, high) if inside is None else (torch.where(inside, low, x), torch.where(inside, high, x))

    def least(
        self,
        slopes: Float[Tensor, "*#batch rows pixels"],
        x: Float[Tensor, "*batch pixels"],
        box: tuple[Float[Tensor, "*batch pixels"], Float[Tensor, "*batch pixels"]],
        radii: Float[Tensor, "*batch"],
    ) -> Float[Tensor, "*batch rows"]:
        """Return the minimum over the box: exact at a fixed place; `least_on` knows more of a patch anywhere."""
        return least_in_box(slopes, *box)

    def least_on(
        self,
        slopes: Float[Tensor, "*#batch rows channel height width"],
        x: Float[Tensor, "*batch channel height width"],
        box: tuple[Float[Tensor, "*batch channel height width"], Float[Tensor, "*batch channel height width"]],
        radii: Float[Tensor, "*batch"],
        shape: Shape,
    ) -> Float[Tensor, "*batch rows"]:
        """Return slopes · x less the largest sum, over all windows, of what each pixel can take away.

        What a patch covers of a part of the image lies in a window of its size on that part, or is all of it.
        """
        if self.is_box:
            return super().least_on(slopes, x, box, radii, shape)
        size = self.window(*shape[1:])
        size = (min(size[0], slopes.shape[-2]), min(size[1], slopes.shape[-1]))
        # How far each pixel may fall and rise, [*, 1, C, H, W]
        low, high = ((x - box[0])[..., None, :, :, :], (box[1] - x)[..., None, :, :, :])
        # What a pixel can take from the sum at most, over its channels: [*, R, H, W]
        taken = torch.where(slopes > 0, slopes * low, -slopes * high).sum(-3)
        return (slopes.flatten(-3) @ x.flatten(-3)[..., None]).squeeze(-1) - sums(taken, size).flatten(-2).amax(-1)

    def under(self, x: Images, delta: Float[Tensor, "channel height width"]) -> Images:
        """Return images on which one patch is pasted: the pixels of its window are (1 + δ) / 2, whatever they were.

        With a radius below 1, where they cannot take any value, δ is added to them. The window is the one that
        `project` keeps of δ.
        """
        if self.radius < 1:
            return super().under(x, delta)
        return torch.where(self._where(delta, delta.detach().square()), (1 + delta) / 2, x)

    @property
    def _pixels(self) -> Linf:
        """What each pixel of the window may do."""
        return Linf(self.radius)

    def _where(self, like: Tensor, gain: Tensor) -> Bool[Tensor, "*batch one height width"]:
        """Return the pixels of the fixed window, else those of the window with the most gain, summed over channels."""
        if (fixed := self._mask_window(gain)) is not None:
            return fixed
        size = self.window(gain.shape[-2], gain.shape[-1])
        # Where gains are equal (a flat gradient, say) the window with the largest values itself
        return best(gain.detach().sum(-3), size, like.detach().abs().sum(-3)).unsqueeze(-3)

    def _mask_window(self, like: Tensor) -> Bool[Tensor, "*batch one height width"] | None:
        """Return the pixels of the window, [1, H, W], of images like these; None where it may be anywhere."""
        shares = self._shares()
        if shares is None:
            return None
        over = (like.shape[-2], like.shape[-1])
        size = self.window(*over)
        return rectangle(*_place(shares, size, over), size, over, like.device)[None]

    def _shares(self) -> tuple[float, float] | None:
        """Return the place of the window as shares of its room; None where it may be anywhere."""
        if isinstance(self.place, tuple):
            return self.place
        if self.place == RANDOM:
            # By the patch's own seed: its place is a part of what it is, the same in every audit
            down, across = Rng(self.seed, ("patch",), ("place",)).uniform(2)[0].tolist()
            return down, across
        return CORNERS.get(self.place)


# Tensors among the fields cannot be compared or hashed, so each is equal to itself alone
@dataclass(frozen=True, eq=False)
class _Placed(Patch):
    """The patch at a place of its own of each image.

    Attributes:
        numbers: of the places on the grid, row by row, [B]; or one for all images.
    """

    numbers: Tensor = field(kw_only=True)

    @property
    def is_box(self) -> bool:  # pyright: ignore[reportIncompatibleVariableOverride]
        """Its places are fixed."""
        return True

    def frame(self, x: Images, rng: Rng) -> Frame:
        """Return the windows."""
        over = (x.shape[2], x.shape[3])
        size = self.window(*over)
        # Row and column on the grid; whole-number division places the last ones at the very end
        shares = self.numbers // GRID, self.numbers % GRID
        top, left = (
            (share * (whole - side)) // (GRID - 1) for share, whole, side in zip(shares, over, size, strict=True)
        )
        return top.expand(len(x)), left.expand(len(x)), size

    def _mask_window(self, like: Tensor) -> Bool[Tensor, "*batch one height width"]:
        """Return the pixels of the windows, [B, 1, H, W]."""
        over = (like.shape[-2], like.shape[-1])
        top, left, size = self.frame(like.reshape(-1, *like.shape[-3:]), Rng(0))
        return rectangle(top, left, size, over, like.device)[:, None]


def _place(shares: tuple[float, float], size: Size, over: Size) -> tuple[int, int]:
    """Return the first row and column of a window, of as many places as it has room for."""
    top, left = (int(share * (whole - side)) for share, whole, side in zip(shares, over, size, strict=True))
    return top, left
