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
