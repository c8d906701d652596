"""From an encoder to the network that bound propagation sees, by torch.export."""

import io
import logging
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from weakref import WeakKeyDictionary

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from holdfast.numerics.bounds.clip import Clip
from holdfast.numerics.bounds.clipped import join_clips, with_relus
from holdfast.numerics.bounds.encoder import Encoder
from holdfast.numerics.bounds.network import Network
from holdfast.numerics.bounds.operations import Operations
from holdfast.numerics.bounds.reader import REMEDY, place
from holdfast.runtime.errors import HoldfastError, NotCertified, first_line
from holdfast.runtime.network import copy_of

# For each encoder and shape: its weights and layers when it was traced, and the network. It is weak, so
# that what was traced goes with its encoder.
_traced: WeakKeyDictionary[Encoder, dict[tuple[int, ...], tuple[dict[str, Tensor], str, Network]]] = WeakKeyDictionary()


def trace(encoder: Encoder, shape: tuple[int, ...]) -> Network:
    """Return the encoder's network for images of this shape in float64, traced once while weights and layers stay.

    Normalisation and BatchNorm are folded into weights in float64 too: folded in float32, another network is bounded.
    All of that is done on the CPU, where every device has the same network from, and then brought to the encoder's.

    Raises:
        NotCertified: a mean over draws, a network that cannot be exported, holds an operation that cannot be bounded
            (the error names it and where it stands), or weights that are not finite.

    Example:
        >>> from holdfast.core import Encoder
        >>> network = trace(Encoder(nn.Sequential(nn.Flatten(), nn.Linear(4, 2), nn.ReLU()), mean=0, std=1), (1, 2, 2))
        >>> [type(node.operation).__name__ for node in network.nodes[1:]]
        ['Reshape', 'Matrix', 'Relu']
    """
    if encoder.draws is not None:
        raise NotCertified(
            f"not certified: encoder {encoder.name!r} is the mean of {encoder.draws} draws of a network, and "
            "bound propagation takes one without random numbers; switch them off and leave draws out, or use smoothing"
        )
    # What was traced before, where weights and layers are still those
    state = {**dict(encoder.named_parameters()), **dict(encoder.named_buffers())}
    traced, layers = _traced.setdefault(encoder, {}), repr(encoder.module)
    if shape in traced and _same(traced[shape][0], state) and traced[shape][1] == layers:
        return traced[shape][2]
    # What no bound allows for is refused before the trace, which may take long
    bad = [name for name, t in state.items() if t.is_floating_point() and not torch.isfinite(t).all()]
    if bad:
        raise NotCertified(f"not certified: the weights {bad[0]!r} of encoder {encoder.name!r} are NaN or infinite")
    if scripts := [name for name, module in encoder.named_modules() if isinstance(module, torch.jit.ScriptModule)]:
        raise NotCertified(
            f"not certified: {scripts[0]} of encoder {encoder.name!r} is TorchScript, which bound propagation does not "
            "read; give the original network"
        )
    if short := [name for name, t in encoder.named_parameters() if t.dtype in (torch.float16, torch.bfloat16)]:
        raise NotCertified(
            f"not certified: encoder {encoder.name!r} computes in half precision ({short[0]}), whose rounding no bound "
            "allows for; give the network in float32: network.float()"
        )
    network = _read(encoder, shape)[1].on(encoder.device)
    # Clones, since a training changes weights in place
    traced[shape] = ({name: t.detach().clone() for name, t in state.items()}, layers, network)
    return network


