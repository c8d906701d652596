"""What is asked of one index: by its command, and in Python."""

from dataclasses import KW_ONLY, dataclass
from typing import Annotated, Any, ClassVar

from holdfast.auditing.request import Seed
from holdfast.runtime.checked import Checked, Count
from holdfast.runtime.option import Option


@dataclass(frozen=True, kw_only=True)
class VectorOptions(metaclass=Checked):
    """What can be asked of an index, whatever its vectors are given as."""

    called: ClassVar[str] = "audit_index"

    k: Annotated[Count, Option("Neighbours in a list.")] = 10
    similar: Annotated[float, Option("Cosine from which on two items are near-duplicates.")] = 0.95
    rate: Annotated[float, Option("Share of false positives at which the threshold is set.")] = 1e-3
    divergence: Annotated[Any, Option("By what items are near: cosine, l2, dot, hamming or another symmetric one.")] = (
        "cosine"
    )
    queries: Annotated[
        Count | None, Option("Items that are compared with each other.", default="as many as take some seconds")
    ] = None
    require: Annotated[
        tuple[str, ...], Option("'hubs < 10 %': what the index must hold, as for check; repeatable.")
    ] = ()
    seed: Seed = 0


@dataclass(frozen=True)
class VectorRequest(VectorOptions):
    """What is asked in text."""

    vectors: Annotated[str, Option("The vectors, vectors:FILE.", argument=True)]
    _: KW_ONLY
    divergence: str = "cosine"
