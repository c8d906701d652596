"""Train the three digit encoders that Holdfast ships: supervised, SimCLR and adversarially trained SimCLR.

    python scripts/train_digits.py [--out DIR]

They learn from the 1,197 training digits of `holdfast.data.digits` (8x8, [0, 1]); audits use the other 600. Seeded,
one CPU thread, a few minutes. The last line of each encoder is its 5-nearest-neighbour accuracy on the 600.
"""

import argparse
import math
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import torch
import torch.nn.functional as F
from safetensors.torch import save_file
from torch import Tensor, nn

from holdfast.data.digits import Digits, train_images
from holdfast.encoders._networks import NETWORKS

ARCH = "digits_cnn"
WEIGHTS = Path(__file__).parents[1] / "src/holdfast/encoders/weights"
BATCH, TEMPERATURE = 256, 0.5
EPSILON, STEPS = 0.2, 10  # of the inner attack; audits attack at about 0.1


def augment(x: Tensor, rng: torch.Generator) -> Tensor:
    """Draw another look at each digit: turned, scaled, shifted, brighter or darker, noisy, with a hole."""
    n = len(x)

    def draw(low: float, high: float, *shape: int) -> Tensor:
        return low + (high - low) * torch.rand(n, *shape, generator=rng)

    angle, scale = draw(-15, 15).deg2rad(), draw(0.85, 1.15)
    turn = torch.stack([angle.cos() / scale, -angle.sin() / scale, angle.sin() / scale, angle.cos() / scale], 1)
    shift = draw(-0.25, 0.25, 2, 1)  # one pixel of eight, in grid units
    grid = F.affine_grid(torch.cat([turn.view(n, 2, 2), shift], 2), list(x.shape), align_corners=False)
    x = F.grid_sample(x, grid, align_corners=False) * draw(0.7, 1.2, 1, 1, 1)
    x = x + 0.05 * torch.randn(x.shape, generator=rng)
    rows, columns = (torch.randint(0, 8, (n, 1, 1, 1), generator=rng) for _ in range(2))
    place = torch.arange(8)
    hole = ((place.view(1, 1, 8, 1) - rows).abs() <= 1) & ((place.view(1, 1, 1, 8) - columns).abs() <= 1)
    hole &= torch.rand(n, 1, 1, 1, generator=rng) < 0.5
    return x.masked_fill(hole, 0).clamp(0, 1)


def nt_xent(a: Tensor, b: Tensor) -> Tensor:
    """Return the NT-Xent loss of two views: each must find its partner among all 2n - 1 others."""
    z = F.normalize(torch.cat([a, b]), dim=1)
    similarity = (z @ z.T / TEMPERATURE).fill_diagonal_(-torch.inf)
    partner = torch.arange(len(z)).roll(len(a))
    return F.cross_entropy(similarity, partner)


def attack(loss: Callable[[Tensor], Tensor], x: Tensor, rng: torch.Generator) -> Tensor:
    """Return images within EPSILON of x (l-inf) that raise the loss: projected sign-gradient ascent, random start."""
    adversarial = (x + EPSILON * (2 * torch.rand(x.shape, generator=rng) - 1)).clamp(0, 1)
    for _ in range(STEPS):
        adversarial.requires_grad_(True)
        (gradient,) = torch.autograd.grad(loss(adversarial), adversarial)
        step = adversarial.detach() + 2.5 * EPSILON / STEPS * gradient.sign()
        adversarial = torch.min(torch.max(step, x - EPSILON), x + EPSILON).clamp(0, 1)
    return adversarial.detach()


def batches(n: int, epochs: int, rng: torch.Generator) -> Iterator[Tensor]:
    """Yield shuffled rows; the last, smaller batch of an epoch is left out."""
    for _ in range(epochs):
        yield from torch.randperm(n, generator=rng)[: n - n % BATCH].split(BATCH)


