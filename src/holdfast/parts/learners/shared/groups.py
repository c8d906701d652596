"""Groups of images for mixtures whose weights depend on them: classes, or clusters in place of labels."""

import torch
from jaxtyping import Float, Int
from torch import Tensor

from holdfast.core import Reps
from holdfast.runtime.errors import Missing, NotEnough


def classes(labels: Int[Tensor, "batch"] | None) -> Int[Tensor, "groups"]:
    """Return the classes, increasing.

    Raises:
        HoldfastError: no labels, or one class only.
    """
    if labels is None:
        raise Missing("groups='labels' needs labels; use a data source that has them, or groups='clusters'")
    distinct = labels.unique()
    if len(distinct) < 2:
        raise NotEnough(
            f"expected training images of at least 2 classes, got {len(labels)} of one: nothing to condition on; use "
            "structure 'independent' or 'input', or images of more classes"
        )
    return distinct


def centres(reps: Reps, count: int, seed: int) -> Float[Tensor, "groups dim"]:
    """Return the centres of k-means clusters, in the precision and on the device of the representations.

    Raises:
        HoldfastError: fewer different representations than clusters.
    """
    from sklearn.cluster import KMeans  # slow to import, in every worker, and most audits learn no noise

    different = len(reps.unique(dim=0))
    if different < count:
        raise NotEnough(
            f"expected at least as many different representations as clusters ({count}), got {different}; use fewer "
            "clusters, more images, or structure 'independent' or 'input'"
        )
    clusters = KMeans(count, random_state=seed % 2**32).fit(reps.double().cpu().numpy())  # scikit-learn takes 32 bits
    return torch.as_tensor(clusters.cluster_centers_).to(reps)
