"""An image tower and a text tower of digits, trained in seconds, and all that Holdfast asks of such a pair.

python examples/two_towers.py --out towers      # classes and captions, attacked, certified, written on; two minutes

As a file of parts it is an encoder source of its own, towers:digits, with a text tower:

holdfast embed-names towers:digits --captions towers/captions.csv --parts examples/two_towers.py
"""

import argparse
import csv
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import torch
from torch import Tensor, nn
from torch.nn import functional as F

import holdfast
from holdfast.core import Encoder, UnknownName
from holdfast.core.encoder_source import TextTower
from holdfast.extend import EncoderSource, Options, Preprocessing, assemble, read_options, register
from holdfast.sources.data.digits import Digits
from holdfast.sources.encoders.shared.equip import load
from holdfast.workflows.embed_captions import embed_captions
from holdfast.workflows.embed_names import embed_names

NAMES = ("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine")
INK, WIDTH, LEAN = ("thin", "plain", "bold"), ("narrow", "normal", "wide"), ("left", "nowhere", "right")
WORDS = (*NAMES, *INK, *WIDTH, *LEAN, "a", "that", "leans")
TEMPLATE = "a {}"
DIM, EPOCHS, BATCH, TEMPERATURE = 32, 30, 100, 0.1


def captions(part: str) -> dict[str, list[str]]:
    """Return two captions of every digit of a part, by its id: what it is, how it is written, and less of this."""
    source = Digits(part)
    x = torch.stack([source.load(i) for i in range(len(source))])[:, 0]
    across, down = torch.meshgrid(torch.arange(8.0), torch.arange(8.0), indexing="xy")
    mass = x.sum((1, 2))
    dx = across - ((x * across).sum((1, 2)) / mass)[:, None, None]
    dy = down - ((x * down).sum((1, 2)) / mass)[:, None, None]
    lean, width = -(x * dx * dy).sum((1, 2)) / mass, (x * dx * dx).sum((1, 2)) / mass
    words = [_third(mass, INK), _third(width, WIDTH), _third(lean, LEAN)]
    known = {}
    for i, (ink, wide, way) in enumerate(zip(*words, strict=True)):
        name = NAMES[source.label(i)]
        known[source.id(i)] = [f"a {ink} {wide} {name} that leans {way}", f"a {ink} {name}"]
    return known


def _third(values: Tensor, words: Sequence[str]) -> list[str]:
    """Return a word for the lower, the middle and the upper third of some values."""
    limits = values.quantile(torch.tensor([1 / 3, 2 / 3]))
    return [words[int(third)] for third in torch.bucketize(values, limits)]


class Texts(nn.Module):
    """The sum of a learned point for each word."""

    def __init__(self) -> None:
        super().__init__()
        self.words = nn.EmbeddingBag(len(WORDS), DIM, mode="sum")

    def forward(self, texts: Sequence[str]) -> Tensor:
        """Return the embeddings of texts, [N, D]."""
        split = [text.split() for text in texts]
        if strange := sorted({word for words in split for word in words} - set(WORDS)):
            raise UnknownName(f"towers: expected words among {', '.join(WORDS)}, got {strange[0]!r}")
        numbers = torch.tensor([WORDS.index(word) for words in split for word in words])
        return self.words(numbers, torch.tensor([0, *map(len, split[:-1])]).cumsum(0))


def image_tower() -> nn.Module:
    """Return the network of the images, untrained."""
    return nn.Sequential(
        nn.Conv2d(1, 16, 3, padding=1), nn.ReLU(),
        nn.Conv2d(16, 32, 4, stride=2, padding=1), nn.ReLU(),
        nn.Flatten(), nn.Linear(512, DIM),
    )  # fmt: skip


@cache
def trained() -> tuple[nn.Module, Texts]:
    """Return both towers after CLIP's loss: images and their captions find each other in a batch, both ways."""
    source, known = Digits("train"), captions("train")
    x = torch.stack([source.load(i) for i in range(len(source))])
    with torch.random.fork_rng(devices=[]), torch.enable_grad():
        torch.manual_seed(0)
        images, texts = image_tower(), Texts()
        optimiser = torch.optim.Adam([*images.parameters(), *texts.parameters()], 3e-3)
        for _ in range(EPOCHS):
            for rows in torch.randperm(len(x)).split(BATCH):
                choice = torch.randint(2, (len(rows),)).tolist()
                said = texts([known[source.id(i)][c] for i, c in zip(rows.tolist(), choice, strict=True)])
                cosines = F.normalize(images(x[rows])) @ F.normalize(said).T / TEMPERATURE
                own = torch.arange(len(rows))
                loss = F.cross_entropy(cosines, own) + F.cross_entropy(cosines.T, own)
                optimiser.zero_grad()
                loss.backward()
                optimiser.step()
    return images.eval(), texts.eval()


