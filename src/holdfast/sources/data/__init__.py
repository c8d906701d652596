"""Where images come from: one file per source, reached by spec strings through `open_images`."""

from holdfast.sources.data.shared.geometry import Conversion, render
from holdfast.sources.data.shared.image_set import ImageSet
from holdfast.sources.data.shared.open import open_images
from holdfast.sources.data.shared.selection import Selection

__all__ = ["Conversion", "ImageSet", "Selection", "open_images", "render"]
