"""What each image contributes to a score that is not a plain mean: values whose mean is the score.

They are the score plus each image's influence on it, so `statistics.mean` gives them the interval of the infinitesimal
(or, where it says so, the leave-one-out) jackknife, and `statistics.influence_of_mean` what a paired comparison needs.
"""

import torch
from jaxtyping import Float, Int
from torch import Tensor

Contributions = Float[Tensor, "images"]


def of_pairs(per_image: Contributions) -> Contributions:
    """Contributions to a mean over all pairs of different images, a U-statistic of a symmetric function h.

    θ + 2(n-1)/(n-2) (u_i - θ) with u_i = mean of h(i, j) over j ≠ i and θ = mean of u: the jackknife's pseudo-values,
    with (nθ - 2u_i) / (n-2) the value without image i. Twice, because an image is in both places of a pair. Where u
    varies by sampling alone (images uniform on the sphere), the interval is √2 times too long.

    Args:
        per_image: u_i, the mean over each image's pairs with the others, [n], n >= 3; NaN of fewer.

    Source: Arvesen (1969), "Jackknifing U-statistics".

    Example:
        >>> of_pairs(torch.tensor([0.0, 1.0, 2.0])).tolist()  # their mean is that of the pairs
        [-3.0, 1.0, 5.0]
    """
    n = len(per_image)
    if n < 3:
        return torch.full_like(per_image, torch.nan)
    return per_image.mean() + 2 * (n - 1) / (n - 2) * (per_image - per_image.mean())


def of_function(value: float, without: Contributions) -> Contributions:
    """Contributions to any smooth function of the images, from its values without each of them.

    θ + (n-1) (mean of θ_(-) - θ_(-i)): their mean is θ itself, uncorrected, and var / n is the jackknife's variance.

    Args:
        value: θ.
        without: θ_(-i), the value without image i, [n].

    Source: Tukey (1958).

    Example:
        >>> values = torch.tensor([1.0, 2.0, 6.0])
        >>> of_function(3.0, (values.sum() - values) / 2).tolist()  # of a mean: the values themselves
        [1.0, 2.0, 6.0]
    """
    return value + (len(without) - 1) * (without.mean() - without)


def over_classes(contributions: Contributions, labels: Int[Tensor, "images"]) -> Contributions:
    """Contributions to the mean over classes of the contributions' means within classes.

    θ + n / (C n_c) √(n_c / (n_c - 1)) (w_i - w̄_c) for image i of class c, θ the mean of the C class means w̄_c. Classes
    are given, not drawn: how they differ is no part of the spread. Undefined images are left out of their class.

    Args:
        contributions: w_i, in any unit; NaN where undefined, [n].
        labels: the class of each image, [n].

    Example:
        >>> float(over_classes(torch.tensor([1.0, 1.0, 4.0]), torch.tensor([0, 0, 1])).mean())
        2.5
    """
    values, defined = contributions.double(), ~contributions.isnan()
    classes, number = labels[defined].unique(return_inverse=True)
    sizes = number.bincount().double()
    means = torch.zeros(len(classes), dtype=torch.float64).index_add_(0, number, values[defined]) / sizes
    # Their variance over n is then Σ_c s_c² / n_c / C², but for n / (n - 1): that of a mean of class means
    weight = defined.sum() / (len(classes) * (sizes * (sizes - 1).clamp_min(1)).sqrt())
    result = torch.full_like(values, torch.nan)
    result[defined] = means.mean() + weight[number] * (values[defined] - means[number])
    return result
