"""Vectors that are stored: of an index, a database, a file; of images, texts or anything else."""

from holdfast.sources.vectors.open import is_stored as is_stored
from holdfast.sources.vectors.open import open_vectors as open_vectors
from holdfast.sources.vectors.vectors import Vectors as Vectors
