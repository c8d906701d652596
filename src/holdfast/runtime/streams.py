"""The standard streams of a command, closed, full or left by whoever reads: no answer is lost without a word."""

import io
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any, TextIO

from holdfast.runtime.errors import os_reason
from holdfast.runtime.exit_status import ExitStatus
from holdfast.runtime.foreign import Ended

_answers: TextIO | None = None
_lost: OSError | None = None


class Answer(io.TextIOWrapper):
    """A stream for answers: where it cannot be written, that is noted, and the command goes on."""

    def write(self, text: str, /) -> int:
        """Write text; raise where whoever reads has gone."""
        with _noting():
            return super().write(text)
        return len(text)

    def flush(self) -> None:
        """Write what is held; raise where whoever reads has gone."""
        with _noting():
            super().flush()


class Remark(io.TextIOWrapper):
    """A stream for what nobody needs to read: where it cannot be written, it is left out."""

    def write(self, text: str, /) -> int:
        """Write text, or not."""
        with suppress(OSError):
            return super().write(text)
        return len(text)

    def flush(self) -> None:
        """Write what is held, or not."""
        with suppress(OSError):
            super().flush()


@contextmanager
def _noting() -> Iterator[None]:
    global _lost
    try:
        yield
    except BrokenPipeError:
        raise
    except OSError as error:
        _lost = _lost or error


def stand_in() -> None:
    """Put something into the place of streams that are closed, before a file that is opened gets their number.

    What is written to such a stdout is lost, and `settle` says so; what is said on such a stderr is left out.
    """
    global _lost
    _lost = None
    # stdout is opened for reading, so that to write fails and is noted; what stderr gets is left out
    for number, flags in enumerate((os.O_RDONLY, os.O_RDONLY, os.O_WRONLY)):
        # In rising order, since what is opened takes the lowest free number
        try:
            os.fstat(number)
        except OSError:
            _point(number, flags)
    sys.stdout = _wrap_stream(sys.stdout, Answer, os.O_RDONLY)
    sys.stderr = _wrap_stream(sys.stderr, Remark, os.O_WRONLY)


def settle(status: int, say: Callable[[str], object]) -> int:
    """Return the status of a command once all that it answers is written: never 0 where some of it is lost."""
    try:
        sys.stdout.flush()
    except BrokenPipeError:
        # A failure of the command says more than a reader who left
        status = status or ExitStatus.PIPE
        _forget(sys.stdout)
    if _lost is None:
        return status
    _forget(sys.stdout)
    say(f"the answer could not be written to standard output: {os_reason(_lost)}")
    return status or ExitStatus.NOTHING


@contextmanager
def answering(point: Callable[[Any], object]) -> Iterator[None]:
    """Keep stdout for the answer; prints of other code go to stderr, also below Python and in processes that it starts.

    Args:
        point: tells whatever prints the answer where to; None: where everything goes.
    """
    global _answers
    real, low, done = sys.stdout, None, False
    with suppress(OSError, ValueError, AttributeError):
        # Only the process's own streams: pytest and notebooks put others in their place
        if real.fileno() == 1 and sys.stderr.fileno() == 2:
            real.flush()
            # `low` is the real stdout, and its number leads to stderr, for code below Python too
            low = os.dup(1)
            os.dup2(2, 1)
    answers = real
    if low is not None:
        # `low` is closed below, and not with this file
        held, lines = os.fdopen(low, "wb", closefd=False), os.isatty(low)
        answers = Answer(held, real.encoding, real.errors, line_buffering=lines)
    point(answers)
    sys.stdout, _answers = sys.stderr, answers
    try:
        yield
        done = True
    finally:
        sys.stdout, _answers = real, None
        try:
            answers.flush()
        except BrokenPipeError:
            if done:  # else what ends the command says more
                raise Ended(ExitStatus.UNMET)  # noqa: B904 the command line looks for the pipe that broke
        finally:
            if low is not None:
                # Before it is closed, or what could not be written would be tried again
                _forget(answers)
                os.dup2(low, 1)
                os.close(low)
            point(None)


def write_answer(data: bytes) -> None:
    """Write bytes where the answer of a command goes."""
    stream = _answers or sys.stdout
    stream.flush()
    if isinstance(stream, io.TextIOWrapper):
        stream.buffer.write(data)
        stream.buffer.flush()
    else:
        stream.write(data.decode(errors="replace"))


def _wrap_stream(stream: TextIO | None, kind: type[io.TextIOWrapper], flags: int) -> TextIO:
    """Return a stream of a kind instead of a usual one, or of none; one that somebody has replaced stays."""
    if stream is None:
        return kind(os.fdopen(os.open(os.devnull, flags), "wb"), "utf-8", "backslashreplace")
    if type(stream) is not io.TextIOWrapper:
        return stream
    return kind(stream.buffer, stream.encoding, stream.errors, line_buffering=stream.line_buffering)


def _forget(stream: TextIO) -> None:
    """Let what a stream still holds go nowhere, or Python would try to write it once more."""
    # The number leads nowhere while what is held is flushed, and then back
    with suppress(OSError, ValueError):
        number = os.dup(stream.fileno())
        try:
            _point(stream.fileno(), os.O_WRONLY)
            stream.flush()
        finally:
            os.dup2(number, stream.fileno())
            os.close(number)


def _point(number: int, flags: int) -> None:
    """Let a stream lead nowhere: to be read, to be written, or neither, where it is opened for the other."""
    handle = os.open(os.devnull, flags)
    if handle != number:
        os.dup2(handle, number)
        os.close(handle)
