"""All ways to hide, by the kind, and honest encoders."""

from collections.abc import Callable, Iterator

import torch
from torch import nn

from benchmarks.hiding import networks
from benchmarks.hiding.entry import (
    CURVED,
    FILTERED,
    INSIDE,
    LYING,
    OUTPUT,
    RANDOM,
    REMEMBERING,
    ROUNDED,
    SATURATING,
    WATCHING,
    Entry,
)
from benchmarks.hiding.family import Family
from benchmarks.hiding.honest import honest
from benchmarks.hiding.inputs import (
    LIES,
    brightest,
    clipped,
    compressed,
    dithered,
    faint,
    folded,
    logarithm,
    lying,
    median,
    noisy,
    normalised,
    power,
    quantised,
    ranged,
    resized,
    saturated,
    shattered,
    shifted,
    stairs,
    stretched,
    thermometer,
    wrong,
)
from benchmarks.hiding.masks import Mask, altered

Make = Callable[[], Mask]

INPUTS: dict[str, dict[str, Make]] = {
    SATURATING: {
        "sigmoid 20": lambda: saturated(20),
        "sigmoid 50": lambda: saturated(50),
        "sigmoid 100": lambda: saturated(100),
        "sigmoid 200": lambda: saturated(200),
        "sigmoid 1000": lambda: saturated(1000),
        "contrast 4": lambda: stretched(4),
        "contrast 8": lambda: stretched(8),
        "contrast 30": lambda: stretched(30),
        "clipped to .1 to .4": lambda: clipped(0.1, 0.4),
        "stretched between quartiles": lambda: ranged(0.25),
    },
    ROUNDED: {
        "threshold": lambda: quantised(2),
        "threshold, faint gradient": lambda: quantised(2, faint()),
        "threshold, wrong gradient": lambda: quantised(2, wrong),
        "4 levels": lambda: quantised(4),
        "4 levels, faint gradient": lambda: quantised(4, faint()),
        "4 levels, wrong gradient": lambda: quantised(4, wrong),
        "8 levels, faint gradient": lambda: quantised(8, faint(1e-12)),
        "16 levels, random gradient": lambda: quantised(16, altered(torch.randn_like)),
        "thermometer 8": lambda: thermometer(8, 200),
        "stairs 4": lambda: stairs(4, 8),
        "stairs 8": lambda: stairs(8, 4),
        "dithered": lambda: dithered(),
        "dithered, faint gradient": lambda: dithered(faint()),
    },
    FILTERED: {
        "cosines": lambda: compressed(0.1),
        "cosines, faint gradient": lambda: compressed(0.1, faint()),
        "coarse cosines, faint gradient": lambda: compressed(0.3, faint()),
        "cosines, wrong gradient": lambda: compressed(0.1, wrong),
        "median": lambda: median(),
        "median, faint gradient": lambda: median(faint()),
        "local contrast": lambda: normalised(0.01),
        "brightest 30 %": lambda: brightest(0.3),
        "brightest 10 %": lambda: brightest(0.1),
    },
    CURVED: {
        "power 8": lambda: power(8),
        "logarithm 1000": lambda: logarithm(1000),
        "solarised 3 times": lambda: folded(3),
        "solarised 9 times": lambda: folded(9),
        "shattered 1000": lambda: shattered(0.02, 1000),
        "shattered 1e5": lambda: shattered(0.005, 1e5),
    },
}

DRAWN: dict[str, Make] = {
    "noise on the input": lambda: noisy(0.1),
    "shifted": lambda: shifted(1),
    "resized": lambda: resized(0.3),
}

ACTIVATIONS: dict[str, Make] = {
    "winners 10 %": lambda: networks.winners(0.1),
    "winners 3 %": lambda: networks.winners(0.03),
    "signs": lambda: networks.stepped(float("inf")),
    "signs, faint gradient": lambda: networks.stepped(float("inf"), faint()),
    "stepped": lambda: networks.stepped(0.2),
    "stepped, wrong gradient": lambda: networks.stepped(0.2, lambda x: -x),
    "sigmoids of gain 50": lambda: networks.gained(50),
}


def entries(family: Family) -> Iterator[Entry]:
    """Yield the encoders of a family."""
    kept = _FEW.get(family.name)
    for entry in (*_hiding(family), *honest(family)):
        if kept is None or not entry.hides or entry.name in kept:
            yield entry


