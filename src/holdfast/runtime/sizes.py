"""Sizes of changes as people write them."""


def in_figures(size: float) -> str:
    """Return a size with the two digits that a sentence needs.

    Example:
        >>> [in_figures(size) for size in (0.0712, 1.04, 12.6, 181.2)]
        ['0.071', '1', '13', '181']
    """
    return f"{size:.2g}" if size < 10 else f"{size:.0f}"


def size_in_words(size: float, levels: bool) -> str:
    """Return a size in pixels of a [0, 1] image as people write it: 0.7/255, or as it is."""
    return f"{in_figures(255 * size)}/255" if levels else in_figures(size)


def format_size(size: float) -> str:
    """Return a size as people write it in a command: 4/255 or 0.1, whichever is shorter and right to three digits.

    Example:
        >>> [format_size(size) for size in (4 / 255, 0.1, 0.2, 1.0, 0.00392157, 0.05)]
        ['4/255', '0.1', '0.2', '1', '1/255', '0.05']
    """
    levels, plain = round(255 * size), f"{size:.6g}"
    whole = levels > 0 and abs(255 * size / levels - 1) < 1e-3
    return f"{levels}/255" if whole and len(f"{levels}/255") < len(plain) else plain
