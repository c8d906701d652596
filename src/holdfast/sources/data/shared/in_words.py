"""What was done with images without being asked, in words: lines of a record."""

from collections import Counter
from collections.abc import Sequence

from holdfast.core import Geometry
from holdfast.sources.data.shared.contents import Traits
from holdfast.sources.data.shared.geometry import Conversion, placement

NAMED = 5
"""Things of one line that are named; of further ones it says how many."""


def plural(count: int, noun: str) -> str:
    """Return so many things, "1 file" or "2,000 files"."""
    return f"{count:,} {noun}{'' if count == 1 else 's'}"


def format_counts(things: Counter[str]) -> str:
    """Return how often each thing occurs, the most frequent first.

    Example:
        >>> format_counts(Counter({".txt": 1, ".heic": 20}))
        '20 .heic, 1 .txt'
    """
    # The most frequent first, those of one count by name
    counts = sorted(things.items(), key=lambda item: (-item[1], item[0]))
    more = sum(number for _, number in counts[NAMED:])
    shown = [f"{number:,} {name}" for name, number in counts[:NAMED]]
    return ", ".join([*shown, f"{more:,} others"] if more else shown)


def join_names(things: Sequence[str]) -> str:
    """Return the names of some things, the first ones of many.

    Example:
        >>> join_names(["caption", "bbox"])
        'caption, bbox'
    """
    more = len(things) - NAMED
    return ", ".join([*things[:NAMED], f"{more:,} others"] if more > 0 else things)


def labels_in_words(images: int, labelled: int, problem: str) -> str:
    """Return a line where some images have no label, or labels cannot be read; else "".

    Args:
        images: how many there are.
        labelled: how many have a label.
        problem: why labels that are there cannot be read.
    """
    if problem:
        return f"labels are not read: {problem}"
    if not 0 < labelled < images:
        return ""
    return f"{images - labelled:,} of {images:,} images have no label (-1, or nothing): labels are not read"


def peculiarities_in_words(traits: Counter[Traits]) -> list[str]:
    """Return a line for each way in which pictures are of unusual kind: how many, and what was done with them."""
    pictures = sum(number for trait, number in traits.items() if trait.is_picture)
    counts: Counter[str] = Counter()
    for trait, number in traits.items():
        counts.update(dict.fromkeys(trait.peculiarities, number))
    return [f"{number:,} of {pictures:,} pictures: {words}" for words, number in sorted(counts.items())]


def rendering_in_words(traits: Counter[Traits], conversion: Conversion, geometry: Geometry | None) -> str:
    """Return from which sizes images were brought to that of the encoder, and how; "" where they stay as they are.

    Args:
        traits: of how many images.
        conversion: what the user asked for.
        geometry: of the encoder.
    """
    shapes: Counter[tuple[int, int, int]] = Counter()
    enlarged = recoloured = 0
    for (shape, is_picture, _), number in traits.items():
        channels, height, width = shape
        # Arrays are not resized for an encoder, only if asked
        wanted = placement(conversion, geometry if is_picture else None)
        kept = conversion.channels or (geometry.channels if geometry and is_picture else None) or channels
        recoloured += number * (kept != channels)
        if wanted is not None and not wanted.keeps(height, width):
            shapes[shape] += number
            enlarged += number * wanted.enlarges(height, width)
    total, lines = sum(traits.values()), []
    if shapes:
        how = placement(conversion, geometry)
        assert how is not None  # else nothing is resized
        lines.append(f"{_sizes(shapes, total)}: {how.in_words}")
    if enlarged:
        lines.append(f"{enlarged:,} of {total:,} are enlarged")
    if recoloured:
        channels = conversion.channels or (geometry.channels if geometry else 0)
        lines.append(f"{recoloured:,} of {total:,} are made {'grey' if channels == 1 else 'RGB from grey'}")
    return "; ".join(lines)


def _sizes(shapes: Counter[tuple[int, int, int]], total: int) -> str:
    """Return how many images have which sizes."""
    sizes: Counter[tuple[int, int]] = Counter()
    for (_, height, width), number in shapes.items():
        sizes[height, width] += number
    # The most frequent size is named, of several the largest
    (height, width), _ = max(sizes.items(), key=lambda item: (item[1], item[0]))
    sides = f"{height} × {width} pixels{'' if height == width else ' (height × width)'}"
    if len(sizes) > 1:
        shorter = sorted({min(size) for size in sizes})
        ends = f"{shorter[0]:,}{f' to {shorter[-1]:,}' if len(shorter) > 1 else ''}"
        sides = f"{sides} and {plural(len(sizes) - 1, 'other size')}, shorter side {ends}"
    number = sum(sizes.values())
    return f"{number:,} {'images' if number == total else f'of {total:,} images'} of {sides}"
