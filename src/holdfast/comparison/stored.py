"""What an audit observed of all its images, read back from the cache of its run folder."""

import re
from typing import Any

import torch
from torch import Tensor

from holdfast.comparison.records import Audited
from holdfast.core import Observation, registry
from holdfast.runtime.errors import UnreadableRecord
from holdfast.storage.filesystem import Folder
from holdfast.storage.run_folder import read_tensors
from holdfast.storage.seal import SHARD

_FOLDER = re.compile(r"cache/[0-9a-f]+")
_SPAN = re.compile(r"(\d+)-(\d+)")


def load_observation(encoder: Audited, observation: Observation) -> dict[str, Tensor] | None:
    """Return what an observation of all images saw, [images, ...] each; None where the audit did not make it.

    No pass is made. Every file is held against its seal.
    """
    spec = registry.spec(observation)
    entry = next((entry for entry in encoder.entry.observations if entry.part == spec), None)
    if entry is None:
        return None
    folder = str(entry.shards)
    if not _FOLDER.fullmatch(folder):
        raise _build_error(encoder, observation, "the record does not say where they are")
    files = _spans(encoder.run.folder, folder)
    parts: list[dict[str, Tensor]] = []
    start, images = 0, encoder.run.record.data.images
    while start < images:
        stop = max((stop for stop in files.get(start, {}) if stop <= images), default=None)
        if stop is None:
            raise _build_error(encoder, observation, f"{folder} has none of image {start}")
        stored = read_tensors(encoder.run.folder, files[start][stop])
        if stored is None or any(len(rows) != stop - start for rows in stored[0].values()):
            raise _build_error(encoder, observation, f"{files[start][stop]} is damaged")
        parts.append(stored[0])
        start = stop
    return {key: torch.cat([part[key] for part in parts]) for key in parts[0]}


def _spans(files: Folder, folder: str) -> dict[int, dict[int, str]]:
    """Return the shards of a folder: first image -> last image (exclusive) -> file."""
    spans: dict[int, dict[int, str]] = {}
    try:
        names = files.files(folder)
    except OSError:
        names = []
    for name in names:
        if match := _SPAN.fullmatch(name.removeprefix(f"{folder}/").removesuffix(SHARD)):
            spans.setdefault(int(match[1]), {})[int(match[2])] = name
    return spans


def _build_error(encoder: Audited, observation: Any, why: str) -> UnreadableRecord:
    return UnreadableRecord(
        f"expected {observation.title} of {encoder.entry.name!r} in the cache of {encoder.run.place!r}, but {why}; "
        "keep the folder `cache` beside the record, or run the audit again"
    )