def train(head: nn.Module, loss: Callable[[nn.Module, Tensor, torch.Generator], Tensor], epochs: int) -> nn.Module:
    """Return a digit encoder trained so that `loss(encoder, rows, rng)` is small; Adam with a cosine schedule."""
    torch.manual_seed(0)
    encoder = NETWORKS[ARCH].build()
    for layer in head.modules():
        if isinstance(layer, nn.Linear):
            layer.reset_parameters()
    rng = torch.Generator().manual_seed(0)
    rows = list(batches(len(train_images()[0]), epochs, rng))
    optimiser = torch.optim.Adam([*encoder.parameters(), *head.parameters()], lr=2e-3)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimiser, len(rows))
    for chosen in rows:
        optimiser.zero_grad()
        loss(encoder, chosen, rng).backward()
        optimiser.step()
        schedule.step()
    return encoder.eval()


def supervised() -> nn.Module:
    """Train with cross-entropy on augmented digits."""
    images, labels = train_images()
    head = nn.Sequential(nn.ReLU(), nn.Linear(64, 10))

    def loss(encoder: nn.Module, rows: Tensor, rng: torch.Generator) -> Tensor:
        return F.cross_entropy(head(encoder(augment(images[rows], rng))), labels[rows])

    return train(head, loss, epochs=200)


def projection() -> nn.Module:
    return nn.Sequential(nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, 64))


def simclr() -> nn.Module:
    """Train without labels: two views of a digit attract, all others repel (Chen et al. 2020)."""
    images, _ = train_images()
    head = projection()

    def loss(encoder: nn.Module, rows: Tensor, rng: torch.Generator) -> Tensor:
        first, second = (head(encoder(augment(images[rows], rng))) for _ in range(2))
        return nt_xent(first, second)

    return train(head, loss, epochs=400)


def simclr_adv() -> nn.Module:
    """Train SimCLR on views that an instance-wise attacker has disturbed (RoCL, Kim et al. 2020)."""
    images, _ = train_images()
    head = projection()

    def loss(encoder: nn.Module, rows: Tensor, rng: torch.Generator) -> Tensor:
        first, second = (augment(images[rows], rng) for _ in range(2))
        anchor = head(encoder(second))
        attacked = attack(lambda x: nt_xent(head(encoder(x)), anchor.detach()), first, rng)
        return nt_xent(head(encoder(first)), anchor) + nt_xent(head(encoder(attacked)), anchor)

    return train(head, loss, epochs=400)


def heldout() -> tuple[Tensor, Tensor]:
    """Return the 600 digits that audits use, and their labels."""
    digits = Digits()
    return torch.stack([digits.load(i) for i in range(len(digits))]), torch.tensor(
        [digits.label(i) for i in range(len(digits))]
    )


@torch.no_grad()
def knn_accuracy(encoder: nn.Module, k: int = 5) -> float:
    """Return the share of held-out digits whose k nearest training digits (l2) vote for the right class."""
    (images, labels), (queries, truth) = train_images(), heldout()
    near = torch.cdist(encoder(queries), encoder(images)).topk(k, largest=False).indices
    return (labels[near].mode(dim=1).values == truth).double().mean().item()


ENCODERS = {"digits-supervised": supervised, "digits-simclr": simclr, "digits-simclr-adv": simclr_adv}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=WEIGHTS)
    parser.add_argument("--only", choices=ENCODERS, nargs="*", default=list(ENCODERS))
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    arguments.out.mkdir(parents=True, exist_ok=True)
    for name in arguments.only:
        start = time.perf_counter()
        encoder = ENCODERS[name]()
        about = (ENCODERS[name].__doc__ or "").strip()
        facts = {"arch": ARCH, "mean": "0", "std": "1", "trained": about, "script": "scripts/train_digits.py"}
        save_file(dict(encoder.state_dict()), arguments.out / f"{name}.safetensors", facts)
        seconds = math.ceil(time.perf_counter() - start)
        print(f"{name}: {100 * knn_accuracy(encoder):.1f} % kNN accuracy on held-out digits, {seconds} s", flush=True)


if __name__ == "__main__":
    main()
