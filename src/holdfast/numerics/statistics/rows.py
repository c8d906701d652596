"""Rows of numbers: those that are defined, and the units (images) that several rows share."""

import torch
from jaxtyping import Float, Int
from torch import Tensor


def drop_undefined(values: Tensor, units: Tensor | None = None) -> tuple[Tensor, Tensor | None, str]:
    """Rows that are not NaN, their units, and a note that counts the others.

    Example:
        >>> kept, units, note = drop_undefined(torch.tensor([1.0, torch.nan, 3.0]))
        >>> kept.tolist(), note
        ([1.0, 3.0], '1 of 3 rows are undefined and left out')
    """
    keep = ~values.isnan()
    if not (left_out := int((~keep).sum())):
        return values.contiguous(), units, ""  # of millions no copies
    note = f"{left_out} of {len(values)} rows are undefined and left out"
    return values[keep], units[keep] if units is not None else None, note


def by_unit(rows: Float[Tensor, "rows"], units: Int[Tensor, "rows"]) -> Float[Tensor, "units"]:
    """Sum of the rows of each unit, in float64.

    Example:
        >>> by_unit(torch.tensor([1.0, 2.0, 5.0]), torch.tensor([0, 0, 1])).tolist()
        [3.0, 5.0]
    """
    size = int(units.max()) + 1 if len(units) else 0
    return torch.zeros(size, dtype=torch.float64).index_add_(0, units, rows.double())


def distinct(units: Int[Tensor, "rows"]) -> int:
    """Return how many units there are, numbers from 0 on; to sort millions takes several times their memory.

    Example:
        >>> distinct(torch.tensor([3, 0, 3, 1]))
        3
    """
    return int(units.bincount().count_nonzero())


def constant(values: Tensor) -> bool:
    """Whether values are equal but for rounding, so that their spread is unknown; true of a single value.

    Example:
        >>> constant(torch.tensor([0.3, 0.3])), constant(torch.tensor([0.3, 0.4]))
        (True, False)
    """
    return len(values) < 2 or float(values.std()) <= 1e-12 * float(values.abs().max())
