"""Where images come from: one file per source, reached by spec strings through `open_images`."""

from holdfast.data._choice import Known
from holdfast.data._geometry import Conversion, render
from holdfast.data._image_set import ImageSet
from holdfast.data._open import SOURCES, open_images

__all__ = ["SOURCES", "Conversion", "ImageSet", "Known", "open_images", "render"]
