"""What a pre-training method trains: the encoder with its heads, its twin and what it remembers."""

import copy
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import NamedTuple

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor, nn

from holdfast.core.encoder import Encoder, Images, Reps
from holdfast.core.randomness import Rng
from holdfast.numerics.bounds.margin import Margin, Rows
from holdfast.runtime.distributed import gather
from holdfast.runtime.errors import Unsupported


@dataclass(frozen=True)
class Batch:
    """What is known of a batch beside its images: of all processes together.

    Attributes:
        positions: where the images stand among those learned from, [B].
        labels: their classes, numbered from 0, [B]; None where they are not known.
        progress: share of the training that is done, in [0, 1).
        epoch: passes over the images that are done.
        classes: what the data call the classes, by their numbers; None where they are not known.
    """

    positions: Int[Tensor, "batch"]
    labels: Int[Tensor, "batch"] | None = None
    progress: float = 0.0
    epoch: int = 0
    classes: Sequence[int] | None = None


View = Float[Tensor, "batch channel _ _"]
"""Images [b, C, H, W] among views of other sizes."""

Look = Callable[[Int[Tensor, "batch"]], list[View]]
"""Positions of images among those learned from -> their augmented views, each [b, C, H, W]."""


TEMPERATURE = 0.1
"""Of the loss by which an image is told from others, in units of their mean squared distance."""

ATTACKED: ContextVar[tuple[int, int]] = ContextVar("attacked", default=(0, 1))
"""How many of the views that are being encoded together, the last ones, are attacked; and how many views there are."""


@contextmanager
def mark_attacked_views(attacked: int, views: int) -> Iterator[None]:
    """Encode so many views of a batch together inside, of which the last ones are attacked."""
    token = ATTACKED.set((attacked, views))
    try:
        yield
    finally:
        ATTACKED.reset(token)


class EncodedView(NamedTuple):
    """What became of one view of a batch; of all processes together.

    Attributes:
        rep: its representation [B, D]; None where the view is only a target.
        out: what the heads made of it, [B, ...]; None likewise.
        target: what other views of the same images are to predict, [B, ...]; None where nobody asks for it.
    """

    rep: Reps | None
    out: Tensor | None
    target: Tensor | None


class StepResult(NamedTuple):
    """What a training step is told: the loss, its clean and attacked parts, and the spread of representations."""

    loss: Float[Tensor, ""]
    clean: Float[Tensor, ""]
    attacked: Float[Tensor, ""]
    spread: Float[Tensor, ""]


