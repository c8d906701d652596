"""An encoder in the terminal: where its numbers come from, and some images as it sees them."""

from pathlib import Path

import PIL.Image
import torch
from rich.console import Console
from rich.table import Table
from rich.text import Text

from holdfast.core import Encoder, Geometry, Images
from holdfast.runtime.errors import HoldfastError
from holdfast.storage.outputs import write_file

SHOWN = 5
"""Images in a row."""

SIDE, GAP = 128, 4
"""Pixels: smaller images are enlarged to about this side; between images."""


def print_encoder(encoder: Encoder, x: Images | None, console: Console, geometry: Geometry | None = None) -> None:
    """Print what an encoder reads and gives, and for each word of its preprocessing who says it.

    Args:
        encoder: the encoder.
        x: images that it sees; None: grey ones of its size, where that is known.
        console: where to.
        geometry: how pictures are rendered for it where it says nothing of them.
    """
    origin, geometry = encoder.origin, encoder.geometry or geometry
    if x is None and geometry is not None:
        x = torch.full((1, geometry.channels, *geometry.size), 0.5)
    table = Table(box=None, pad_edge=False, show_header=False)
    table.add_column(no_wrap=True, style="bold")
    table.add_column(overflow="fold")
    rows = {"encoder": encoder.name, "weights": origin.get("weights", "given by the caller")}
    reps = f"{origin.get('layer', 'network output')}, pool {origin.get('pool', 'none')}"
    if x is not None:
        with torch.no_grad():
            reps = f"{encoder(x[:1].to(encoder.device)).shape[1]} numbers: {reps}"
        rows["input"] = "x".join(str(side) for side in x.shape[1:])
    rows["representation"] = reps if encoder.draws is None else f"{reps}\nmean of {encoder.draws} draws"
    if encoder.straight_through:
        rows["gradient"] = f"straight through {', '.join(encoder.straight_through)}"
    mean, std = (", ".join(f"{value:g}" for value in values) for values in (encoder.mean, encoder.std))
    rows["normalisation"] = f"(pixel - mean) / std, mean {mean}, std {std}\n{origin.get('normalisation')}"
    rows |= {key.replace("_", " "): origin[key] for key in ("channels", "image_size") if key in origin}
    said = "nobody says how they become its input; arrays and images of one size are taken as they are"
    rows["pictures"] = said if geometry is None else f"{geometry.in_words}\n{geometry.source}"
    for name, text in rows.items():
        table.add_row(name, Text(str(text)))
    console.print(table)


def write_row(x: Images, path: Path) -> None:
    """Write images side by side as a PNG file, small ones enlarged pixel by pixel."""
    if path.suffix.lower() != ".png":
        raise HoldfastError(f"--out: expected the name of a PNG file, got {str(path)!r}; give for example seen.png")
    if x.shape[1] not in (1, 3):
        raise HoldfastError(f"expected images of 1 or 3 channels to draw, got {x.shape[1]}; leave out --data")
    factor = max(1, round(SIDE / min(x.shape[2:])))
    large = x.clamp(0, 1).repeat_interleave(factor, 2).repeat_interleave(factor, 3).expand(-1, 3, -1, -1)
    row = torch.cat([torch.nn.functional.pad(image, (0, GAP), value=1.0) for image in large], 2)[..., :-GAP]
    picture = PIL.Image.fromarray(row.mul(255).round().to(torch.uint8).permute(1, 2, 0).contiguous().numpy())
    write_file(str(path), lambda part: picture.save(part, "PNG"))
