"""What goes into the comparisons: small arrays, images and networks, from generators whose numbers never change.

`theirs.py` gives the same to the authors' code. So nothing of Holdfast is imported here.
"""

import numpy as np
import torch
from torch import Tensor, nn

SIDE, DIM = 6, 5
"""Height and width of images; numbers in a representation."""

RADIUS, STEP = 0.08, 0.01
"""Of attacks in an ℓ∞ ball, in pixels."""


def uniform(seed: int, *shape: int) -> np.ndarray:
    """Return numbers in [0, 1); NumPy promises never to change this generator."""
    return np.random.RandomState(seed).random_sample(shape)


def normal(seed: int, *shape: int) -> np.ndarray:
    """Return standard normal numbers."""
    return np.random.RandomState(seed).standard_normal(shape)


def single(values: np.ndarray) -> Tensor:
    """Return numbers in float32."""
    return torch.from_numpy(values).float()


def images(count: int, seed: int = 1) -> Tensor:
    """Return images in [0, 1], whose left column is black or white: a step there meets the end of the range."""
    x = 0.1 + 0.8 * single(uniform(seed, count, 1, SIDE, SIDE))
    x[..., 0] = x[..., 0].round()
    return x


def starts(shape: tuple[int, ...]) -> Tensor:
    """Return where attacks begin, as a share of the radius: random, but at the image itself in the left column."""
    away = 2 * single(uniform(2, *shape)) - 1
    away[..., 0] = 0
    return away


def network() -> nn.Sequential:
    """Return a convolutional network with ReLUs, as RVCL's are built: from images to `DIM` numbers."""
    net = nn.Sequential(
        nn.Conv2d(1, 3, 3, padding=1), nn.ReLU(), nn.Conv2d(3, 4, 3, stride=2), nn.ReLU(),
        nn.Flatten(), nn.Linear(16, 8), nn.ReLU(), nn.Linear(8, DIM),
    )  # fmt: skip
    with torch.no_grad():
        for number, weights in enumerate(net.parameters()):
            # Of the size that keeps the numbers of a layer about as large as its inputs
            size = (2 / weights[0].numel()) ** 0.5 if weights.ndim > 1 else 0.1
            weights.copy_(size * single(normal(100 + number, *weights.shape)))
    return net.eval().requires_grad_(False)


def classes(separation: float, count: int = 400, seed: int = 3) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return two classes of a Gaussian mixture with one covariance in six dimensions, [N, 6], and their signs.

    The last dimension hardly varies (1e-8): SynBench leaves it out.

    Returns:
        representations to fit to, signs of both halves, and representations to test.
    """
    signs = np.where(np.arange(count) % 2 == 0, 1.0, -1.0)
    scales = np.array([1.5, 1.0, 0.8, 0.5, 0.2, 1e-4])
    mixing = np.linalg.qr(normal(4, 6, 6))[0]
    half = separation * np.array([0.3, 0.7, -0.2, 0.5, 0.1, 0.0])
    first, second = ((normal(seed + n, count, 6) * scales + signs[:, None] * half + 1) @ mixing for n in range(2))
    return first.astype(np.float32), signs, second.astype(np.float32)


def heads() -> dict[str, Tensor]:
    """Return weights of a mixture whose π depends on a class and whose μ on a representation, by the authors' names."""
    shapes = {
        "pi.weight": (3, 6), "pi.bias": (3,), "mu.weight": (30, 8), "mu.bias": (30,), "L.weight": (300, 8),
        "L.bias": (300,), "shared_trunk.0.weight": (8, 5), "shared_trunk.0.bias": (8,), "shared_trunk.1.weight": (8,),
        "shared_trunk.1.bias": (8,), "shared_trunk.1.running_mean": (8,), "y_emb.weight": (4, 6), "up": (32, 10),
        "up bias": (32,),
    }  # fmt: skip
    weights = {name: single(normal(200 + number, *shape)) for number, (name, shape) in enumerate(shapes.items())}
    counted = {"shared_trunk.1.running_var": torch.linspace(0.5, 2, 8)}
    return weights | counted | {"shared_trunk.1.num_batches_tracked": torch.tensor(1)}


def mixture() -> dict[str, Tensor]:
    """Return three Gaussians for each of six images: logits, means and roots, by the authors' names."""
    below = single(normal(42, 6, 3, 10, 10)).tril(-1) / 3
    diagonal = torch.nn.functional.softplus(single(normal(43, 6, 3, 10)))
    logits, means = single(normal(40, 6, 3)), single(normal(41, 6, 3, 10))
    return {"pi_logits": logits, "mu": means, "L": below + diagonal.diag_embed()}


def trade_off() -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Return accuracies and bounds of 49 classifiers of representations, and of the images themselves (SynBench)."""
    best = np.linspace(0.55, 0.9999, 49)
    ideal = 1 + 1 / (1 + 4 * best**2)
    accuracy = 0.5 + (best - 0.5) * (0.6 + 0.35 * uniform(51, 49))
    return accuracy, 0.9 * ideal * (0.5 + 0.5 * uniform(52, 49)), best, ideal
