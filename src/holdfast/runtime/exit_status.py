"""The exit statuses of commands, the same everywhere; docs/statuses.md explains them to users."""

from enum import IntEnum


class ExitStatus(IntEnum):
    """What the exit status of a command says."""

    DONE = 0
    """Done, and whatever was required is met."""
    UNMET = 1
    """Done, but a requirement is not met, a check failed that had to pass, or a part of what was asked failed."""
    USAGE = 2
    """Nothing was done: an option, a name, a file or a value that cannot be used."""
    NOTHING = 3
    """No result: no encoder could be audited, or a run folder cannot be read or written."""
    FAULT = 4
    """A fault of Holdfast itself."""
    INTERRUPTED = 130
    """Ctrl-C: 128 and the number of the signal, as shells count."""
    PIPE = 141
    """Whoever read the output left: 128 and the number of the signal."""
    TERMINATED = 143
    """SIGTERM, as schedulers send it: 128 and the number of the signal."""


SUMMARY = (
    "Exit status: 0 done and met; 1 a requirement is not met, or a part failed; 2 wrong usage or an unknown name; "
    "3 no encoder could be opened or audited, or a run folder cannot be read or written; 4 a fault of Holdfast; "
    "130 interrupted; 143 terminated (SIGTERM)."
)
"""The same in a sentence, below the help of every command."""
