"""Certified instance accuracy against time, for CROWN, α-CROWN and branch and bound: RVCL's Table 4.

    HOLDFAST_SHARED=folder python -m benchmarks.certified_accuracy [--json] [--images 20]

The settings of the table that the encoders in the folder allow. x⁻ is an adversarial image made from x⁺ itself (PGD
that moves f(x) away from a shifted view, ε_neg, 200 steps); a pair counts as certified at ε_test if the bound of its
margin is positive. CIFAR radii of the authors are in normalised units (their ε times the std .225 is in pixels). Each
certifier is tried only on pairs that no attack has broken; its time is processor time on one thread, as a ratio of
CROWN's. The published values of the table are in the note: PGD / CBC / CROWN (the text of the table is garbled; its
rows are read so that robustness rises with the strength of training, as the paper says it does).
"""

import argparse
import os
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from time import process_time

import numpy as np
import torch
from torch import Tensor

from benchmarks.result import Result, report
from benchmarks.store import Run
from benchmarks.tables import figures, markdown
from holdfast.core import Encoder, Margin, Rng, Shard
from holdfast.parts.attacks.apgd import Apgd
from holdfast.parts.attacks.pgd import Pgd
from holdfast.parts.certifiers.alpha_crown import AlphaCrown
from holdfast.parts.certifiers.beta_crown import BetaCrown
from holdfast.parts.certifiers.crown import Crown
from holdfast.parts.certifiers.shared.certifier import Propagation
from holdfast.parts.divergences.cosine import Cosine
from holdfast.parts.observations.adversarial_negatives import AdversarialNegatives
from holdfast.parts.threats.linf import Linf
from holdfast.sources.encoders import open_encoder

MNIST, CIFAR = "mean=0&std=1", "mean=0.485,0.456,0.406&std=0.225,0.225,0.225"
UNIT = 0.225 / 255
"""One 255th of the authors' normalised CIFAR units, in pixels."""


@dataclass(frozen=True)
class Setting:
    """A row of Table 4.

    Attributes:
        title: the encoder, in words.
        encoder: file of its weights.
        negative: ε_neg in pixels.
        test: ε_test in pixels.
        published: shares that PGD leaves and that CBC and CROWN certify, in percent.
    """

    title: str
    encoder: str
    negative: float
    test: float
    published: tuple[int, int, int]


SETTINGS = (
    Setting("MNIST Base, ε_train 0", "mnist_base_eps0", 0.3, 0.1, (20, 2, 0)),
    Setting("MNIST CNN-A, ε_train 0", "mnist_cnn_a_eps0", 0.3, 0.1, (6, 0, 0)),
    Setting("CIFAR-10 CNN-B, ε_train 0", "cifar10_cnn_b_eps0", 16 * UNIT, 4 * UNIT, (91, 26, 11)),
    Setting("CIFAR-10 CNN-B, ε_train 4.4/255", "cifar10_cnn_b_eps4.4", 24 * UNIT, 6 * UNIT, (100, 68, 52)),
    Setting("CIFAR-10 Deep, ε_train 4.4/255", "cifar10_deep_eps4.4", 24 * UNIT, 6 * UNIT, (100, 96, 84)),
)
LONGER = 10.0
"""Times as long as CROWN that a certifier may take to be compared with what was published."""

LADDER: dict[str, Propagation] = {
    "CROWN": Crown(),
    "α-CROWN, 3 and 20 steps": AlphaCrown(3, 20),
    "α-CROWN": AlphaCrown(),
    "branch and bound, 20 splits": BetaCrown(20, inside=10, steps=40, leaf_steps=10),
    "branch and bound, 100 splits": BetaCrown(100, inside=10, steps=40, leaf_steps=10),
}


def images_of(encoder: str, folder: Path, count: int) -> Tensor:
    """Return the first test images."""
    if encoder.startswith("mnist"):
        return torch.tensor(np.load(folder / "mnist_test.npz")["images"][:count])[:, None] / 255
    return torch.tensor(np.load(folder / "cifar10_lossless300.npz")["images"][:count]).permute(0, 3, 1, 2) / 255


