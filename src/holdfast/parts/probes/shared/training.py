"""What probes that learn have in common: what they can learn from, and standardised features."""

import torch
from jaxtyping import Float, Int
from torch import Tensor

from holdfast.core import Reps
from holdfast.runtime.errors import NotEnough, NotFinite


def check_finite(reps: Reps) -> None:
    """Raise `HoldfastError` for representations that are not finite."""
    bad = int((~reps.isfinite().all(1)).sum())
    if bad:
        raise NotFinite(
            f"expected finite representations to train a probe, {bad} of {len(reps)} hold NaN or infinity; "
            "check the encoder's weights and normalisation"
        )


def classes_of(labels: Int[Tensor, "batch"]) -> tuple[Int[Tensor, "classes"], Int[Tensor, "batch"]]:
    """Return (the classes, increasing, [C]; the number of each label among them, [N]).

    Raises:
        HoldfastError: fewer than two classes.
    """
    classes, targets = labels.unique(return_inverse=True)
    if len(classes) < 2:
        raise NotEnough(
            f"expected training images of at least 2 classes, got {len(labels)} images of {len(classes)}; "
            "use more images, or labels that differ"
        )
    return classes, targets


def standardise(
    reps: Reps,
) -> tuple[Float[Tensor, "batch dim"], Float[Tensor, "dim"], Float[Tensor, "dim"]]:
    """Return (r - m) / s in float64, m and s, feature by feature; s = 1 for a feature that does not vary."""
    reps = reps.double()
    # Divided by N, as scikit-learn's StandardScaler does
    centre, scale = reps.mean(0), reps.std(0, correction=0)
    # What varies by rounding alone is not blown up to a deviation of 1
    scale = torch.where(scale > 1e-12 * reps.abs().amax(0), scale, torch.ones_like(scale))
    return (reps - centre) / scale, centre, scale
