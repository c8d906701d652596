"""What came out of the audit of one encoder, and why parts of it could not be had; can be sent to other processes."""

import traceback
from dataclasses import dataclass, field

from holdfast.core import HoldfastError, Measure, Score
from holdfast.runtime.errors import Failed, NotCertified, first_line
from holdfast.storage.record import EncoderEntry


@dataclass(frozen=True)
class ItemError:
    """Why a work item could not be done; can be sent to other processes.

    Attributes:
        reason: in one sentence.
        trace: the traceback of what should not have failed.
        not_certified: whether it is that nothing can be proved, which is no fault.
        shard: the number of the shard that was to be made.
        code: the kind of error; what raised none of ours has failed.
    """

    reason: str
    trace: str = ""
    not_certified: bool = False
    shard: int = 0
    code: str = Failed.code

    @classmethod
    def of(cls, error: Exception, shard: int = 0) -> "ItemError":
        """Return an error in one sentence; of what is not a plain request that fails, keep the traceback."""
        if isinstance(error, HoldfastError):
            return cls(str(error), "", isinstance(error, NotCertified), shard, error.code)
        trace = "".join(traceback.format_exception(error))
        return cls(f"{type(error).__name__}: {first_line(error)}", trace, False, shard)


@dataclass(frozen=True)
class EncoderResult:
    """What came out of an encoder's audit.

    Attributes:
        entry: its entry in the record.
        failures: one sentence for everything that failed.
        log: tracebacks of what should not have failed.
        scored: the file of the table and the headline score of each measure that succeeded, for the comparison.
        reduced: the measures of which entries of lists were left out, as they were scored.
        resumed: how many shards an earlier run had stored.
        remade: how many of them were of no use, and were made again.
    """

    entry: EncoderEntry
    failures: list[str] = field(default_factory=list)
    log: str = ""
    scored: dict[str, tuple[str, Score]] = field(default_factory=dict)
    reduced: dict[str, Measure] = field(default_factory=dict)
    resumed: int = 0
    remade: int = 0


def make_failed_result(name: str, slug: str, error: ItemError) -> EncoderResult:
    """Return the result of an encoder that could not be opened, or died with its worker."""
    entry = EncoderEntry(name=name, slug=slug, error=error.reason, error_code=error.code)
    return EncoderResult(entry, failures=[at(name, error)], log=format_log(name, error))


def at(where: str, error: ItemError) -> str:
    """Return a failure in one sentence that begins with where it was."""
    return error.reason if error.reason.startswith(where) else f"{where}: {error.reason}"


def format_log(where: str, error: ItemError) -> str:
    """Return what the log says of a failure."""
    return f"--- {where}\n{error.trace}\n" if error.trace else ""
