"""Typographic: a word is written on the picture, such as the name of another class."""

import copy
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal

import numpy as np
import torch
from jaxtyping import Float
from PIL import Image, ImageColor, ImageDraw, ImageFont
from torch import Tensor

from holdfast.core import Corruption, Images, Rng
from holdfast.runtime.errors import BadValue, Mismatch, Missing, Unsupported, no_labels
from holdfast.sources.encoders.shared.class_names import read_names

FINE, LARGE = 8, 256
"""Letters are drawn so many times as large and averaged, but not larger than so many pixels: versions of FreeType that
move an outline by a pixel then change little."""

MARGIN = 0.1
"""Of the plate around the line, in font sizes."""

Coverage = Float[Tensor, "height width"]


@dataclass(frozen=True)
class Typographic(Corruption):
    """x' = (1 - a) x + a c on a plate with a word in Pillow's own font; a the opacity, c the colour of plate or letter.

    Each image gets one of the words, drawn by its id. Words from a file are the names of the classes, line i for class
    i: an image then gets the name of another class than its own, which reads labels.

    Attributes:
        words: what may be written; Latin letters without accents, digits, signs.
        path: instead, the file of class names that `holdfast embed-names` wrote.
        place: of the word: "centre", "top", "bottom", or "anywhere", drawn by the image's id.
        size: of the font, as a share of the image's height; capital letters are 0.7 of it.
        colour: of the letters, a name or "#rrggbb".
        background: colour of the plate; "" writes on the picture itself.
        opacity: in (0, 1]; 1 hides what is below.

    Source: Goh et al. (2021), Distill, typographic attacks.

    Example:
        >>> x = torch.full((1, 1, 32, 64), 0.5)
        >>> written = Typographic(("iPod",), size=0.5).sample(x, Rng(0, ids=("a",)))
        >>> float(written.min()) < 0.2, float(written.max()), float(written[0, 0, 0, 0])
        (True, 1.0, 0.5)
    """

    words: tuple[str, ...] = ("iPod",)
    path: str = ""
    place: Literal["centre", "top", "bottom", "anywhere"] = "centre"
    size: float = 0.2
    colour: str = "black"
    background: str = "white"
    opacity: float = 1.0

    def __post_init__(self) -> None:
        if not 0 < self.size <= 1:
            raise BadValue(f"typographic: size: expected a share of the image's height in (0, 1], got {self.size}")
        if not 0 < self.opacity <= 1:
            raise BadValue(f"typographic: opacity: expected a share in (0, 1], got {self.opacity}")
        for name in ("colour", "background"):
            if (value := getattr(self, name)) or name == "colour":
                _rgb(value, name)
        if not self.words or len(set(self.words)) < len(self.words):
            raise BadValue(f"typographic: words: expected one or more, each once, got {list(self.words)}")
        for word in self.words:
            _check_letters(word)

    @property
    def needs_labels(self) -> bool:
        """Whether an image gets the name of another class."""
        return bool(self.path)

    def knowing(self, labels: Mapping[str, int]) -> "Typographic":
        """Return the same for images whose classes are known, by their ids."""
        told = copy.copy(self)
        # Not a field: labels belong to images, and must not become a part of the threat's spec
        object.__setattr__(told, "_labels", labels)
        return told

    @property
    def title(self) -> str:
        """For example "“iPod” 20 %"."""
        what = "wrong names" if self.path else f"“{self.words[0]}”" if len(self.words) == 1 else "words"
        own = [f"{100 * self.size:g} %", *([] if self.place == "centre" else [self.place])]
        own += [] if (self.colour, self.background) == ("black", "white") else [self.colour]
        own += [] if (self.colour, self.background) == ("black", "white") else [f"on {self.background or 'it'}"]
        own += [] if self.opacity == 1 else [f"opacity {self.opacity:g}"]
        return f"{what} {' '.join(own)}{self.resize_suffix}"

    def sample(self, x: Images, rng: Rng) -> Images:
        """Write on the images.

        Raises:
            HoldfastError: images that are neither grey nor RGB, words that are larger than they, class names without
                labels or with too few lines, a file without names.
        """
        if x.shape[1] not in (1, 3):
            raise Unsupported(
                f"typographic: expected grey or RGB images, got {x.shape[1]} channels; leave this threat out"
            )
        height, width = x.shape[2:]
        ink, plate = (_pixels(colour, x) for colour in (self.colour, self.background or self.colour))
        names = read_names(self.path) if self.path else []
        for name in names:
            _check_letters(name)
        out, rng = x.clone(), rng.child("typographic")
        # Three numbers of each image: the word, and how far down and to the right it stands
        for row, (image, drawn) in enumerate(zip(rng.ids, rng.uniform(3).tolist(), strict=True)):
            words = self._wrong(image, names) if self.path else self.words
            letters = self._fitting(words[int(drawn[0] * len(words))], height, width).to(x)
            rows, columns = self._where(letters.shape, (height, width), drawn[1:])
            # With a plate all of it covers the image, and letters are a colour on it; else the
            # ink alone covers, pixel by pixel
            covered = letters * self.opacity if not self.background else torch.full_like(letters, self.opacity)
            painted = ink if not self.background else torch.lerp(plate, ink, letters)
            out[row, :, rows, columns] = torch.lerp(out[row, :, rows, columns], painted, covered)
        return out.clamp_(0, 1)

    def _wrong(self, image: str, names: Sequence[str]) -> list[str]:
        """Return the names of all classes but that of an image."""
        labels: Mapping[str, int] | None = getattr(self, "_labels", None)
        if labels is None:
            raise no_labels("the threat typographic with class names", "the source of images")
        if not 0 <= (own := labels[image]) < len(names):
            raise Mismatch(f"{self.path!r}: expected a name of class {own}, got {len(names)}; name every class")
        return [name for number, name in enumerate(names) if number != own]

    def _fitting(self, word: str, height: int, width: int) -> Coverage:
        """Return where the ink of a word is, on its plate."""
        letters = _letters(word, self.size * height)
        if letters.shape[0] > height or letters.shape[1] > width:
            share = self.size * min(height / letters.shape[0], width / letters.shape[1])
            raise Mismatch(
                f"typographic: {word!r} at size {self.size:g} takes {letters.shape[1]}x{letters.shape[0]} pixels, the "
                f"image has {width}x{height}; lower size to about {math.floor(95 * share) / 100:g}, or shorten it"
            )
        return letters

    def _where(self, plate: torch.Size, image: tuple[int, int], drawn: list[float]) -> tuple[slice, slice]:
        """Return the rows and columns of a plate."""
        room = [image[0] - plate[0], image[1] - plate[1]]
        shares = {"centre": [0.5, 0.5], "top": [0.0, 0.5], "bottom": [1.0, 0.5], "anywhere": drawn}[self.place]
        # Every place is as likely where shares are drawn; a share of 1 is the last place
        top, left = (min(int(share * (free + 1)), free) for share, free in zip(shares, room, strict=True))
        return slice(top, top + plate[0]), slice(left, left + plate[1])


