"""A loss of a user's own, a function of representations, as what adversaries maximise in audits."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar, overload

import torch
from torch import Tensor

from holdfast.core import Goal, Objective, PerImage, Reps
from holdfast.core.encoder import Images
from holdfast.core.function_part import FunctionPart, name_function, part_of, takes_target, value_per_image
from holdfast.core.registry import part_name
from holdfast.runtime.checked import check_arguments
from holdfast.runtime.errors import Failed
from holdfast.runtime.foreign import forbid_mutation

Function = Callable[..., Any]


@dataclass(frozen=True)
class OwnLoss(FunctionPart, Objective):
    """Maximise a function of (f(x'), f(x)), or of (f(x'), f(x), f(t)) with a target image t.

    Attributes:
        code: the fingerprint of the function.
    """

    code: str = ""

    takes_target: ClassVar[bool] = False

    def __call__(self, reps: Reps, clean: Reps, target: Reps | None = None) -> PerImage:
        """Return the function's value for every image; it gets float32, the precision of searches.

        Raises:
            HoldfastError: no finite value per image, or one without a gradient where the search follows gradients.
        """
        moved = reps.float()
        # The user's function has as many arguments as it was written with
        rest = (clean, target) if self.takes_target else (clean,)
        values = value_per_image(self, (moved, *(tensor if tensor is None else tensor.float() for tensor in rest)))
        if moved.requires_grad and torch.is_grad_enabled():
            self._follow(moved, values)
        return values.float()

    def _follow(self, reps: Tensor, values: Tensor) -> None:
        """Refuse values without a gradient, and a gradient that is not finite."""
        name = part_name(self)
        if not values.requires_grad:
            raise Failed(
                f"{name}: expected a value with a gradient, got one without; compute it of the representations with "
                "torch, without .detach(), .item(), .numpy(), rounding or comparing; or take an attack that needs no "
                "gradient, attack=square"
            )

        # A gradient is known when the backward pass comes by, so it is looked at there
        def look(gradient: Tensor) -> None:
            lost = int((~gradient.isfinite().all(1)).sum())
            if lost:
                raise Failed(
                    f"{name}: expected a finite gradient, got NaN or infinity for {lost} of {len(gradient)} images; a "
                    "root has none at 0: add a small number under it"
                )

        reps.register_hook(look)

    def pursue(self, encoder: Callable[[Images], Reps], clean: Reps, target: Reps | None = None) -> Goal:
        """Close over an encoder and references, see `Objective.pursue`.

        Raises:
            HoldfastError: a function that changes its input, or whose value of an image depends on the others.
        """
        goal = super().pursue(encoder, clean, target)
        if len(clean) > 1:  # each image in another's place, so that values are not all 0
            name, trial = part_name(self), clean.roll(1, 0)
            with torch.no_grad(), forbid_mutation(f"the function {name}", trial, clean, target):
                whole = self(trial, clean, target)
                alone = self(trial[:1], clean[:1], None if target is None else target[:1])
            # Products round a little differently in batches of other sizes
            if not torch.allclose(whole[:1], alone, rtol=1e-3, atol=1e-4 * float(whole.abs().max())):
                raise Failed(
                    f"{name}: expected a value of each image by itself, got {float(alone):.4g} for an image alone and "
                    f"{float(whole[0]):.4g} among others, so numbers would depend on the batch size; reduce over "
                    "dimensions alone, not over images"
                )
        return goal


@overload
def loss(function: Function, *, name: str | None = None) -> OwnLoss: ...
@overload
def loss(function: None = None, *, name: str | None = None) -> Callable[[Function], OwnLoss]: ...
@check_arguments
def loss(function: Function | None = None, *, name: str | None = None) -> Any:
    """Return a function as an objective: what an adversary maximises, in place of `untargeted` or `targeted`.

        @holdfast.loss
        def turned(reps, clean):
            return 1 - torch.cosine_similarity(reps, clean)

        holdfast.audit(model, images, measures={"name": "universal_quantile", "objective": turned})

    It is registered under its name, for `universal_quantile[objective=turned]`, and its fingerprint is part of whatever
    is stored, so that other code makes other shards.

    Args:
        function: maps representations of disturbed images [N, D] and clean ones [N, D] to one value per image [N],
            larger where the adversary does better. With a third argument it is targeted, and gets the representations
            of the images that each is compared with.
        name: of the objective; that of the function where None, "own_loss" for a lambda.

    Raises:
        HoldfastError: a function of other arguments, or a name that is taken.
    """
    if function is None:
        return lambda function: loss(function, name=name)
    called = name_function(function, name, "own_loss")
    takes, needs = takes_target(function, called or "the loss", "reps", "clean")
    return part_of("objectives", OwnLoss, function, called, takes_target=takes, needs_target=needs)()
