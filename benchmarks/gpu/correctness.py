"""The records of the device beside those of the CPU: every profile on digits, and two random networks."""

import math
from collections.abc import Iterator, Mapping
from functools import partial
from typing import Any

import holdfast
from benchmarks.gpu.device import Device
from benchmarks.gpu.row import Finding
from benchmarks.gpu.task import Task
from holdfast.auditing.profile_files import profile_names
from holdfast.numerics.statistics.score import Score
from holdfast.runtime.errors import Failed
from holdfast.storage.record import MeasureEntry

LIMIT = 0.05
"""Most by which a score may differ, as a share of the larger: float32 sums are rounded otherwise, and a step of an
attack whose gradient is near 0 then turns."""

OF_FILES = ("image_text",)
"""Profiles that need files of the user."""

DRAWN = ("probabilistic", "smoothed", "worst_noise", "robustness", "failure", "pair", "center", "covered")
"""Words in the names of measures whose noise is drawn on the device: other numbers, so their intervals must meet."""

DIGITS, TRAIN = ("zoo:digits-simclr", "digits?part=heldout"), "digits?part=train"
NETWORKS = ("zoo:resnet18_32", "zoo:vit_tiny_p8_32")
OF_PATCHES, NOISE = "zoo:resnet18_32?layer=layer3&pool=none", "gaussian?shape=3x32x32"


def first(device: Device) -> Iterator[Task]:
    """Yield the task of the profile `quick`."""
    yield _task(device, *DIGITS, "quick")


def others(device: Device) -> Iterator[Task]:
    """Yield tasks for the other profiles, and for two random networks by the profile `quick`."""
    for network in NETWORKS if device.is_gpu else NETWORKS[1:]:
        yield _task(device, network, NOISE, "quick")
    for name in profile_names() if device.is_gpu else ["contrastive"]:
        if name not in (*OF_FILES, "quick"):
            yield _task(device, *((OF_PATCHES, NOISE) if name == "dense" else DIGITS), name)


def _task(device: Device, encoder: str, data: str, profile: str) -> Task:
    name = f"{profile}, {encoder.removeprefix('zoo:')}"
    return Task("correctness", name, partial(_compare, device, encoder, data, profile))


def _compare(device: Device, encoder: str, data: str, profile: str) -> Finding:
    sizes: dict[str, Any] = {"images": 40, "attacked": 2, "examined": 1, "queries": 4, "budget": "none"}
    if data == DIGITS[1]:
        sizes |= {"train": TRAIN, "train_images": 200}  # for probes
    if profile == "transfer":
        sizes["surrogates"] = "zoo:digits-supervised"
    records = []
    for place in (device.name, "cpu"):
        record = holdfast.audit(encoder, data, profile=profile, device=place, quiet=True, **sizes)
        records.append((record.run.record.encoders[0].measures, record.failures))
    (there, failed), (here, _) = records
    if failed:
        raise Failed(f"failures: {'; '.join(failed)[:150]}")
    apart = list(scores_apart(there, here))
    most, where = max(apart, key=lambda pair: pair[0])
    found = f"{len(apart)} scores, apart {most:.2g}{where if most else ''}"
    return Finding(found, f"≤ {LIMIT}", most <= LIMIT, {"scores": len(apart), "apart": most})


def scores_apart(there: Mapping[str, MeasureEntry], here: Mapping[str, MeasureEntry]) -> Iterator[tuple[float, str]]:
    """Yield how far each score is from that of the CPU, and whose it is; inf where one of both is missing."""
    for measure in there.keys() | here.keys():
        ours, theirs = (record[measure].scores if measure in record else {} for record in (there, here))
        for title in ours.keys() | theirs.keys():
            label = f" ({measure}: {title})"
            if title not in ours or title not in theirs:
                yield math.inf, label
            elif any(word in measure for word in DRAWN):
                yield (0.0 if _meet(ours[title], theirs[title]) else math.inf), label
            else:
                yield _distance(ours[title].value, theirs[title].value), label


def _distance(a: float | None, b: float | None) -> float:
    if a == b or a is None or b is None:
        return 0.0 if a == b else math.inf
    return abs(a - b) / max(abs(a), abs(b))


def _meet(a: Score, b: Score) -> bool:
    """Whether two intervals have a point in common; scores without one are not compared."""
    if a.low is None or a.high is None or b.low is None or b.high is None:
        return True
    return max(a.low, b.low) <= min(a.high, b.high)
