"""How far a training has come: by its steps, or by a clock whose readings are kept, so that it can be done again."""

import itertools
import math
import time
from bisect import bisect_right
from typing import Any

from holdfast.runtime.errors import BadValue, Conflict, NotEnough

TICKS = 100
"""Parts of a budget: the clock is read after every step, and progress moves by whole parts."""


class Pace:
    """How far a training has come, from 0 to 1: what the rate and other schedules follow.

    Without a budget that is step / steps. With one it is the share of the time that has passed, in hundredths, and the
    training ends with the step whose end is nearest to the end of the budget. What the clock decides is then how many
    steps there are and `marks`, the step after which each hundredth had passed; both together give the same weights
    again, on any machine of the same arithmetic, whatever its clock says.

    Args:
        steps: of the optimiser; None: a budget decides.
        budget: seconds, of all runs of the training together; None: steps decide.
        marks: of a training that followed a clock, to do it again with as many steps.

    Raises:
        HoldfastError: neither steps nor a budget, or both; marks that are not those of so many steps.
    """

    def __init__(self, steps: int | None = None, budget: float | None = None, marks: tuple[int, ...] = ()):
        if (steps is None) == (budget is None):
            raise Conflict(f"pace: expected steps or a budget, one of the two, got {steps} and {budget}")
        if budget is not None and (marks or not budget > 0):
            raise BadValue(f"budget: expected a time above 0, and no marks beside it, got {budget:g} s")
        # Marks may be equal: a long step passes several hundredths
        falling = any(a > b for a, b in itertools.pairwise(marks))
        if marks and (falling or len(marks) > TICKS or not 0 < marks[0] <= marks[-1] <= (steps or 0)):
            raise BadValue(
                f"pace: expected at most {TICKS} steps that do not fall, from 1 to {steps}, got {list(marks)}; "
                "give the pace and the steps of one training"
            )
        self.steps, self.budget, self.marks = steps, budget, list(marks)
        self.spent, self._last, self._read = 0.0, 0.0, 0.0  # seconds: of all steps, of the last, when it ended

    @property
    def decides(self) -> dict[str, Any]:
        """What it adds to a recipe, as plain data; nothing where the recipe's steps say all."""
        if self.budget is not None:
            return {"budget": self.budget}
        return {"marks": self.marks} if self.marks else {}

    @property
    def state(self) -> dict[str, Any]:
        """What a checkpoint keeps."""
        return {"spent": self.spent, "last": self._last, "marks": self.marks}

    def go_on(self, state: dict[str, Any] | None) -> None:
        """Let the clock run, from where a checkpoint stopped it."""
        if state is not None:
            # The marks of a training that is done again come from its recipe, those of a clock from the checkpoint
            self.spent, self._last = state["spent"], state["last"]
            self.marks = self.marks if self.budget is None else list(state["marks"])
        self._read = time.monotonic()

    def read(self) -> float:
        """Read the clock, and return the seconds since it was read last."""
        now = time.monotonic()
        passed, self._read = now - self._read, now
        return passed

    def tick(self, step: int, seconds: float) -> None:
        """Take down how long a step took."""
        self._last = seconds
        self.spent += seconds
        if self.budget is None:
            return
        if step == 1 and self.spent >= self.budget:
            raise NotEnough(
                f"budget: expected time for several steps, of which the first took {self.spent:.2g} s, got "
                f"{self.budget:g} s; give more, or a smaller batch"
            )
        # The last hundredth belongs to the step that ends the training, whatever its clock says
        passed = TICKS if self._ends(step) else min(TICKS - 1, int(TICKS * self.spent / self.budget))
        # As many marks as hundredths have passed; a step that passed several is the mark of each
        self.marks += [step] * (passed - len(self.marks))

    def _ends(self, step: int) -> bool:
        assert self.budget is not None
        # Another step, if it takes as long as the last, would end farther from the budget than this one
        return step > 0 and self.spent + self._last / 2 >= self.budget

    def over(self, step: int) -> bool:
        """Whether the training ends after this step."""
        return step >= self.steps if self.steps is not None else self._ends(step)

    def progress(self, step: int) -> float:
        """Place of a training after so many steps."""
        if self.steps is not None and not self.marks:
            return step / self.steps
        # The hundredths whose mark is this step or one before it
        return bisect_right(self.marks, step) / TICKS

    @property
    def length(self) -> tuple[int, str]:
        """How long the training is, and in what: steps or seconds."""
        return (self.steps, "steps") if self.steps is not None else (math.ceil(self.budget or 0), "s")

    def measure_progress(self, step: int) -> int:
        """Share of `length` that is done after so many steps."""
        return step if self.steps is not None else min(int(self.spent), self.length[0])

    def __str__(self) -> str:
        return f"{self.length[0]}{' s' if self.steps is None else ''}"
