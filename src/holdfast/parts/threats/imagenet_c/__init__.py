"""Common corruptions: noise, blur, weather and digital damage at five severities, as in ImageNet-C and CIFAR-10-C."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from jaxtyping import Float
from torch import Tensor

from holdfast.core import Corruption, Images, Rng
from holdfast.parts.threats.imagenet_c import blur, digital, noise, spatter, weather
from holdfast.parts.threats.imagenet_c.batches import in_parts
from holdfast.parts.threats.imagenet_c.constants import CIFAR, IMAGENET
from holdfast.parts.threats.imagenet_c.stored import load_stored
from holdfast.runtime.errors import BadValue, Conflict, Unsupported, unknown

CORRUPTIONS = (
    "gaussian_noise", "shot_noise", "impulse_noise", "defocus_blur", "glass_blur", "motion_blur", "zoom_blur", "snow",
    "frost", "fog", "brightness", "contrast", "elastic_transform", "pixelate", "jpeg_compression",
)  # fmt: skip
"""The fifteen that the benchmark averages, in its order."""

EXTRA = ("speckle_noise", "gaussian_blur", "spatter", "saturate")
"""Four more, meant for tuning, so that the fifteen are met for the first time in the test."""

FUNCTIONS: dict[str, Callable[..., Images]] = {
    "gaussian_noise": noise.gaussian_noise,
    "shot_noise": noise.shot_noise,
    "impulse_noise": noise.impulse_noise,
    "defocus_blur": blur.defocus_blur,
    "glass_blur": blur.glass_blur,
    "motion_blur": blur.motion_blur,
    "zoom_blur": blur.zoom_blur,
    "snow": weather.snow,
    "frost": weather.frost,
    "fog": weather.fog,
    "brightness": digital.brightness,
    "contrast": digital.contrast,
    "elastic_transform": digital.elastic_transform,
    "pixelate": digital.pixelate,
    "jpeg_compression": digital.jpeg_compression,
    "speckle_noise": noise.speckle_noise,
    "gaussian_blur": blur.gaussian_blur,
    "spatter": spatter.spatter,
    "saturate": digital.saturate,
}
"""Name -> function of images in [0, 1], random numbers bound to their ids and the constants of a severity.

