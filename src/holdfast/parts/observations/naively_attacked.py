"""Images that an attack found which takes a randomised encoder for a plain network, judged as those of any other."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from jaxtyping import Float
from torch import Tensor
from typing_extensions import override

from holdfast.core import Passes, Shard
from holdfast.core.chart import Chart
from holdfast.core.randomness import naively
from holdfast.parts.observations.attacked import Attacked


@dataclass(frozen=True)
class NaivelyAttacked(Attacked):
    """f(x') as `Attacked` has it, for an attack that ignores what is random in f and what hides its gradient.

    Each of its passes has one draw, and no gradient passes straight through a step that has none. Its read-outs are
    judged by the encoder's own draws. Of an encoder that is neither random nor has such steps it is the same attack.
    """

    @property
    @override
    def title(self) -> str:
        return f"naive, {super().title}"

    def passes_at(self, precision: str, draws: int | None = None) -> Passes:
        """Return one draw for each pass of the search, and all of them for the read-outs; see `Observation`."""
        # What is left of all passes without those of the search: the read-outs, each by all draws
        judged = super().passes_at(precision, draws) - self.passes.of_draws(draws)
        return self.passes + judged

    @property
    def shows(self) -> Literal[""]:  # pyright: ignore[reportIncompatibleMethodOverride]
        """Nothing: the gallery is that of the stronger attack."""
        return ""

    @override
    def run(self, shard: Shard) -> dict[str, Tensor]:
        with naively():
            results = super().run(shard)
        # Only one gallery is kept, that of the stronger attack
        return {key: value for key, value in results.items() if not key.startswith("gallery.")}

    def charts(self, results: Mapping[str, Tensor], clean: Float[Tensor, "population dim"]) -> tuple[Chart, ...]:
        """None: what it maximises is the value of single draws."""
        return ()
