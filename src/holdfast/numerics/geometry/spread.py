"""How far representations lie apart, and what of that rounding alone may have made: the one rule of what is "level".

All of it is about what remains after the mean is taken away, against the rounding of the numbers themselves: what
changes no distance between images (a shift, a turn, another order, coordinates that are the same for all images)
changes no verdict, until it takes the digits away that told images apart.
"""

import torch
from jaxtyping import Float, Int
from torch import Tensor

Reps = Float[Tensor, "images dim"]

COMPUTED = 16
"""Last digits by which two float32 passes may differ: sums of many terms round in another order in another batch."""

MOVED = 1e-2
"""How far the same encoder may represent an image elsewhere, in units of `spread`: batches and devices round."""

_FORMATS = {"bfloat16": (8, -126), "float16": (11, -14), "float32": (24, -126)}
"""Significant bits and the smallest exponent of normal numbers: a number x has the spacing 2^(exponent + 1 - bits)."""

_LARGEST_HALF = 65504.0

_FIRST, _ROWS = 256, 4096
"""Images that mostly tell the format of all coordinates, and images whose numbers are in memory at once."""


def spread(reps: Reps) -> float:
    """Return how far apart images usually are, the unit in which it is said what else moves a representation.

    The median distance of successive images over √2, which for one cloud of images is their distance from its mean; at
    most ten times the median distance from the nearest image, where there are several clouds, or images far away.

    Example:
        >>> round(spread(torch.tensor([[1e6, 1.0], [1e6, -1.0]])), 3)
        1.414
    """
    reps = reps.double()
    # Successive images are as good as random pairs, whose distance is √2 times that from the mean
    usual = float((reps - reps.roll(1, 0)).norm(dim=1).median()) / 2**0.5
    return min(usual, 10 * float(nearest_apart(reps).median()))


def rounding(reps: Reps, of_directions: bool = False, computed: int = COMPUTED) -> Float[Tensor, "images"]:
    """Return by how much rounding alone puts representations apart, one number for each: the unit of "level".

    r_i = √(Σ_k (s_k(f_ik)² + (16 s(f_ik))²) / 6) over the coordinates k that differ between any two images; s_k(v) is
    the spacing of numbers at v in the format of coordinate k, s(v) that of float32. √(Σ s²/6) is the root mean square
    of the distance between two vectors that round apart; 16 last digits are what float32 makes of long sums.

    Coordinates that are the same for all images add nothing to any distance, and nothing here.

    Args:
        reps: clean representations of the population, [N, D].
        of_directions: for distances between unit vectors, which are shorter by ‖f_i‖.
        computed: last digits of float32 by which passes may differ; 0: what the numbers themselves cannot hold.

    Example:
        >>> away = torch.tensor([[0.1], [0.2]])
        >>> [f"{value:.0e}" for shift in (0, 1e4) for value in rounding(away + shift).tolist()]
        ['5e-08', '1e-07', '6e-03', '6e-03']
    """
    varies = reps.amin(0) != reps.amax(0)  # NaN too
    bits, least = _formats(reps[:, varies])
    exact = [torch.full_like(bits, number) for number in _FORMATS["float32"]]
    parts = []
    for part in reps.split(_ROWS):
        values = part[:, varies].double()
        # What the numbers cannot hold, and what float32 sums make of them
        squares = _spacing(values, bits, least).square() + (computed * _spacing(values, *exact)).square()
        made = (squares.sum(1) / 6).sqrt()
        parts.append(made / part.double().norm(dim=1).clamp_min(1e-300) if of_directions else made)
    return torch.cat(parts)


def is_unmoved(reps: Reps, again: Reps) -> bool:
    """Return whether the first images are represented as they were, but for rounding in other batches and devices.

    Args:
        reps: representations as they were.
        again: those of the first images now.

    Example:
        >>> reps = torch.tensor([[0.0, 1.0], [1.0, 0.0], [2.0, 2.0]])
        >>> is_unmoved(reps, reps[:2] + 1e-3), is_unmoved(reps, reps[:2] + 0.1), is_unmoved(reps, reps[:2, :1])
        (True, False, False)
    """
    if again.shape[1:] != reps.shape[1:]:
        return False
    moved = (again - reps[: len(again)]).double().norm(dim=1)
    # of one image there is no spread: then its own length must do
    unit = spread(reps) if len(reps) > 1 else float(reps.double().norm(dim=1).max())
    return bool((moved <= torch.clamp_min(rounding(reps)[: len(again)], MOVED * unit)).all())