What they return is not yet clamped to [0, 1] nor cut to 8 bits. Those in `COLOURED` are given three channels, and frost
is given `textures` where there are any.
"""

COLOURED = ("snow", "frost", "spatter")
"""Add colours: a grey image is given to them as three equal channels, and the luminance of what comes back is taken."""

PARTS = {"elastic_transform": 2**18, "spatter": 2**24}
"""Values that are corrupted at a time, 2²⁰ (six images of 224 pixels) else: fewer where much is made of each image,
more where rows are taken one after the other."""

LUMINANCE = (0.299, 0.587, 0.114)
"""Shares of red, green and blue (ITU-R BT.601)."""

BETWEEN = math.sqrt(32 * 224)
"""Sides below it are nearer to CIFAR's 32 pixels than to ImageNet's 224, counted in doublings."""


@dataclass(frozen=True)
class ImagenetC(Corruption):
    """⌊255 · clamp(c(x))⌋ / 255 for one of 15 + 4 published corruptions c at one of five severities.

    The published generators end by cutting to 8 bits (not rounding), and so does this; what lies less than a thousandth
    of a level below a level is on it. Random numbers belong to the image's id and the corruption, and are the same at
    all severities. Grey images are corrupted as they are; those that add colours (snow, frost, spatter)
    see them as three equal channels and give their luminance back.

    Severities were published as an order of harm and not of pixels: mean |x' - x| falls somewhere from one to the next
    for elastic_transform, saturate, glass_blur, snow and frost, and for spatter with CIFAR's constants.

    Attributes:
        corruption: gaussian_noise, shot_noise, impulse_noise, defocus_blur, glass_blur, motion_blur, zoom_blur, snow,
            frost, fog, brightness, contrast, elastic_transform, pixelate, jpeg_compression (the fifteen);
            speckle_noise, gaussian_blur, spatter, saturate (the four others).
        severity: 1 (mild) to 5.
        constants: what a severity means: "imagenet" (images of about 224 pixels), "cifar" (about 32), or "auto":
            CIFAR's where the shorter side is below √(32 · 224) = 84.7 pixels.
        textures: a folder of photographs of ice for frost; without one, frost is drawn.
        files: the folder of CIFAR-10-C or ImageNet-C, whose images are then taken instead of drawing others: those of
            the same id, which in CIFAR-10-C is the position in the test set.

    Source: Hendrycks & Dietterich (2019).

    Example:
        >>> shown = ImagenetC("brightness", 1)
        >>> shown.title, shown.sample(torch.full((1, 1, 32, 32), 0.5), Rng(0, ids=("a",))).mean().item() > 0.5
        ('brightness 1', True)
    """

    corruption: str = "gaussian_noise"
    severity: int = 3
    constants: str = "auto"
    textures: str = ""
    files: str = ""

    def __post_init__(self) -> None:
        if self.corruption not in FUNCTIONS:
            raise unknown("common corruption", self.corruption, FUNCTIONS)
        if not isinstance(self.severity, int) or not 1 <= self.severity <= 5:
            raise BadValue(f"severity of {self.corruption}: expected 1, 2, 3, 4 or 5, got {self.severity}")
        if self.constants not in ("imagenet", "cifar", "auto"):
            raise unknown("constants of common corruptions", self.constants, ("imagenet", "cifar", "auto"))
        if self.textures and self.corruption != "frost":
            raise Conflict(f"textures: only frost pastes photographs, got them for {self.corruption}; leave them out")
        if self.files and (self.textures or self.constants != "auto"):
            raise Conflict(f"files of {self.corruption} have their own constants and textures; leave these out")

    @property
    def title(self) -> str:
        """For example "gaussian noise 3"."""
        constants = "" if self.constants == "auto" else f" ({self.constants})"
        files = ", published" if self.files else ""
        return f"{self.corruption.replace('_', ' ')} {self.severity}{constants}{files}{self.resize_suffix}"

    def sample(self, x: Images, rng: Rng) -> Images:
        """Corrupt every image; the result has 8 bits.

        Raises:
            HoldfastError: images that are too small for the corruption, that have no colours to saturate, or whose
                channels are neither 1 nor 3; images without a stored version.
        """
        if self.files:
            return load_stored(x, rng, self.files, self.corruption, self.severity)
        if x.shape[1] not in (1, 3):
            raise Unsupported(f"{self.corruption}: expected grey or RGB images, got {x.shape[1]} channels")
        small = self.constants == "cifar" or (self.constants == "auto" and min(x.shape[2:]) < BETWEEN)
        # The severity chooses constants alone; the stream below does not name it, so
        # all five draw the same numbers
        constants = (CIFAR if small else IMAGENET)[self.corruption][self.severity - 1]
        return in_parts(PARTS.get(self.corruption, 2**20))(self._corrupt)(
            x, rng.child("common", self.corruption), constants
        )

    def _corrupt(self, x: Images, rng: Rng, constants: tuple[float, ...]) -> Images:
        function = FUNCTIONS[self.corruption]
        if self.textures:
            function = partial(function, textures=self.textures)
        if x.shape[1] == 1 and self.corruption in COLOURED:
            # `expand` copies nothing: the three channels are one in memory
            return eight_bits(luminance(function(x.expand(-1, 3, -1, -1), rng, constants)))
        return eight_bits(function(x, rng, constants))


def luminance(x: Float[Tensor, "batch 3 height width"]) -> Float[Tensor, "batch 1 height width"]:
    """Return .299 R + .587 G + .114 B."""
    return (x * x.new_tensor(LUMINANCE).view(3, 1, 1)).sum(1, keepdim=True)


def eight_bits(x: Images) -> Images:
    """Return ⌊255 · clamp(x)⌋ / 255; what lies less than a thousandth of a level below a level is on it."""
    # In place on the product, which nobody else holds
    return (255 * x.clamp(0, 1)).add_(1e-3).floor_().div_(255)