def adversarial(encoder: Encoder, x: Tensor, radius: float, rng: Rng) -> Tensor:
    """Return the negatives of RVCL, section 6.3: images that an attack moves away from a shifted view of x."""
    negatives = AdversarialNegatives(Linf(radius), Pgd(200, radius / 100, keep="last"))
    return negatives.search(Shard(encoder, x, torch.arange(len(x)), rng, None)).images[200]


def broken(encoder: Encoder, margin: Margin, x: Tensor, radius: float, rng: Rng) -> Tensor:
    """Return which pairs an attack breaks."""

    def goal(z: Tensor) -> tuple[Tensor, Tensor]:
        reps = encoder(z)
        return -margin(reps.double())[:, 0].float(), reps

    return Apgd(60, restarts=2)(goal, x, Linf(radius), rng.child("attack")).values[-1] >= 0


def measure(count: int = 20) -> list[Result]:
    """Return, for each setting and certifier, its certified accuracy in percent and its time relative to CROWN."""
    folder = Path(os.environ.get("HOLDFAST_SHARED", "")) / "data"
    if not folder.is_dir():
        print("no trained encoders: set HOLDFAST_SHARED; nothing is measured", file=sys.stderr)
        return []
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        return [result for setting in SETTINGS for result in _curve(setting, folder, count)]
    finally:
        torch.set_num_threads(threads)


def _curve(setting: Setting, folder: Path, count: int) -> list[Result]:
    norm = MNIST if setting.encoder.startswith("mnist") else CIFAR
    encoder = open_encoder(f"file:{folder / 'encoders' / setting.encoder}.safetensors?{norm}")
    x = images_of(setting.encoder, folder, count)
    rng = Rng(0, ids=tuple(str(i) for i in range(count)))
    negatives = adversarial(encoder, x, setting.negative, rng)
    with torch.no_grad():
        margin = Cosine().between(encoder(x), encoder(negatives)[:, None])
    standing = (~broken(encoder, margin, x, setting.test, rng)).nonzero().flatten().tolist()
    results, usual = [], None
    for name, certifier in LADDER.items():
        began, certified = process_time(), 0
        for i in standing:
            pair = margin.part(slice(i, i + 1))
            certified += bool(certifier(encoder, pair, x[i : i + 1], Linf(setting.test)).lower > 0)
        seconds = process_time() - began
        usual = usual or seconds
        facts = {
            "seconds": seconds / max(1, len(standing)),
            "times": seconds / usual if usual else 1.0,
            "standing": 100 * len(standing) / count,
        }
        published = " / ".join(map(str, setting.published))
        note = (
            f"{facts['seconds']:.2f} s a pair, {facts['times']:.1f} × CROWN; attack leaves {facts['standing']:.0f} %; "
            f"published {published} %"
        )
        title = f"{setting.encoder}, {name}"
        results.append(Result(title, 100 * certified / count, None, "%", None, note, facts=facts))
    return [*results, *beside_published(setting, results, 100 / count)]


def beside_published(setting: Setting, results: Sequence[Result], image: float) -> list[Result]:
    """Return the published share over the best of ours at `LONGER` times CROWN's time; none below one image's share."""
    best = max(result.value for result in results if float(result.facts["times"]) <= LONGER)
    published = setting.published[1]
    if published < image or best == 0:
        return []
    note = f"CBC {published} %, ours {best:.0f} % within {LONGER:g} × CROWN; other pairs than the paper's"
    return [Result(f"published / ours, {setting.encoder}", published / best, None, "x", 1.0, note)]


def table(run: Run) -> str:
    """Return the share of pairs proved, with the time of each certifier."""
    rows = []
    for setting in SETTINGS:
        cells = []
        for name in LADDER:
            row = run.row(f"{setting.encoder}, {name}")
            time = f"{figures(row.facts['seconds'])} s" if name == "CROWN" else f"{figures(row.facts['times'], 2)}"
            cells.append(f"{row.value:.0f} % ({time})")
        left = f"{run.row(f'{setting.encoder}, CROWN').facts['standing']:.0f} %"
        rows.append([setting.title, " / ".join(map(str, setting.published)) + " %", left, *cells])
    return markdown(["encoder", "published PGD / CBC / CROWN", "attack leaves", *LADDER], rows)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(add_help=False)
    parser.add_argument("--images", type=int, default=20)
    asked, sys.argv[1:] = parser.parse_known_args()
    report(lambda: measure(asked.images), __doc__)
