"""Who is told what an audit or a training is doing; the command line draws progress bars from it."""

from typing import Protocol, runtime_checkable


@runtime_checkable
class Listener(Protocol):
    """Told what an audit or a training is doing."""

    def begin(self, encoder: str, passes: int, unit: str = "passes") -> None:
        """Hear that work on an encoder begins, and how many passes, or what else the unit says, it will take."""
        ...

    def advance(self, passes: int) -> None:
        """Hear that so many have been made, or were found stored."""
        ...

    def stage(self, text: str) -> None:
        """Hear what is being done now."""
        ...


@runtime_checkable
class FailureListener(Listener, Protocol):
    """A listener that also hears what fails while the audit goes on."""

    def report_failure(self, text: str) -> None:
        """Hear that a part failed, in one sentence."""
        ...


@runtime_checkable
class TotalListener(Listener, Protocol):
    """A listener that also hears how much several encoders, begun one after the other, take together."""

    def expect(self, encoders: int, passes: int) -> None:
        """Hear of how many encoders work begins in turn, and how many passes they take; a round says it again."""
        ...


class Silent:
    """A listener that says nothing."""

    def begin(self, encoder: str, passes: int, unit: str = "passes") -> None:
        """Say nothing."""

    def advance(self, passes: int) -> None:
        """Say nothing."""

    def stage(self, text: str) -> None:
        """Say nothing."""
