"""SimCLR, VICReg and SupCon beside a plain loop of lightly's heads and losses: the same losses, the same kNN accuracy.

    python -m benchmarks.peer_training [--json]

Both train `digits_cnn` on the same images of digits, in the same order, on the same views, from the same weights, with
Adam: one by `train`, the other by a loop as lightly's documentation writes it. Only what is drawn (order, views, heads)
is shared code. lightly's kNN judges both encoders on the images held out. lightly has no loss of SupCon: there the loop
has Eq. 2 of Khosla et al. (2020), written out. One thread; a network without randomness, so nothing else differs.
"""

from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

import torch
from torch import Tensor, nn

from benchmarks.result import Result, report
from benchmarks.store import Run
from benchmarks.tables import figures, markdown
from holdfast.core import Encoder, Method, Rng, registry
from holdfast.numerics.geometry.views import Views
from holdfast.parts.methods.simclr import Simclr
from holdfast.parts.methods.supcon import Supcon
from holdfast.parts.methods.vicreg import Vicreg
from holdfast.runtime.torchvision_guard import guard_torchvision
from holdfast.sources.data import open_images
from holdfast.sources.encoders import open_encoder
from holdfast.sources.encoders.shared.copies import trainable
from holdfast.sources.encoders.shared.weights import fix_seed
from holdfast.training.images import TrainingImages
from holdfast.training.loop import train
from holdfast.training.optimiser import Optimiser
from holdfast.training.recipe import Recipe

NETWORK, TRAIN, HELD_OUT, CLASSES = "zoo:digits_cnn", "digits?part=train", "digits?part=heldout", 10
SEEDS, STEPS, BATCH, RATE = (0, 1, 2), 100, 128, 1e-3
NEIGHBOURS, TEMPERATURE = 20, 0.1
VIEWS = Views(crop=(0.5, 1.0), flip=0.0, colour=0.0, colour_share=0.0, grey=0.0)

LOSSES, POINTS = 1e-6, 0.5
"""How far the losses of one step from the same weights may be apart, relatively, and kNN accuracies, in points.

Each step multiplies what the one before rounded otherwise, so later losses have no limit, but are told."""

Loss = Callable[[Tensor, Tensor, Tensor], Tensor]
"""(projections of the first views, of the second, classes) -> loss."""


class Peer(NamedTuple):
    """A method here, and what the plain loop is made of."""

    method: Method
    head: Callable[[int], nn.Module]
    loss: Loss


def peers() -> list[Peer]:
    """Return the methods."""
    from lightly.loss import NTXentLoss, VICRegLoss
    from lightly.models.modules.heads import SimCLRProjectionHead, VICRegProjectionHead

    contrast, vicreg = NTXentLoss(temperature=0.5), VICRegLoss()
    return [
        Peer(
            Simclr(hidden=128, dim=64),
            lambda width: SimCLRProjectionHead(width, 128, 64, batch_norm=False),
            lambda a, b, _: contrast(a, b),
        ),
        Peer(
            Vicreg(hidden=128, dim=128),
            lambda width: VICRegProjectionHead(width, 128, 128),
            lambda a, b, _: vicreg(a, b),
        ),
        Peer(
            Supcon(hidden=128, dim=64),
            lambda width: SimCLRProjectionHead(width, 128, 64, batch_norm=False),
            supervised_contrast,
        ),
    ]


def supervised_contrast(a: Tensor, b: Tensor, labels: Tensor, temperature: float = 0.1) -> Tensor:
    """Return L_out of Khosla et al. (2020), Eq. 2, in the form of its authors' code."""
    z, labels = nn.functional.normalize(torch.cat([a, b])), torch.cat([labels, labels])
    likeness = z @ z.T / temperature
    others = 1 - torch.eye(len(z))
    positive = (labels[:, None] == labels) * others
    log_p = likeness - ((likeness - likeness.detach().max()).exp() * others).sum(1, keepdim=True).log()
    log_p = log_p - likeness.detach().max()
    return -((positive * log_p).sum(1) / positive.sum(1)).mean()


