"""Everyday edits: what happens to pictures that are shared, and that nobody aims at an encoder."""

from holdfast.core import Threat
from holdfast.parts.threats.crop import Crop
from holdfast.parts.threats.imagenet_c import ImagenetC
from holdfast.parts.threats.jpeg import Jpeg
from holdfast.parts.threats.rescale import Rescale

EDITS: tuple[Threat, ...] = (
    Jpeg(75),
    Jpeg(30),
    Rescale(0.5),
    Crop(0.9),
    Crop(0.7),
    ImagenetC("brightness", 2),
    ImagenetC("contrast", 1),
)
"""Two qualities of JPEG, half the size, two crops, more light, less contrast."""
