"""The command line: a thin skin over the library, one command per file."""

import sys

import typer
from rich.markup import escape

from holdfast.cli._common import err
from holdfast.cli.audit import audit
from holdfast.cli.check import check
from holdfast.cli.compare import compare
from holdfast.cli.demo import demo
from holdfast.cli.doctor import doctor
from holdfast.cli.harden import harden
from holdfast.cli.leaderboard import leaderboard
from holdfast.cli.list_parts import list_parts
from holdfast.cli.merge import merge
from holdfast.cli.report import report
from holdfast.cli.reproduce import reproduce
from holdfast.cli.show import show
from holdfast.cli.study import study
from holdfast.cli.train import train
from holdfast.errors import HoldfastError

app = typer.Typer(
    help="Audit how well an image encoder's representations hold when the image is disturbed, without labels.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
)
for _command in (
    demo,
    audit,
    merge,
    check,
    compare,
    leaderboard,
    train,
    study,
    harden,
    reproduce,
    report,
    show,
    doctor,
):
    app.command()(_command)
app.command("list")(list_parts)


def main() -> None:
    """Run the command line; every foreseen fault is one line on stderr and a non-zero exit."""
    try:
        app()
    except HoldfastError as error:
        err.print(f"[bold red]error:[/] {escape(str(error))}", soft_wrap=True, highlight=False)
        sys.exit(1)
