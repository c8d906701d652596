"""The errors that users meet, a kind for each thing to do about one, and sentences for what goes wrong often."""

import errno
import re
from collections.abc import Iterable, Mapping
from copy import copy
from typing import ClassVar, Self, TypeVar

from holdfast.runtime.exit_status import ExitStatus
from holdfast.runtime.guess import nearest

T = TypeVar("T")

_COLOURS = re.compile(r"\x1b\[[0-9;]*m")


class HoldfastError(Exception):
    """A request that cannot be answered: what was expected, what came, and what to do, in one line.

    Each is of a kind below, told apart by what is to be done; catch this one to catch all.

    Attributes:
        code: the name of the kind, which stays while sentences change; "error" where foreign code names none.
        status: with which it ends a command.
    """

    code: ClassVar[str] = "error"
    status: ExitStatus = ExitStatus.USAGE

    def retell(self, message: str) -> Self:
        """Return an error of the same kind with another message: where it was met, or what else helps."""
        # Not made anew: a class may be made of something else than its message
        again = copy(self)
        again.args = (message,)
        return again


class UnknownName(HoldfastError):
    """A name that is none of those known: take one of the list.

    For example: unknown layout 'NHWD'; did you mean 'NHW'? known: NCHW, NHW, NHWC
    """

    code = "unknown-name"


class BadValue(HoldfastError):
    """A value of the wrong type or form, out of its range, or given twice: give another.

    For example: budget: expected a time such as 90s, 30m or 1h30m, got '2 minutes'
    """

    code = "bad-value"


class Conflict(HoldfastError):
    """Options that exclude each other, each of which is fine by itself: leave one out.

    For example: rate and threshold: expected one of them, for each says what the other is, got both; leave one out
    """

    code = "conflict"


class Ambiguous(HoldfastError):
    """Several things that may be meant: say which.

    For example: x.npz: expected an array called 'images', found x_train, x_test; choose with ?key=NAME
    """

    code = "ambiguous"


class Missing(HoldfastError):
    """What is needed was not given, or is not there, as a file, a package, an option, labels: give it.

    For example: data: expected the images of an index, which an encoder represents, got none; give --data, or
    vectors:FILE for both sides
    """

    code = "missing"


class NotEnough(HoldfastError):
    """Too little of what is there, as images, classes, seeds, memory, time: give more, or ask for less.

    For example: expected at least 2 readable images, got 1 in array: 5 images; 4 look like others and were left out
    """

    code = "not-enough"


class BadData(HoldfastError):
    """Data that cannot be read, or are not what they should be, as a file, a table, a picture: repair them.

    For example: x.npy: expected pixels in [0, 1], got 0 to 255; divide 0-255 floats by 255, or store them as uint8
    """

    code = "bad-data"


class BadPlace(HoldfastError):
    """A place that cannot take what is to go there: no such folder, or another run in it. Take another.

    For example: expected the name of a file to write, got '..'; give one such as table.csv
    """

    code = "bad-place"


class Mismatch(HoldfastError):
    """Two things that do not fit each other, as an encoder and images, or two runs: change one of them.

    For example: encoder 'zoo:digits-simclr' takes 1 channels; the images have 3; add ?channels=1 to the data spec
    to convert them
    """

    code = "mismatch"


class Unsupported(HoldfastError):
    """What a part cannot do with such an encoder, such images or such a device: take another, or leave it out.

    For example: hue: expected images with 3 channels, got 1; grey images have no hue: leave this noise out
    """

    code = "unsupported"


class NotFinite(HoldfastError):
    """Numbers of which some are NaN or infinite: look for what makes them so.

    For example: image '000003' holds NaN or infinite pixels; repair or remove it; --skip-corrupt (in Python
    skip_corrupt=True) leaves unreadable files out
    """

    code = "not-finite"


class Failed(HoldfastError):
    """Code or a service that Holdfast calls, or a part of what was asked, did not do its work: mend what is named.

    For example: encoder 'net': expected a real [2, dim] output, got torch.float32 [2], one number per image; where
    that is meant, return output[:, None]
    """

    code = "failed"


class NothingAudited(Failed):
    """An audit from which no number came: no encoder could be opened or run."""

    status = ExitStatus.NOTHING


class UnreadableRecord(BadData):
    """A run folder whose record, tables or shards are not there, cannot be read, or are not what they should be."""

    status = ExitStatus.NOTHING


class Unwritable(BadPlace):
    """An answer that cannot be written where it should go: a full disk, no permission, a stream that is closed."""

    status = ExitStatus.NOTHING


class NotCertified(Unsupported):
    """A network about which nothing can be proved; the message begins with "not certified:" and names the layer.

    It is an answer, not a fault: an audit reports it as such and goes on.
    """