class Student(nn.Module, ABC):
    """An encoder being trained, with everything its method trains beside it.

    Views of one batch are encoded in one concatenated pass; representations of all processes are then gathered, so that
    heads and the loss see the global batch and do not depend on how many processes share it.

    Args:
        encoder: a trainable copy, see `holdfast.sources.encoders.shared.copies.trainable`.
        projector: what the loss reads, behind the representation.
        predictor: what follows it where a view predicts others; the twin has none.
        twin: whether a slow copy of encoder and projector gives the targets.

    Attributes:
        views: how many whole views it takes.
        same_view: whether all of them are one and the same augmented image.
        many: whether it takes small views as well.
    """

    views: int = 2
    same_view: bool = False
    many: bool = False

    def __init__(
        self,
        encoder: Encoder,
        projector: nn.Module | None = None,
        predictor: nn.Module | None = None,
        *,
        twin: bool = False,
    ):
        super().__init__()
        self.encoder, self.projector = encoder, projector or nn.Identity()
        self.predictor = predictor or nn.Identity()
        self.twin = copy.deepcopy(nn.ModuleList([self.encoder, self.projector])) if twin else None
        if self.twin is not None:
            self.twin.requires_grad_(False)  # it moves by `follow` alone

    def train(self, mode: bool = True) -> "Student":
        """Set training mode, of encoders' networks too."""
        super().train(mode)
        # `Encoder.train` keeps eval mode, for audits; what is trained here is the network in it
        for module in list(self.modules()):
            if isinstance(module, Encoder):
                module.module.train(mode)
        return self

    # --- what a method defines ---

    def predicts(self, view: int) -> bool:
        """Whether a view goes through the encoder that is trained."""
        return True

    def is_target(self, view: int) -> bool:
        """Whether other views predict this one."""
        return True

    def heads(self, rep: Reps | None, twin: Reps | None) -> tuple[Tensor | None, Tensor | None]:
        """Return (out, target) of one view, from its representation and its twin's."""
        out = None if rep is None else self.predictor(self.projector(rep))
        if self.twin is None:  # without a twin the output of one view is the target of others
            return out, out
        # Stop-gradient: nothing is learned from how a target moves
        with torch.no_grad():
            return out, None if twin is None else self.twin[1](twin)

    def reference(self, x: Images) -> Reps:
        """Return the representations from which attacks measure how far undisturbed images have been moved."""
        return self.encoder(x)

    @abstractmethod
    def loss(self, views: Sequence[EncodedView], batch: Batch) -> Float[Tensor, ""]:
        """Return the loss of some views of a batch; changes nothing."""

    def joint(self, views: Sequence[EncodedView], batch: Batch) -> Float[Tensor, ""]:
        """Return the loss of the method's own views together with more of the same images; changes nothing.

        Raises:
            HoldfastError: a method that has no such loss.
        """
        name = type(self).__module__.rpartition(".")[2]
        raise Unsupported(f"{name}: has no joint loss of more than its own views; choose simclr, or joint=false")

    def mutual(self, views: Sequence[EncodedView], batch: Batch) -> Float[Tensor, ""]:
        """Return the loss of views that are each told from all others; changes nothing.

        Raises:
            HoldfastError: a method that has no such loss.
        """
        name = type(self).__module__.rpartition(".")[2]
        raise Unsupported(f"{name}: has no loss that tells every view from all others; choose simclr, or rocl=0")

    def bound(
        self, x: Images, lower: Callable[[Margin], Rows], batch: Batch, rng: Rng, most: int | None = None
    ) -> Float[Tensor, ""]:
        """Return an upper bound of a loss over all images near some, with its gradients; called in eval mode.

        By default of -log softmax_i(-‖f(x') - z_j‖² / T), z_j what `reference` makes of the batch and T a tenth of the
        mean ‖z_i - z_j‖²: it grows as x' comes nearer to another image, and is not less where all come together.

        Args:
            x: the images.
            lower: what no representation of an image near x falls below, for linear functions of it.
            batch: what is known of the images.
            rng: draws what is bounded, where that is not all.
            most: how many functions of each image are bounded, here for its nearest others; None: all.

        Raises:
            HoldfastError: a loss that cannot be bounded.
        """
        with torch.no_grad():
            points = self.reference(x)
            squared = torch.cdist(points, points).square()
            scale = (TEMPERATURE * squared.sum() / (len(x) * max(1, len(x) - 1))).clamp_min(1e-30)
            squared.fill_diagonal_(torch.inf)
            nearest = squared.topk(min(most or len(x), len(x) - 1), largest=False).indices
            # ‖f - z_j‖² - ‖f - z_i‖² is linear in f
            sizes = points.square().sum(1)
            margins = Margin(2 * (points[:, None] - points[nearest]) / scale, (sizes[nearest] - sizes[:, None]) / scale)
        # log(1 + Σ exp -margin): what is below every margin is above it
        return F.softplus(torch.logsumexp(-lower(margins), 1)).mean()

    def select_reps(self, views: Sequence[View], encoded: Sequence[EncodedView]) -> Float[Tensor, "some dim"]:
        """Return representations of some images, whose spread tells whether they have collapsed."""
        return next(view.rep for view in encoded if view.rep is not None)

    def remember(self, views: Sequence[EncodedView], batch: Batch) -> None:
        """Take note of a batch that was learned from (a queue, a centre); never called by attacks."""

    def after_step(self, progress: float) -> None:
        """Follow a step of the optimiser (a twin); `progress` is the share of the training that is done."""

    def begin_epoch(self, epoch: int, seed: int, look: Look) -> None:
        """Prepare an epoch (clusters).

        A training that goes on from the end of an epoch calls it once more with the same state.

        Args:
            epoch: passes over the images that are done.
            seed: of the training.
            look: gives any images as the epoch before saw them (or would have, before the first).
        """

    # --- what all methods share ---

    def see(
        self,
        views: Sequence[View],
        roles: Sequence[int],
        *,
        targets: bool = True,
        batch: Batch | None = None,
        attacked: int = 0,
    ) -> list[EncodedView]:
        """Encode views in one pass of each network.

        Args:
            views: images [b, C, H, W] of this process, of one or several sizes.
            roles: which view of the method each stands for; an attacked one takes the part of the first.
            targets: whether a twin's targets are wanted.
            batch: what is known of the images, for methods that hide a part of each.
            attacked: how many views, the last ones, are attacked: BatchNorm may part them from the others.
        """
        clean = len(views) - attacked  # views from here on are attacked
        # A view that only predicts, or is only a target, spares the pass of the other network
        online = {place: views[place] for place, role in enumerate(roles) if self.predicts(role)}
        aimed = {place: views[place] for place, role in enumerate(roles) if self.is_target(role)}
        # one pass of the student over views that predict, one of its twin over targets
        reps = self._encode(self.encoder, online, clean)
        twins: dict[int, Tensor] = {}
        if self.twin is not None and targets:
            with torch.no_grad():
                twins = self._encode(self.twin[0], aimed, clean)
        # None where a view went through one of the two networks alone
        heads = [(reps.get(place), *self.heads(reps.get(place), twins.get(place))) for place in range(len(views))]
        return [EncodedView(*map(_in_float32, view)) for view in heads]

    def forward(
        self,
        views: Sequence[View],
        attacked: Sequence[Images],
        batch: Batch,
        clean: float = 1.0,
        weight: float = 1.0,
        further: Sequence[Images] | None = None,
        pair: float = 0.0,
    ) -> StepResult:
        """Return the loss of a batch: clean · L(x_0, x_1, ...) + weight · mean_a L(x_a, x_1, ...).

        Args:
            views: augmented images, each [b, C, H, W].
            attacked: disturbed versions of the first view.
            batch: what is known of the images.
            clean: weight of the loss of the views as they are.
            weight: weight of the loss with the first view replaced by its disturbed versions.
            further: where given, L(x_a, x_1, ...) is the joint loss of the views, of x_a and of these further views.
            pair: above 0, that is L_m(x_0, x_1, ..., x_a) + pair · L_m(x_a, x_1) of the mutual loss L_m instead.
        """
        # drop the first view if its loss is not needed
        first = 0 if clean or not attacked or further is not None else 1
        more = further or ()
        roles = [*range(first, len(views)), *[0] * (len(more) + len(attacked))]
        encoded = self.see([*views[first:], *more, *attacked], roles, batch=batch, attacked=len(attacked))
        ends = len(views) - first, len(encoded) - len(attacked)
        kept, added, disturbed = encoded[: ends[0]], encoded[ends[0] : ends[1]], encoded[ends[1] :]
        # the loss of the views as they are, and with the first replaced by its attacked versions
        zero = torch.zeros((), device=views[0].device)
        # In a joint loss the attacked view joins all views, otherwise it replaces the first
        unattacked, joined = (kept[1 - first :], None) if further is None else (kept, added)
        with torch.autocast(views[0].device.type, enabled=False):  # losses take exponents and differences
            plain = self.loss(kept, batch) if first == 0 else zero
            losses = [self.worst(attacked_view, unattacked, joined, batch, pair) for attacked_view in disturbed]
        worst = torch.stack(losses).mean() if losses else zero
        # Attacks see the student in eval mode, and leave queues and centres as they are
        if self.training:
            self.remember(kept if first == 0 else [disturbed[0], *unattacked], batch)
        apart = spread(self.select_reps(views, encoded).detach())
        return StepResult(clean * plain + weight * worst, plain.detach(), worst.detach(), apart)

    def worst(
        self,
        attacked: EncodedView,
        unattacked: Sequence[EncodedView],
        further: Sequence[EncodedView] | None,
        batch: Batch,
        pair: float = 0.0,
    ) -> Float[Tensor, ""]:
        """Return the loss of an attacked view.

        Args:
            attacked: the attacked view.
            unattacked: the views from the second one on, whose first it stands for; of a joint loss all of them.
            further: more views of a joint loss; None: there is none.
            batch: what is known of the images.
            pair: weight of the attacked and the second view alone, beside the mutual loss of all; 0: no mutual loss.
        """
        if pair:
            # M(x_0, x_1, ..., x') + pair · M(x', x_1) of RoCL
            return self.mutual([*unattacked, attacked], batch) + pair * self.mutual([attacked, unattacked[1]], batch)
        if further is None:
            return self.loss([attacked, *unattacked], batch)
        return self.joint([*unattacked, attacked, *further], batch)

    def _encode(self, network: nn.Module, views: Mapping[int, View], clean: int) -> dict[int, Reps]:
        """Encode views of one size together; return the representations of all processes, view by view."""
        # A pass for each size of views, [n · b, C, H, W]
        reps: dict[int, Tensor] = {}
        for shape in dict.fromkeys(view.shape for view in views.values()):
            places = [place for place, view in views.items() if view.shape == shape]
            # How many of them are attacked, for BatchNorm that takes these apart
            with mark_attacked_views(sum(place >= clean for place in places), len(places)):
                together = network(torch.cat([views[place] for place in places]))
            reps |= dict(zip(places, together.chunk(len(places)), strict=True))
        # In one order in all processes, which wait for each other here
        return {place: gather(reps[place]) for place in views}

    @torch.no_grad()
    def follow(self, momentum: float) -> None:
        """Move the twin: θ' <- m θ' + (1 - m) θ, for encoder and projector."""
        assert self.twin is not None
        for slow, fast in zip(self.twin, (self.encoder, self.projector), strict=True):
            for old, new in zip(slow.parameters(), fast.parameters(), strict=True):
                old.lerp_(new, 1 - momentum)  # θ' + (1 - m) (θ - θ')


def _in_float32(value: Tensor | None) -> Tensor | None:
    """Return a value in float32, where mixed precision left it in half."""
    return value.float() if value is not None and value.dtype in (torch.float16, torch.bfloat16) else value


def spread(reps: Reps) -> Float[Tensor, ""]:
    """Return √(E‖z - E z‖² / E‖z‖²) of some representations, in [0, 1]: 0 where all are one point."""
    reps = reps.double()  # nearly equal points cancel in what follows
    size = reps.square().sum(1).mean()
    moved = (reps - reps.mean(0)).square().sum(1).mean()
    # `where` takes one branch but computes both, so the other must not divide by 0
    return torch.where(size > 0, (moved / size.clamp_min(1e-300)).sqrt(), torch.zeros_like(size))
