"""How images may change: balls with a worst case, noise with a distribution, corruptions of whole data sets."""

from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cache
from typing import Any, ClassVar, Literal

import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.nn.functional import hardshrink
from typing_extensions import override

from holdfast.core.encoder import Images, Reps
from holdfast.core.registry import part_name
from holdfast.numerics.rng import Rng
from holdfast.numerics.shapes import PerImage
from holdfast.runtime.checked import Checked
from holdfast.runtime.sizes import format_size

Draws = Float[Tensor, "batch draws channel height width"]

Shape = tuple[int, int, int]
"""Channels, height and width of an image."""

Frame = tuple[Int[Tensor, "batch"], Int[Tensor, "batch"], tuple[int, int]]
"""A rectangle on each image: its first row and column, and the height and width of all of them."""


def image_shape(x: Images) -> Shape:
    """Return channels, height and width of images."""
    _, channels, height, width = x.shape
    return channels, height, width


class Threat(metaclass=Checked):
    """How an image may change. Subclasses are frozen dataclasses; `sample` draws one changed image each.

    Attributes:
        moves_pixels: whether it only moves pixels, the same ways in every image, so that maps can be moved alike.
        reads_labels: whether what befalls an image depends on its class, whatever its fields are.
    """

    moves_pixels: ClassVar[bool] = False
    reads_labels: ClassVar[bool] = False

    @property
    def title(self) -> str:
        """What it is, in a few words."""
        return part_name(self)

    @property
    def needs_labels(self) -> bool:
        """Whether what befalls an image depends on its class."""
        return self.reads_labels

    @abstractmethod
    def sample(self, x: Images, rng: Rng) -> Images:
        """Draw one disturbed version of every image, inside [0, 1]."""


@dataclass(frozen=True)
class Corruption(Threat):
    """A change that befalls a whole data set alike, such as a shuffle of its pixels; a frozen dataclass.

    What differs from image to image, such as noise, is drawn from `rng` by the image's id; what is shared, such as the
    permutation of a shuffle, is part of the corruption and so the same for training and test images, in every audit.

    Attributes:
        resolution: "image": images are corrupted at their own size and then resized for the encoder, so cells and
            severities mean the pixels of the data set, whatever the encoder; "encoder": they are resized first.
    """

    resolution: Literal["image", "encoder"] = field(default="image", kw_only=True)

    @property
    @abstractmethod
    def title(self) -> str:
        """What it is, in a few words that tell it from its kind with other parameters, such as "G4x4"."""

    def knowing(self, labels: Mapping[str, int]) -> "Corruption":
        """Return the corruption of images whose classes are known, by their ids; itself where it asks nothing."""
        return self

    @property
    def resize_suffix(self) -> str:
        """The end of the title: where images are resized before."""
        return ", resized first" if self.resolution == "encoder" else ""

    @property
    def tile(self) -> int:
        """What the sides of the part of an image that it changes are multiples of, in pixels."""
        return 1


class Noise(Threat):
    """A threat with a distribution: x' = push(x, z) for standard normal numbers z; a frozen dataclass.

    One definition serves plain sampling, rare events (which move z and leave its distribution as it is) and gradients.

    Attributes:
        ball: where every draw lies; None for disturbances that no ball of pixels describes.
    """

    ball: "Ball | None" = None

    @property
    def title(self) -> str:
        """What it is, in a few words: its name, and the ball where every draw lies."""
        return part_name(self) + (f", {part_name(self.ball)} {self.ball.radius:g}" if self.ball is not None else "")

    @abstractmethod
    def numbers(self, x: Images) -> int:
        """Number of standard normal numbers that one draw for one image takes."""

    @abstractmethod
    def push(self, x: Images, z: Float[Tensor, "batch draws numbers"]) -> Draws:
        """Return the disturbed images that some numbers stand for, inside [0, 1] (and inside the ball).

        Args:
            x: clean images, [B, C, H, W].
            z: standard normal numbers, a row for every draw of every image, [B, S, numbers].
        """

    @override
    def sample(self, x: Images, rng: Rng) -> Images:
        return self.push(x, rng.normal(1, self.numbers(x)).to(x))[:, 0]  # one draw of [B, S, C, H, W]

    def at(self, reps: Reps, labels: Int[Tensor, "batch"] | None) -> "Noise":
        """Return the noise that these images meet, given what is known of them; itself where it asks nothing.

        Args:
            reps: clean representations of the images that are disturbed next, in their order, [B, D].
            labels: their classes, [B]; None where they are not known.

        Raises:
            HoldfastError: a noise that depends on labels, without them.
        """
        return self


