"""What counts as the class of an image, and as none: the same of every source."""

from typing import Any

import numpy as np
from torch import Tensor

from holdfast.runtime.checked import LARGEST, describe_value
from holdfast.runtime.errors import BadData

NONE = -1
"""What image sets have instead of a class where there is none, as Hugging Face's test splits do."""


def class_number(value: Any, where: str) -> int | None:
    """Return the class that a label says, from 0 on; None for no label: None, or -1.

    Args:
        value: a whole number of Python, NumPy or torch.
        where: whose label it is, for the error.

    Raises:
        HoldfastError: anything else, which is never rounded to a class.

    Example:
        >>> class_number(np.int64(3), "a.png"), class_number(-1, "b.png")
        (3, None)
    """
    if isinstance(value, Tensor) and value.ndim == 0 and not value.is_quantized:
        value = value.item()
    # NumPy's single numbers
    if isinstance(value, (np.generic, np.ndarray)) and value.ndim == 0:
        value = value.item()
    if value is None or (isinstance(value, int) and value == NONE):
        return None
    # True and False are 1 and 0; a float is never rounded to a class
    if not isinstance(value, int) or not 0 <= value <= LARGEST:
        advice = "the place of its 1, .argmax(), is a class" if hasattr(value, "__len__") else "number the classes"
        if isinstance(value, (str, bytes)):
            advice = "number the classes, and name them in `classes`"
        raise BadData(
            f"{where}: expected a whole number from 0 on as its class, or {NONE} for none, got "
            f"{describe_value(value)}; {advice}"
        )
    return int(value)
