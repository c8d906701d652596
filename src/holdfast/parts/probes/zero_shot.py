"""A classifier without a single labelled image: the embeddings of the classes' names in a text tower."""

from dataclasses import dataclass

import torch
from jaxtyping import Int
from torch import Tensor

from holdfast.core import Head, LinearProbe, Reps
from holdfast.numerics.geometry.invariance import LENGTHS
from holdfast.runtime.errors import Mismatch
from holdfast.sources.encoders.shared.class_names import read_directions


@dataclass(frozen=True)
class ZeroShot(LinearProbe):
    """Logit c is t_c · f(x), where t_c is the direction of class c: the unit mean of its prompts' unit embeddings.

    The first is the class whose text is nearest by cosine: the length of f(x) scales all logits of an image alike.
    Logit c stands for label c. Nothing is learned, so every image is unseen. The file is what `holdfast embed-names`
    writes, or `embeddings` [C, D] or [C, prompts, D] of your own from the text tower that belongs to the encoder; the
    representation is that of the joint space (`openclip:` and `hf:` give it where they open both towers).

    Attributes:
        path: a safetensors file.

    Source: Radford et al. (2021), 3.1.4.

    Example:
        >>> import tempfile
        >>> from safetensors.torch import save_file
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     prompts = torch.tensor([[[2.0, 0.0], [0.0, 1.0]], [[-1.0, 0.0], [-1.0, 0.0]]])
        ...     save_file({"embeddings": prompts}, f"{folder}/names.safetensors")
        ...     head = ZeroShot(f"{folder}/names.safetensors").fit(torch.zeros(1, 2), torch.zeros(1, dtype=torch.long))
        >>> [[round(value, 4) + 0.0 for value in row] for row in head.weights.tolist()]
        [[0.7071, 0.7071], [-1.0, 0.0]]
    """

    invariant = LENGTHS

    path: str = ""

    trains = False

    def fit(self, reps: Reps, labels: Int[Tensor, "batch"]) -> Head:
        """Return the directions of the classes as a head without a bias.

        Raises:
            HoldfastError: no such file, embeddings that are not finite, zero, or of another width, a label beyond them.
        """
        weights = read_directions(self.path, reps.shape[1])
        # Fewer labels than names are fine: classes that no image has can still be answered
        if int(labels.max()) >= len(weights) or int(labels.min()) < 0:
            raise Mismatch(
                f"{self.path!r}: the labels go from {int(labels.min())} to {int(labels.max())}, but there are "
                f"{len(weights)} names: line i of the names is class i"
            )
        return Head(weights, torch.zeros(len(weights)), torch.arange(len(weights)))
