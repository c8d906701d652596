"""A score held against its baseline and what may be lost of it, as one linear contrast.

With s = 1 where higher is better and -1 where lower is, the contrast of a score θ' with its baseline θ is

    K = s (θ' - c θ) + a     a the margin in the score's unit, c = 1;  or a = 0, c = 1 - s m sign(θ), m relative

K < 0 says that it lost more than the margin. The baseline's value, its interval and its influences count c times, so
that of a relative margin nothing is taken for known that is not.
"""

from dataclasses import dataclass
from functools import cached_property
from typing import Final, Literal

from holdfast.config.margins import Margin
from holdfast.core import Score
from holdfast.core.doubts import say_failed
from holdfast.numerics.statistics.levels import p_value, reach
from holdfast.numerics.statistics.planning import times_needed
from holdfast.storage.standing import SOUND, may_lose, may_win

WORSE: Final = "worse"
NO_WORSE: Final = "no worse"


@dataclass(frozen=True)
class Contrast:
    """The contrast of two scores.

    Attributes:
        now: the score.
        before: its baseline.
        correlation: of their influences; 0 where images are not paired.
        margin: what may be lost.
        better: which direction is better, "lower" or "higher".
    """

    now: Score
    before: Score
    correlation: float
    margin: Margin
    better: str

    @property
    def untestable(self) -> str:
        """Why there is no test; "" where there is one."""
        low, high = self.before.low, self.before.high
        # A share of a number whose sign nobody knows may be a loss or a gain
        if self.margin.relative and low is not None and high is not None and low < 0 < high:
            return "the baseline's interval holds 0, so a share of it says nothing"
        without = [score for score in (self.now, self.before) if reach(score) is None]
        return f"no interval{f': {without[0].note}' if without[0].note else ''}" if without else ""

    @property
    def _sign(self) -> int:
        return 1 if self.better == "higher" else -1

    @property
    def scale(self) -> float:
        """c, by which the baseline is multiplied."""
        if not self.margin.relative:
            return 1.0
        assert self.before.value is not None
        return 1 - self._sign * self.margin.amount * (1 if self.before.value >= 0 else -1)

    @property
    def allowance(self) -> float:
        """What may be lost, in the score's unit."""
        assert self.before.value is not None
        return self.margin.amount * (abs(self.before.value) if self.margin.relative else 1)

    @cached_property
    def gap(self) -> float:
        """Return θ' - c θ and what is added to it: s K."""
        assert self.now.value is not None
        assert self.before.value is not None
        # A relative margin is in the scale already
        added = 0.0 if self.margin.relative else self._sign * self.margin.amount
        return self.now.value - self.scale * self.before.value + added

    @property
    def direction(self) -> Literal["worse", "no worse"]:
        """Where the contrast points."""
        return WORSE if self._sign * self.gap < 0 else NO_WORSE

    @cached_property
    def p(self) -> float:
        """1 - the highest level at which the interval of the contrast (MOVER) excludes zero."""
        # MOVER: the interval of the difference, out of both intervals and their correlation
        now, before = reach(self.now), reach(self.before)
        assert now is not None
        assert before is not None
        n = min(self.now.n, self.before.n)
        return p_value(self.gap, now, before.scale(self.scale), self.correlation, n)

    def p_for(self, verdict: str) -> float:
        """The p-value of a verdict; 1 where the contrast points elsewhere, or the standing does not allow it."""
        return self.p if verdict == self.direction and self.tells(verdict) else 1.0

    def tells(self, verdict: str) -> bool:
        """Whether two numbers can support a verdict: of a bound, what weakness could not make."""
        worse, other = (self.now, self.before) if verdict == WORSE else (self.before, self.now)
        return may_lose(worse.standing, self.better) and may_win(other.standing, self.better)

    @property
    def bounds(self) -> str:
        """Which of the numbers are bounds, and why."""
        return "; ".join(
            f"{whose} is only known to be {score.standing} that, for {say_failed(score.because)}"
            for whose, score in (("the number now", self.now), ("the baseline", self.before))
            if score.standing != SOUND
        )

    def times_as_measured(self, level: float) -> float | None:
        """How many times as many images would tell with 80 % power, were the true values those that were measured.

        None where no number would, or where the standing does not allow what they would tell.
        """
        return self._times(self.gap, level) if self.tells(self.direction) else None

    def times_if_equal(self, level: float) -> float | None:
        """How many times as many images would show with 80 % power that nothing is lost, were both the baseline's."""
        return self._times(self._sign * self.allowance, level) if self.tells(NO_WORSE) else None

    def _times(self, gap: float, level: float) -> float | None:
        return times_needed(gap, self.now, self.before, self.correlation, scale=self.scale, level=level)