def nearest_apart(reps: Reps, images: int = _FIRST) -> Float[Tensor, "some"]:
    """Return how far the first images are from the nearest one with another representation; inf where none has.

    Args:
        reps: clean representations of the population, [N, D].
        images: how many of the first images.

    Example:
        >>> nearest_apart(torch.tensor([[0.0], [0.0], [3.0]])).tolist()
        [3.0, 3.0, 3.0]
    """
    # From differences: the matrix product would make equal images differ
    around = reps.double()
    apart = torch.cdist(around[:images], around, compute_mode="donot_use_mm_for_euclid_dist")
    return apart.masked_fill(apart == 0, torch.inf).amin(1)


def number_format(reps: Reps) -> str:
    """Return the format that most coordinates hold numbers of, whatever they are stored in.

    Example:
        >>> number_format(torch.linspace(0, 1, 60).view(20, 3).half().float())
        'float16'
    """
    bits, _ = _formats(reps[:, reps.amin(0) != reps.amax(0)])
    most = float(bits.median()) if len(bits) else 24.0
    return next(name for name, (held, _) in _FORMATS.items() if held == most)


def _formats(reps: Reps) -> tuple[Float[Tensor, "dim"], Float[Tensor, "dim"]]:
    """Return the significant bits and the smallest exponent of each coordinate's format: the coarsest that holds all.

    Whole numbers and other fixed steps are exact: there small numbers have no finer steps than large ones.
    """
    bits, least = (reps.new_full(reps.shape[1:], number, dtype=torch.float64) for number in _FORMATS["float32"])
    coarse = torch.arange(reps.shape[1], device=reps.device)
    for rows in (reps[:_FIRST], reps):  # the first tell of nearly all coordinates that they are float32
        # A number fits a format if its last binary digit is no finer than the format's spacing there
        values = rows[:, coarse].double()
        absent, steps = values == 0, _steps(values).masked_fill(values == 0, torch.inf)
        held, lowest = (torch.full_like(bits[coarse], number) for number in _FORMATS["float32"])
        for name in ("float16", "bfloat16"):  # the coarsest last
            wide, small = (torch.full_like(held, number) for number in _FORMATS[name])
            spacing = _spacing(values, wide, small)
            fits = (steps >= spacing).all(0) & ((name == "bfloat16") | (values.abs().amax(0) <= _LARGEST_HALF))
            most = spacing.amax(0)
            # Where spacings differ but all steps are as coarse as the coarsest, numbers are
            # multiples of a step, not rounded
            fixed = (spacing.masked_fill(absent, torch.inf).amin(0) < most) & (steps.amin(0) >= most)
            takes = fits & ~fixed
            held, lowest = torch.where(takes, wide, held), torch.where(takes, small, lowest)
        bits[coarse], least[coarse] = held, lowest
        # Only what still looks coarse is looked at in all images
        coarse = coarse[held < _FORMATS["float32"][0]]
        if not len(coarse):
            break
    return bits, least


def _spacing(values: Tensor, bits: Float[Tensor, "dim"], least: Float[Tensor, "dim"]) -> Float[Tensor, "images dim"]:
    """Return the spacing of numbers at each value, in formats of so many significant bits."""
    # The mantissas of frexp lie in [½, 1), those of formats in [1, 2); below `least` spacings stay the same
    exponent = torch.frexp(values.double().abs()).exponent.double() - 1
    exponent = torch.where(values != 0, exponent, least).nan_to_num(0.0).maximum(least)
    return torch.exp2(exponent + 1 - bits)


def _steps(values: Float[Tensor, "images dim"]) -> Float[Tensor, "images dim"]:
    """Return the value of the last binary digit of each number that is not 0."""
    mantissa, exponent = torch.frexp(values.nan_to_num(0.0, 0.0, 0.0))
    # 53 bits as a whole number, of which n & -n is the lowest that is set
    whole = (mantissa * 2.0**53).long()
    return torch.ldexp((whole & -whole).double(), exponent - 53)


def level(
    apart: Float[Tensor, "rows columns"], made: Float[Tensor, "images"], rows: Int[Tensor, "rows"], columns: Tensor
) -> Tensor:
    """Return which pairs of images are level: no farther apart than rounding alone may put them.

    Args:
        apart: distances between representations (for cosine, between unit vectors), [R, C].
        made: what `rounding` says of the population, for the same divergence, [N].
        rows: which image each row is, [R].
        columns: which image each column is, [C] or [R, C].

    Example:
        >>> made = torch.tensor([0.1, 0.3])
        >>> level(torch.tensor([[0.0, 0.2]]), made, torch.tensor([0]), torch.tensor([0, 1])).tolist()
        [[True, True]]
    """
    return apart <= torch.maximum(made[rows, None], made[columns])
