"""What a comparison of two encoders of one index is asked: by its command, and in Python."""

from dataclasses import KW_ONLY, dataclass
from typing import Annotated, Any, ClassVar

from holdfast.auditing.request import BatchSize, Calls, Device, Seed, SkipCorrupt
from holdfast.runtime.checked import Checked, Count
from holdfast.runtime.option import Option


@dataclass(frozen=True, kw_only=True)
class IndexOptions(metaclass=Checked):
    """What can be asked of a comparison, whatever its encoders and images are given as.

    What is `Any` here is text on the command line, and may be an object in Python.
    """

    called: ClassVar[str] = "compare_index"

    images: Annotated[int | None, Option("How many of the images.", default="all")] = None
    k: Annotated[tuple[Count, ...], Option("Neighbours to look at; repeatable.")] = (1, 5, 10)
    divergence: Annotated[
        Any, Option("By what images are near: l2, cosine, dot, hamming or another symmetric one.")
    ] = "l2"
    rate: Annotated[float | None, Option("Share of false positives at which thresholds are set.", default="0.001")] = (
        None
    )
    threshold: Annotated[
        float | None, Option("The old threshold instead of the rate: a distance, or for dot an inner product.")
    ] = None
    canaries: Annotated[
        Any, Option("CSV file of pairs by image id: first,second,together or first,second,apart.", metavar="FILE")
    ] = None
    edits: Annotated[bool, Option("Also search and match edited copies: JPEG, resizing, crops, light.")] = False
    same: Annotated[
        bool,
        Option(
            "Both are builds of one network: compare disturbed images too, say what makes them differ, and fail "
            "unless they keep more than 90 % of the neighbours, or what is required instead."
        ),
    ] = False
    attacked: Annotated[
        int,
        Option(
            "How many of the first images are attacked, for the smallest change on which both disagree; 110 to 260 "
            "passes each and side, 730 where neither has a gradient."
        ),
    ] = 0
    proved: Annotated[
        int,
        Option(
            "For how many of the first images it is proved how alike both stay within 1/255, and up to which change "
            "they agree; both networks must be torch's or ONNX files."
        ),
    ] = 0
    require: Annotated[
        tuple[str, ...],
        Option("'overlap@10 > 90 %': what the new encoder must hold, as for check; repeatable."),
    ] = ()
    queries: Annotated[
        Count | None,
        Option("Stored vectors whose neighbours are looked for.", default="as many as take about a minute"),
    ] = None
    device: Device = None
    seed: Seed = 0
    batch_size: BatchSize = None
    calls: Calls = None
    skip_corrupt: SkipCorrupt = False


@dataclass(frozen=True)
class IndexRequest(IndexOptions):
    """What a comparison is asked in text: encoders and images by their specs."""

    old: Annotated[
        str, Option("Encoder behind the index, or vectors:FILE, what it holds.", offers="encoders", argument=True)
    ]
    new: Annotated[str, Option("Encoder that is to replace it, or vectors:FILE.", offers="encoders", argument=True)]
    data: Annotated[str, Option("Images, see holdfast list data; none for two sides of vectors.", offers="data")] = ""
    _: KW_ONLY
    divergence: str = "l2"
    canaries: str | None = None
    device: str = "cpu"
