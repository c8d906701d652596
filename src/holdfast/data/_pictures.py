"""Decoding picture files, with one error for everything that can be wrong with them."""

from io import BytesIO
from pathlib import Path

import PIL.Image

from holdfast.errors import HoldfastError

EXTENSIONS = (
    *(".avif", ".bmp", ".gif", ".jfif", ".jp2", ".jpe", ".jpeg", ".jpg"),
    *(".pbm", ".pgm", ".png", ".pnm", ".ppm", ".tif", ".tiff", ".webp"),
)
"""What counts as a picture file, by its lower-case extension."""


def decode(file: Path | BytesIO, name: str) -> PIL.Image.Image:
    """Return the fully decoded picture of a file, called `name` in errors.

    Raises:
        HoldfastError: a file that is missing, empty, truncated, too large or not a picture.
    """
    try:
        with PIL.Image.open(file) as picture:
            picture.load()
            return picture
    except PIL.UnidentifiedImageError as error:
        raise HoldfastError(
            f"cannot read image {name!r} (its content is not a picture); repair or remove it"
        ) from error
    except Exception as error:  # Pillow's plug-ins raise OSError, SyntaxError, ValueError, struct.error, ...
        raise HoldfastError(f"cannot read image {name!r} ({error}); repair or remove it") from error
