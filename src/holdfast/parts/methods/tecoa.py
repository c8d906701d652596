"""TeCoA: an image belongs to the class whose name's embedding is nearest, by cross-entropy of cosines."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor

from holdfast.core import Batch, EncodedView, Encoder, Facts, Method, Student
from holdfast.numerics.geometry.directions import unit
from holdfast.runtime.checked import Positive
from holdfast.runtime.errors import Mismatch, Missing, NotEnough
from holdfast.sources.encoders.shared.class_names import read_directions


@dataclass(frozen=True)
class Tecoa(Method):
    """Mean over images of -log softmax(cos(f(x), t_c) / τ)_y, t_c the direction of class c in the text tower.

    The text tower is not trained: its embeddings are a file. Only the first view is read. With attacked images alone
    (`clean` = 0), attacked by this loss, it is text-guided contrastive adversarial training.

    Attributes:
        path: the embeddings of the classes' names, as `holdfast embed-names` writes them; line i is class i.
        temperature: τ; 0.01 is where CLIP's own has come to rest.

    Source: Mao et al. (2023), Eq. 3 and 4.

    Example:
        >>> import tempfile
        >>> from safetensors.torch import save_file
        >>> from holdfast.sources.encoders.shared.copies import trainable
        >>> encoder = trainable(Encoder(torch.nn.Flatten(), mean=0, std=1))
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     save_file({"embeddings": torch.eye(4)}, f"{folder}/names.safetensors")
        ...     student = Tecoa(f"{folder}/names.safetensors").student(encoder, Facts(dim=4, images=8, classes=4))
        >>> views = student.see([torch.eye(4).view(4, 1, 2, 2)], [0])
        >>> bool(student.loss(views, Batch(torch.arange(4), torch.arange(4))) < 1e-6)
        True
    """

    path: str = ""
    temperature: Positive = 0.01
    needs_labels = True

    def student(self, encoder: Encoder, facts: Facts) -> Student:
        """Return the encoder beside the directions of the classes.

        Raises:
            HoldfastError: no file, one that does not fit the representation, images of fewer than two classes.
        """
        if not self.path:
            raise Missing(
                "tecoa: expected path=FILE, which holdfast embed-names writes: 'tecoa[path=names.safetensors]'"
            )
        if facts.classes is None or facts.classes < 2:
            raise NotEnough(f"tecoa: expected images of at least 2 classes, got {facts.classes or 'no'} labels")
        return _Student(encoder, read_directions(self.path, facts.dim), self)


class _Student(Student):
    views = 1
    directions: Float[Tensor, "classes dim"]

    def __init__(self, encoder: Encoder, directions: Tensor, method: Tecoa):
        super().__init__(encoder)
        # Moves to the device with the network, but is read from its file and not kept in checkpoints
        self.register_buffer("directions", directions, persistent=False)
        self._method = method

    def loss(self, views: Sequence[EncodedView], batch: Batch) -> Float[Tensor, ""]:
        out, labels = views[0].out, batch.labels
        assert out is not None
        assert labels is not None
        if batch.classes is not None:  # line i is class i of the data, whichever classes are learned from
            labels = torch.tensor(batch.classes, device=labels.device)[labels]
        if (last := int(labels.max())) >= len(self.directions):
            raise Mismatch(
                f"{self._method.path!r}: expected a name of class {last}, got {len(self.directions)}; name every class"
            )
        # Rows of `directions` are unit vectors, so these are cosines, [B, classes]
        return F.cross_entropy(unit(out) @ self.directions.T / self._method.temperature, labels)
