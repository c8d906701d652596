"""Everyday edits: what happens to pictures that are shared, and that nobody aims at an encoder."""

from holdfast.core import Threat
from holdfast.parts.threats.banner import Banner
from holdfast.parts.threats.blur import Blur
from holdfast.parts.threats.border import Border
from holdfast.parts.threats.brightness import Brightness
from holdfast.parts.threats.chain import Chain
from holdfast.parts.threats.contrast import Contrast
from holdfast.parts.threats.crop import Crop
from holdfast.parts.threats.edit import Edit
from holdfast.parts.threats.extreme import Extreme
from holdfast.parts.threats.imagenet_c import ImagenetC
from holdfast.parts.threats.jpeg import Jpeg
from holdfast.parts.threats.rescale import Rescale
from holdfast.parts.threats.rotation import Rotation

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

EVERYDAY: tuple[Edit, ...] = (
    Edit(Crop(0.95), Crop(0.5)),
    Edit(Extreme(Rotation(2.0)), Extreme(Rotation(30.0))),
    Edit(Extreme(Rotation(2.0), "lower"), Extreme(Rotation(30.0), "lower")),
    Edit(Extreme(Brightness(0.05)), Extreme(Brightness(0.4))),
    Edit(Extreme(Brightness(0.05), "lower"), Extreme(Brightness(0.4), "lower")),
    Edit(Extreme(Contrast(0.1)), Extreme(Contrast(1.0))),
    Edit(Extreme(Contrast(0.1), "lower"), Extreme(Contrast(0.8), "lower")),
    Edit(Banner(0.05), Banner(0.4)),
    Edit(Blur(0.0025), Blur(0.02)),
    Edit(Rescale(0.9), Rescale(0.125)),
    Edit(Jpeg(95), Jpeg(10)),
    Edit(
        Chain((Rescale(0.9), Border(0.02), Jpeg(90))), Chain((Rescale(0.3), Border(0.2), Jpeg(30))), "screenshot chain"
    ),
)
"""Each from barely visible to heavy, but such as people make them; in the order in which pictures are edited: what is
shown, light, what is laid over it, sharpness, the file, and at last a screenshot of it (smaller, framed, saved)."""
