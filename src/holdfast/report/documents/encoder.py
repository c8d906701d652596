"""An encoder: what it reads and gives, and for each word of its preprocessing who says it."""

import torch
from rich.text import Text

from holdfast.core import Encoder, Geometry, Images
from holdfast.core.geometry import ASSUMED
from holdfast.report.document import Document
from holdfast.report.table import Table


def document(encoder: Encoder, x: Images | None = None, geometry: Geometry | None = None) -> Document:
    """Return where an encoder's numbers come from.

    Args:
        encoder: the encoder, of which one pass is made.
        x: images that it sees; None: grey ones of its size, where that is known.
        geometry: how pictures are rendered for it where it says nothing of them.
    """
    origin, geometry = encoder.origin, encoder.geometry or geometry
    if x is None and geometry is not None:
        x = torch.full((1, geometry.channels, *geometry.size), 0.5)
    rows = {"encoder": encoder.name, "weights": origin.get("weights", "given by the caller")}
    reps = f"{origin.get('layer', 'network output')}, pool {origin.get('pool', 'none')}"
    if x is not None:
        with torch.no_grad():
            reps = f"{encoder(x[:1].to(encoder.device)).shape[1]} numbers: {reps}"
        # Its own size, where images of another one are fed
        size = origin.get("size")
        rows["input"] = "x".join(str(side) for side in x.shape[1:]) + (f"\n{size}" if size else "")
    rows["representation"] = reps if encoder.draws is None else f"{reps}\nmean of {encoder.draws} draws"
    if encoder.straight_through:
        rows["gradient"] = f"straight through {', '.join(encoder.straight_through)}"
    mean, std = (", ".join(f"{value:g}" for value in values) for values in (encoder.mean, encoder.std))
    # What nobody has said of these weights, the user may know
    source = str(origin.get("normalisation"))
    source += "; if it was trained with others, add mean=…&std=… to its name" if source.startswith(ASSUMED) else ""
    rows["normalisation"] = f"(pixel - mean) / std, mean {mean}, std {std}\n{source}"
    rows |= {key.replace("_", " "): origin[key] for key in ("channels", "image_size") if key in origin}
    said = "nobody says how they become its input; arrays and images of one size are taken as they are"
    rows["pictures"] = said if geometry is None else f"{geometry.in_words}\n{geometry.source}"
    return [Table(("", ""), [[Text(name, "bold"), str(text)] for name, text in rows.items()], words=(0, 1))]
