"""Breaking radii that queries find, beside those of gradients and of attacks of other libraries at equal queries.

    HOLDFAST_SHARED=folder python -m benchmarks.black_box [--only TEXT] [--page]

Every attack is asked the same: the smallest change after which another image's representation is nearest. Attacks of
others get the bank as a classifier, whose logits are negative distances to all clean images, begin at the image of the
likeliest rival where they take a beginning, and are credited with the smallest broken image among their queries,
whatever they return: an attack that has made its queries is stopped. Peers need foolbox and
adversarial-robustness-toolbox; without them they are left out. `--page` writes `docs/black_box.json`.
"""

import argparse
import json
import os
import sys
import warnings
from collections.abc import Callable, Iterator
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import asdict, dataclass, field
from io import StringIO
from pathlib import Path
from time import process_time
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from holdfast.core import Ball, Encoder, Rng, Shard
from holdfast.parts.observations.breaking_radii import BreakingRadii
from holdfast.parts.threats.l2 import L2
from holdfast.parts.threats.linf import Linf
from holdfast.sources.data import open_images
from holdfast.sources.encoders import open_encoder

PAGE = Path(__file__).parent.parent / "docs/black_box.json"
QUERIES, POPULATION = 500, 100


@dataclass(frozen=True)
class Subject:
    """An encoder, and images that are attacked.

    Attributes:
        name: of the encoder.
        spec: of it; {} stands for the folder that HOLDFAST_SHARED names.
        data: of the images.
        images: how many are attacked.
        peers: whether attacks of other libraries are tried as well.
    """

    name: str
    spec: str
    data: str
    images: int
    peers: bool = True


SUBJECTS = (
    Subject("digits, SimCLR", "zoo:digits-simclr", "digits", 8),
    Subject("digits, with labels", "zoo:digits-supervised", "digits", 8),
    Subject("digits, SimCLR against attacks", "zoo:digits-simclr-adv", "digits", 8),
    Subject("CIFAR-10, ResNet-2B against attacks", "onnx:{}/real/cifar10_resnet2b_adv.onnx",
            "{}/cifar10_lossless300.npz", 8),
    Subject("CIFAR-10, CNN-A against attacks", "onnx:{}/real/cifar10_cnn_a_adv.onnx", "{}/cifar10_lossless300.npz", 8),
    Subject("photos, MobileNetV1 0.25", "onnx:{}/real/imagenet_mobilenet_v1_025.onnx", "{}/photos", 2, False),
    Subject("photos, MobileFaceNet", "onnx:{}/real/face_mobilefacenet.onnx?mean=.5&std=.5", "{}/photos", 2, False),
    Subject("photos, MobileNetV2", "onnx:{}/real/imagenet_mobilenet_v2_100.onnx", "{}/photos", 2),
    Subject("photos, EfficientNet-Lite0", "onnx:{}/real/imagenet_efficientnet_lite0.onnx", "{}/photos", 2),
)  # fmt: skip


@dataclass
class Found:
    """What came of one encoder in one norm.

    Attributes:
        encoder: its name.
        norm: of the changes.
        images: how many were attacked.
        population: how many images there are to be taken for.
        queries: for each image.
        gradients: the median radius that 100 passes with gradients find, in pixels.
        medians: name of a search -> the median radius that it finds with its queries.
        asked: name of a search -> the mean number of queries that it made.
    """

    encoder: str
    norm: str
    images: int
    population: int
    queries: int
    gradients: float
    medians: dict[str, float] = field(default_factory=dict)
    asked: dict[str, float] = field(default_factory=dict)


class Spent(Exception):
    """The queries for an image are used up."""


class Asked(nn.Module):
    """The bank as a classifier, which notes the smallest broken image of one, and ends what asks for more."""

    def __init__(self, encoder: Encoder, clean: Tensor, ball: Ball, queries: int):
        super().__init__()
        self.encoder, self._clean, self._ball, self._queries = encoder, clean, ball, queries

    def begin(self, x: Tensor, own: int) -> None:
        """Begin with another image."""
        self.x, self.own, self.asked, self.radius = x, own, 0, float("inf")

    def forward(self, x: Tensor) -> Tensor:
        """Return negative distances to all clean images."""
        room = self._queries - self.asked
        if room <= 0:
            raise Spent
        with torch.no_grad():
            x = x.float()
            logits = -torch.cdist(self.encoder(x).double(), self._clean)
        self.asked += len(x)
        inside = x.clamp(0, 1)
        broken = (logits.argmax(1) != self.own) & (inside == x).flatten(1).all(1)
        sizes = self._ball.size(inside - self.x)[:room][broken[:room]]
        self.radius = min([self.radius, *sizes.tolist()])
        return logits.float()