def find_kinds() -> list[type[HoldfastError]]:
    """Return the kinds of errors, in their order here; what is derived from one of them has its code."""
    return [kind for kind in HoldfastError.__subclasses__() if "code" in vars(kind)]


def unknown(kind: str, name: str, choices: Iterable[str], meant: str = "") -> UnknownName:
    """Return the error for an unknown name: "did you mean", then the list (the nearest eight of a long one)."""
    names = sorted(choices)
    # What is listed may be farther away than what is offered as meant
    close = nearest(name, names, 8, 0.4)
    meant = meant or next(iter(nearest(name, close[:1])), "")
    hint = f"did you mean {meant!r}? " if meant else ""
    if len(names) <= 20:
        return UnknownName(f"unknown {kind} {name!r}; {hint}known: {', '.join(names)}")
    return UnknownName(f"unknown {kind} {name!r}; {hint}some of {len(names)}: {', '.join(close or names[:8])}")


def pick(kind: str, name: object, entries: Mapping[str, T]) -> T:
    """Return the entry of a name."""
    if not isinstance(name, str) or name not in entries:
        raise unknown(kind, str(name), entries)
    return entries[name]


def missing(package: str, extra: str, feature: str) -> Missing:
    """Return the error for an optional package that is not installed."""
    return Missing(f"{feature} needs the package {package!r}; install it with: {format_install(extra)}")


def format_install(extras: str, how: str = "") -> str:
    """Return the command that installs extras, in a checkout: no index of packages has Holdfast yet."""
    return f"pip install {how}-c constraints.txt '.[{extras}]'"


def no_labels(readers: str, images: str, unlabelled: Iterable[str] = (), problem: str = "") -> Missing:
    """Return the error for a measure that reads labels of images that have none."""
    spared = ", ".join(unlabelled)
    if problem:
        return Missing(
            f"{readers}: {problem}, or leave such measures out" + (f" (these need none: {spared})" if spared else "")
        )
    return Missing(
        f"{readers}: expected images with labels, got some or all without in {images}; use one folder per class, an "
        ".npz with 'labels', a labelled dataset (hf: with ?label=COLUMN), or leave such measures out"
        + (f" (these need none: {spared})" if spared else "")
    )


def no_relevance(readers: str, images: str) -> Missing:
    """Return the error for a measure that reads the judgments of a retrieval task, of images that are none."""
    return Missing(
        f"{readers}: expected the queries and the corpus of a retrieval task, got {images}; give --data "
        "retrieval:FOLDER, or take the measure retrieval, which needs no judgments"
    )


def first_line(error: Exception) -> str:
    r"""Return the first line of an error's message, of TorchScript's the last; its type where it has none.

    Colours, which torch writes for a terminal, are left out.

    Example:
        >>> first_line(RuntimeError("\x1b[1mno\x1b[0m, and more\nof it"))
        'no, and more'
    """
    lines = (_COLOURS.sub("", str(error)).strip() or type(error).__name__).splitlines()
    return lines[-1 if "TorchScript interpreter" in lines[0] else 0]


def describe_error(error: Exception) -> str:
    """Return an error in a line: ours as it is, others with their type."""
    return str(error) if isinstance(error, HoldfastError) else f"{type(error).__name__}: {first_line(error)}"


_REASONS = {
    errno.ENOSPC: "the disk is full; free some room and run the same command again",
    errno.EDQUOT: "your quota of the disk is used up; free some room and run the same command again",
    errno.EACCES: "no permission; change its rights or choose another place",
    errno.EPERM: "no permission; change its rights or choose another place",
    errno.EROFS: "the file system is read-only; choose another place",
    errno.ENOENT: "no such file or folder; check the path",
    errno.ENOTDIR: "part of its path is a file, not a folder; choose another place",
    errno.EISDIR: "it is a folder, not a file; give a file",
    errno.EEXIST: "a file is in its place; choose another place",
    errno.ENAMETOOLONG: "its name is too long; give a shorter one",
    errno.ELOOP: "its links lead in a circle; check the path",
    errno.EBADF: "it is closed; leave it open, or send it elsewhere",
    errno.EFBIG: "it is larger than the limit of a file (ulimit -f); raise the limit",
    errno.EIO: "the device reports a fault; check the disk",
    errno.EMFILE: "too many files are open; raise the limit (ulimit -n)",
}


def os_reason(error: BaseException) -> str:
    """Return the meaning of an error of the file system and what to do about it; else its first line."""
    number = getattr(error, "errno", None)
    if number is None and "No space left" in str(error):  # what libraries wrap
        number = errno.ENOSPC
    reason = _REASONS.get(number) if isinstance(number, int) else None
    return reason or getattr(error, "strerror", None) or (str(error).strip() or type(error).__name__).splitlines()[0]