class Ball(Threat):
    """A threat with a worst case: all images within `radius` of x, in pixels, and inside [0, 1].

    Attributes:
        radius: ε.
        symbol: the norm as papers write it.
        is_box: whether pixels move independently of each other, so that interval arithmetic knows all of the ball.
        landmarks: radii that people know, with their names, smallest first.
        usual: the radius that is usual for images of any kind; None where it depends on them, or none is.
    """

    radius: float
    symbol: ClassVar[str] = ""
    is_box: ClassVar[bool] = False
    landmarks: ClassVar[tuple[tuple[float, str], ...]] = ()
    usual: ClassVar[float | None] = None

    @property
    def places(self) -> int:
        """How many balls at fixed places searches choose among, see `fix_place`; 1: it is no union of such."""
        return 1

    def fix_place(self, numbers: Int[Tensor, "batch"]) -> "Ball":
        """Return the part of the ball at one fixed place of each image.

        Args:
            numbers: of the places, from 0 to `places` - 1, [B]; one for all images, or one for each.
        """
        return self

    @property
    def radius_text(self) -> str:
        """The radius as people write it, see `holdfast.runtime.sizes.format_size`."""
        return format_size(self.radius)

    @property
    def norm(self) -> str:
        """The norm as people write it; the part's name where papers have no symbol for it."""
        return self.symbol or part_name(self)

    @property
    def title(self) -> str:
        """The ball as people write it: ℓ∞ ≤ 4/255."""
        return f"{self.norm} ≤ {self.radius_text}"

    @property
    def of_usual_radius(self) -> "Ball":
        """The same ball with the radius that its kind has where none is named, for those who read no radius."""
        ball: Any = self
        return replace(ball, radius=type(self)().radius)

    def even(self, shape: Shape) -> float:
        """Return the largest size of a change, by 1 of every pixel that may change, in images of a shape."""
        return float(self.size(torch.ones(1, *shape)))

    def in_words(self, shape: Shape) -> str:
        """Return what the ball lets happen to images of a shape, as a clause."""
        # A change by 1 of every pixel has the size `even`, so this is ε spread evenly, in any norm
        size = f"{255 * self.radius / self.even(shape):.3g}/255"
        if self.is_box:
            reach = torch.full((1, *shape), self.radius)
            moved = ((self.project(reach) != 0) | (self.project(-reach) != 0)).squeeze(0).any(0)
            which = "every pixel" if moved.all() else f"{int(moved.sum())} of {shape[1]} x {shape[2]} pixels"
            return f"{which} may change by up to {size}"
        return f"like a change of {size} in each pixel of {shape[1]} x {shape[2]}"

    @abstractmethod
    def project(self, delta: Images) -> Images:
        """Return the point of the ball nearest to each perturbation."""

    @abstractmethod
    def ascend(self, gradient: Images) -> Images:
        """Return the step of unit size along which a linear function of this gradient rises fastest."""

    @abstractmethod
    def squash(self, u: Float[Tensor, "*batch channel height width"]) -> Float[Tensor, "*batch channel height width"]:
        """Map any numbers smoothly and one to one to perturbations inside the ball; zero to zero."""

    @abstractmethod
    def size(self, delta: Images) -> PerImage:
        """Return the norm of each perturbation, in pixels."""

    def contains(self, inner: "Ball") -> bool:
        """Whether every image of another ball around x lies in this one; only those that differ in radius are known."""
        if type(inner) is not type(self) or inner.radius > self.radius:
            return False
        own: Any = self  # in all fields but the radius they are the same
        return replace(own, radius=inner.radius) == inner

    def box(self, x: Images, radii: PerImage) -> tuple[Images, Images]:
        """Return the lowest and the highest value of every pixel in the balls of these radii and in [0, 1]."""
        reach = radii.view(-1, 1, 1, 1)  # [B] beside [B, C, H, W]
        return (x - reach).clamp_min(0), (x + reach).clamp_max(1)

    @abstractmethod
    def least(
        self,
        slopes: Float[Tensor, "*#batch rows pixels"],
        x: Float[Tensor, "*batch pixels"],
        box: tuple[Float[Tensor, "*batch pixels"], Float[Tensor, "*batch pixels"]],
        radii: Float[Tensor, "*batch"],
    ) -> Float[Tensor, "*batch rows"]:
        """Return a lower bound of min slopes · x' over the ball of each radius around x and inside its box.

        Tight in exact arithmetic; pixels of which a slope does not know (a window on the image) are left out of x.
        """

    def least_on(
        self,
        slopes: Float[Tensor, "*#batch rows channel height width"],
        x: Float[Tensor, "*batch channel height width"],
        box: tuple[Float[Tensor, "*batch channel height width"], Float[Tensor, "*batch channel height width"]],
        radii: Float[Tensor, "*batch"],
        shape: Shape,
    ) -> Float[Tensor, "*batch rows"]:
        """Return `least` for pixels that are the whole image, or a window on it, for balls that ask where pixels lie.

        Args:
            slopes: of the pixels of the window.
            x: the window on each image; outside the image pixels are zero and cannot move.
            box: the window on the box.
            radii: of the balls.
            shape: of the whole image.
        """
        low, high = (end.flatten(-3) for end in box)
        return self.least(slopes.flatten(-3), x.flatten(-3), (low, high), radii)

    def step(self, x: Images, at: Images, gradient: Images, length: float | Tensor) -> Images:
        """Return where a step of steepest ascent leads: at + length · ascend(gradient), brought back into the ball.

        Args:
            x: clean images, [B, C, H, W].
            at: where they are, in the ball.
            gradient: of what is to rise, at `at`.
            length: of the step, in pixels; one for all images or [B, 1, 1, 1].
        """
        # In place on a product of its own
        return self.around(x, (length * self.ascend(gradient)).add_(at))

    def under(self, x: Images, delta: Float[Tensor, "channel height width"]) -> Images:
        """Return images under a perturbation that all of them share, before they are brought `around` x: x + δ.

        It is differentiable in δ, which lies in the ball.
        """
        return x + delta

    def frame(self, x: Images, rng: Rng) -> Frame:
        """Return where a change of each image may lie, drawn where there is a choice: by default anywhere in it."""
        first = torch.zeros(len(x), dtype=torch.long, device=x.device)
        return first, first, (x.shape[2], x.shape[3])

    def around(self, x: Images, moved: Images) -> Images:
        """Return `moved` brought back into the ball around x and into [0, 1].

        Sums are rounded towards x, which is inside: no pixel leaves the ball again.
        """
        return towards(x, self.project(moved - x))

    def inside(self, x: Images, delta: Images, radii: PerImage) -> Images:
        """Return x + delta brought into balls of these radii around x, about, and into [0, 1].

        Args:
            x: clean images, [B, C, H, W].
            delta: how far they moved.
            radii: in pixels, positive, [B]; this ball's own radius is not read.
        """
        reach = radii.view(-1, 1, 1, 1) / self.radius  # balls of every size look alike
        return (self.project(delta / reach) * reach).add_(x).clamp_(0, 1)


