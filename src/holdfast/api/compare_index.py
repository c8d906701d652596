"""`holdfast.compare_index`: a new encoder instead of the one behind an index, from Python."""

import os
import shutil
from collections.abc import Callable
from dataclasses import KW_ONLY, dataclass
from typing import Annotated, Any

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
from holdfast.core import Divergence, Encoder, HoldfastError
from holdfast.core.divergence import read_divergence
from holdfast.report.document import Document
from holdfast.report.documents.index_upgrade import document
from holdfast.report.index_upgrade import publish
from holdfast.report.render import Shown
from holdfast.runtime.option import Option, convert, takes
from holdfast.storage import index_upgrade as stored
from holdfast.storage.entry import as_json
from holdfast.workflows.compare_index.plan import IndexPlan
from holdfast.workflows.compare_index.request import IndexOptions
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

    @property
    def status(self) -> int:
        """The exit status of the command: 0 where all requirements are met and no canary is broken."""
        return self._record.status

    def _document(self) -> Document:
        return document(self._record)


@dataclass(frozen=True)
class CompareIndex(Kept, IndexOptions, InMemory):
    """What a comparison is asked in Python: networks and images may be objects."""

    old: Annotated[Model, Option("The encoder behind the index.")]
    new: Annotated[Model, Option("The one that is to replace it.")]
    data: Annotated[Data, Option("Images of the index, see `holdfast.audit`.")]
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
    # One spec beside itself is one encoder, and a question all the same
    alone = isinstance(asked.old, str) and asked.old == asked.new
    opened = open_encoders([asked.old] if alone else [asked.old, asked.new], asked.mean, asked.std)
    networks = {name: network for name, network in opened.items() if isinstance(network, Encoder)}
    source, spec = open_source("data", asked.data, asked.labels)
    if spec is None:
        raise HoldfastError("data: expected the images of an index, got None")
    first, *rest = (name if name in networks else str(network) for name, network in opened.items())
    plan = convert(
        asked,
        IndexPlan,
        old=first,
        new=rest[0] if rest else first,
        data=spec,
        # A function is registered under its name
        divergence=asked.divergence if isinstance(asked.divergence, str) else str(read_divergence(asked.divergence)),
        canaries=None if asked.canaries is None else os.fspath(asked.canaries),
        device=choose_device(asked.device, opened),
    )
    with run_folder(asked.out) as folder, isolate_global_state(), listen(asked.quiet) as bars:
        record = run(plan, folder, encoders=networks, source=source, overwrite=asked.overwrite, listener=bars)
        if asked.out is not None:
            publish(folder, record)
    if asked.out is None:
        shutil.rmtree(folder, ignore_errors=True)
    return IndexRecord(record)
