"""The command line: a thin skin over the library, one command per file."""

import itertools
import os
import signal
import sys
import tempfile
import traceback
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Annotated

import typer
from rich.text import Text

from holdfast.cli.audit import audit
from holdfast.cli.audit_index import audit_index
from holdfast.cli.certify import certify
from holdfast.cli.check import check
from holdfast.cli.common import Command, PartsOption, out, run_parts, warn, with_parts
from holdfast.cli.compare import compare
from holdfast.cli.compare_index import compare_index
from holdfast.cli.demo import demo
from holdfast.cli.doctor import doctor
from holdfast.cli.embed_names import embed_names
from holdfast.cli.export_vnnlib import export_vnnlib
from holdfast.cli.figures import figures
from holdfast.cli.harden import harden
from holdfast.cli.leaderboard import leaderboard
from holdfast.cli.list_parts import list_parts
from holdfast.cli.merge import merge
from holdfast.cli.parity import parity
from holdfast.cli.report import report
from holdfast.cli.reproduce import reproduce
from holdfast.cli.show import show
from holdfast.cli.study import study
from holdfast.cli.train import train
from holdfast.cli.verify import verify
from holdfast.cli.view import view
from holdfast.runtime.errors import BadValue, HoldfastError, first_line, os_reason
from holdfast.runtime.exit_status import SUMMARY, ExitStatus
from holdfast.runtime.freed_memory import keep_freed_memory
from holdfast.runtime.streams import settle, stand_in
from holdfast.runtime.version import VERSION

app = typer.Typer(epilog=SUMMARY, no_args_is_help=True, pretty_exceptions_enable=False)


def _version(wanted: bool) -> bool:
    """Print the version and end where it is wanted; typer passes on what this returns as the option."""
    if wanted:
        from holdfast.report.render import print_document

        print_document([Text(f"holdfast {VERSION}")], out)
        raise typer.Exit
    return wanted


@app.callback()
def holdfast(
    parts: PartsOption = None,
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version, and nothing else.")
    ] = False,
) -> None:
    """Audit how well an image encoder's representations hold when the image is disturbed, without labels."""
    run_parts(parts or ())


for _command in (
    demo,
    audit,
    merge,
    check,
    compare,
    compare_index,
    parity,
    audit_index,
    figures,
    leaderboard,
    view,
    train,
    study,
    harden,
    reproduce,
    certify,
    export_vnnlib,
    verify,
    embed_names,
    report,
    show,
    doctor,
):
    app.command(cls=Command, epilog=SUMMARY)(with_parts(_command))
app.command("list", cls=Command, epilog=SUMMARY)(with_parts(list_parts))

_Click: type[Exception] = typer.BadParameter.__mro__[2]  # of the click that this typer uses, which may be its own


STORING_NOTHING = ("verify", "export-vnnlib", "embed-names", "doctor", "list", "show")
"""Commands that begin anew after an interrupt."""


def main() -> None:
    """Run the command line; every foreseen fault is one line on stderr, and the status says of what kind it is."""
    stand_in()
    keep_freed_memory()
    with _termination() as terminated:
        status = _status()
    if terminated and status == ExitStatus.INTERRUPTED:
        status = ExitStatus.TERMINATED
    sys.exit(settle(status, _say))


@contextmanager
def _termination() -> Iterator[list[int]]:
    """Hear SIGTERM, by which SLURM, Kubernetes and systemd end processes, as Ctrl-C; the list is then not empty."""
    terminated: list[int] = []

    def hear(number: int, frame: object) -> None:
        terminated.append(number)
        if len(terminated) == 1:  # schedulers tell a process and the one that started it, which passes it on
            raise KeyboardInterrupt

    before = signal.signal(signal.SIGTERM, hear)
    try:
        yield terminated
    finally:
        signal.signal(signal.SIGTERM, before)


def _status() -> int:
    """Run the command that the arguments ask for, and return its status: the one place where errors become one."""
    try:
        # the command, which says by its status what it has found
        _not_empty(sys.argv[1:])
        status = app(prog_name="holdfast", standalone_mode=False) or ExitStatus.DONE
        if status == ExitStatus.INTERRUPTED:  # typer makes it of Ctrl-C, without a word
            stores = not set(sys.argv[1:2]) & set(STORING_NOTHING)
            warn(
                "interrupted:", "what is done is stored; the same command continues" if stores else "nothing is stored"
            )
        return status
    # requests that cannot be answered, and wrong usage
    except HoldfastError as error:
        _say(f"{error} [{error.code}]")
        return error.status
    except _Click as error:
        return _wrong_usage(error)
    except SystemExit as ended:
        if isinstance(ended.__context__, BrokenPipeError):  # rich and typer end with 1, as if something were not met
            return ExitStatus.PIPE
        raise
    # what the machine refuses
    except MemoryError:
        _say("not enough memory; take fewer images (--images) or smaller batches (--batch-size), and see --dry-run")
        return ExitStatus.NOTHING
    except OSError as error:
        _say(f"{error.filename or 'a file'}: {os_reason(error)}")
        return ExitStatus.NOTHING
    # anything else is a fault of ours
    except Exception as error:
        _say(
            f"a fault of Holdfast, not yours: {type(error).__name__}: {first_line(error)}; {_save_traceback()}; "
            "please report it"
        )
        return ExitStatus.FAULT


def _not_empty(arguments: Sequence[str]) -> None:
    """Refuse empty arguments, before an empty path becomes the folder one is in, and an empty name the usual one."""
    for before, argument in itertools.pairwise(["", *arguments]):
        name, equals, value = argument.partition("=")
        if not (value if equals and name.startswith("--") else argument).strip():
            whose = f" for {name if equals else before}" if name.startswith("--") or before.startswith("--") else ""
            raise BadValue(f"expected a value{whose}, got an empty one; leave it out, or say what you mean")


def _wrong_usage(error: Exception) -> int:
    """Say what is wrong with the arguments, in one line; without any, typer has shown the help."""
    context = getattr(error, "ctx", None)
    if type(error).__name__ == "NoArgsIsHelpError":
        return ExitStatus.USAGE
    message = " ".join(str(error.format_message()).split()).rstrip(".")  # pyright: ignore[reportAttributeAccessIssue]
    path = context.command_path if context is not None else "holdfast"
    option = getattr(error, "option_name", None)
    takes_settings = context is not None and any("--set" in taken.opts for taken in context.command.params)
    if option and takes_settings and (elsewhere := _explain_option(option)):
        message = f"No such option: {option}; {elsewhere}"
    _say(f"{message}; see {path} --help")
    return ExitStatus.USAGE


def _explain_option(option: str) -> str:
    """Return how a parameter of measures is given that somebody took for an option; "" for what is none."""
    from holdfast.config.misplaced import explain_misplaced_option

    words = [*sys.argv, ""]
    values = [word.partition("=")[2] or after for word, after in itertools.pairwise(words) if word.startswith(option)]
    value = next((value for value in values if not value.startswith("-")), "")
    return explain_misplaced_option(option.lstrip("-"), value)


def _save_traceback() -> str:
    """Write the traceback of the exception at hand to a file of its own, and say where."""
    text = traceback.format_exc()
    try:
        handle, path = tempfile.mkstemp(prefix="holdfast-fault-", suffix=".txt")
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            file.write(text)
    except OSError:
        return f"its traceback: {text!r}"
    return f"its traceback is in {path}"


def _say(text: str) -> None:
    warn("error:", " ".join(text.splitlines()))
