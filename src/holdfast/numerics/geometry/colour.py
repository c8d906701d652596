"""Colour as luma and chroma (NTSC)."""

import torch
from jaxtyping import Float
from torch import Tensor

YIQ = ((0.299, 0.587, 0.114), (0.595716, -0.274453, -0.321263), (0.211456, -0.522591, 0.311135))
"""From red, green and blue to luma and the two axes of chroma (NTSC)."""


def chroma_maps() -> tuple[Float[Tensor, "3 3"], Float[Tensor, "3 3"]]:
    """Matrices that take RGB to its chroma, and to that turned by a right angle round the grey axis; float64.

    Example:
        >>> along, _ = chroma_maps()
        >>> chroma = along @ torch.tensor([[1.0, 1.0], [0.0, 1.0], [0.0, 1.0]], dtype=torch.float64)  # red, white
        >>> [[round(abs(v), 2) for v in column] for column in chroma.T.tolist()]
        [[0.7, 0.3, 0.3], [0.0, 0.0, 0.0]]
    """
    to_yiq = torch.tensor(YIQ, dtype=torch.float64)
    back = to_yiq.inverse()
    return back[:, 1:] @ to_yiq[1:], back[:, [1, 2]] @ torch.stack([-to_yiq[2], to_yiq[1]])