def _hiding(family: Family) -> Iterator[Entry]:
    # before the network
    for kind, steps in INPUTS.items():
        for name, make in steps.items():
            yield Entry(kind, name, _before(make))
    for name, make in DRAWN.items():
        yield Entry(RANDOM, name, _before(make), random=True)
    for name in LIES:
        if family.population.shape[1] > 1 or "channels" not in name:
            yield Entry(LYING, f"gradient {name}", _before(lambda name=name: lying(name)))

    # networks that watch, or remember
    for when in ("grad mode", "requires grad"):
        yield Entry(WATCHING, when, lambda family, when=when: networks.two_faced(family.network(), when))
    for name, shown in (("off the grid", None), ("off the grid, faint gradient", faint())):
        yield Entry(WATCHING, name, _before(lambda shown=shown: networks.on_grid(family.levels, shown)))
    for name, shown in (("rougher than images", None), ("rougher than images, faint gradient", faint())):
        yield Entry(WATCHING, name, _before(lambda shown=shown: networks.rough(family.roughness, shown)))
    for radius in (1.0, 3.0):
        yield Entry(
            REMEMBERING,
            f"all within {radius:g} ε",
            lambda family, radius=radius: networks.Memory(family.network(), radius * family.eps),
            judged=Family.network,
        )

    # inside, and behind
    for name, make in ACTIVATIONS.items():
        yield Entry(INSIDE, name, lambda family, make=make: networks.with_activations(family.network(), make))
    yield Entry(
        RANDOM, "dropout", lambda family: networks.with_activations(family.network(), lambda: networks.dropped(0.1)),
        random=True,
    )  # fmt: skip
    for name, behind in OUTPUTS.items():
        yield Entry(
            OUTPUT,
            name,
            lambda family, behind=behind: nn.Sequential(family.network(), behind(family.unit)),
        )
    yield Entry(
        RANDOM, "noise on the output",
        lambda family: nn.Sequential(family.network(), networks.drawn(0.05 * family.unit)), random=True,
    )  # fmt: skip


OUTPUTS: dict[str, Callable[[float], Mask]] = {
    "coarse": lambda unit: networks.rounded(unit),
    "coarse, faint gradient": lambda unit: networks.rounded(unit, faint()),
    "coarse, negated gradient": lambda unit: networks.rounded(unit, lambda reps: -reps),
    "fine, faint gradient": lambda unit: networks.rounded(0.1 * unit, faint()),
    "fine, random gradient": lambda unit: networks.rounded(0.1 * unit, altered(torch.randn_like)),
    "tanh 1000": lambda unit: networks.flattened(1000 / unit),
    "tanh 10": lambda unit: networks.flattened(10 / unit),
    "softmax 10": lambda unit: networks.sharpened(10 / unit),
    "softmax 100 and a little": lambda unit: networks.sharpened(100 / unit, 1e-3),
    "winner": lambda unit: networks.winner(lambda reps: 1e-3 * reps),
}


def _before(make: Make) -> Callable[[Family], nn.Module]:
    return lambda family: nn.Sequential(make(), family.network())


_FEW: dict[str, set[str]] = {
    "mnist": set(),
    "cifar": {
        "sigmoid 20", "sigmoid 50", "sigmoid 200", "contrast 8", "threshold, faint gradient",
        "8 levels, faint gradient", "stairs 8", "cosines, faint gradient", "median", "local contrast",
        "solarised 9 times", "shattered 1000", "gradient negated", "gradient disturbed", "gradient sparse",
        "gradient of swapped channels", "gradient scaled pixel by pixel", "gradient low-passed", "grad mode",
        "off the grid, faint gradient", "rougher than images", "all within 3 ε", "winners 3 %", "stepped",
        "coarse, faint gradient", "tanh 1000", "noise on the input",
    },
    "photos": {
        "sigmoid 20", "sigmoid 100", "contrast 8", "8 levels, faint gradient", "cosines, faint gradient",
        "shattered 1000", "gradient disturbed", "gradient of swapped channels", "gradient scaled pixel by pixel",
        "fine, faint gradient", "tanh 10",
    },
}  # fmt: skip
"""Of families on which passes take longer."""
