"""Measures the encoders that a report's first sentence compares with, and makes the table of them.

    HOLDFAST_SHARED=folder python -m benchmarks.references FOLDER > src/holdfast/report/references.toml

FOLDER keeps an audit for each kind of images; those that are there are read, the others are made (half an hour on one
core for all). 32 of 256 images are attacked with 100 passes each, in both norms; of `digits`, 64.
"""

import argparse
import json
import os
import sys
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from holdfast.auditing.plan_file import make_plan
from holdfast.auditing.prepare import label
from holdfast.auditing.run import run_audit
from holdfast.report.references import Reference
from holdfast.runtime.privacy import public
from holdfast.storage.filesystem import Folder
from holdfast.storage.record_file import RECORD, SEAL, read_record

MEASURES = [{"name": "breaking_radius", "ball": {"name": norm}, "certified": 0} for norm in ("linf", "l2")]


@dataclass(frozen=True)
class Known:
    """Encoders that people know, on images of one kind.

    Attributes:
        images: what sentences call the images.
        data: their spec; {} stands for the shared folder.
        attacked: how many of them are attacked.
        names: what sentences call each encoder, by its spec.
    """

    images: str
    data: str
    attacked: int
    names: Mapping[str, str]


CIFAR = "mean=0.485,0.456,0.406&std=0.225,0.225,0.225"
KNOWN = (
    Known("digits", "digits", 64, {
        "zoo:digits-supervised": "digits_cnn trained with labels",
        "zoo:digits-simclr": "digits_cnn trained by SimCLR",
        "zoo:digits-simclr-adv": "digits_cnn trained by SimCLR against attacks",
    }),
    Known("MNIST", "{}/mnist_test.npz", 32, {
        "file:{}/encoders/mnist_base_eps0.safetensors?mean=0&std=1": "Base trained by contrast",
        "file:{}/encoders/mnist_cnn_a_eps0.safetensors?mean=0&std=1": "CNN-A trained by contrast",
        "file:{}/encoders/mnist_cnn_a_eps0.2.safetensors?mean=0&std=1": "CNN-A trained by contrast against attacks",
    }),
    Known("CIFAR-10", "{}/cifar10_lossless300.npz", 32, {
        "onnx:{}/real/cifar10_cnn_a_adv.onnx": "CNN-A trained against attacks",
        "onnx:{}/real/cifar10_resnet2b_adv.onnx": "ResNet-2B trained against attacks of 2/255",
        "file:{}/encoders/cifar10_resnet20_supervised.safetensors?mean=0.485,0.456,0.406&std=0.229,0.224,0.225":
            "ResNet-20 trained with labels",
        f"file:{{}}/encoders/cifar10_cnn_b_eps0.safetensors?{CIFAR}": "CNN-B trained by contrast",
        f"file:{{}}/encoders/cifar10_cnn_b_eps4.4.safetensors?{CIFAR}": "CNN-B trained by contrast against attacks",
        f"file:{{}}/encoders/cifar10_deep_eps4.4.safetensors?{CIFAR}": "Deep trained by contrast against attacks",
    }),
    Known("photos", "{}/photos", 32, {
        "onnx:{}/real/imagenet_mobilenet_v2_100.onnx": "MobileNetV2 trained on ImageNet",
        "onnx:{}/real/imagenet_mobilenet_v1_025.onnx": "MobileNetV1 (a quarter as wide) trained on ImageNet",
    }),
)  # fmt: skip
"""The networks named Base, Deep, CNN-A and CNN-B by contrast are those of the authors of RVCL."""


def audited(known: Known, folder: Path) -> dict[str, Any]:
    """Return the record of an audit of the known encoders, which is made where the folder has none.

    Raises:
        SystemExit: no shared folder where an audit needs it.
    """
    if (folder / RECORD).exists():
        return read_record(Folder(folder))
    shared = os.environ.get("HOLDFAST_SHARED")
    if "{}" in known.data and not shared:
        raise SystemExit(f"{known.images}: set the environment variable HOLDFAST_SHARED to the folder of the encoders")
    data = f"{shared}/data"
    plan = make_plan(
        [spec.format(data) for spec in known.names], known.data.format(data), profile_name="quick", measures=MEASURES,
        images=256, attacked=known.attacked,
    )  # fmt: skip
    print(f"auditing {len(known.names)} encoders on {known.images}", file=sys.stderr, flush=True)
    return run_audit(plan, folder)


def references(known: Known, record: Mapping[str, Any]) -> Iterator[Reference]:
    """Yield what a record says of the known encoders: sound numbers with an interval, and what is at most too large."""
    names = {public(label(spec.format("/data"))): name for spec, name in known.names.items()}
    for encoder in record["encoders"]:
        for measure in encoder["measures"].values():
            part, score = measure["part"], measure["scores"].get(measure["headline"], {})
            if score.get("low") is None or score["standing"] not in ("sound", "at most"):
                print(f"{encoder['name']}: left out, no sound number with an interval", file=sys.stderr)
                continue
            yield Reference(
                name=names[encoder["name"]],
                images=known.images,
                measure=part["name"],
                norm=part["ball"]["name"],
                failure=part["failure"],
                input=tuple(encoder["input"]),
                population=record["data"]["images"],
                attacked=record["data"]["attacked"],
                passes=part["steps"],
                value=float(f"{score['value']:.4g}"),
                low=float(f"{score['low']:.4g}"),
                high=float(f"{score['high']:.4g}"),
                encoder=encoder["fingerprint"],
                record=record[SEAL],
            )


def as_toml(rows: Iterable[Reference]) -> str:
    """Return the table as the package ships it."""
    lines = ["# What `python -m benchmarks.references` measured; sizes in pixels of a [0, 1] image."]
    for row in rows:
        lines += ["", "[[reference]]"]
        for key, value in asdict(row).items():
            inner = (
                ", ".join(f"{name} = {json.dumps(entry)}" for name, entry in value.items()) if key == "failure" else ""
            )
            lines.append(f"{key} = {{ {inner} }}" if inner else f"{key} = {json.dumps(value)}")
    return "\n".join(lines) + "\n"


def main() -> None:
    """Run as a program."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, help="where audits are, or will be: one for each kind of images")
    folder = parser.parse_args().folder
    rows = [row for known in KNOWN for row in references(known, audited(known, folder / known.images))]
    print(as_toml(rows), end="")


if __name__ == "__main__":
    main()
