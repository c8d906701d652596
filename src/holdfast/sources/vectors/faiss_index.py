"""An index of FAISS: its vectors, and what it finds by itself where it is approximate."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from holdfast.core.ids import Ids
from holdfast.runtime.doors import regular
from holdfast.runtime.errors import BadData, first_line, os_reason
from holdfast.runtime.optional import optional
from holdfast.sources.vectors.vectors import PIECE, Search, number_rows, pour

SUFFIXES = (".faiss", ".index")

METRICS = {0: "inner product", 1: "ℓ2 distance"}


class Index(NamedTuple):
    """What an index holds; see `Vectors`."""

    values: Tensor
    ids: Sequence[str]
    numbered: bool
    search: Search | None
    note: str


def read_index(path: Path, settings: dict[str, int], spec: str) -> Index:
    """Return what an index holds.

    Args:
        path: the file.
        settings: of its search, by FAISS' names: nprobe, efSearch.
        spec: of the vectors, for errors.

    Raises:
        HoldfastError: faiss is not installed, a file that is no index of numbers, one whose vectors cannot be had
            again, or a setting that it does not have.
    """
    faiss = optional("faiss", "faiss-cpu", "faiss", spec)
    try:
        opened = faiss.read_index(str(regular(path)))
        given, inner, own = _ids(faiss, opened)
        for name, value in settings.items():
            faiss.ParameterSpace().set_index_parameter(inner, name, value)
        values = pour(_vectors(inner, own), str(path))
    except OSError as error:
        raise BadData(f"cannot read the index {str(path)!r}: {os_reason(error)}") from error
    except RuntimeError as error:  # all that FAISS raises
        raise BadData(f"cannot use the index {str(path)!r} ({first_line(error)}); see holdfast doctor") from error
    # Ids that are the numbers of the rows anyway say nothing more
    numbered = given is None or bool((given == np.arange(len(given))).all())
    ids = number_rows(len(values)) if numbered or given is None else Ids(map(str, given.tolist()))
    # What searches all vectors gives exact lists, which need no FAISS
    kind = type(inner).__name__
    if kind in ("IndexFlat", "IndexFlatL2", "IndexFlatIP"):
        return Index(values, ids, numbered, None, "")
    by = METRICS.get(int(inner.metric_type), "another metric")
    # Said in the notes, for lists depend on it
    settled = "".join(f", {name} {value}" for name, value in settings.items())
    return Index(
        values, ids, numbered, _searching(faiss, opened, inner, own), f"lists are what {kind} finds by {by}{settled}"
    )


def _ids(faiss: Any, opened: Any) -> tuple[np.ndarray | None, Any, np.ndarray | None]:
    """Return the ids of the vectors, the index behind these, and its own ids, where it has some, in rising order."""
    # A map of ids stands in front of the index that holds the vectors
    index, given = faiss.downcast_index(opened), None
    if type(index).__name__ in ("IndexIDMap", "IndexIDMap2"):
        given, index = faiss.vector_to_array(index.id_map), faiss.downcast_index(index.index)
    lists = faiss.try_extract_index_ivf(index)
    if lists is None:
        return given, index, None
    # vectors of an inverted file are where their lists are, and are found again by a map of their ids
    lists.set_direct_map_type(faiss.DirectMap.Hashtable)
    inverted = lists.invlists
    # The ids of each list, which are copied: what they point to is the index's own
    kept = [
        faiss.rev_swig_ptr(inverted.get_ids(number), inverted.list_size(number)).copy()
        for number in range(inverted.nlist)
        if inverted.list_size(number)
    ]
    own = np.sort(np.concatenate(kept)) if kept else np.zeros(0, np.int64)
    return own if given is None else given, index, own


def _vectors(index: Any, own: np.ndarray | None) -> Iterator[np.ndarray]:
    """Yield the vectors of an index, as its codes have them, some at a time."""
    # Some at a time: codes are smaller than the numbers that they stand for
    rows = max(1, PIECE // max(1, index.d))
    for start in range(0, index.ntotal, rows):
        stop = min(start + rows, index.ntotal)
        yield index.reconstruct_n(start, stop - start) if own is None else index.reconstruct_batch(own[start:stop])


def _searching(faiss: Any, owner: Any, index: Any, own: np.ndarray | None) -> Search:
    """Return what asks the index, and gives the rows that it finds; it keeps what was read, which owns the index."""

    def search(queries: Float[Tensor, "queries dim"], k: int) -> Int[Tensor, "queries k"]:
        assert owner is not None
        faiss.omp_set_num_threads(torch.get_num_threads())
        _, found = index.search(np.ascontiguousarray(queries.float().numpy()), k)
        # Positions of ids, in the order in which the vectors were read
        if own is not None:
            found = np.where(found < 0, -1, np.searchsorted(own, found))
        return torch.from_numpy(found)

    return search
