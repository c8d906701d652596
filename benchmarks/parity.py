"""What quantisation and other runtimes make of real networks: each build beside the float file it was made of.

    HOLDFAST_SHARED=folder python -m benchmarks.parity FOLDER [--only NETWORK ...] [--images 500] [--page]

FOLDER keeps the builds, and the comparisons: a build that is there is not made again, and a comparison makes no pass
twice. `--page` writes `docs/parity.json` from what is there.
"""

import argparse
import json
import os
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from onnxruntime import quantization

import holdfast
from holdfast.core import Geometry
from holdfast.sources.data import open_images

PAGE = Path(__file__).parent.parent / "docs/parity.json"
CALIBRATED = 64
"""Photos by which activations are calibrated: the last ones of the order in which photos are compared."""


@dataclass(frozen=True)
class Network:
    """A float network.

    Attributes:
        file: below the folder of real networks.
        mean: of its pixels.
        std: the same.
        size: of its input.
        input: its name in the file.
        lite: a file of the same network in LiteRT's format; "" where there is none.
    """

    file: str
    mean: float
    std: float
    size: int
    input: str = "image"
    lite: str = ""

    @property
    def words(self) -> str:
        """How pictures become its input, as a spec says it."""
        return f"mean={self.mean}&std={self.std}&resize=squash&size={self.size}"


NETWORKS = {
    "MobileFaceNet": Network("face_mobilefacenet.onnx", 0.5, 0.5, 112, "t368", "MobileFaceNet.tflite"),
    "EfficientNet-Lite0": Network("imagenet_efficientnet_lite0.onnx", 127 / 255, 128 / 255, 224),
    "MobileNetV2": Network("imagenet_mobilenet_v2_100.onnx", 0.5, 0.5, 224),
}


def main() -> None:
    """Make the builds, compare each with its float file, and write the page."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--only", nargs="*", default=list(NETWORKS), choices=list(NETWORKS))
    parser.add_argument("--images", type=int, default=500)
    parser.add_argument("--page", action="store_true")
    given = parser.parse_args()
    given.folder.mkdir(parents=True, exist_ok=True)
    for name in given.only:
        measure(name, NETWORKS[name], given.folder, given.images)
    if given.page:
        rows = [json.loads(path.read_text()) for path in sorted(given.folder.glob("*.row.json"))]
        # In the order of the networks, floats first
        names = list(NETWORKS)
        rows.sort(key=lambda row: (names.index(row["network"]), row["build"].startswith("int8"), row["build"]))
        PAGE.write_text(json.dumps(rows, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


def measure(name: str, network: Network, folder: Path, images: int) -> None:
    """Compare all builds of a network with its float file as torch runs it."""
    shared = Path(os.environ["HOLDFAST_SHARED"]) / "data"
    real, photos = shared / "real", str(shared / "photos")
    float_file = real / network.file
    for build, spec in builds(name, network, real, folder, photos):
        row = folder / f"{name} {build}.row.json"
        if row.exists():
            continue
        began = time.monotonic()
        record = holdfast.compare_index(
            f"onnx:{float_file}?{network.words}",
            spec,
            photos,
            images=images,
            same=True,
            divergence="cosine",
            out=folder / name,
            overwrite=True,
        )
        scores = {key: entry["scores"][entry["headline"]] for key, entry in record["measures"].items()}
        row.write_text(
            json.dumps(
                {
                    "network": name,
                    "build": build,
                    "images": record["data"]["images"],
                    "seconds": round(time.monotonic() - began),
                    "scores": {
                        key: scores[key] for key in ("overlap@10", "cosine", "cosine_below", "cosine_disturbed")
                    },
                    "threshold": record["measures"].get("threshold", {}).get("scores"),
                    "causes": [cause["name"] for cause in record["diagnosis"]["causes"]],
                    "passed": record["passed"],
                },
                indent=1,
            )
        )
        print(row.read_text(), flush=True)


def builds(name: str, network: Network, real: Path, folder: Path, photos: str) -> Iterator[tuple[str, str]]:
    """Yield each build with its spec: other runtimes, then quantised files, which are made where they are missing."""
    source, words = real / network.file, network.words
    yield "ONNX Runtime", f"ort:{source}?{words}"
    yield "ONNX Runtime, graph as it is", f"ort:{source}?{words}&optimisation=off"
    yield "OpenVINO", f"openvino:{source}?{words}&precision=f32"
    if network.lite:
        yield "LiteRT", f"tflite:{real / network.lite}?{words}"
    made = {
        "int8, dynamic": lambda target: quantization.quantize_dynamic(source, target),
        "int8, per tensor, calibrated on noise": static(source, network, lambda: noise(network), False),
        "int8, per tensor": static(source, network, lambda: calibration(network, photos), False),
        "int8, per channel": static(source, network, lambda: calibration(network, photos), True),
    }
    for build, make in made.items():
        target = folder / f"{name} {build.replace(', ', '-').replace(' ', '-')}.onnx"
        if not target.exists():
            make(target)
        yield build, f"ort:{target}?{words}"
    last = folder / f"{name} int8-per-channel.onnx"
    yield "int8, per channel, graph as it is", f"ort:{last}?{words}&optimisation=off"


def static(
    source: Path, network: Network, images: Callable[[], Iterator[np.ndarray]], per_channel: bool
) -> Callable[[Path], None]:
    """Return what quantises weights and activations to 8 bits, with nodes that say so (QDQ)."""

    class Reader(quantization.CalibrationDataReader):
        def __init__(self) -> None:
            self.batches = images()

        def get_next(self) -> dict[str, np.ndarray]:
            batch = next(self.batches, None)
            return {} if batch is None else {network.input: batch}  # what is empty ends it

    def make(target: Path) -> None:
        quantization.quantize_static(
            source, target, Reader(), quant_format=quantization.QuantFormat.QDQ, per_channel=per_channel
        )

    return make


def noise(network: Network) -> Iterator[np.ndarray]:
    """Yield batches of uniform noise, normalised: what a build is calibrated on where nobody has images."""
    numbers = np.random.default_rng(0)
    for _ in range(8):
        x = numbers.random((8, 3, network.size, network.size), dtype=np.float32)
        yield ((x - network.mean) / network.std).astype(np.float32)


def calibration(network: Network, photos: str) -> Iterator[np.ndarray]:
    """Yield batches of photos, normalised."""
    images = open_images(photos).with_geometry(Geometry((network.size, network.size)))
    for start in range(len(images) - CALIBRATED, len(images), 8):
        x: torch.Tensor = images.batch(start, start + 8)
        yield ((x - network.mean) / network.std).numpy()


if __name__ == "__main__":
    main()
