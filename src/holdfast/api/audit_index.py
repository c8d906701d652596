"""`holdfast.audit_index`: one index by itself, from Python."""

import os
import shutil
from dataclasses import KW_ONLY, dataclass
from typing import Annotated, Any

import numpy as np
from torch import Tensor

from holdfast.api.compare_index import name_vectors
from holdfast.api.in_memory import listen, run_folder
from holdfast.core import Divergence
from holdfast.core.divergence import read_divergence
from holdfast.report.document import Document
from holdfast.report.documents.index_audit import document
from holdfast.report.index_audit import publish
from holdfast.report.render import Shown
from holdfast.runtime.option import Option, convert, takes
from holdfast.sources.vectors import Vectors
from holdfast.storage import index_audit as stored
from holdfast.storage.entry import as_json
from holdfast.workflows.audit_index.plan import VectorPlan
from holdfast.workflows.audit_index.request import VectorOptions
from holdfast.workflows.audit_index.run import audit_index as run


class VectorRecord(Shown, dict[str, object]):
    """What was found of an index: the JSON data of `index_audit.json`, which print themselves.

    Args:
        record: what was found.
    """

    def __init__(self, record: stored.IndexAudit):
        # Readers index it as what index_audit.json holds
        super().__init__(as_json(record))
        self._record = record

    def _document(self) -> Document:
        return document(self._record)


@dataclass(frozen=True)
class AuditIndex(VectorOptions):
    """What is asked in Python: vectors may be an array."""

    vectors: Annotated[str | np.ndarray | Tensor, Option("The vectors, an array or a tensor [N, D], or vectors:FILE.")]
    _: KW_ONLY
    divergence: str | Divergence | Any = "cosine"
    out: Annotated[str | os.PathLike[str] | None, Option("Folder of record and report.", default="a temporary one")] = (
        None
    )
    quiet: Annotated[bool, Option("Show no progress.")] = False
    overwrite: Annotated[bool, Option("Replace another audit in that folder.")] = False


@takes(AuditIndex)
def audit_index(asked: AuditIndex) -> VectorRecord:
    """Look at one index of vectors, of images, texts or anything else; the same as `holdfast audit-index`.

    Returns:
        What `index_audit.json` holds, see `holdfast.storage.index_audit.IndexAudit`. Print it.

    Raises:
        HoldfastError: vectors that cannot be read, too few of them for the neighbours, a folder that holds something.
    """
    # Arrays are kept by the name that they get in the record
    held: dict[str, Vectors] = {}
    name = name_vectors(asked.vectors, held)
    # A function is registered under its name
    divergence = asked.divergence if isinstance(asked.divergence, str) else str(read_divergence(asked.divergence))
    request = convert(asked, VectorPlan, vectors=name, divergence=divergence)
    with run_folder(asked.out) as folder, listen(asked.quiet) as bars:
        record = run(request, folder, vectors=held.get(name), listener=bars, overwrite=asked.overwrite)
        if asked.out is not None:
            publish(folder, record)
    # Nobody could look into a folder that has no name
    if asked.out is None:
        shutil.rmtree(folder, ignore_errors=True)
    return VectorRecord(record)
