"""Files of class names that `holdfast embed-names` writes: what the classes are called, and their directions."""

import json

from jaxtyping import Float
from torch import Tensor

from holdfast.numerics.geometry.class_directions import directions
from holdfast.runtime.errors import BadData, Mismatch
from holdfast.sources.encoders.shared.weights import read_safetensors

EMBEDDINGS = "embeddings"
"""The tensor of a file that holds them."""


def read_directions(path: str, dim: int) -> Float[Tensor, "classes dim"]:
    """Return the directions of the classes of a file, see `directions`.

    Args:
        path: a safetensors file: `embeddings` [C, D] or [C, prompts, D].
        dim: of the representations.

    Raises:
        HoldfastError: no such file, embeddings that are not finite, zero, or of another width.
    """
    state, _ = read_safetensors(path)
    if EMBEDDINGS not in state:
        raise BadData(
            f"{path!r}: expected a tensor {EMBEDDINGS!r} [classes, dim] or [classes, prompts, dim], got "
            f"{', '.join(sorted(state)) or 'nothing'}; write one with holdfast embed-names"
        )
    weights = directions(state[EMBEDDINGS].float(), path)
    if weights.shape[1] != dim:
        raise Mismatch(
            f"{path!r}: the names have {weights.shape[1]} dimensions, the representations {dim}; take the text tower "
            "that belongs to this encoder, and the encoder's representation in the joint space"
        )
    return weights


def read_names(path: str) -> list[str]:
    """Return what the classes of a file are called, in the order of their labels.

    Raises:
        HoldfastError: a file without names.
    """
    _, about = read_safetensors(path)
    # Names are JSON in the metadata, which holds texts alone
    try:
        names = json.loads(about.get("names", ""))
    except ValueError:
        names = None
    if not isinstance(names, list) or len(names) < 2:
        raise BadData(
            f"{path!r}: expected the names of at least two classes, got none; write them with holdfast embed-names"
        )
    return list(map(str, names))
