"""Answer a question of VNN-LIB about an ONNX file: prove that there is no unsafe output, or find one."""

import math
import os
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import torch
from torch import Tensor

from holdfast.auditing.bound_progress import BoundProgress
from holdfast.core import Certifier, Margin, registry
from holdfast.core.registry import part_name
from holdfast.runtime.checked import check_arguments
from holdfast.runtime.errors import BadValue, NotCertified
from holdfast.runtime.listener import Listener, Silent
from holdfast.storage.vnnlib_reader import read_vnnlib
from holdfast.workflows.exchange.cube import open_on_cube
from holdfast.workflows.exchange.onnx_file import run_onnx
from holdfast.workflows.exchange.search import attack_on, unsafe_inputs

CERTIFIERS = ("crown", "beta_crown")
"""By which proofs are tried, the cheapest first."""

STEPS = 100_000
"""Steps of the attack, at most: it holds a list of them."""

SPLITS = 10**9
"""Splits of a certifier that the clock ends."""


@dataclass(frozen=True, eq=False)
class Answer:
    """What is known of a query.

    Attributes:
        result: "unsat", no output is unsafe, a proof; "sat", an input was found; "unknown".
        by: what decided: a certifier or an attack, by its name; "" where nothing did.
        seconds: that it took, reading the files included.
        lower: for each way to be unsafe, what its largest row is proved not to fall below; -inf where nothing is.
        inputs: the input that was found, [n] float32; None without one.
        outputs: what the file computes of it, [m].
        why: why no proof was tried; "" where some were.
    """

    result: Literal["unsat", "sat", "unknown"]
    by: str
    seconds: float
    lower: tuple[float, ...]
    inputs: Tensor | None = None
    outputs: Tensor | None = None
    why: str = ""

    @property
    def facts(self) -> dict[str, Any]:
        """The same for JSON, without what is not known."""
        lower = [bound if math.isfinite(bound) else None for bound in self.lower]
        known = {"inputs": self.inputs, "outputs": self.outputs}
        found = {name: values.tolist() for name, values in known.items() if values is not None}
        why = {"why": self.why} if self.why else {}
        return {"result": self.result, "by": self.by, "seconds": self.seconds, "lower": lower, **found, **why}


@check_arguments
def verify_vnnlib(
    onnx: str | os.PathLike[str],
    vnnlib: str | os.PathLike[str],
    *,
    certifiers: Sequence[str] = CERTIFIERS,
    seconds: float = 300.0,
    attack: int = 50,
    seed: int = 0,
    listener: Listener | None = None,
) -> Answer:
    """Return whether an ONNX network can have an unsafe output in the box of a VNN-LIB file.

    First an attack looks for one, in float32; what it finds counts once the file itself, run in float32, has that
    output. Then each certifier bounds the ways that are still open, in float64: a way is excluded where one of its rows
    is proved to be above 0. The proof is about the network in exact arithmetic.

    Args:
        onnx: a network with one input [batch, C, H, W].
        vnnlib: what is asked, see `read_vnnlib`.
        certifiers: by which proofs are tried, in this order.
        seconds: after which the attack ends, no certifier begins, and one that knows about time ends.
        attack: steps of the attack, with two restarts; 0: none.
        seed: of the attack.
        listener: told about progress.

    Raises:
        HoldfastError: files that cannot be read or do not belong together, or an unknown certifier.
    """
    began, listener = time.monotonic(), listener or Silent()
    stages: list[Certifier] = [registry.part("certifiers", name) for name in certifiers]
    if not seconds > 0 or not 0 <= attack <= STEPS:
        raise BadValue(f"expected seconds above 0 and 0 to {STEPS:,} steps of the attack, got {seconds:g} and {attack}")
    query, name = read_vnnlib(vnnlib), os.fspath(onnx)
    encoder, shape = open_on_cube(name, query)
    x, ball = torch.full((1, *shape), 0.5), registry.part("threats", "linf", radius=0.5)
    lower = torch.full((len(query.unsafe),), -torch.inf, dtype=torch.float64)

    def answer(result: Literal["unsat", "sat", "unknown"], by: str = "", **named: Any) -> Answer:
        return Answer(result, by, time.monotonic() - began, tuple(lower.tolist()), **named)

    # a counterexample, if one is found
    if attack:
        listener.stage("attacking")
        by = attack_on(encoder, shape)
        for inputs in unsafe_inputs(encoder, query, shape, by, attack, seed, began + seconds):
            outputs = run_onnx(name, inputs.view(1, *shape))[0]
            if bool(query.worst(outputs[None]) <= 0):
                return answer("sat", by, inputs=inputs, outputs=outputs)
    # else a proof, by one certifier after the other, of what is still open
    try:
        for certifier in stages:
            left = seconds - (time.monotonic() - began)
            ways = (lower <= 0).nonzero().flatten().tolist()
            if not ways or left <= 0:
                break
            title = f"{part_name(certifier)}: {len(ways)} ways to be unsafe"
            listener.stage(title)
            with BoundProgress(listener).telling(title):
                margin = _together([query.unsafe[way] for way in ways])
                bound = _within(certifier, left)(encoder, margin, x, ball).lower[0]
            rows = bound.split([query.unsafe[way].bias.shape[1] for way in ways])
            for way, proved in zip(ways, rows, strict=True):
                lower[way] = torch.maximum(lower[way], proved.max().cpu())
            if bool((lower > 0).all()):
                return answer("unsat", part_name(certifier))
    except NotCertified as error:
        return answer("unknown", why=str(error))
    return answer("unknown")


def _together(margins: Sequence[Margin]) -> Margin:
    """Return the rows of several margins as those of one."""
    return Margin(torch.cat([m.weights for m in margins], 1), torch.cat([m.bias for m in margins], 1))


def _within(certifier: Certifier, seconds: float) -> Certifier:
    """Return a certifier that ends in time, where it knows about time or work; as many splits as that allows."""
    part: Any = certifier
    limits: dict[str, float] = {"seconds": seconds, "splits": SPLITS} if hasattr(part, "seconds") else {}
    if hasattr(part, "minutes"):
        limits["minutes"] = min(part.minutes, seconds / 60)
    return replace(part, **limits)
