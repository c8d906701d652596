"""Decoding picture files, with one error for everything that can be wrong with them."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from io import BytesIO
from pathlib import Path

import PIL.Image
import PIL.ImageFile

from holdfast.core.image_source import shape_of_picture
from holdfast.runtime.doors import open_picture
from holdfast.runtime.errors import BadData, first_line
from holdfast.runtime.foreign import TURN
from holdfast.sources.data.shared.peculiar import note_peculiarities

EXTENSIONS = (
    *(".avif", ".bmp", ".gif", ".jfif", ".jp2", ".jpe", ".jpeg", ".jpg"),
    *(".pbm", ".pgm", ".png", ".pnm", ".ppm", ".tif", ".tiff", ".webp"),
)
"""What counts as a picture file, by its lower-case extension."""

LARGE = 2**24
"""Pixels above which one picture at a time is in memory, however many threads read: 64 MiB as Pillow holds them."""

_turn = threading.Lock()
_thread = threading.local()


@contextmanager
def one_large_at_a_time() -> Iterator[None]:
    """Decode and shrink a picture inside; a large one waits until no other is in memory."""
    # Known by the thread: decoding happens deep inside code that knows nothing of turns
    _thread.inside, _thread.holds = True, False
    try:
        yield
    finally:
        _thread.inside = False
        if _thread.holds:
            _turn.release()


def shape_in(file: Path | BytesIO) -> tuple[int, int, int]:
    """Return (channels, height, width) of the picture in a file, from its header.

    Raises:
        OSError: a file that Pillow cannot open; or what else its plug-ins raise.
    """
    with open_picture(file) as picture:
        return shape_of_picture(picture)


def decode(file: Path | BytesIO, name: str) -> PIL.Image.Image:
    """Return the fully decoded picture of a file, called `name` in errors.

    Raises:
        HoldfastError: a file that is missing, empty, truncated, no file but a pipe or a device, not a picture, or one
            of more pixels than Pillow unpacks (`PIL.Image.MAX_IMAGE_PIXELS`, twice).
    """
    try:
        with open_picture(file) as picture:
            # Only once for a thread, which holds the turn until it leaves
            if picture.width * picture.height > LARGE and getattr(_thread, "inside", False) and not _thread.holds:
                _thread.holds = _turn.acquire()
            note_peculiarities(picture)
            with _whole():
                picture.load()
            return picture
    except PIL.Image.DecompressionBombError as error:
        raise BadData(
            f"cannot read image {name!r}: expected at most {2 * (PIL.Image.MAX_IMAGE_PIXELS or 0):,} pixels, it would "
            "unpack to more; make it smaller, or remove it"
        ) from error
    except PIL.UnidentifiedImageError as error:
        raise BadData(f"cannot read image {name!r} (its content is not a picture); repair or remove it") from error
    except Exception as error:  # Pillow's plug-ins raise OSError, SyntaxError, ValueError, struct.error, ...
        raise BadData(f"cannot read image {name!r} ({first_line(error)}); repair or remove it") from error


@contextmanager
def _whole() -> Iterator[None]:
    """Refuse inside what is truncated, also where somebody has told Pillow to fill such pictures up with grey."""
    if not PIL.ImageFile.LOAD_TRUNCATED_IMAGES:
        yield
        return
    with TURN:  # code of others decodes in its turn too, and may rely on it
        PIL.ImageFile.LOAD_TRUNCATED_IMAGES = False
        try:
            yield
        finally:
            PIL.ImageFile.LOAD_TRUNCATED_IMAGES = True
