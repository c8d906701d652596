"""What can be proved of int8 builds of real networks: beside attacks, and beside bounding both networks by themselves.

    HOLDFAST_SHARED=folder python -m benchmarks.proved_builds FOLDER [--page]

FOLDER keeps builds and rows; what is there is not made again. `--page` writes `docs/proved_builds.json`.
"""

import argparse
import json
import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import onnx
import torch
from onnx import numpy_helper
from onnxruntime import quantization

import holdfast
from holdfast.numerics.bounds.backward import Region, boxes
from holdfast.numerics.bounds.difference import Apart
from holdfast.numerics.bounds.ranges import ranges_inside
from holdfast.numerics.bounds.trace import trace
from holdfast.parts.threats.linf import Linf
from holdfast.sources.data import open_images
from holdfast.sources.encoders import open_encoder

PAGE = Path(__file__).parent.parent / "docs/proved_builds.json"
NETWORKS = {"CNN-A": "cifar10_cnn_a_adv.onnx", "ResNet-2B": "cifar10_resnet2b_adv.onnx"}
MEAN, STD = (0.4914, 0.4822, 0.4465), (0.2471, 0.2435, 0.2616)
LEVEL = 1 / 255
IMAGES, PROVED, CALIBRATED = 100, 8, 200


def main() -> None:
    """Make the builds, prove what can be proved, and write the page."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--page", action="store_true")
    options = parser.parse_args()
    shared = Path(os.environ["HOLDFAST_SHARED"]) / "data"
    options.folder.mkdir(parents=True, exist_ok=True)
    torch.set_num_threads(1)
    rows = []
    for name, file in NETWORKS.items():
        for build, target in builds(name, shared / "real" / file, shared, options.folder):
            kept = options.folder / f"{target.stem}.row.json"
            if not kept.exists():
                kept.write_text(json.dumps(row(name, build, shared / "real" / file, target, shared)), encoding="utf-8")
            rows.append(json.loads(kept.read_text(encoding="utf-8")))
            print(kept.read_text(encoding="utf-8"), flush=True)
    if options.page:
        PAGE.write_text(json.dumps(rows, indent=1) + "\n", encoding="utf-8")


def row(name: str, build: str, old: Path, new: Path, shared: Path) -> dict[str, object]:
    """Return a row: what is proved, what attacks find, how much tighter the difference is step by step, and seconds."""
    words = f"mean={','.join(map(str, MEAN))}&std={','.join(map(str, STD))}"
    first, second = (f"onnx:{file}?{words}" for file in (old, new))
    images = f"arrays:{shared / 'cifar10_lossless300.npz'}"
    begun = time.perf_counter()
    run = {"images": IMAGES, "proved": PROVED, "out": new.with_suffix(".run"), "quiet": True, "overwrite": True}
    holdfast.compare_index(first, second, images, **run)
    seconds = time.perf_counter() - begun
    # The attacks after the proofs, in the same folder: what is there is not made again
    record = holdfast.compare_index(first, second, images, **run, attacked=PROVED)
    measures = ("agreement_radius", "cosine_proved", "disagreement_radius", "cosine_attacked", "cosine")
    scores = {measure: record["measures"][measure]["scores"] for measure in measures}
    x = open_images(images, images=IMAGES).batch(0, 1)
    return {
        "network": name,
        "build": build,
        "images": PROVED,
        "scores": scores,
        "tighter": tighter((first, second), x),
        "seconds": seconds / PROVED,
    }


def tighter(specs: tuple[str, str], x: torch.Tensor) -> float:
    """Return how much wider the difference is where each network is bounded by itself, within 1/255 of an image."""
    apart = Apart(*(trace(open_encoder(spec), tuple(x.shape[1:])) for spec in specs))
    region = Region.around(Linf(LEVEL), x, torch.tensor([LEVEL]).double())
    low, high = apart.box(region)
    sides = [boxes(net, region, ranges_inside(net, region))[len(net.nodes) - 1] for net in (apart.first, apart.second)]
    alone = sum(float((most - least).mean()) for least, most in sides)
    return alone / float((high - low).mean())


def builds(name: str, source: Path, shared: Path, folder: Path) -> Iterator[tuple[str, Path]]:
    """Yield each build with its file, which is made where it is missing."""
    made: dict[str, Callable[[Path], None]] = {
        "int8 weights": lambda target: round_weights(source, target),
        "int8 weights and activations": lambda target: quantise(source, target, shared),
    }
    for build, make in made.items():
        target = folder / f"{name} {build}.onnx".replace(" ", "-")
        if not target.exists():
            make(target)
        yield build, target


def round_weights(source: Path, target: Path) -> None:
    """Write the network with weights of 8 bits, one scale for each channel, and float activations."""
    model = onnx.load(str(source))
    for tensor in model.graph.initializer:
        weights = numpy_helper.to_array(tensor)
        if weights.ndim >= 2:
            step = np.abs(weights.reshape(len(weights), -1)).max(1).reshape(-1, *[1] * (weights.ndim - 1)) / 127
            rounded = (np.round(weights / step) * step).astype(np.float32)
            tensor.CopyFrom(numpy_helper.from_array(rounded, tensor.name))
    onnx.save(model, str(target))


def quantise(source: Path, target: Path, shared: Path) -> None:
    """Write the network with weights and activations of 8 bits, calibrated on training images (QDQ, per channel)."""
    x = open_images(f"arrays:{shared / 'cifar10_train25k.npz'}", images=CALIBRATED).batch(0, CALIBRATED)
    mean, std = (torch.tensor(values)[:, None, None] for values in (MEAN, STD))
    batches = iter(((x - mean) / std).split(20))

    class Reader(quantization.CalibrationDataReader):
        def get_next(self) -> dict[str, np.ndarray]:
            batch = next(batches, None)
            return {} if batch is None else {"image": batch.numpy()}  # what is empty ends it

    quantization.quantize_static(source, target, Reader(), quant_format=quantization.QuantFormat.QDQ, per_channel=True)


if __name__ == "__main__":
    main()
