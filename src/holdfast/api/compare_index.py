"""`holdfast.compare_index`: a new encoder instead of the one behind an index, from Python."""

import os
import shutil
from collections.abc import Callable
from dataclasses import KW_ONLY, dataclass
from typing import Annotated, Any

import numpy as np
from torch import Tensor

from holdfast.api.in_memory import (
    Data,
    InMemory,
    Kept,
    Model,
    choose_device,
    listen,
    open_encoders,
    open_source,
    run_folder,
)
from holdfast.core import Divergence, Encoder
from holdfast.core.divergence import read_divergence
from holdfast.report.document import Document
from holdfast.report.documents.index_upgrade import document
from holdfast.report.index_upgrade import publish
from holdfast.report.render import Shown
from holdfast.runtime.option import Option, convert, takes
from holdfast.sources.vectors import Vectors, is_stored
from holdfast.sources.vectors.files import of_array
from holdfast.sources.vectors.open import PREFIX
from holdfast.sources.vectors.vectors import number_rows
from holdfast.storage import index_upgrade as stored
from holdfast.storage.entry import as_json
from holdfast.workflows.compare_index.plan import IndexPlan
from holdfast.workflows.compare_index.request import IndexOptions
from holdfast.workflows.compare_index.run import compare_index as run
from holdfast.workflows.monitor.snapshot import isolate_global_state


def name_vectors(side: Any, vectors: dict[str, Vectors]) -> Any:
    """Return how a side is called in a plan, where it is an array of vectors, which is kept; else the side itself."""
    if not isinstance(side, np.ndarray | Tensor):
        return side
    title = f"{PREFIX}array {list(side.shape)}"
    name = f"{title} {len(vectors) + 1}" if title in vectors else title
    values = side.detach().cpu() if isinstance(side, Tensor) else of_array(side, name)
    vectors[name] = Vectors(name, values, number_rows(len(values)), numbered=True)
    return name


class IndexRecord(Shown, dict[str, Any]):
    """What a comparison of two encoders of an index found: the JSON data of `index.json`, which print themselves.

    Args:
        record: what was found.
    """

    def __init__(self, record: stored.IndexRecord):
        # Readers index it as what index.json holds
        super().__init__(as_json(record))
        self._record = record

    @property
    def status(self) -> int:
        """The exit status of the command: 0 where all requirements are met and no canary is broken."""
        return self._record.status

    def _document(self) -> Document:
        return document(self._record)


Side = Model | np.ndarray | Tensor
"""An encoder, or vectors."""


@dataclass(frozen=True)
class CompareIndex(Kept, IndexOptions, InMemory):
    """What a comparison is asked in Python: networks and images may be objects."""

    old: Annotated[Side, Option("The encoder behind the index; or what it holds, an array [N, D] or vectors:FILE.")]
    new: Annotated[Side, Option("The one that is to replace it; or vectors.")]
    data: Annotated[Data, Option("Images of the index, see `holdfast.audit`; None for two sides of vectors.")] = None
    _: KW_ONLY
    divergence: str | Divergence | Callable[..., Any] = "l2"
    canaries: str | os.PathLike[str] | None = None
    overwrite: Annotated[bool, Option("Replace another comparison in that folder.")] = False


@takes(CompareIndex)
def compare_index(asked: CompareIndex) -> IndexRecord:
    """Compare the encoder behind an index of images with its successor; the same as `holdfast compare-index`.

    Each encoder sees the pictures its own way: sizes, normalisation and dimensions may differ. One pass for each image
    and encoder, and with `edits` one more for each edit.

    Returns:
        What `index.json` holds, see `holdfast.storage.index_upgrade.IndexRecord`. `record["passed"]` says whether all
        requirements are met and no canary is broken. Print it.

    Raises:
        HoldfastError: encoders or images that cannot be used, too few images for the neighbours or the rate, a
            threshold that no pair reaches, canaries that cannot be read, or a folder that holds another comparison.
    """
    vectors: dict[str, Vectors] = {}
    sides = [name_vectors(side, vectors) for side in (asked.old, asked.new)]
    # One spec beside itself is one encoder, and a question all the same
    alone = isinstance(sides[0], str) and isinstance(sides[1], str) and sides[0] == sides[1]
    shown = [side for side in (sides[:1] if alone else sides) if not is_stored(side)]
    opened = open_encoders(shown, asked.mean, asked.std)
    networks = {name: network for name, network in opened.items() if isinstance(network, Encoder)}
    source, spec = open_source("data", asked.data, asked.labels)
    rest = iter(name if name in networks else str(network) for name, network in opened.items())
    first = sides[0] if is_stored(sides[0]) else next(rest)
    second = first if alone else sides[1] if is_stored(sides[1]) else next(rest)
    plan = convert(
        asked,
        IndexPlan,
        old=first,
        new=second,
        data=spec or "",
        # A function is registered under its name
        divergence=asked.divergence if isinstance(asked.divergence, str) else str(read_divergence(asked.divergence)),
        canaries=None if asked.canaries is None else os.fspath(asked.canaries),
        device=choose_device(asked.device, opened),
    )
    with run_folder(asked.out) as folder, isolate_global_state(), listen(asked.quiet) as bars:
        record = run(
            plan, folder, encoders=networks, vectors=vectors, source=source, overwrite=asked.overwrite, listener=bars
        )
        if asked.out is not None:
            publish(folder, record)
    if asked.out is None:
        shutil.rmtree(folder, ignore_errors=True)
    return IndexRecord(record)
