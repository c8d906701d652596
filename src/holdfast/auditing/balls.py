"""The ball of an audit: of a norm and an ε, or what is usual for such images; and what it is, in words."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from holdfast.auditing.request import spell_norm
from holdfast.config.part_syntax import part_table
from holdfast.core import Ball, Measure, registry
from holdfast.core.registry import part_name
from holdfast.core.threat import Shape
from holdfast.runtime.checked import number
from holdfast.runtime.errors import BadValue, Missing, unknown
from holdfast.sources.data import ImageSet

NORM = "linf"
"""Of an audit that names none."""

PHOTO = 64
"""Sides from which on images are photos, whatever their colours."""


@dataclass(frozen=True)
class Usual:
    """The radii that the literature uses for a kind of images.

    Attributes:
        images: what they are.
        shape: of the images that these radii were chosen for.
        radii: in pixels of a [0, 1] image, by norm.
        why: who uses them.
    """

    images: str
    shape: Shape
    radii: Mapping[str, float]
    why: str

    def ball(self, norm: str, shape: Shape | None) -> Ball:
        """Return the ball for images of a shape: every pixel may move as far as in images of the kind's own shape.

        So the radius is the same in ℓ∞, and grows in ℓ2 with the square root of the number of pixels, to two digits.
        """
        # What moves each pixel as far on average is the same threat at another size
        ball: Ball = registry.part("threats", norm, radius=self.radii[norm])
        own, wanted = ball.even(self.shape), ball.even(shape or self.shape)
        if own == wanted:
            return ball
        return registry.part("threats", norm, radius=float(f"{ball.radius * wanted / own:.2g}"))


DIGITS = Usual(
    "small grey images",
    (1, 28, 28),
    {"linf": 0.1, "l2": 1.5},
    "MNIST with provable defences, .1 in ℓ∞ and 1.58 in ℓ2 (Wong et al. 2018); .3 makes one digit look like another.",
)
SMALL = Usual(
    "small colour images",
    (3, 32, 32),
    {"linf": 8 / 255, "l2": 0.5},
    "CIFAR-10: Madry et al. (2018), and RobustBench in both norms (Croce et al. 2021).",
)
PHOTOS = Usual(
    "photos",
    (3, 224, 224),
    {"linf": 4 / 255, "l2": 3.0},
    "ImageNet: RobustBench in ℓ∞ (Croce et al. 2021), Salman et al. (2020) in both norms.",
)
USUAL = (DIGITS, SMALL, PHOTOS)
"""Every kind of images."""


def kind_of(shape: Shape | None) -> Usual:
    """Return which kind images of a shape are; small colour images where nothing is known of them."""
    if shape is None:
        return SMALL
    # Size tells photos from thumbnails; among these, colour tells digits from objects
    if min(shape[1:]) >= PHOTO:
        return PHOTOS
    return DIGITS if shape[0] == 1 else SMALL


def shape_of(images: ImageSet) -> Shape | None:
    """Return the shape of the first image; None where images have none before there is an encoder.

    Photos count as 224 pixels high and wide at most, which is about what encoders make of them.
    """
    if not images.sized:
        return None
    # Pictures of mixed sizes have a common one only as they are rendered
    common = images.geometry or images.common_geometry
    channels, height, width = images.shape if common is None else (common.channels, *common.size)
    _, high, wide = PHOTOS.shape
    return channels, min(height, high), min(width, wide)


def audit_ball(norm: str | float, eps: float | str | None, shape: Callable[[], Shape | None]) -> Ball:
    """Return the ball of an audit.

    Args:
        norm: the name of a ball, with those of its fields that differ: "patch[share=0.05]"; spelled as in `spell_norm`.
        eps: its radius in pixels of a [0, 1] image, 0.05 or "4/255"; None: what is usual for the images, or the ball.
        shape: returns that of the images, None where nothing is known of them; called only where there is no radius.
    """
    fields = part_table(spell_norm(norm))
    norm = str(fields.pop("name"))
    if norm not in registry.names("threats"):
        threats = {name: registry.find("threats", name) for name in registry.names("threats")}
        raise unknown("norm", norm, [name for name, threat in threats.items() if issubclass(threat, Ball)])
    kind = registry.find("threats", norm)
    if not issubclass(kind, Ball):
        raise BadValue(f"norm: expected a ball such as linf or l2, got {norm!r}")
    if eps is None:
        return registry.configure(kind, fields) if fields or kind.usual is not None else usual_ball(norm, shape())
    try:
        fields["radius"] = number(eps) if isinstance(eps, str) else eps
    except ValueError as error:
        raise BadValue(f"eps: {error}") from error
    return registry.configure(kind, fields)


def usual_ball(norm: str, shape: Shape | None) -> Ball:
    """Return the ball that is usual for images of a shape."""
    kind = kind_of(shape)
    if norm not in kind.radii:
        raise Missing(f"norm {norm!r} needs a radius: add --eps (pixels of a [0, 1] image)")
    return kind.ball(norm, shape)


def describe_balls(measures: Iterable[Measure], shape: Shape | None) -> list[str]:
    """Return a line for each ball whose radius measures read, see `in_words`."""
    balls = [getattr(measure, "ball", None) for measure in measures if not measure.of_any_radius]
    return [in_words(ball, shape) for ball in dict.fromkeys(balls) if isinstance(ball, Ball)]


def in_words(ball: Ball, shape: Shape | None) -> str:
    """Return what a ball lets happen to images of a shape, and where its radius comes from.

    Example:
        >>> in_words(registry.part("threats", "linf", radius=4 / 255), (3, 224, 224))
        'every pixel may change by up to 4/255 (ε in ℓ∞, the default for photos)'
    """
    norm, kind = part_name(ball), kind_of(shape)
    if shape is not None and norm in kind.radii:
        usual = kind.ball(norm, shape)
        where = f"the default for {kind.images}"
        if ball != usual:
            where = f"{ball.radius / usual.radius:.2g} times {where}, {usual.radius_text}"
        where = f", {where}"
    else:
        where = ""
    clause = ball.in_words(shape or kind.shape)
    if ball.is_box and ball.symbol:
        return f"{clause} (ε in {ball.symbol}{where})"
    name = f"ε {ball.radius_text} in {ball.symbol}" if ball.symbol else ball.title
    return f"{name}{where}: {clause}"
