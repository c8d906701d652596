"""holdfast verify: one question of VNN-LIB about an ONNX file."""

from pathlib import Path
from typing import Annotated

import typer
from rich.text import Text

from holdfast.cli import completion
from holdfast.cli.common import JsonOption, QuietOption, SeedOption, listening, show, warn
from holdfast.runtime.exit_status import ExitStatus

STATUS = {"unsat": ExitStatus.DONE, "sat": ExitStatus.UNMET, "unknown": ExitStatus.NOTHING}
"""How each answer ends the command."""


def verify(
    onnx: Annotated[Path, typer.Argument(help="An ONNX file with one input \\[batch, channel, height, width].")],
    vnnlib: Annotated[
        Path, typer.Argument(help="A VNN-LIB 1.0 file, also .gz: a box of inputs, linear constraints on outputs.")
    ],
    certifier: Annotated[
        list[str] | None,
        typer.Option(
            autocompletion=completion.of_kind("certifiers"),
            help="By which proofs are tried; repeatable, in this order. (default: crown, beta_crown)",
        ),
    ] = None,
    seconds: Annotated[
        float, typer.Option(help="Time after which the attack and splitting end, and no certifier begins.")
    ] = 300.0,
    attack: Annotated[int, typer.Option(help="Steps of the attack that comes first; 0 for none.")] = 50,
    counterexample: Annotated[
        str | None, typer.Option(help="File for the input that was found, in the competition's form.")
    ] = None,
    seed: SeedOption = None,
    json_output: JsonOption = False,
    quiet: QuietOption = False,
) -> None:
    """Prove that no input of a box has an unsafe output (unsat), or find one (sat), or neither (unknown).

    Exit status: 0 for unsat, 1 for sat, 3 for unknown.
    """
    from holdfast.storage.vnnlib import write_counterexample
    from holdfast.workflows.exchange.verify import CERTIFIERS, verify_vnnlib

    with listening(quiet) as bars:
        answer = verify_vnnlib(
            onnx,
            vnnlib,
            certifiers=certifier or CERTIFIERS,
            seconds=seconds,
            attack=attack,
            seed=seed or 0,
            listener=bars,
        )
    if answer.inputs is not None and answer.outputs is not None and counterexample is not None:
        write_counterexample(counterexample, answer.inputs, answer.outputs)
    show(answer.facts, json_output, lambda: [Text(answer.result)])
    if answer.why:
        warn("unknown:", answer.why)
    raise typer.Exit(STATUS[answer.result])