Peer = Callable[[Asked, Tensor, int, Tensor, str], Any]
"""(classifier, image, its number, a rival's image, norm) -> runs an attack until it ends or has spent its queries."""


def foolbox_attack(make: Callable[[Any, str], Any], starts: bool = True) -> Peer:
    """Return an attack of foolbox."""

    def run(asked: Asked, x: Tensor, own: int, rival: Tensor, norm: str) -> Any:
        import foolbox

        model = foolbox.models.pytorch.PyTorchModel(asked, bounds=(0, 1), device="cpu")
        more = {"starting_points": rival} if starts else {}
        return make(foolbox.attacks, norm).run(
            model, x, foolbox.criteria.Misclassification(torch.tensor([own])), **more
        )

    return run


def noises(asked: Asked, x: Tensor, own: int, rival: Tensor, norm: str) -> Any:
    """Run foolbox's additive noise at sizes that shrink below what it breaks, 10 draws at each."""
    import foolbox

    model = foolbox.models.pytorch.PyTorchModel(asked, bounds=(0, 1), device="cpu")
    criterion = foolbox.criteria.Misclassification(torch.tensor([own]))
    kind = (
        foolbox.attacks.LinfAdditiveUniformNoiseAttack
        if norm == "linf"
        else foolbox.attacks.L2AdditiveGaussianNoiseAttack
    )
    size = 1.0 if norm == "linf" else float(x[0].numel()) ** 0.5 / 2
    while True:  # until its queries are spent
        for _ in range(10):
            asked(kind().run(model, x, criterion, epsilon=size))  # which draws without asking
        size = min(size, asked.radius) * 0.9


def art_attack(make: Callable[[Any, Any, str, Asked], Any], starts: bool = False, probabilities: bool = False) -> Peer:
    """Return an attack of ART."""

    def run(asked: Asked, x: Tensor, own: int, rival: Tensor, norm: str) -> Any:
        import art.attacks.evasion as attacks
        from art.estimators.classification import PyTorchClassifier

        classes, network = len(asked._clean), nn.Sequential(asked, nn.Softmax(1)) if probabilities else asked
        model = PyTorchClassifier(
            network, nn.CrossEntropyLoss(), tuple(x.shape[1:]), classes, clip_values=(0.0, 1.0), device_type="cpu"
        )
        more = {"x_adv_init": rival.numpy()} if starts else {}
        labels = np.eye(classes, dtype=np.float32)[[own]]
        while True:  # one that ends early begins anew
            made = make(attacks, model, norm, asked)
            made.generate(x.numpy(), labels, **more)

    return run