@torch.no_grad()
def towards(x: Images, delta: Images) -> Images:
    """Return x + delta in [0, 1], rounded towards x where it must be rounded: no pixel moves further than delta says.

    Source: Dekker (1971), the exact error of a sum by its larger term; Rump, Zimmermann, Boldo & Melquiond (2009),
        "Computing predecessor and successor in rounding to nearest".

    Example:
        >>> x, delta = torch.tensor([0.7, 0.9]), torch.tensor([0.1, 0.2])
        >>> (x + delta).double() - x.double() > delta.double(), towards(x, delta).double() - x.double() > delta.double()
        (tensor([True, True]), tensor([False, False]))
    """
    # attacks do this at every step: as few passes over pixels as it takes, and none that is guessed pixel by pixel
    at = x + delta
    # larger and smaller by size, but where the sum is below 0, which is 0 in the end
    larger, smaller = torch.maximum(x, delta), torch.minimum(x, delta)
    # Fast2Sum: smaller + (larger - at) is the exact sum minus the rounded one
    error = smaller.add_(larger.sub_(at))
    # ±2 where the exact sum lies on the side of x, towards which one float is 0.55 to 1.1 units; else 0
    # `larger` has served, and takes the signs
    back = hardshrink(error.sign_().sub_(torch.sign(delta, out=larger)), 1.0)
    return at.addcmul_(at, back, value=0.55 * torch.finfo(at.dtype).eps / 2).clamp_(0, 1)


@cache
def round_down(value: float, dtype: torch.dtype) -> float:
    """Return the largest number of a precision that is not above a positive value."""
    nearest = torch.tensor(value, dtype=dtype)
    # The nearest number may lie above
    return float(nearest if float(nearest) <= value else torch.nextafter(nearest, torch.zeros_like(nearest)))
