"""Hubs of real networks: as they are, made by the published objective and by ours, against defences, and proved.

    HOLDFAST_SHARED=folder python -m benchmarks.hubs FOLDER [--only NAME] [--page]

FOLDER keeps rows; what is there is not made again. `--page` writes `docs/hubs.json`.
"""

import argparse
import json
import os
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor

from holdfast.core import Images, PerImage, Reps, Rng, Shard
from holdfast.numerics.geometry.directions import unit
from holdfast.numerics.geometry.index import Index
from holdfast.numerics.geometry.rescaling import Rescaling
from holdfast.parts.attacks.apgd import Apgd
from holdfast.parts.divergences.cosine import Cosine
from holdfast.parts.failures.hub import Hub
from holdfast.parts.observations.entry_radii import EntryRadii
from holdfast.parts.rescalings.csls import Csls
from holdfast.parts.rescalings.local_scaling import LocalScaling
from holdfast.parts.rescalings.mutual_proximity import MutualProximity
from holdfast.parts.rescalings.plain import Plain
from holdfast.parts.threats.linf import Linf
from holdfast.sources.data import open_images
from holdfast.sources.encoders import open_encoder

PAGE = Path(__file__).parent.parent / "docs/hubs.json"
STEPS, CERTIFIED = 50, 1 / 255
RESCALINGS: dict[str, Rescaling] = {
    "csls": Csls(),
    "local scaling": LocalScaling(),
    "mutual proximity": MutualProximity(),
}
"""Defences against hubs."""


@dataclass(frozen=True)
class Case:
    """A network, its images, and how many of them are made hubs.

    Attributes:
        spec: of the encoder, below the shared folder.
        data: of the images.
        images: how many, all of them queries and index.
        hubs: how many of these are made hubs.
        epsilon: within which, ℓ∞.
        certified: whether it is small enough for bounds.
    """

    spec: str
    data: str
    images: int
    hubs: int
    epsilon: float
    certified: bool = True


CIFAR = "arrays:{data}/cifar10_test.npz"
CASES = {
    "CNN-A, adversarially trained": Case("onnx:{data}/real/cifar10_cnn_a_adv.onnx", CIFAR, 2000, 16, 8 / 255),
    "ResNet-2B, adversarially trained": Case("onnx:{data}/real/cifar10_resnet2b_adv.onnx", CIFAR, 2000, 16, 8 / 255),
    "MobileNetV1 ¼": Case(
        "onnx:{data}/real/imagenet_mobilenet_v1_025.onnx", "folder:{data}/photos", 500, 8, 4 / 255, certified=False
    ),
    "MobileNetV2": Case(
        "onnx:{data}/real/imagenet_mobilenet_v2_100.onnx", "folder:{data}/photos", 500, 4, 4 / 255, certified=False
    ),
}


def main() -> None:
    """Make the rows that are missing, and the page."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--only", default="")
    parser.add_argument("--page", action="store_true")
    options = parser.parse_args()
    data = Path(os.environ["HOLDFAST_SHARED"]) / "data"
    options.folder.mkdir(parents=True, exist_ok=True)
    torch.set_num_threads(1)
    rows = []
    for name, case in CASES.items():
        kept = options.folder / f"{case.spec.rpartition('/')[2]}.json"
        if not kept.exists() and options.only in name:
            kept.write_text(json.dumps(row(name, case, data)), encoding="utf-8")
        if kept.exists():
            rows.append(json.loads(kept.read_text(encoding="utf-8")))
            print(rows[-1], flush=True)
    if options.page:
        PAGE.write_text(json.dumps(rows, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


def row(name: str, case: Case, data: Path) -> dict[str, object]:
    """Return shares of searches that hubs take, on average over hubs, of queries that no search knew."""
    encoder = open_encoder(case.spec.format(data=data))
    images = open_images(case.data.format(data=data), images=case.images, geometry=encoder.geometry)
    x = images.batch(0, case.hubs)
    with torch.no_grad():
        parts = [encoder(images.batch(i, min(i + 50, case.images))) for i in range(0, case.images, 50)]
    clean, hosts = torch.cat(parts), torch.arange(case.hubs)
    shard = Shard(encoder, x, hosts, Rng(0, ids=tuple(images.ids[: case.hubs])), clean)
    ball, begun = Linf(case.epsilon), time.perf_counter()

    def make(value: Callable[[Reps], Tensor]) -> Tensor:
        def goal(moved: Images) -> tuple[PerImage, Reps]:
            reps = encoder(moved)
            return value(reps).float(), reps

        return Apgd(STEPS)(goal, x, ball, shard.rng).reps[STEPS].detach().double()

    def ours(rescaling: Rescaling) -> Tensor:
        event = Hub(queries="known", divergence=Cosine(), rescaling=rescaling).bind(shard)
        return make(lambda reps: event(reps[:, None], hosts).squeeze(1))

    def taken(reps: Tensor, rescaling: Rescaling) -> float:
        index = Index.of(clean, 1, Cosine(), rescaling)
        hits = index.apart(reps, hosts) < index.reach_without(hosts) - index.slack
        return float(hits[:, 1::2].double().mean())

    # The published objective: the mean similarity to the queries that are known
    middle = unit(clean[::2].double()).mean(0)
    usual, plain = make(lambda reps: unit(reps.double()) @ middle), ours(Plain())
    seconds = time.perf_counter() - begun
    index = Index.of(clean, 1, Cosine(), Plain())
    found: dict[str, object] = {
        "network": name,
        "images": case.images,
        "hubs": case.hubs,
        "epsilon": case.epsilon,
        "as they are": float(index.hold(hosts)[:, 1::2].double().mean()),
        "mean similarity": taken(usual, Plain()),
        "smooth count": taken(plain, Plain()),
        "seconds": seconds / 2 / case.hubs,
    }
    for title, rescaling in RESCALINGS.items():
        found[title] = taken(plain, rescaling)
        found[f"{title}, known"] = taken(ours(rescaling), rescaling)
    if case.certified:
        radius = EntryRadii(divergence=Cosine(), ball=Linf(CERTIFIED), probes=8).run(shard)["radius"]
        asked = radius.isfinite()
        found["proved"] = float((radius < CERTIFIED)[asked].double().mean())
        found["half"] = float(radius[asked].median())
    return found


if __name__ == "__main__":
    main()
