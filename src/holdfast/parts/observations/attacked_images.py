"""Attacked images themselves, found on a surrogate: what an outsider makes who has another encoder than the audited."""

from dataclasses import dataclass

import torch
from torch import Tensor
from typing_extensions import override

from holdfast.core import Attack, Ball, Goal, Images, Objective, Passes, PerImage, Reps, Search, Shard
from holdfast.core.registry import part_name
from holdfast.core.source_spec import label
from holdfast.parts.attacks.pgd import Pgd
from holdfast.parts.objectives.untargeted import Untargeted
from holdfast.parts.observations.shared.first import OfFirst
from holdfast.parts.threats.linf import Linf
from holdfast.runtime.errors import BadValue, Unsupported
from holdfast.runtime.privacy import public


@dataclass(frozen=True)
class AttackedImages(OfFirst):
    """x̂ = argmax over the ball of objective(f_s(x'), f_s(x)), as `images` [M, C, H, W], and f_s(x) as `reps` [M, D].

    f_s is the surrogate. It sees the audited encoder's images in its own size and channels, differentiably, so the ball
    is one of pixels of the audited encoder. Encoders with the same input share these images.

    Attributes:
        surrogate: its spec; "": the audited encoder itself.
        attack: how to search.
        ball: where to search.
        objective: what to maximise, of the surrogate's representations.
    """

    surrogate: str = ""
    attack: Attack = Pgd()
    ball: Ball = Linf()
    objective: Objective = Untargeted()

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.objective.batchwise or self.objective.needs_target or self.objective.of_logits:
            raise BadValue(
                "attacked_images: expected an untargeted objective of representations, got "
                f"{part_name(self.objective)}; take untargeted, or a loss of your own that is untargeted"
            )

    @property
    @override
    def title(self) -> str:
        on = public(label(self.surrogate)) if self.surrogate else "the encoder itself"
        return f"images attacked on {on}: {part_name(self.attack)}, {self.attack.steps} steps, {self.ball.title}"

    @property
    def in_files(self) -> bool:
        """Images fill memory."""
        return True

    @property
    def searches(self) -> tuple[Search, ...]:
        """None of the audited encoder, unless it is attacked itself."""
        return () if self.surrogate else (Search(self.attack, self.ball, self.objective),)

    @property
    def passes(self) -> Passes:
        """The clean representation, and the attack."""
        return Passes(forward=1) + self.attack.passes_in(self.ball)

    def passes_at(self, precision: str, draws: int | None = None) -> Passes:
        """Return the passes of one image; the draws of the audited encoder are none of the surrogate's."""
        return super().passes_at(precision, None if self.surrogate else draws)

    def run(self, shard: Shard) -> dict[str, Tensor]:
        """Attack one shard.

        Raises:
            HoldfastError: representations that are not finite, or an attack along gradients that are zero everywhere.
        """
        with torch.no_grad():
            # The surrogate's own representation: an outsider does not
            # know that of the audited encoder
            clean = shard.encoder(shard.x)
        moves = _Moves(self.objective.pursue(shard.encoder, clean))
        attacked = self.attack(moves, shard.x, self.ball, shard.rng, (self.attack.steps,)).images[self.attack.steps]
        # Such an attack ends where it began, and would make the audited
        # encoder look robust to this surrogate
        if moves.gradients and not moves.moved:
            raise Unsupported(
                f"surrogate {shard.encoder.name!r}: expected gradients with respect to the pixels, got zeros alone (it "
                "rounds, or does not read its input); name another surrogate, or take an attack without gradients: "
                "--set '*.attack=square'"
            )
        return {"images": attacked.float(), "reps": clean.float()}


class _Moves:
    """A goal that notes whether any gradient to the pixels was not zero."""

    def __init__(self, goal: Goal):
        self._goal, self.gradients, self.moved = goal, False, False

    def __call__(self, x: Images) -> tuple[PerImage, Reps]:
        if torch.is_grad_enabled() and x.requires_grad:
            x = x.view_as(x)  # a fresh node for the hook
            x.register_hook(self._note)
        return self._goal(x)

    def _note(self, gradient: Tensor) -> None:
        self.gradients, self.moved = True, self.moved or bool(gradient.any())