def art_square(attacks: Any, model: Any, norm: str, asked: Asked) -> Any:
    """Return ART's Square in a ball a tenth smaller than what it has broken, and at first a large one."""
    whole = 1.0 if norm == "linf" else float(asked.x[0].numel()) ** 0.5
    size = 0.9 * min(asked.radius, whole / 2)
    most = max(20, asked._queries // 10)
    return attacks.SquareAttack(model, norm=np.inf if norm == "linf" else 2, eps=size, max_iter=most, verbose=False)


def art_zoo(attacks: Any, model: Any, norm: str, asked: Asked) -> Any:
    """Return ART's ZOO, which is for the Euclidean norm."""
    return attacks.ZooAttack(
        model, max_iter=20, binary_search_steps=3, use_resize=False, use_importance=False, nb_parallel=16,
        initial_const=1.0, verbose=False,
    )  # fmt: skip


PEERS: dict[str, tuple[Peer, tuple[str, ...]]] = {
    "foolbox HopSkipJump": (
        foolbox_attack(lambda a, norm: a.HopSkipJumpAttack(steps=64, constraint=norm, initial_gradient_eval_steps=20)),
        ("linf", "l2")),
    "foolbox Boundary": (foolbox_attack(lambda a, _: a.BoundaryAttack(steps=QUERIES)), ("l2",)),
    "foolbox additive noise": (noises, ("linf", "l2")),
    "ART HopSkipJump": (
        art_attack(lambda a, m, norm, _: a.HopSkipJump(
            m, norm=np.inf if norm == "linf" else 2, max_iter=30, max_eval=200, init_eval=20, verbose=False
        ), starts=True),
        ("linf", "l2")),
    "ART Square": (art_attack(art_square), ("linf", "l2")),
    "ART SimBA": (
        art_attack(lambda a, m, _, asked: a.SimBA(
            m, attack="px", epsilon=0.2, max_iter=asked._queries, verbose=False), probabilities=True), ("l2",)),
    "ART ZOO": (art_attack(art_zoo), ("l2",)),
}  # fmt: skip
"""Name of an attack of another library -> what runs it, and the norms that it is for."""


def peers() -> list[str]:
    """Return the attacks of others that can be run here."""
    there = []
    for package, word in (("foolbox", "foolbox"), ("art", "ART")):
        try:
            __import__(package)
        except ImportError:
            continue
        there += [name for name in PEERS if name.startswith(word)]
    return there


def compare(subject: Subject, shared: str, queries: int = QUERIES) -> Iterator[Found]:
    """Yield what is found of one encoder in each norm."""
    encoder = open_encoder(subject.spec.replace("{}", shared))
    source = open_images(subject.data.replace("{}", shared), geometry=encoder.geometry, images=POPULATION)
    count = len(source)
    images = source.batch(0, count).float()
    with torch.no_grad():
        clean = torch.cat([encoder(part) for part in images.split(20)])
    rows, ids = torch.arange(subject.images), tuple(map(str, range(subject.images)))
    for ball, norm in ((Linf(), "linf"), (L2(), "l2")):
        shard = Shard(encoder, images[rows], rows, Rng(0, ids=ids), clean, others=lambda at: images[at])

        def median(asked: BreakingRadii, shard: Shard = shard) -> float:
            return float(asked.run(shard)["radius"].median())

        found = Found(subject.name, norm, subject.images, count, queries, median(BreakingRadii(ball)))
        for name, only_ranks in (("distances", False), ("ranks", True)):
            found.medians[name] = median(BreakingRadii(ball, queries=queries, only_ranks=only_ranks))
            found.asked[name] = queries
        for name in peers() if subject.peers else []:
            attack, norms = PEERS[name]
            if norm in norms:
                each = [_ask(attack, encoder, clean, ball, images, int(row), norm, queries) for row in rows]
                radii, numbers = zip(*each, strict=True)
                found.medians[name] = float(np.quantile(radii, 0.5, method="lower"))
                found.asked[name] = float(np.mean(numbers))
        yield found


def _ask(
    attack: Peer, encoder: Encoder, clean: Tensor, ball: Ball, images: Tensor, row: int, norm: str, queries: int
) -> tuple[float, int]:
    """Return the smallest change that an attack met among its queries, and how many it made."""
    apart = torch.cdist(clean[row : row + 1].double(), clean.double())[0]
    apart[row] = torch.inf
    asked = Asked(encoder, clean.double(), ball, queries)
    x, rival = images[row : row + 1], images[int(apart.argmin())][None]
    asked.begin(x, row)
    torch.manual_seed(0)
    np.random.seed(0)  # which ART draws from
    with warnings.catch_warnings(), redirect_stdout(StringIO()), redirect_stderr(StringIO()):
        warnings.simplefilter("ignore")
        try:
            attack(asked, x, row, rival, norm)
        except Spent:
            pass
        except Exception as error:  # of the library: it keeps what it has met
            print(error, file=sys.__stderr__)
    return asked.radius, min(asked.asked, queries)


def _keep(found: Found) -> None:
    """Put what was found into the page's numbers, in the order of `SUBJECTS`; what is no number becomes null."""
    kept = json.loads(PAGE.read_text(encoding="utf-8")) if PAGE.exists() else []
    kept = [one for one in kept if (one["encoder"], one["norm"]) != (found.encoder, found.norm)]
    medians = {name: radius if np.isfinite(radius) else None for name, radius in found.medians.items()}
    kept.append(asdict(found) | {"medians": medians})
    order = [subject.name for subject in SUBJECTS]
    kept.sort(key=lambda one: (order.index(one["encoder"]), one["norm"] != "linf"))
    PAGE.write_text(json.dumps(kept, indent=1) + "\n", encoding="utf-8")


def main() -> None:
    """Compare, print, and write the page's numbers."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default="", help="encoders whose name has this text")
    parser.add_argument("--queries", type=int, default=QUERIES)
    parser.add_argument("--page", action="store_true", help="write docs/black_box.json")
    asked = parser.parse_args()
    torch.set_num_threads(1)
    shared = os.environ["HOLDFAST_SHARED"] + "/data"
    for subject in SUBJECTS:
        if asked.only in subject.name:
            began = process_time()
            for one in compare(subject, shared, asked.queries):
                ratios = {name: round(radius / one.gradients, 2) for name, radius in one.medians.items()}
                print(
                    one.encoder, one.norm, f"{one.gradients:.4f}", ratios, f"{process_time() - began:.0f} s", flush=True
                )
                if asked.page:
                    _keep(one)


if __name__ == "__main__":
    main()
