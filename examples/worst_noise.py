"""From the worst point to a given noise: train a small classifier, and ask how often its answers hold.

    python examples/worst_noise.py                                            # the embedded digits; no download
    python examples/worst_noise.py --train cifar10_train.npz --test cifar10_test.npz --eps 16/255

The .npz files hold `images`, uint8 [N, H, W] or [N, H, W, C], and `labels` [N]. Two views of the trained network are
audited, each with its own folder and report. The classifier, whose representation is its logits, fails where it no
longer gives the image's class. Its features, the layer below the logits, need no labels: they fail where another
image's features are nearer. Each audit asks the same question three times: what do attacks leave standing (AR), what
does noise that was learned to be as bad as noise can be (NPPR), and what do given noises (PR)? The true values obey
AR <= NPPR <= PR.
"""

import argparse
import itertools
import sys
from fractions import Fraction
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from rich.console import Console
from safetensors import safe_open
from safetensors.torch import save_file
from torch import Tensor, nn

from holdfast.auditing.plan import Plan, validity_panel
from holdfast.auditing.run import run_audit
from holdfast.core import Ball, Encoder, Failure, ImageSource, Measure, Missing
from holdfast.parts.attacks.apgd import Apgd
from holdfast.parts.attacks.carlini_wagner import CarliniWagner
from holdfast.parts.attacks.ensemble import Ensemble
from holdfast.parts.attacks.pgd import Pgd
from holdfast.parts.attacks.square import Square
from holdfast.parts.failures.misclassified import Misclassified
from holdfast.parts.failures.nearest import Nearest
from holdfast.parts.learners.worst_mixture import CHOICES, WorstMixture
from holdfast.parts.measures.probabilistic.adversarial_robustness import AdversarialRobustness
from holdfast.parts.measures.probabilistic.probabilistic_robustness import ProbabilisticRobustness
from holdfast.parts.measures.probabilistic.worst_noise_robustness import WorstNoiseRobustness
from holdfast.parts.probes.logits import Logits
from holdfast.parts.threats.linf import Linf
from holdfast.parts.threats.truncated_gaussian import TruncatedGaussian
from holdfast.parts.threats.uniform import Uniform
from holdfast.report.documents.audit import document
from holdfast.report.html import write_report
from holdfast.report.render import print_document
from holdfast.runtime.progress import Bars
from holdfast.sources.data.arrays import Arrays
from holdfast.sources.data.digits import Digits
from holdfast.storage.record import Record

MEAN, STD = 0.5, 0.25
SOURCE = "the training in this example"
BATCH, RATE = 128, 4e-3
LEARNING: dict[str, Any] = {"batch": 16, "samples": 4, "rate": 5e-3, "images": None}
"""How the noise is learned: many small steps on many images count more than many draws of each."""


class Classifier(nn.Module):
    """Three convolutions that halve the image, a mean over positions, and one linear layer.

    Args:
        channels: 1 or 3.
        classes: how many.
    """

    def __init__(self, channels: int, classes: int):
        super().__init__()
        widths = (channels, 32, 64, 128)
        layers: list[nn.Module] = []
        for before, after in itertools.pairwise(widths):
            layers += [nn.Conv2d(before, after, 4, 2, 1, bias=False), nn.BatchNorm2d(after), nn.ReLU()]
        self.features = nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten())
        self.head = nn.Linear(widths[-1], classes)

    def forward(self, x: Tensor) -> Tensor:
        """Map normalised images [B, C, H, W] to logits [B, classes]."""
        return self.head(self.features(x))


def everything(source: ImageSource) -> tuple[Tensor, Tensor]:
    """Return all images of a source, [N, C, H, W] in [0, 1], and their labels, [N].

    Raises:
        Missing: a source without labels.
    """
    labels = [source.label(index) for index in range(len(source))]
    known = [label for label in labels if label is not None]
    if len(known) < len(labels):
        raise Missing(f"{source}: expected labels to learn from, found none; add an array 'labels' to the file")
    return torch.stack([torch.as_tensor(source.load(index)) for index in range(len(source))]), torch.tensor(known)


