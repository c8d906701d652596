"""What quantisation and other runtimes make of real networks: each build beside the float file it was made of.

    HOLDFAST_SHARED=folder python -m benchmarks.parity FOLDER [--only NETWORK ...] [--images 500] [--page FILE]

FOLDER keeps the builds and the comparisons: a build that is there is not made again, and a comparison makes no pass
twice. Rows go to `docs/parity.json`, each as soon as it is there; to measure one again, delete it, or its "attacked",
there, and begin with a new FOLDER: what is stored takes no time.
"""

import argparse
import json
import os
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from onnxruntime import quantization

import holdfast
from holdfast.core import Geometry
from holdfast.sources.data import open_images

DATA = Path(os.environ.get("HOLDFAST_SHARED", "")) / "data"
PAGE = Path(__file__).parent.parent / "docs/parity.json"
CALIBRATED = 64
"""Photos by which activations are calibrated: the last ones of the order in which photos are compared."""

ATTACKED = 16
"""Photos that are attacked, the first ones."""


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


ATTACKED_BUILDS = {*((name, "int8, per channel") for name in NETWORKS), ("MobileNetV2", "ONNX Runtime")}
"""What is attacked, with its network."""


def main() -> None:
    """Make the builds, and measure what the page does not hold yet."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--only", nargs="*", default=list(NETWORKS), choices=list(NETWORKS))
    parser.add_argument("--images", type=int, default=500)
    parser.add_argument("--page", type=Path, default=PAGE)
    given = parser.parse_args()
    given.folder.mkdir(parents=True, exist_ok=True)
    for name in given.only:
        for build, spec in builds(name, given.folder):
            measure(given.page, given.folder, given.images, name, build, spec)


def measure(page: Path, folder: Path, images: int, name: str, build: str, spec: Callable[[], str]) -> None:
    """Compare a build with its float file as torch runs it, as far as the page does not tell; write what is found."""
    rows: list[dict[str, Any]] = json.loads(page.read_text(encoding="utf-8")) if page.exists() else []
    known = next((row for row in rows if (row["network"], row["build"]) == (name, build)), {})
    attacked = (name, build) in ATTACKED_BUILDS
    if known and ("attacked" in known or not attacked):
        return
    compare = partial(
        holdfast.compare_index,
        f"onnx:{DATA / 'real' / NETWORKS[name].file}?{NETWORKS[name].words}",
        spec(),
        str(DATA / "photos"),
        images=images,
        divergence="cosine",
        out=folder / name,
        overwrite=True,
    )
    began = time.process_time()
    record = compare(same=not known)
    row = known or {"network": name, "build": build, **kept(record), "seconds": round(time.process_time() - began)}
    if attacked:
        # Vectors are stored by now: these seconds are those of the attack
        began = time.process_time()
        row["attacked"] = found(compare(attacked=ATTACKED)) | {"seconds": round(time.process_time() - began)}
    rows = [other for other in rows if other is not known] + [row]
    # In the order of the networks, floats first
    rows.sort(key=lambda row: (list(NETWORKS).index(row["network"]), row["build"].startswith("int8"), row["build"]))
    page.write_text(json.dumps(rows, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    print(name, build, flush=True)


def kept(record: Any) -> dict[str, Any]:
    """Return what a build keeps of its float file."""
    scores = {key: entry["scores"][entry["headline"]] for key, entry in record["measures"].items()}
    return {
        "images": record["data"]["images"],
        "scores": {key: scores[key] for key in ("overlap@10", "cosine", "cosine_below", "cosine_disturbed")},
        "threshold": record["measures"].get("threshold", {}).get("scores"),
        "causes": [cause["name"] for cause in record["diagnosis"]["causes"]],
        "passed": record["passed"],
    }


def found(record: Any) -> dict[str, Any]:
    """Return what an attack found of a build and its float file."""
    measures = ("disagreement_radius", "breaking_radius", "cosine_attacked")
    return {
        "images": record["attacked"]["images"],
        "gradients": record["attacked"]["gradients"],
        "scores": {key: record["measures"][key]["scores"] for key in measures},
    }


def builds(name: str, folder: Path) -> Iterator[tuple[str, Callable[[], str]]]:
    """Yield each build of a network with what gives its spec, and makes its file where that is missing."""
    network = NETWORKS[name]
    source, words = DATA / "real" / network.file, network.words
    ready = {
        "ONNX Runtime": f"ort:{source}?{words}",
        "ONNX Runtime, graph as it is": f"ort:{source}?{words}&optimisation=off",
        "OpenVINO": f"openvino:{source}?{words}&precision=f32",
    }
    if network.lite:
        ready["LiteRT"] = f"tflite:{DATA / 'real' / network.lite}?{words}"
    for build, spec in ready.items():
        yield build, partial(str, spec)
    made = {
        "int8, dynamic": lambda target: quantization.quantize_dynamic(source, target),
        "int8, per tensor, calibrated on noise": static(source, network, lambda: noise(network), False),
        "int8, per tensor": static(source, network, lambda: calibration(network), False),
        "int8, per channel": static(source, network, lambda: calibration(network), True),
    }

    def spec_of(build: str, more: str = "") -> str:
        target = folder / f"{name} {build.replace(', ', '-').replace(' ', '-')}.onnx"
        if not target.exists():
            made[build](target)
        return f"ort:{target}?{words}{more}"

    for build in made:
        yield build, partial(spec_of, build)
    yield "int8, per channel, graph as it is", partial(spec_of, "int8, per channel", "&optimisation=off")


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


def calibration(network: Network) -> Iterator[np.ndarray]:
    """Yield batches of photos, normalised."""
    images = open_images(str(DATA / "photos")).with_geometry(Geometry((network.size, network.size)))
    for start in range(len(images) - CALIBRATED, len(images), 8):
        x: torch.Tensor = images.batch(start, start + 8)
        yield ((x - network.mean) / network.std).numpy()


if __name__ == "__main__":
    main()
