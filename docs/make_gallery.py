"""Makes the gallery: `HOLDFAST_SHARED=folder python docs/make_gallery.py [--only NAME...] [--runs FOLDER]`.

Each report is made by the command that its section shows, typed in `folder/data`; its picture shows no image that
somebody else has rights to. Where FOLDER has the run of a command, only its picture is made anew. It needs
chromium, and an hour on one core for all.
"""

import argparse
import json
import os
import shlex
import subprocess
import sys
from dataclasses import dataclass
from hashlib import sha256
from itertools import takewhile
from pathlib import Path
from typing import Any

from rich.text import Text
from screenshots import screenshot

from holdfast.report.brief import each_answer
from holdfast.report.documents.audit import document
from holdfast.report.html import publish
from holdfast.report.names import shorten_names
from holdfast.report.numbers import duration
from holdfast.report.verdict import scope, winners
from holdfast.storage.filesystem import Folder
from holdfast.storage.record import Record
from holdfast.storage.record_file import RECORD, read_record
from holdfast.workflows.harden.plan import RECORD as HARDENING

PLACE = Path(__file__).parent / "gallery"
TABLE = PLACE / "gallery.json"

MOBILENET = "onnx:real/imagenet_mobilenet_v2_100.onnx?label=MobileNetV2"
RESNET20 = "file:encoders/cifar10_resnet20_supervised.safetensors?mean=0.485,0.456,0.406&std=0.229,0.224,0.225"
RESNET2B = "onnx:real/cifar10_resnet2b_adv.onnx?label=ResNet-2B adversarial"
CNN_A = "file:encoders/mnist_cnn_a_eps0.safetensors?mean=0&std=1&label=CNN-A"
CNN_A_ADV = "file:encoders/mnist_cnn_a_eps0.2.safetensors?mean=0&std=1&label=CNN-A adversarial"


@dataclass(frozen=True)
class Exhibit:
    """A report of the gallery.

    Attributes:
        title: of its section.
        command: what is typed after `holdfast`, without `--out`.
        section: what of the report its picture shows; "": its first screen.
        height: of the picture.
        colours: of the picture.
    """

    title: str
    command: tuple[str, ...]
    section: str = ""
    height: int = 865
    colours: int = 48

    @property
    def typed(self) -> str:
        """The command as a user types it."""
        return f"holdfast {shlex.join(self.command)}"


GALLERY = {
    "photos": Exhibit(
        "Photos, by an ImageNet network",
        ("audit", MOBILENET, "--data", "photos", "--budget", "none", "--until", "16 images"),
    ),
    "adversarial": Exhibit(
        "CIFAR-10: trained with labels, and trained against attacks",
        ("audit", f"{RESNET20}&label=ResNet-20", RESNET2B, "--data", "cifar10_lossless300.npz", "--budget", "5m"),
    ),
    "certified": Exhibit(
        "MNIST: what is proved",
        ("audit", CNN_A, CNN_A_ADV, "--data", "mnist_test.npz", "--set", "breaking_radius.certified=256",
         "--budget", "6m"),
    ),
    "hardened": Exhibit(
        "Before and after hardening",
        ("harden", RESNET20, "--data", "cifar10_train25k.npz", "--test", "cifar10_lossless300.npz", "--budget", "5m"),
        colours=32,
    ),
    "corruptions": Exhibit(
        "Fog, blur, noise and compression",
        ("audit", f"{RESNET20}&label=ResNet-20", RESNET2B, "--data", "cifar10_lossless300.npz",
         "--profile", "corruptions"),
        section="corruptions", height=1090, colours=12,
    ),
    "worst-noise": Exhibit(
        "The worst noise",
        ("audit", CNN_A, "--data", "mnist_test.npz", "--profile", "probabilistic", "--images", "400",
         "--attacked", "50"),
        height=765,
    ),
}  # fmt: skip


def made(name: str, exhibit: Exhibit, runs: Path, data: Path) -> dict[str, Any]:
    """Make a report and its picture, and return what its section says.

    Args:
        name: of the report.
        exhibit: what is made.
        runs: where its run folder is, or will be, named by the command too.
        data: the folder in which the command is typed.
    """
    out = runs / f"{name}-{sha256(exhibit.typed.encode()).hexdigest()[:8]}"
    folder = out / "audit" if exhibit.command[0] == "harden" else out
    if not (folder / RECORD).exists():  # the time of a run that goes on is that of its end alone
        command = [sys.executable, "-m", "holdfast", *exhibit.command, "--out", str(out), "--quiet"]
        subprocess.run(command, cwd=data, check=True)
    page = Path(publish(folder, with_pictures=False))
    screenshot(page, PLACE / f"{name}.png", section=exhibit.section, height=exhibit.height, colours=exhibit.colours)
    record = read_record(Folder(folder))
    return {
        "title": exhibit.title,
        "command": exhibit.typed,
        "says": sentences(record),
        "scope": scope(record),
        "took": duration(seconds(record, out)),
        "versions": {
            "holdfast": record.holdfast.version,
            "python": record.environment.python,
            "torch": record.environment.torch,
        },
    }


def seconds(record: Record, out: Path) -> float:
    """Return how long a command took: its audit, every round of it, or a training and what was audited around it."""
    if record.hardening is None:
        return record.run.seconds + (record.run.rounds.before if record.run.rounds else 0.0)
    hardening = json.loads((out / HARDENING).read_text(encoding="utf-8"))
    return hardening["seconds"] + hardening["audit_seconds"]


def sentences(record: Record) -> list[str]:
    """Return how a report begins: who is best, and what answers of each encoder or, where nothing does, who wins."""
    first = [str(line) for line in takewhile(lambda block: isinstance(block, Text), document(record))]
    record, _ = shorten_names(record)
    return first if each_answer(record) else first + [sentence.text for sentence in winners(record)]


def main() -> None:
    """Run as a program."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="*", choices=GALLERY, default=list(GALLERY), help="make these")
    parser.add_argument("--runs", type=Path, default=Path("holdfast-gallery"), help="where run folders are, or will be")
    options = parser.parse_args()
    if not (shared := os.environ.get("HOLDFAST_SHARED")):
        parser.error("set the environment variable HOLDFAST_SHARED to the folder of encoders and images")
    PLACE.mkdir(exist_ok=True)
    table = json.loads(TABLE.read_text(encoding="utf-8")) if TABLE.exists() else {}
    for name in options.only:
        print(name, flush=True)
        table[name] = made(name, GALLERY[name], options.runs.resolve(), Path(shared) / "data")
        ordered = {name: table[name] for name in GALLERY if name in table}
        TABLE.write_text(json.dumps(ordered, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
