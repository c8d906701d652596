"""Colour as luma and chroma (NTSC), and as people tell colours apart (CIELAB)."""

import torch
from jaxtyping import Float
from torch import Tensor

YIQ = ((0.299, 0.587, 0.114), (0.595716, -0.274453, -0.321263), (0.211456, -0.522591, 0.311135))
"""From red, green and blue to luma and the two axes of chroma (NTSC)."""

XYZ = ((0.4124, 0.3576, 0.1805), (0.2126, 0.7152, 0.0722), (0.0193, 0.1192, 0.9505))
"""From linear red, green and blue to the tristimulus values of CIE 1931 (sRGB)."""


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
    # Back from chroma alone; a right angle takes (I, Q) to (-Q, I)
    return back[:, 1:] @ to_yiq[1:], back[:, [1, 2]] @ torch.stack([-to_yiq[2], to_yiq[1]])


def lab(images: Float[Tensor, "batch channel height width"]) -> Float[Tensor, "batch 3 height width"]:
    """Return sRGB pixels in [0, 1], or grey ones, as CIELAB: L*, a*, b* under the white D65.

    Distances between colours, ΔE*ab, are Euclidean there.

    Source: IEC 61966-2-1 (sRGB); CIE 15 (CIELAB).

    Example:
        >>> white_and_red = torch.tensor([[1.0, 1, 1], [1, 0, 0]]).view(2, 3, 1, 1)
        >>> lab(white_and_red).flatten(1).round().tolist()
        [[100.0, 0.0, 0.0], [53.0, 80.0, 67.0]]
    """
    rgb = images.expand(-1, 3, -1, -1)
    # From sRGB to linear light; clamped, for `where` computes the power of negative numbers too
    light = torch.where(rgb <= 0.04045, rgb / 12.92, ((rgb.clamp_min(0) + 0.055) / 1.055) ** 2.4)
    to_xyz = images.new_tensor(XYZ)
    # The rows of the matrix add up to white, so white has the ratio 1 on each axis
    ratio = torch.einsum("ij,bjhw->bihw", to_xyz / to_xyz.sum(1, keepdim=True), light)
    low = 6 / 29
    # The cube root, continued by a line where it would be too steep
    root = torch.where(ratio > low**3, ratio.clamp_min(low**3) ** (1 / 3), ratio / (3 * low**2) + 4 / 29)
    x, y, z = root.unbind(1)
    return torch.stack([116 * y - 16, 500 * (x - y), 200 * (y - z)], dim=1)