class Tracing:
    """An encoder's network for images of a shape with its weights as they are now, which gradients flow to.

    It is traced once, in eval mode (BatchNorm with the statistics that it keeps), then read again with other weights;
    see `trace` for what is refused. Weights are folded in float64, and bounded in float32, as they are trained.
    """

    def __init__(self, encoder: Encoder, shape: tuple[int, ...]):
        trace(encoder, shape)  # refuses what cannot be bounded
        self._program, _ = _read(encoder, shape)

    def network(self, encoder: Encoder) -> Network:
        """Return the network of the encoder that was traced, as it is now."""
        module = encoder.module
        tensors = {
            **dict(module.named_parameters(remove_duplicate=False)),
            **dict(module.named_buffers(remove_duplicate=False)),
        }
        weights = {f"module.{name}": t.cpu().double() for name, t in tensors.items() if t.is_floating_point()}
        return Operations(self._program, encoder.name, weights).network().single.on(encoder.device)


def _read(encoder: Encoder, shape: tuple[int, ...]) -> tuple[torch.export.ExportedProgram, Network]:
    """Return what torch.export makes of an encoder, and its network, which was held against the encoder on images."""
    # A copy, in float64 on the CPU: the encoder itself stays as it is
    try:
        pixels = copy_of(_Pixels(encoder)).cpu().double()
    except HoldfastError as error:
        raise NotCertified(f"not certified: {error}") from error
    program = _export(pixels, encoder.name, shape)
    network = Operations(program, encoder.name).network()
    # Integers are read as roundings between ReLUs, of which one function is bounded more tightly, and once
    if any(isinstance(node.operation, Clip) for node in network.nodes):
        network = with_relus(join_clips(network))
    _compare(pixels, network, encoder.name, shape)
    return program, network


def _same(before: dict[str, Tensor], now: dict[str, Tensor]) -> bool:
    """Compare values: torch's version counters miss changes through `.data`, and a stale network proves nothing."""
    return before.keys() == now.keys() and all(
        t.dtype == now[name].dtype and t.device == now[name].device and torch.equal(t, now[name])
        for name, t in before.items()
    )


class _Pixels(nn.Module):
    """What `Encoder.forward` computes, without its checks and counts."""

    def __init__(self, encoder: Encoder):
        super().__init__()
        self.module = encoder.module
        self.identity = encoder.normalisation.identity
        self.mean: Tensor
        self.std: Tensor
        self.register_buffer("mean", encoder.normalisation.mean)
        self.register_buffer("std", encoder.normalisation.std)

    def forward(self, x: Tensor) -> Tensor:
        output = self.module(x if self.identity else (x - self.mean) / self.std)
        return output if output.ndim == 2 else output.flatten(1)  # [B, D, 1, 1], see `representations`


def _export(pixels: _Pixels, name: str, shape: tuple[int, ...]) -> torch.export.ExportedProgram:
    # One grey image; batches follow from the network, whose operations take them
    example = torch.full((1, *shape), 0.5).to(pixels.mean)
    inside: list[str] = []
    try:
        with _quiet(), _track_modules(pixels, inside):
            # Non-strict: the forward pass runs as Python, so that the hooks see how far it comes
            return torch.export.export(pixels, (example,), strict=False)
    except Exception as error:  # whatever a foreign network raises
        values = type(error).__name__ in VALUE_ERRORS or "tensor subclasses" in str(error)
        reason = (
            "its forward pass depends on the values of tensors (an if, a loop, a size)" if values else first_line(error)
        )
        module = inside[-1] if inside else "the encoder"
        raise NotCertified(
            f"not certified: {module} of encoder {name!r} cannot be traced by torch.export: {reason}; {REMEDY}"
        ) from error


VALUE_ERRORS = ("GuardOnDataDependentSymNode", "DataDependentOutputException")
"""What torch raises where numbers would have to be known; it says the same of `.numpy()` in other words."""


@contextmanager
def _track_modules(pixels: _Pixels, inside: list[str]) -> Iterator[None]:
    """Keep a list of the modules that are running, the innermost last; an error leaves those where it was raised."""
    hooks = []
    for path, module in pixels.named_modules():
        location = place(path, type(module).__name__)
        hooks.append(module.register_forward_pre_hook(lambda *_, location=location: inside.append(location)))
        # `and None`: what a forward hook returns would take the place of the output
        hooks.append(module.register_forward_hook(lambda *_: inside.pop() and None))
    try:
        yield
    finally:
        for hook in hooks:
            hook.remove()


