"""holdfast show: a part explained."""

from typing import Annotated

import typer

from holdfast.cli.common import out


def show(
    name: Annotated[str, typer.Argument(help="A measure, attack, certifier or other part; or a profile.")],
) -> None:
    """Explain a part: what it asks, its formula, its parameters, where it was published; or what a profile asks."""
    from holdfast.report.parts import print_part

    print_part(name, out)
