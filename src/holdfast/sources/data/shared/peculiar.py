"""Pictures of unusual kind: what was done with each that a viewer, or another reader, might do otherwise."""

import re

import PIL.ExifTags
import PIL.Image

from holdfast.core.image_source import GREY

KEY = "holdfast: peculiarities"
"""Among a picture's `info`, where copies of it keep what is no longer known once it is decoded."""

FRAMES = "first of several frames read"
TURNED = "turned as EXIF says"
ALPHA = "alpha channel laid on white"
DEEP = "colours of 16 bits read as 8 bits"
WHOLE = "whole numbers of 32 bits read as 16 bits, divided by 65535"
FLOATS = "floats read as they are, in [0, 1]"
PROFILE = "colour profile other than sRGB not applied"
CONVERTED = "{} converted to RGB without a colour profile"

_DEEP = re.compile(r"(?<!BGR);16|\b65535\b")
"""In what Pillow says of stored pixels; "BGR;16" are 16 bits for all three colours."""

_SRGB = (b"sRGB", "sRGB".encode("utf-16-be"))


def note_peculiarities(picture: PIL.Image.Image) -> None:
    """Note in a picture that is open, and not decoded yet, what is peculiar about it."""
    picture.info[KEY] = _peculiarities(picture)


def peculiarities(picture: PIL.Image.Image) -> tuple[str, ...]:
    """Return what is peculiar about a picture, as noted when it was opened, or else as can still be seen."""
    return picture.info[KEY] if KEY in picture.info else _peculiarities(picture)


def _peculiarities(picture: PIL.Image.Image) -> tuple[str, ...]:
    # Pillow's tiles tell how pixels are stored, only until they are decoded
    mode, stored = picture.mode, " ".join(str(tile) for tile in getattr(picture, "tile", ()))
    profile = picture.info.get("icc_profile") or b""
    found = {
        FRAMES: _has_frames(picture),
        TURNED: picture.getexif().get(PIL.ExifTags.Base.Orientation, 1) != 1,
        ALPHA: picture.has_transparency_data,
        DEEP: mode not in ("I", "F") and not mode.startswith("I;") and bool(_DEEP.search(stored)),
        WHOLE: mode == "I" and picture.format not in ("PNG", "PPM"),  # some versions of Pillow read their 16 bits so
        FLOATS: mode == "F",
        # Modes such as CMYK and Lab
        CONVERTED.format(mode): mode not in (*GREY, "P", "PA", "RGB", "RGBA", "RGBX", "RGBa", "I")
        and not mode.startswith("I;"),
        # A profile names itself in its description, in one of two encodings
        PROFILE: len(profile) > 0 and not any(name in profile for name in _SRGB),
    }
    return tuple(words for words, applies in found.items() if applies)


def _has_frames(picture: PIL.Image.Image) -> bool:
    try:
        return bool(getattr(picture, "is_animated", False))
    except Exception:  # of a picture whose file is closed, or goes on with something else
        return False
