"""`holdfast.compare_index`: a new encoder in the place of the one behind an index, from Python."""

import os
import shutil
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from holdfast.api import Data, Model, Numbers, _encoders, _listener, _run_folder, _source
from holdfast.core import Encoder, HoldfastError
from holdfast.report.document import Document
from holdfast.report.documents.index_upgrade import document
from holdfast.report.index_upgrade import publish
from holdfast.report.media import Shown
from holdfast.runtime.checked import check_arguments
from holdfast.storage import index_upgrade as stored
from holdfast.storage.entry import as_json
from holdfast.workflows.compare_index.plan import IndexPlan
from holdfast.workflows.compare_index.run import compare_index as run
from holdfast.workflows.monitor.snapshot import isolate_global_state


class IndexRecord(Shown, dict[str, Any]):
    """What a comparison of two encoders of an index found: the JSON data of `index.json`, which print themselves.

    Args:
        record: what was found.
    """

    def __init__(self, record: stored.IndexRecord):
        # Readers index it as what index.json holds
        super().__init__(as_json(record))
        self._record = record

    def _document(self) -> Document:
        return document(self._record)


@check_arguments
def compare_index(
    old: Model,
    new: Model,
    data: Data,
    *,
    mean: Numbers | None = None,
    std: Numbers | None = None,
    labels: Tensor | np.ndarray | Sequence[int] | None = None,
    images: int | None = None,
    k: Sequence[int] = (1, 5, 10),
    divergence: str = "l2",
    rate: float | None = None,
    threshold: float | None = None,
    canaries: str | os.PathLike[str] | None = None,
    edits: bool = False,
    require: Sequence[str] = (),
    seed: int = 0,
    device: str | torch.device | None = None,
    batch_size: int | None = None,
    skip_corrupt: bool = False,
    out: str | os.PathLike[str] | None = None,
    quiet: bool = False,
) -> IndexRecord:
    """Compare the encoder behind an index of images with its successor; the same as `holdfast compare-index`.

    Each encoder sees the pictures its own way: sizes, normalisation and dimensions may differ. One pass for each image
    and encoder, and with `edits` one more for each edit.

    Args:
        old: the encoder behind the index.
        new: the one that is to replace it.
        data: images of the index.
        mean: of bare networks, what the preprocessing of both subtracts; see `holdfast.audit`.
        std: what it divides by.
        labels: a class for each image of an array; with classes, it is told how search finds images of the same one.
        images: how many of the images; all where None.
        k: how many neighbours are looked at.
        divergence: how representations are compared, "l2", "cosine" or another symmetric one.
        rate: share of the pairs of different images that may match; 0.001 where None.
        threshold: instead, the old threshold: a distance of the old encoder below which two images match.
        canaries: a CSV file of pairs by image id: first,second,together or first,second,apart.
        edits: search and match edited copies of the images as well.
        require: what must hold, "overlap@10 > 90 %"; see `record["findings"]`.
        seed: which of the images.
        device: where to compute; where the (first) network is where None, "cpu" for specs.
        batch_size: images per encoder pass; by their size where None.
        skip_corrupt: leave out files that cannot be read, instead of stopping.
        out: folder of the record, the representations and the report; nothing is kept where None.
        quiet: show no progress.

    Returns:
        What `index.json` holds, see `holdfast.storage.index_upgrade.IndexRecord`. `record["passed"]` says whether all
        requirements are met and no canary is broken. Print it.

    Raises:
        HoldfastError: encoders or images that cannot be used, too few images for the neighbours or the rate, a
            threshold that no pair reaches, or canaries that cannot be read.
    """
    opened = _encoders([old, new], mean, std)
    networks = {name: network for name, network in opened.items() if isinstance(network, Encoder)}
    source, spec = _source("data", data, labels)
    if spec is None:
        raise HoldfastError("data: expected the images of an index, got None")
    first, second = (name if name in networks else str(network) for name, network in opened.items())
    usual = next(iter(networks.values())).device if networks else "cpu"
    plan = IndexPlan(
        first,
        second,
        spec,
        images=images,
        k=tuple(k),
        divergence=divergence,
        rate=rate,
        threshold=threshold,
        canaries=None if canaries is None else os.fspath(canaries),
        edits=edits,
        seed=seed,
        device=str(usual if device is None else device),
        batch_size=batch_size,
        skip_corrupt=skip_corrupt,
    )
    with _run_folder(out) as folder, isolate_global_state(), _listener(quiet) as bars:
        record = run(plan, folder, encoders=networks, source=source, requirements=require, listener=bars)
        if out is not None:
            publish(folder, record)
    if out is None:
        shutil.rmtree(folder, ignore_errors=True)
    return IndexRecord(record)
