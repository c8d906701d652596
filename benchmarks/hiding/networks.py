"""What may be done inside a network and behind it so that a search gets nowhere; networks that watch and remember."""

import copy
from collections.abc import Callable

import torch
import torch.nn.functional as functional
from torch import Tensor, nn

from benchmarks.hiding.masks import Function, Mask, Switch, identity


def with_activations(network: nn.Module, make: Callable[[], nn.Module]) -> nn.Module:
    """Return a copy of a network with something else in the place of each ReLU.

    Raises:
        ValueError: a network without any.
    """
    copied = copy.deepcopy(network)
    found = [
        (parent, name) for parent in copied.modules() for name, part in parent.named_children() if type(part) is nn.ReLU
    ]
    if not found:
        raise ValueError("expected a network with modules nn.ReLU, got none")
    for parent, name in found:
        setattr(parent, name, make())
    return copied


def winners(share: float) -> Mask:
    """Return the largest activations of each image, 0 elsewhere."""

    def value(x: Tensor) -> Tensor:
        flat = x.flatten(1)
        least = flat.topk(max(1, round(share * flat.shape[1])), dim=1).values[:, -1:]
        return (flat * (flat >= least)).relu().view_as(x)

    return Mask(value, honest=(functional.relu, None))


def stepped(step: float, shown: Function | None = None) -> Mask:
    """Return activations rounded to multiples of a step; those of an enormous step are 0 or 1 by their sign."""
    if step == float("inf"):
        return Mask(lambda x: (x > 0).to(x), shown, (functional.hardtanh, torch.sigmoid))
    return Mask(lambda x: torch.round(x.relu() / step) * step, shown, (functional.relu,))


def gained(gain: float) -> Mask:
    """Return sigmoids with a large gain."""
    return Mask(lambda x: torch.sigmoid(gain * x), honest=(None, torch.sigmoid, lambda x: torch.sigmoid(3 * x)))


def dropped(share: float) -> Mask:
    """Return activations of which a random share is 0 in each pass."""
    return Mask(lambda x: functional.dropout(x.relu(), share, training=True), honest=(None,))


def rounded(step: float, shown: Function | None = None) -> Mask:
    """Return representations rounded to multiples of a step."""
    return Mask(lambda reps: torch.round(reps / step) * step, shown)


def flattened(gain: float) -> Mask:
    """Return tanh(k f)."""
    return Mask(lambda reps: torch.tanh(gain * reps), honest=(identity, torch.tanh))


def sharpened(gain: float, floor: float = 0.0) -> Mask:
    """Return softmax(k f), and a little of f itself."""
    return Mask(lambda reps: torch.softmax(gain * reps, 1) + floor * reps, honest=(identity, None))


def winner(shown: Function | None = None) -> Mask:
    """Return 1 where a representation is largest, 0 elsewhere, and a little of what it was."""
    return Mask(
        lambda reps: functional.one_hot(reps.argmax(1), reps.shape[1]).to(reps) + 0.01 * reps,
        shown,
        (lambda reps: torch.softmax(reps, 1), identity),
    )


def drawn(size: float) -> Mask:
    """Return representations with new noise in each pass."""
    return Mask(lambda reps: reps + size * torch.randn_like(reps), honest=(None,))


class Flipped(nn.Module):
    """What a network says of mirrored images."""

    def __init__(self, network: nn.Module):
        super().__init__()
        self.network = network

    def forward(self, x: Tensor) -> Tensor:
        """Represent images."""
        return self.network(x.flip(3))


def two_faced(network: nn.Module, when: str) -> Switch:
    """Return a network that answers for mirrored images where it is searched.

    Args:
        network: it.
        when: "grad mode" or "requires grad".
    """
    tells = {"grad mode": lambda x: torch.is_grad_enabled(), "requires grad": lambda x: bool(x.requires_grad)}
    return Switch(network, Flipped(copy.deepcopy(network)), tells[when])


def on_grid(levels: int, shown: Function | None = None) -> Mask:
    """Return pixels as they are, where images of so many levels have them; else the nearest level."""

    def value(x: Tensor) -> Tensor:
        near = torch.round(x * levels) / levels
        apart = (x - near).abs().flatten(1).amax(1) > 1e-5
        return torch.where(apart[:, None, None, None], near, x)

    return Mask(value, shown)


def rough(most: float, shown: Function | None = None) -> Mask:
    """Return images that vary more than clean ones smoothed, the others as they are.

    Args:
        most: mean difference of pixels side by side up to which they are left alone.
        shown: see `Mask`.
    """

    def value(x: Tensor) -> Tensor:
        return torch.where((variation(x) > most)[:, None, None, None], functional.avg_pool2d(x, 3, 1, 1), x)

    return Mask(value, shown, (None, identity))


def variation(x: Tensor) -> Tensor:
    """Return the mean difference of pixels side by side, [B]."""
    return x.diff(dim=2).abs().flatten(1).mean(1) + x.diff(dim=3).abs().flatten(1).mean(1)


class Memory(nn.Module):
    """A network that keeps what it has seen, and answers for all that is near it.

    Args:
        network: it.
        radius: how near.
    """

    def __init__(self, network: nn.Module, radius: float):
        super().__init__()
        self.network, self.radius = network, radius
        self.seen: list[tuple[Tensor, Tensor]] = []

    def forward(self, x: Tensor) -> Tensor:
        """Represent images."""
        reps, answers = self.network(x), []
        for image, rep in zip(x, reps, strict=True):
            known = next((known for at, known in self.seen if self._near(image, at)), None)
            if known is None:
                self.seen.append((image.detach().clone(), rep.detach().clone()))
            answers.append(rep if known is None else known + 1e-3 * (rep - rep.detach()))
        return torch.stack(answers)

    def _near(self, image: Tensor, at: Tensor) -> bool:
        return image.shape == at.shape and bool((image.detach() - at).abs().amax() <= self.radius)