def shifted(x: Tensor, rng: torch.Generator) -> Tensor:
    """Return each image moved by up to an eighth of its side, edges repeated; half of the colour images mirrored."""
    side = x.shape[-1]
    most = side // 8
    padded = F.pad(x, (most, most, most, most), mode="replicate")
    rows, columns = (torch.randint(0, 2 * most + 1, (len(x), 1), generator=rng) + torch.arange(side) for _ in range(2))
    moved = padded[torch.arange(len(x))[:, None, None], :, rows[:, :, None], columns[:, None, :]].permute(0, 3, 1, 2)
    mirror = (torch.rand(len(x), 1, 1, 1, generator=rng) < 0.5) & (x.shape[1] == 3)
    return torch.where(mirror, moved.flip(3), moved)


def train(images: Tensor, labels: Tensor, epochs: int, seed: int) -> Classifier:
    """Return a classifier trained with cross-entropy on shifted images: Adam, one cycle of the learning rate."""
    torch.manual_seed(seed)
    rng = torch.Generator().manual_seed(seed)
    model = Classifier(images.shape[1], int(labels.max()) + 1)
    model.to(memory_format=torch.channels_last)  # pyright: ignore[reportCallIssue] torch has no stub for it
    adam = torch.optim.AdamW(model.parameters(), weight_decay=0.05)
    steps = max(1, len(images) // BATCH)
    cycle = torch.optim.lr_scheduler.OneCycleLR(adam, RATE, epochs * steps)
    for epoch in range(epochs):
        total = 0.0
        for rows in torch.randperm(len(images), generator=rng).tensor_split(steps):
            x = (shifted(images[rows], rng) - MEAN) / STD
            loss = F.cross_entropy(model(x.contiguous(memory_format=torch.channels_last)), labels[rows])
            adam.zero_grad()
            loss.backward()
            adam.step()
            cycle.step()
            total += float(loss.detach()) * len(rows) / len(images)
        print(f"epoch {epoch + 1} of {epochs}: loss {total:.3f}", file=sys.stderr)
    model.to(memory_format=torch.contiguous_format)  # pyright: ignore[reportCallIssue] torch has no stub for it
    return model.eval()


@torch.no_grad()
def accuracy(classifier: Encoder, images: Tensor, labels: Tensor) -> float:
    """Return the share of images that get their class."""
    right = [classifier(x).argmax(1) == y for x, y in zip(images.split(500), labels.split(500), strict=True)]
    return float(torch.cat(right).double().mean())


def learned(data: tuple[Tensor, Tensor], arguments: argparse.Namespace) -> Classifier:
    """Return the classifier that an earlier run trained alike and saved, or train one and save it."""
    file = arguments.out / "classifier.safetensors"
    images, labels = data
    made = {"train": str(arguments.train), "epochs": str(arguments.epochs), "seed": str(arguments.seed)}
    if file.exists():
        with safe_open(file, "pt") as held:
            if held.metadata() == made:
                model = Classifier(images.shape[1], int(labels.max()) + 1)
                model.load_state_dict({key: held.get_tensor(key) for key in held.keys()})  # noqa: SIM118
                return model.eval()
    model = train(images, labels, arguments.epochs, arguments.seed)
    save_file(model.state_dict(), file, made)
    return model


def questions(failure: Failure, ball: Ball, structures: list[str], **learner: Any) -> tuple[Measure, ...]:
    """Return AR by three attacks, NPPR for some structures of the noise, and PR under three given noises."""
    attacks = (Pgd(20), CarliniWagner(), Ensemble((Apgd(50), Pgd(50), Square(200))))
    groups = "labels" if failure.needs_labels else "clusters"
    learners = [WorstMixture(structure, groups=groups, **learner) for structure in structures]
    clamped = TruncatedGaussian(ball, scale=1.0, clamped=True)  # the Gaussian noise of the paper's authors
    noises = (TruncatedGaussian(ball), clamped, Uniform(ball))
    return (
        *(AdversarialRobustness(failure, attack=attack, ball=ball) for attack in attacks),
        *(WorstNoiseRobustness(failure, learner=learner, ball=ball) for learner in learners),
        *(ProbabilisticRobustness(failure, noise=noise) for noise in noises),
    )


def audit(name: str, encoder: Encoder, measures: tuple[Measure, ...], arguments: argparse.Namespace) -> Record:
    """Audit one view of the network on the test images, print its table, write its report; return the record."""
    plan = Plan(
        (name,),
        arguments.test or "digits",
        measures,
        validity_panel(measures, examined=8, queries=200),
        images=arguments.images,
        attacked=arguments.attacked,
        seed=arguments.seed,
        profile="worst noise",
    )
    folder = arguments.out / name
    with Bars(Console(stderr=True)) as bars:
        record = run_audit(plan, folder, encoders={name: encoder}, listener=bars)
    print_document(document(record, write_report(folder)), Console())
    return record


def number(text: str) -> float:
    """Read 0.1 or 16/255."""
    value = float(Fraction(text))
    if not 0 < value <= 1:
        raise ValueError
    return value


def main(words: list[str] | None = None) -> int:
    """Train or read the classifier, audit both of its views, and return how many parts of the audits failed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--train", metavar="FILE.npz", help="images and labels to learn from (default: 1,197 digits)")
    parser.add_argument("--test", metavar="FILE.npz", help="images and labels to audit on (default: 600 other digits)")
    parser.add_argument("--eps", type=number, default=0.1, help="radius in pixels of a [0, 1] image, 0.1 or 16/255")
    parser.add_argument("--out", type=Path, default=Path("worst-noise"), help="where records and reports go")
    parser.add_argument("--epochs", type=int, default=12, help="of the classifier's training")
    parser.add_argument(
        "--structures", nargs="+", choices=CHOICES["structure"], default=CHOICES["structure"], help="of the noise"
    )
    parser.add_argument("--upsampler", choices=("learned", "fixed", "none"), default="learned", help="of the noise")
    parser.add_argument("--learning", type=int, default=8, help="epochs of every noise's training")
    parser.add_argument("--images", type=int, default=2000, help="images compared; those not attacked train the noise")
    parser.add_argument("--attacked", type=int, default=300, help="how many of them are attacked and disturbed")
    parser.add_argument("--seed", type=int, default=0, help="the one seed that decides everything")
    arguments = parser.parse_args(words)
    if bool(arguments.train) != bool(arguments.test):
        parser.error("give --train and --test, or neither for the embedded digits")
    seen = Arrays.open(arguments.train) if arguments.train else Digits("train")
    unseen = Arrays.open(arguments.test) if arguments.test else Digits()

    arguments.out.mkdir(parents=True, exist_ok=True)
    model = learned(everything(seen), arguments)
    classifier = Encoder(model, mean=MEAN, std=STD, name="classifier", origin={"normalisation": SOURCE})
    features = Encoder(model.features, mean=MEAN, std=STD, name="features", origin={"normalisation": SOURCE})
    print(f"The classifier is right for {100 * accuracy(classifier, *everything(unseen)):.1f} % of {unseen}.")

    ball, learner = Linf(arguments.eps), {**LEARNING, "epochs": arguments.learning, "upsampler": arguments.upsampler}
    if arguments.upsampler == "none":  # a latent number for every pixel: too many for full covariances
        learner["covariance"] = "diagonal"
    labelled = questions(Misclassified(Logits()), ball, arguments.structures, **learner)
    unlabelled = questions(Nearest(), ball, [s for s in arguments.structures if s != "label"], **learner)
    records = [
        audit("classifier", classifier, labelled, arguments),
        audit("features", features, unlabelled, arguments),
    ]
    return sum(len(record.failures) for record in records)


if __name__ == "__main__":
    sys.exit(main())
