"""Directions of classes from the embeddings of their prompts."""

from jaxtyping import Float
from torch import Tensor

from holdfast.numerics.geometry.directions import unit
from holdfast.runtime.errors import BadData

CANCEL = 1e-3
"""Prompts whose unit embeddings have a shorter mean cancel."""


def directions(embeddings: Tensor, name: str) -> Float[Tensor, "classes dim"]:
    """Return the unit mean of each class's unit embeddings, [C, D].

    Args:
        embeddings: [C, D], or [C, prompts, D].
        name: of what holds them, for messages.

    Raises:
        HoldfastError: another shape, fewer than two classes, embeddings that are zero or not finite, or cancel.

    Example:
        >>> directions(torch.tensor([[3.0, 0.0], [0.0, 2.0]]), "two").tolist()
        [[1.0, 0.0], [0.0, 1.0]]
    """
    if embeddings.ndim not in (2, 3) or len(embeddings) < 2 or not embeddings.numel():
        raise BadData(
            f"{name!r}: expected embeddings [classes, dim] or [classes, prompts, dim] of at least 2 classes, got "
            f"{list(embeddings.shape)}"
        )
    prompts = embeddings if embeddings.ndim == 3 else embeddings[:, None]
    # [C]: classes with an embedding that has no direction
    strange = ~(prompts.isfinite().all(2) & prompts.any(2)).all(1)
    # Unit vectors first, so that a long embedding counts no more than others
    means = unit(prompts[~strange].double()).mean(1)
    weak = means.norm(dim=1) < CANCEL
    if bool(strange.any() | weak.any()):
        # `weak` numbers the classes that are left: all of them, where it is read
        which = int(strange.nonzero()[0]) if strange.any() else int(weak.nonzero()[0])
        raise BadData(
            f"{name!r}: class {which} has no direction: an embedding is zero, NaN or infinite, or its prompts cancel"
        )
    return unit(means).float()