def plain(peer: Peer, images: TrainingImages, seed: int) -> tuple[Encoder, list[float]]:
    """Return what a plain loop makes of the network, and its losses."""
    network = trainable(open_encoder(NETWORK))
    rng, classes = Rng(seed, ("training",)), images.labels
    assert classes is not None
    width = network(images.batch(torch.arange(2))).shape[1]
    # the heads that `train` draws from this seed
    with fix_seed(Rng(seed, ("training", "heads")).generator().initial_seed()):
        head = peer.head(width)
    network.module.train()
    adam, losses = torch.optim.Adam([*network.module.parameters(), *head.parameters()], RATE), []
    for step in range(STEPS):
        epoch, number = divmod(step, len(images) // BATCH)
        order = torch.randperm(len(images), generator=rng.child("order", epoch).generator())
        places = order[number * BATCH : (number + 1) * BATCH]
        drawn = rng.at([images.ids[place] for place in places.tolist()]).child(epoch)
        first, second = (VIEWS(images.batch(places), drawn.child("view", view)) for view in range(2))
        a, b = (head(reps) for reps in network(torch.cat([first, second])).chunk(2))
        loss = peer.loss(a, b, classes[places])
        adam.zero_grad()
        loss.backward()
        adam.step()
        losses.append(loss.item())
    return network, losses


def ours(peer: Peer, images: TrainingImages, seed: int) -> tuple[Encoder, list[float]]:
    """Return what `train` makes of the network, and its losses."""
    adam = Optimiser("adam", RATE, weight_decay=0.0, schedule="constant")
    recipe = Recipe(NETWORK, TRAIN, peer.method, seed=seed, steps=STEPS, batch_size=BATCH, views=VIEWS, optimiser=adam)
    with TemporaryDirectory() as folder:
        trained = train(recipe, Path(folder), images=images)
    return trained.encoder, [row["loss"] for row in trained.rows]


def accuracy(encoder: Encoder) -> float:
    """Return the accuracy of lightly's kNN on the images held out, in percent."""
    from lightly.utils.benchmarking.knn import knn_predict

    def seen(spec: str) -> tuple[Tensor, Tensor]:
        images = open_images(spec)
        encoder.module.eval()
        with torch.no_grad():
            reps = encoder(images.batch(0, len(images)))
        return nn.functional.normalize(reps), torch.tensor(images.labels)

    (bank, known), (queries, labels) = seen(TRAIN), seen(HELD_OUT)
    found = knn_predict(queries, bank.T, known, CLASSES, NEIGHBOURS, TEMPERATURE)[:, 0]
    return 100 * float((found == labels).double().mean())


def measure() -> list[Result]:
    """Return, for each method, how far losses and accuracies are apart, the worst of all seeds."""
    guard_torchvision()  # lightly imports it
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        before = accuracy(trainable(open_encoder(NETWORK)))
        return [result for peer in peers() for result in compare(peer, before)]
    finally:
        torch.set_num_threads(threads)


def compare(peer: Peer, before: float) -> list[Result]:
    """Return how far one method is from its peer."""
    name, apart, first, found = registry.part_name(peer.method), [], [], []
    for seed in SEEDS:
        images = TrainingImages(TRAIN, geometry=None, seed=seed)
        pairs = [way(peer, images, seed) for way in (ours, plain)]
        gaps = [abs(a - b) / abs(b) for a, b in zip(*(losses for _, losses in pairs), strict=True)]
        apart.append(max(gaps))
        first.append(gaps[0])
        found.append([accuracy(encoder) for encoder, _ in pairs])
    points = [abs(a - b) for a, b in found]
    what = f"{STEPS} steps of {BATCH} images, seeds {', '.join(map(str, SEEDS))}"
    facts = {"ours": [a for a, _ in found], "theirs": [b for _, b in found], "before": before}
    return [
        Result(
            f"loss of {name}", max(first), None, "", LOSSES, what, rounds=len(first), facts={"any step": max(apart)}
        ),
        Result(f"kNN of {name}", max(points), min(points), "points", POINTS, what, facts=facts, rounds=len(points)),
    ]


def table(run: Run) -> str:
    """Return losses and accuracies of each method."""
    rows = []
    for losses, knn in zip(run.results[::2], run.results[1::2], strict=True):
        both = (" / ".join(f"{value:.1f}" for value in knn.facts[who]) for who in ("ours", "theirs"))
        verdict = "met" if losses.met and knn.met else "**not met**"
        apart = [figures(losses.value), figures(losses.facts["any step"])]
        rows.append([losses.name.removeprefix("loss of "), *apart, *both, figures(knn.value), verdict])
    heads = [
        "method",
        "losses apart, first step",
        "any step",
        "kNN, Holdfast, %",
        "kNN, plain loop, %",
        "points apart",
        "",
    ]
    return markdown(heads, rows)


if __name__ == "__main__":
    report(measure, __doc__)
