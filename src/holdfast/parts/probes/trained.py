"""A linear head that somebody trained already, from a safetensors file."""

import re
from collections.abc import Mapping
from dataclasses import dataclass

import torch
from jaxtyping import Int
from torch import Tensor

from holdfast.core import Head, LinearProbe, Reps
from holdfast.numerics.geometry.invariance import NOTHING
from holdfast.runtime.errors import BadData, Conflict, Mismatch, unknown
from holdfast.sources.encoders.shared.weights import read_safetensors
from holdfast.sources.onnx.head import head_of_file


@dataclass(frozen=True)
class Trained(LinearProbe):
    """The tensors LAYER.weight [C, D] and LAYER.bias [C] of a file; nothing is learned, so every image is unseen.

    Logit c stands for label c, unless the file holds the labels as `classes` [C]. A missing bias is 0. An ONNX file is
    read for the linear layer at its end, for an encoder that is the same file up to there (`?output=`).

    Attributes:
        path: a safetensors file, or an ONNX file (.onnx).
        layer: the layer's name; "" for a file whose keys are "weight" and "bias"; "last" for the last matrix of a
            network's file, in the order of its numbered names.

    Example:
        >>> import tempfile
        >>> from safetensors.torch import save_file
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     save_file({"weight": torch.eye(2)}, f"{folder}/head.safetensors")
        ...     head = Trained(f"{folder}/head.safetensors").fit(torch.zeros(1, 2), torch.zeros(1, dtype=torch.long))
        >>> head.classes.tolist()
        [0, 1]
    """

    invariant = NOTHING

    path: str = ""
    layer: str = ""

    trains = False

    def fit(self, reps: Reps, labels: Int[Tensor, "batch"]) -> Head:
        """Return the head of the file, whose width has to be that of the representations.

        Raises:
            HoldfastError: no such file or layer, tensors that are not a head's, not finite, or of another width.
        """
        weights, bias, classes, reads = self._layer_of_onnx() if self.path.endswith(".onnx") else self._layer()
        # a head: one finite row, bias and label for each class, as wide as the representations
        if bias.shape != (len(weights),) or classes.shape != bias.shape or not classes.diff().gt(0).all():
            raise BadData(
                f"{self.path!r}: expected one bias and one increasing class for each of {len(weights)} rows, got "
                f"{list(bias.shape)} and {classes.tolist()[:10]}"
            )
        if len(weights) < 2 or not weights.isfinite().all() or not bias.isfinite().all():
            raise BadData(
                f"{self.path!r}: expected a finite head of at least 2 classes, got {list(weights.shape)} with "
                f"{int((~weights.isfinite()).sum() + (~bias.isfinite()).sum())} values that are NaN or infinite"
            )
        if weights.shape[1] != reps.shape[1]:
            raise Mismatch(
                f"{self.path!r}: the head reads {weights.shape[1]} features{reads}, the representations have "
                f"{reps.shape[1]}; choose another layer of the file or of the encoder"
            )
        return Head(weights, bias, classes)

    def _layer(self) -> tuple[Tensor, Tensor, Tensor, str]:
        """Return weights, bias, labels and nothing more to say: by the layer's name, or the last one of the file."""
        state, _ = read_safetensors(self.path)
        # Layers in the order of their numbers, as "10." comes after "2."
        matrices = sorted((key.removesuffix("weight") for key in state if _is_head(key, state)), key=_natural)
        prefix = f"{self.layer}." if self.layer else ""
        # The prefix of a layer ends with its dot; of bare keys it is empty
        if self.layer == "last" and matrices:
            prefix = matrices[-1]
        if prefix not in matrices:
            names = [name.removesuffix(".") or "''" for name in matrices]
            raise unknown(f"layer of {self.path!r} (or layer=last)", self.layer, names)
        # Half precision and float64 are read alike
        weights = state[f"{prefix}weight"].float()
        bias = state.get(f"{prefix}bias", torch.zeros(len(weights))).float()
        return weights, bias, state.get("classes", torch.arange(len(weights))).long(), ""

    def _layer_of_onnx(self) -> tuple[Tensor, Tensor, Tensor, str]:
        """Return weights, bias, labels and what tensor they read."""
        if self.layer not in ("", "last"):
            raise Conflict(f"{self.path!r}: the head of an ONNX file is its last layer; leave out layer")
        head = head_of_file(self.path)
        reads = f" (of its tensor {head.reads}; ?output={head.reads} makes it the encoder's)"
        return head.weights.float(), head.bias.float(), torch.arange(len(head.weights)), reads


def _is_head(key: str, state: Mapping[str, Tensor]) -> bool:
    return (key == "weight" or key.endswith(".weight")) and state[key].ndim == 2


def _natural(name: str) -> list[tuple[int, str]]:
    """Order "2." before "10."."""
    return [(int(part), "") if part.isdigit() else (-1, part) for part in re.split(r"(\d+)", name)]
