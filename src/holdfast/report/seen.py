"""Images as an encoder sees them, side by side in one picture."""

from pathlib import Path

import PIL.Image
import torch

from holdfast.core import Images
from holdfast.runtime.errors import BadValue, Unsupported
from holdfast.storage.outputs import write_file

SHOWN = 5
"""Images in a row."""

SIDE, GAP = 128, 4
"""Pixels: smaller images are enlarged to about this side; between images."""


def write_row(x: Images, path: Path) -> None:
    """Write images side by side as a PNG file, small ones enlarged pixel by pixel."""
    if path.suffix.lower() != ".png":
        raise BadValue(f"--out: expected the name of a PNG file, got {str(path)!r}; give for example seen.png")
    if x.shape[1] not in (1, 3):
        raise Unsupported(f"expected images of 1 or 3 channels to draw, got {x.shape[1]}; leave out --data")
    factor = max(1, round(SIDE / min(x.shape[2:])))
    large = x.clamp(0, 1).repeat_interleave(factor, 2).repeat_interleave(factor, 3).expand(-1, 3, -1, -1)
    row = torch.cat([torch.nn.functional.pad(image, (0, GAP), value=1.0) for image in large], 2)[..., :-GAP]
    picture = PIL.Image.fromarray(row.mul(255).round().to(torch.uint8).permute(1, 2, 0).contiguous().numpy())
    write_file(str(path), lambda part: picture.save(part, "PNG"))
