"""Captions as points of an encoder's space, and which image each belongs to."""

import json
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Float, Int
from torch import Tensor

from holdfast.numerics.geometry.directions import unit
from holdfast.runtime.errors import BadData, Mismatch, Missing
from holdfast.sources.encoders.shared.weights import read_safetensors


@dataclass(frozen=True)
class Captions:
    """The captions of a file, all of them the index of texts.

    Attributes:
        path: the file.
        texts: unit embeddings in float64, [T, D].
        ids: the id of the image that each belongs to.
    """

    path: str
    texts: Float[Tensor, "captions dim"]
    ids: Sequence[str]

    def owners(self, images: Sequence[str]) -> Int[Tensor, "captions"]:
        """Return where the image of each caption stands among some images; -1 for captions of others.

        Raises:
            HoldfastError: an image without a caption.
        """
        places = {image: place for place, image in enumerate(images)}
        # Captions of other images stay in the index of texts, as rivals
        owners = torch.tensor([places.get(image, -1) for image in self.ids])
        if len(bare := sorted(set(range(len(images))) - set(owners.tolist()))):
            raise Mismatch(
                f"{self.path!r}: expected a caption of every image, got none of {len(bare)} of {len(images)}, such as "
                f"{images[bare[0]]!r}; the ids of the file begin with {self.ids[0]!r}"
            )
        return owners


def read_captions(path: str, dim: int | None = None) -> Captions:
    """Return the captions of a file that `holdfast embed-names --captions` wrote.

    Args:
        path: a safetensors file: `embeddings` [T, D], and in its metadata `ids`, a list in JSON.
        dim: of the representations, where it is known.

    Raises:
        HoldfastError: no such file, one without captions, embeddings that are zero or not finite, or of another width.
    """
    if not path:
        raise Missing("captions: expected path=FILE, which holdfast embed-names ENCODER --captions TABLE writes")
    # Every way in which a file can be none of captions has its own message: no
    # ids, another shape, other widths
    state, about = read_safetensors(path)
    embeddings = state.get("embeddings", torch.empty(0))
    ids = _ids(about.get("ids", ""))
    if ids is None or embeddings.ndim != 2 or not len(embeddings):
        holds = ", ".join(f"{key} {list(value.shape)}" for key, value in sorted(state.items()))
        raise BadData(
            f"{path!r}: expected embeddings [captions, dim] with the ids of their images, got {holds or 'nothing'}; "
            "write them with holdfast embed-names ENCODER --captions FILE"
        )
    if len(ids) != len(embeddings):
        raise BadData(f"{path!r}: expected an id for each of {len(embeddings)} captions, got {len(ids)}")
    if dim is not None and embeddings.shape[1] != dim:
        raise Mismatch(
            f"{path!r}: the captions have {embeddings.shape[1]} dimensions, the representations {dim}; take the text "
            "tower that belongs to this encoder, and the encoder's representation in the joint space"
        )
    strange = ~(embeddings.isfinite().all(1) & embeddings.any(1))
    if strange.any():
        which = int(strange.nonzero()[0]) + 1
        raise BadData(f"{path!r}: caption {which} has no direction: its embedding is zero, NaN or infinite")
    # Unit vectors once, so that cosines are plain products afterwards
    return Captions(path, unit(embeddings.double()), ids)


def _ids(text: str) -> list[str] | None:
    """Return the ids that are written in JSON; None of what is no list."""
    try:
        ids = json.loads(text)
    except ValueError:
        return None
    return list(map(str, ids)) if isinstance(ids, list) else None