@register("encoders")
@dataclass(frozen=True)
class Towers(EncoderSource):
    """Two towers trained on digits and their captions."""

    about = "two towers trained on digits and their captions: towers:digits"

    def open(self, name: str, options: Options) -> Encoder:
        """Open the image tower of `towers:digits`, as it was trained or with the weights of a file."""
        common, network = read_options(options), image_tower()
        network.load_state_dict(trained()[0].state_dict())
        if common.weights not in ("default", "random"):
            load(network, common.weights)
        preprocessing = Preprocessing(0.0, 1.0, "none", (1, 8, 8), None)
        return assemble(network, common, preprocessing, {"source": f"towers:{name}", "weights": common.weights})

    def texts(self, name: str, options: Options) -> TextTower:
        """Open the text tower, which no hardening changes."""

        def tower(texts: Sequence[str]) -> Tensor:
            with torch.no_grad():
                return trained()[1](texts)

        return tower


def written(folder: Path, encoder: str = "towers:digits") -> tuple[Path, Path]:
    """Write the names and the captions of digits that were not trained on, as points of the towers' space."""
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / "captions.csv").open("w", newline="") as file:
        table = csv.writer(file)
        table.writerow(("id", "caption"))
        table.writerows((image, caption) for image, own in captions("heldout").items() for caption in own)
    names = embed_names(encoder, NAMES, templates=[TEMPLATE], out=folder / "names.safetensors")
    return names, embed_captions(encoder, folder / "captions.csv", out=folder / "captions.safetensors")


SMALL = """
description = "that a hardening did something"
images = 100
attacked = 40
examined = 2
queries = 10
measures = ["universal_quantile"]
"""


def measures(names: Path, points: Path, eps: float) -> list[str]:
    """Return what is asked of each image tower."""
    probe = f"probe=zero_shot[path={names}]"
    return [
        f"corrupted_accuracy[{probe},threats=[typographic[path={names},size=0.25]]]",
        f"robust_accuracy[{probe},ball.radius={eps}]",
        f"certified_accuracy[{probe},ball.radius={eps / 4}]",
        f"caption_retrieval[path={points},ball.radius={eps / 4}]",
    ]


def rows(record: holdfast.Record, encoder: str, eps: float) -> dict[str, float | None]:
    """Return the numbers of one image tower, in percent."""
    written_on, attacked, proved, search = (record.scores(name, encoder=encoder) for name in record.measures)
    numbers = {
        "names: clean": written_on["no corruption"],
        "names: another name written on": [*written_on.values()][1],
        f"names: attacked, ε {eps:g}": attacked["after all"],
        f"names: proved, ε {eps / 4:g}": proved["certificate"],
    }
    for way in ("image to text", "text to image"):
        numbers |= {f"{way}, first 5: clean": search[f"{way} recall@5, clean"]}
        numbers |= {f"{way}, first 5: attacked, ε {eps / 4:g}": search[f"{way} recall@5, worst found"]}
    return {name: None if score.value is None else 100 * score.value for name, score in numbers.items()}


def main(words: list[str] | None = None) -> int:
    """Train both towers, harden the image tower in two ways, and print what each makes of names and captions."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", default="towers", help="folder of the texts and the hardened towers")
    parser.add_argument("--attacked", type=int, default=100, help="how many digits are attacked")
    parser.add_argument("--steps", type=int, default=300, help="steps of each hardening")
    parser.add_argument("--eps", type=float, default=0.1, help="radius of attacks, of hardening too")
    asked = parser.parse_args(words)

    folder = Path(asked.out)
    names, points = written(folder)
    (folder / "small.toml").write_text(SMALL)
    encoders = {"as trained": "towers:digits"}
    for name, objective in {"FARE": "fare", "TeCoA": f"tecoa[path={names}]"}.items():
        hardened = holdfast.harden(
            "towers:digits", "digits?part=train", objective=objective, steps=asked.steps, eps=asked.eps, views="none",
            test="digits", profile=str(folder / "small.toml"), out=folder / name, quiet=True,
        )  # fmt: skip
        encoders[name] = hardened.record.encoder
    record = holdfast.audit(
        encoders,
        "digits",
        measures=measures(names, points, asked.eps),
        images=3 * asked.attacked,
        attacked=asked.attacked,
        profile=str(folder / "small.toml"),
        quiet=True,
    )
    columns = {name: rows(record, name, asked.eps) for name in encoders}
    print(f"{'':42}" + "".join(f"{name:>12}" for name in columns))
    for row in columns["as trained"]:
        values = [numbers[row] for numbers in columns.values()]
        print(f"{row:42}" + "".join(f"{'-' if value is None else f'{value:.0f} %':>12}" for value in values))
    return len(record.failures)


if __name__ == "__main__":
    sys.exit(main())