@lru_cache(maxsize=4096)
def _letters(word: str, size: float) -> Coverage:
    """Return which share of every pixel of a plate the letters of a word cover, for a font of some pixels."""
    fine = max(1, min(FINE, round(LARGE / size)))
    font = ImageFont.load_default(size=size * fine)
    if not isinstance(font, ImageFont.FreeTypeFont):
        raise Missing("typographic: expected Pillow with FreeType, got one without; install Pillow's own wheel")
    # All words get a line of the same height, with or without letters that reach below it
    margin, line = 2 * MARGIN * size * fine, sum(font.getmetrics())
    columns, rows = (math.ceil((side + margin) / fine) for side in (font.getlength(word), line))
    canvas = Image.new("L", (columns * fine, rows * fine))
    ImageDraw.Draw(canvas).text((canvas.width / 2, canvas.height / 2), word, 255, font, "mm")
    drawn = torch.from_numpy(np.asarray(canvas, dtype=np.float32) / 255)
    # The mean over fine x fine blocks: which share of each pixel is ink
    return drawn.unflatten(1, (columns, fine)).unflatten(0, (rows, fine)).mean((1, 3))


def _check_letters(word: str) -> None:
    """Raise where Pillow's font cannot draw a word."""
    if not word.strip():
        raise BadValue(f"typographic: expected words with letters, got {word!r}")
    if strange := [letter for letter in word if not (letter.isascii() and letter.isprintable())]:
        raise BadValue(
            f"typographic: expected Latin letters without accents, digits and signs, got {strange[0]!r} in {word!r}; "
            "Pillow's own font has no others"
        )


def _rgb(colour: str, name: str) -> tuple[int, ...]:
    """Return a colour as three bytes."""
    try:
        return ImageColor.getrgb(colour)[:3]
    except ValueError as error:
        raise BadValue(f"typographic: {name}: expected the name of a colour or #rrggbb, got {colour!r}") from error


def _pixels(colour: str, x: Images) -> Float[Tensor, "channel 1 1"]:
    """Return a colour as pixels; of grey images its luma (ITU-R BT.601), as Pillow converts."""
    values = x.new_tensor(_rgb(colour, "colour")) / 255
    if x.shape[1] == 1:
        values = (values * x.new_tensor([0.299, 0.587, 0.114])).sum()[None]
    return values[:, None, None]
