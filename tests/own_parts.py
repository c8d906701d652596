"""Six parts of a user's own in one file: sources of encoders and data, a threat, an attack, an observation and more."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from holdfast.core import (
    Attack,
    Ball,
    Corruption,
    Encoder,
    Goal,
    HoldfastError,
    Images,
    ImageSource,
    Measure,
    Observation,
    Passes,
    Rng,
    Shard,
    Subject,
    Table,
    Threat,
    Trajectory,
)
from holdfast.core.source_spec import positive
from holdfast.extend import (
    DataSource,
    EncoderSource,
    Options,
    Readout,
    check_readouts,
    evaluate,
    finish,
    read_options,
    register,
    take,
)
from holdfast.numerics.statistics.statistic import Mean, Statistic


@register("encoders")
@dataclass(frozen=True)
class Averages(EncoderSource):
    """Averages of blocks of pixels."""

    about = "averages of blocks of pixels: averages:4 gives 4x4 of them"

    def open(self, name: str, options: Options) -> Encoder:
        """Open `averages:SIDE`."""
        common = read_options(options, takes=())
        if not name.isdecimal() or int(name) < 1:
            raise HoldfastError(f"spec {options.spec!r}: expected averages:SIDE, such as averages:4, got {name!r}")
        return Encoder(nn.Sequential(nn.AdaptiveAvgPool2d(int(name)), nn.Flatten()), mean=0, std=1, name=common.name)


@register("data")
@dataclass(frozen=True)
class Stripes(DataSource):
    """Stripes that stand or lie."""

    about = "stripes that stand or lie: stripes:40?side=8 draws 40 of them"

    def open(self, name: str, options: Options) -> "Drawn":
        """Open `stripes:COUNT`."""
        side = take(options, "side", positive, 8)
        finish(options)
        if not name.isdecimal() or int(name) < 1:
            raise HoldfastError(f"spec {options.spec!r}: expected stripes:COUNT, such as stripes:40, got {name!r}")
        return Drawn(int(name), side)


class Drawn(ImageSource):
    """Stripes on noise."""

    classes = ("stand", "lie")

    def __init__(self, count: int, side: int):
        self.count, self.side = count, side

    def __len__(self) -> int:
        return self.count

    def id(self, index: int) -> str:
        """Return its number."""
        return f"stripes-{index:03d}"

    def load(self, index: int) -> Tensor:
        """Draw one."""
        stripes = (torch.arange(self.side) % 2).float().expand(1, self.side, self.side)
        noise = torch.rand(1, self.side, self.side, generator=torch.Generator().manual_seed(index))
        return (stripes.mT if self.label(index) else stripes) * 0.5 + noise * 0.5

    def label(self, index: int) -> int:
        """Say whether its stripes lie."""
        return index % 2


@register("threats")
@dataclass(frozen=True)
class Dimmed(Corruption):
    """x' = max(x - loss, 0).

    Attributes:
        loss: of light, in pixels of a [0, 1] image.
    """

    loss: float = 0.2

    @property
    def title(self) -> str:
        """What it is."""
        return f"dimmed by {self.loss:g}"

    def sample(self, x: Images, rng: Rng) -> Images:
        """Dim every image."""
        return (x - self.loss).clamp_min(0)


@register("attacks")
@dataclass(frozen=True)
class RandomSearch(Attack):
    """The image with the highest value among `steps` images drawn from the ball.

    Attributes:
        steps: how many are drawn.
    """

    steps: int = 10

    @property
    def passes(self) -> Passes:
        """The image itself, and each that was drawn."""
        return Passes(forward=self.steps + 1)

    def __call__(self, goal: Goal, x: Images, ball: Ball, rng: Rng, readouts: Sequence[int] = ()) -> Trajectory:
        """Attack a batch; read-out 0 is the image itself."""
        best = Readout(check_readouts(readouts, self.steps))
        best.see(0, x, *evaluate(goal, x))
        for step in range(1, self.steps + 1):
            drawn = ball.sample(x, rng.child("random_search", step))
            best.see(step, drawn, *evaluate(goal, drawn))
        return best.trajectory()


@register("observations")
@dataclass(frozen=True)
class Norms(Observation):
    """|f(threat(x))| / |f(x)|, as `ratio` [M].

    Attributes:
        threat: what befalls the images.
    """

    threat: Threat = Dimmed()

    def key(self) -> Observation:
        """Return itself."""
        return self

    def join(self, twin: Observation) -> Observation:
        """Return itself."""
        return self

    def images(self, population: int, attacked: int) -> int:
        """All of them."""
        return population

    @property
    def passes(self) -> Passes:
        """The image and its disturbed version."""
        return Passes(forward=2)

    def run(self, shard: Shard) -> dict[str, Tensor]:
        """Measure one shard."""
        with torch.no_grad():
            clean, disturbed = shard.encoder(shard.x), shard.encoder(self.threat.sample(shard.x, shard.rng))
        return {"ratio": disturbed.norm(dim=1).double() / clean.norm(dim=1).double()}


@register("measures")
@dataclass(frozen=True)
class NormLoss(Measure):
    """mean of 1 - |f(threat(x))| / |f(x)|.

    Table: `loss`, one row per image.

    Attributes:
        threat: what befalls the images.
    """

    threat: Threat = Dimmed()

    better = "lower"
    unit = "ratio"
    question = "How much of its length does a representation lose under a threat?"
    how_to_read = "0 means that lengths stay."
    reference = "a user's own"

    @property
    def column(self) -> str:
        """The loss of each image."""
        return "loss"

    def observations(self) -> tuple[Observation, ...]:
        """What must be observed."""
        return (Norms(self.threat),)

    def observe(self, subject: Subject) -> Table:
        """Return the loss of every image."""
        return {"loss": 1 - subject.read(Norms(self.threat))["ratio"]}

    def reduce(self, table: Table) -> dict[str, Statistic]:
        """Return the mean loss."""
        return {"mean": Mean(table["loss"])}