@contextmanager
def _quiet() -> Iterator[None]:
    """Keep torch from printing whole graphs where a trace fails: the error that follows says what is wrong."""
    disabled, nowhere = logging.root.manager.disable, io.StringIO()
    logging.disable(logging.CRITICAL)
    try:
        with warnings.catch_warnings(), redirect_stderr(nowhere), redirect_stdout(nowhere):
            warnings.simplefilter("ignore")
            yield
    finally:
        logging.disable(disabled)


def _compare(pixels: _Pixels, network: Network, name: str, shape: tuple[int, ...]) -> None:
    """Refuse a network that does not compute what the encoder computes, for each image of a batch."""
    # Several images, for one alone cannot show that a network mixes the images of a batch
    x = torch.rand(3, *shape, generator=torch.Generator().manual_seed(0)).to(pixels.mean)
    with torch.no_grad():
        expected, computed = pixels(x), network(x)
    if expected.dtype != computed.dtype:
        raise NotCertified(
            f"not certified: encoder {name!r} casts its numbers to {str(expected.dtype)[6:]}, whose rounding no bound "
            "allows for; leave the cast out, the representation is float32 in any case"
        )
    # The network leaves a final normalisation out
    if network.normalised is not None:
        computed = F.normalize(computed)
    if not torch.isfinite(expected).any():
        raise NotCertified(
            f"not certified: encoder {name!r} gives NaN or infinite representations of images in [0, 1]: expected "
            "numbers; look for weights that are too large, or a root or logarithm outside its domain"
        )
    if not _near(expected, computed):
        # A module that mixes images explains the difference better than the trace
        mixes = _mixes(pixels, x)
        if mixes is not None:
            raise NotCertified(
                f"not certified: {mixes} of encoder {name!r} mixes the images of a batch, so that an image has no "
                "representation of its own; take out what reads the batch axis, or take an earlier layer (?layer=)"
            )
        raise NotCertified(f"not certified: the traced network of encoder {name!r} computes something else")


def _near(expected: Tensor, computed: Tensor) -> bool:
    """Whether two results are the same but for rounding; NaN, outside a root's domain say, is the same as NaN."""
    if expected.shape != computed.shape:
        return False
    sizes = expected.nan_to_num(0.0, 0.0, 0.0).abs().amax(0)  # of each coordinate: a large one says nothing of others
    # Float64, but sums in another order
    same = (expected - computed).abs() <= 1e-9 * (sizes + expected.abs())
    # An infinite number equals itself, though the difference is NaN
    return bool((same | (expected == computed) | (expected.isnan() & computed.isnan())).all())


def _mixes(pixels: _Pixels, x: Tensor) -> str | None:
    """Return the first module, in the order in which they end, whose output for an image depends on the others."""
    together, alone = _outputs(pixels, x), _outputs(pixels, x[:1])
    for location, expected in alone.items():
        output = together[location]
        # Without images on the first axis an output tells nothing
        if len(expected) == 1 and len(output) == len(x) and not _near(expected, output[:1]):
            return location
    return None


def _outputs(pixels: _Pixels, x: Tensor) -> dict[str, Tensor]:
    """Return what each module gives, by its place."""
    outputs: dict[str, Tensor] = {}

    def keep(location: str) -> Callable[..., None]:
        def hook(module: nn.Module, inputs: object, output: object) -> None:
            # The first call of a module counts, and a copy of what it gave: later modules may
            # change it in place
            if isinstance(output, Tensor) and output.ndim:
                outputs.setdefault(location, output.clone())

        return hook

    hooks = [m.register_forward_hook(keep(place(path, type(m).__name__))) for path, m in pixels.named_modules()]
    try:
        with torch.no_grad():
            pixels(x)
    finally:
        for hook in hooks:
            hook.remove()
    return outputs
