"""Networks of a user's own, of every kind: what they give, in float32, or one line and a way out."""

import collections
import copy
import dataclasses
import threading
import types
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.utils.prune
from torch import Tensor, nn
from torch.nn.utils import parametrizations, parametrize

import holdfast
from holdfast.core import Encoder, HoldfastError
from holdfast.runtime.errors import NotCertified, Unsupported
from holdfast.runtime.network import copy_of
from holdfast.workflows.monitor.snapshot import freeze_copy

pytestmark = pytest.mark.filterwarnings("ignore")  # torch's own, about what is old or new

X = torch.rand(6, 3, 8, 8, generator=torch.Generator().manual_seed(0))
WIDE = 192


def plain() -> nn.Sequential:
    return nn.Sequential(nn.Flatten(), nn.Linear(WIDE, 32), nn.ReLU(), nn.Linear(32, 8)).eval()


def linear(around: Callable[[nn.Linear], nn.Module]) -> nn.Module:
    return nn.Sequential(nn.Flatten(), around(nn.Linear(WIDE, 8))).eval()


class Own(nn.Module):
    """Gives what a function makes of it and of the images.

    Args:
        function: gets this module and the images.
        net: a network that the function may use.
        more: attributes.
    """

    def __init__(self, function: Callable[[Any, Tensor], Any], net: nn.Module | None = None, **more: Any):
        super().__init__()
        self.net, self.function = net or plain(), function
        for name, value in more.items():
            setattr(self, name, value)

    def forward(self, x: Tensor) -> Any:
        return self.function(self, x)


def used(network: nn.Module) -> nn.Module:
    """Return a network after a pass forward and backward, with what these leave in it."""
    output = network.train()(X)
    (output if isinstance(output, Tensor) else X.requires_grad_()).sum().backward()
    X.requires_grad_(False)
    return network.eval()


def reloaded(path: Path) -> nn.Module:
    torch.jit.script(plain()).save(path)
    return torch.jit.load(path)


def autocast(own: Own, x: Tensor) -> Tensor:
    with torch.autocast("cpu", torch.bfloat16):
        return own.net(x)


def hooked() -> nn.Module:
    network, seen = plain(), {}
    network[1].register_forward_hook(lambda module, args, output: seen.update(last=output) or 2 * output)
    network.seen = seen  # type: ignore[assignment]
    return used(network)


class Tanh(nn.Module):
    def forward(self, weight: Tensor) -> Tensor:
        return weight.tanh()


def parametrised() -> nn.Module:
    network = plain()
    parametrize.register_parametrization(network[1], "weight", Tanh())
    return network


def pruned() -> nn.Module:
    network = plain()
    torch.nn.utils.prune.l1_unstructured(network[1], "weight", 0.5)
    return used(network)


def with_frozen_norm() -> nn.Module:
    layer = nn.utils.weight_norm(nn.Linear(32, 8))
    layer.weight_g.requires_grad_(False)  # as the heads of DINO are built
    return nn.Sequential(nn.Flatten(), nn.Linear(WIDE, 32), layer).eval()


def initialised() -> nn.Module:
    network = nn.Sequential(nn.Flatten(), nn.LazyLinear(8)).eval()
    network(X)
    return network


def in_inference_mode() -> nn.Module:
    with torch.inference_mode():
        return plain()


class Nothing(nn.Sequential):
    """Its `train` returns nothing."""

    def train(self, mode: bool = True) -> None:  # type: ignore[override]
        super().train(mode)


class Sub(Tensor):
    """A tensor by another name."""


def exported() -> nn.Module:
    sizes = ({0: torch.export.Dim("images", min=1, max=999)},)
    return torch.export.export(plain(), (X,), dynamic_shapes=sizes).module()


ALIKE: dict[str, Callable[[], nn.Module]] = {
    "plain": plain,
    "scripted": lambda: torch.jit.script(plain()),
    "scripted, with BatchNorm": lambda: torch.jit.script(nn.Sequential(nn.BatchNorm2d(3), nn.Flatten()).eval()),
    "scripted in training mode": lambda: torch.jit.script(nn.Sequential(nn.Flatten(), nn.Dropout(0.5))),
    "traced": lambda: torch.jit.trace(plain(), X[:2]),
    "frozen script": lambda: torch.jit.freeze(torch.jit.script(plain())),
    "script inside": lambda: nn.Sequential(nn.Identity(), torch.jit.script(plain())),
    "trace inside": lambda: Own(lambda own, x: own.net(x), torch.jit.trace(plain(), X[:2])),
    "graph": lambda: torch.fx.symbolic_trace(plain()),
    "torch.export": exported,
    "lazy, run once": initialised,
    "old weight norm": lambda: linear(nn.utils.weight_norm),
    "old weight norm, used": lambda: used(linear(nn.utils.weight_norm)),
    "old weight norm with a frozen length": with_frozen_norm,
    "weight norm": lambda: used(linear(parametrizations.weight_norm)),
    "old spectral norm, used": lambda: used(linear(nn.utils.spectral_norm)),
    "spectral norm": lambda: used(linear(parametrizations.spectral_norm)),
    "orthogonal": lambda: linear(parametrizations.orthogonal),
    "pruned": pruned,
    "parametrised": parametrised,
    "autocast inside": lambda: Own(autocast),
    "half at its end": lambda: Own(lambda own, x: own.net(x).half()),
    "double at its end": lambda: Own(lambda own, x: own.net(x).double()),
    "half inside": lambda: Own(lambda own, x: own.net(x.half()), plain().half()),
    "complex inside": lambda: Own(lambda own, x: torch.fft.rfft(own.net(x)).abs()),
    "a map of one place": lambda: Own(lambda own, x: own.net(x)[:, :, None, None]),
    "one number in a row": lambda: Own(lambda own, x: own.net(x)[:, :1]),
    "a subclass of tensor": lambda: Own(lambda own, x: own.net(x).as_subclass(Sub)),
    "hooks that keep what they see": hooked,
    "keeps its last output": lambda: used(Own(lambda own, x: vars(own).update(last=own.net(x)) or own.last)),
    "keeps outputs in a list": lambda: used(Own(lambda own, x: own.kept.append(own.net(x)) or own.kept[-1], kept=[])),
    "keeps outputs in an object": lambda: used(
        Own(lambda own, x: vars(own.kept).update(z=[own.net(x)]) or own.kept.z[0], kept=types.SimpleNamespace())
    ),
    "compiled": lambda: torch.compile(plain(), backend="eager"),
    "compiled inside": lambda: Own(lambda own, x: own.net(x), torch.compile(plain(), backend="eager")),
    "DataParallel": lambda: nn.DataParallel(plain()),
    "compiled DataParallel": lambda: torch.compile(nn.DataParallel(plain()), backend="eager"),
    "made in inference mode": in_inference_mode,
    "frozen": lambda: plain().requires_grad_(False),
    "train returns nothing": lambda: Nothing(*plain().children()),
    "no parameters": lambda: nn.Flatten(),
    "a list of parameters": lambda: Own(
        lambda own, x: x.flatten(1) @ own.ps[0], ps=nn.ParameterList([torch.eye(WIDE)])
    ),
    "attributes of many kinds": lambda: Own(lambda own, x: own.net(x), a={1, 2}, b=(None, "text"), c=torch.nn, d=open),
}
"""Networks that give what they give, called as they are."""

PRECISE = {"half": torch.float16, "bfloat16": torch.bfloat16, "double": torch.float64}


@pytest.mark.sweep(3)
@pytest.mark.parametrize("kind", ALIKE)
def test_a_network_gives_what_it_gives_in_float32(kind: str) -> None:
    """A frozen copy, with a gradient to the pixels; the network itself stays as it was."""
    torch.manual_seed(0)
    network = ALIKE[kind]()
    wanted = [value.requires_grad for value in network.parameters()]
    encoder = freeze_copy(network, 0.0, 1.0)
    x = X.clone().requires_grad_()
    reps = encoder(x)
    assert reps.dtype == torch.float32
    (gradient,) = torch.autograd.grad(reps.sum(), x)
    assert bool((gradient != 0).flatten(1).any(1).all())
    assert not any(value.requires_grad for value in encoder.parameters())
    assert [value.requires_grad for value in network.parameters()] == wanted
    training = kind == "scripted in training mode"
    with torch.no_grad():
        expected = (network.eval() if training else network)(X)
    torch.testing.assert_close(reps.detach(), expected.flatten(1).float().as_subclass(Tensor), rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("kind", PRECISE)
def test_a_network_gets_pixels_as_precise_as_its_weights(kind: str) -> None:
    network = plain().to(PRECISE[kind])
    encoder = freeze_copy(network, 0.25, 0.5)
    reps = encoder(X)
    assert reps.dtype == torch.float32
    assert torch.equal(reps, network(((X - 0.25) / 0.5).to(PRECISE[kind])).float())
    assert encoder(X.double()).dtype == torch.float64, "pixels in double precision are a reference of ours"
    settings = {"measures": ["breakaway_risk"], "images": 6, "attacked": 4, "settings": {"*.attack.steps": 2}}
    record = holdfast.audit(network, X, mean=0.25, std=0.5, budget="none", quiet=True, **settings)
    assert not record.failures


def test_bounds_allow_for_no_rounding_in_half_precision() -> None:
    from holdfast.numerics.bounds.trace import trace

    trace(Encoder(copy.deepcopy(plain()).double(), mean=0, std=1), (3, 8, 8))
    with pytest.raises(NotCertified, match=r"module\.1\.weight"):
        trace(Encoder(plain().half(), mean=0, std=1), (3, 8, 8))
    with pytest.raises(NotCertified, match="float32"):
        trace(Encoder(Own(lambda own, x: own.net(x).half().float()), mean=0, std=1), (3, 8, 8))
    network = trace(Encoder(ALIKE["a map of one place"](), mean=0, std=1), (3, 8, 8))
    assert network(X.double()).shape == (6, 8)


Pair = collections.namedtuple("Pair", "features aux")


@dataclasses.dataclass
class Out:
    features: Tensor
    aux: Tensor | None = None


class Training(nn.Sequential):
    def train(self, mode: bool = True) -> "Training":
        if not mode:
            raise RuntimeError("always trains")
        return super().train(mode)


class Bare(nn.Module):
    def __init__(self) -> None:
        pass


class Uncopied(nn.Sequential):
    def __deepcopy__(self, memo: object) -> nn.Module:
        raise TypeError("no copies")


def gives(function: Callable[[Tensor], Any]) -> Callable[[], nn.Module]:
    return lambda: Own(lambda own, x: function(own.net(x)))


REFUSED: dict[str, tuple[Callable[[], nn.Module], str]] = {
    "lazy": (lambda: nn.Sequential(nn.Flatten(), nn.LazyLinear(8)), r"1.weight is lazy.*run the network once"),
    "lazy inside": (lambda: Own(lambda own, x: x, nn.LazyConv2d(4, 3)), r"net.weight is lazy"),
    "lazy statistics": (lambda: nn.Sequential(nn.LazyBatchNorm2d(affine=False)), r"0.running_mean is lazy"),
    "meta": (lambda: plain().to("meta"), r"1.weight is on the device 'meta'.*to_empty"),
    "meta output": (gives(lambda z: z.to("meta")), r"on the device 'meta', which holds no values"),
    "sparse weights": (
        lambda: Own(lambda own, x: x, w=nn.Parameter(torch.eye(3).to_sparse())), r"dense weights, w is sparse_coo"
    ),
    "never initialised": (Bare, r"Bare.__init__ never called super\(\).__init__\(\)"),
    "eval fails": (lambda: Training(*plain().children()), r"its eval\(\) raises RuntimeError: always trains"),
    "a lock": (lambda: Own(lambda own, x: x, lock=threading.Lock()), r"its attribute lock \(cannot pickle.*py:module"),
    "a lock in a layer": (
        lambda: nn.Sequential(Own(lambda own, x: x, Own(lambda own, x: x, lock=threading.Lock()))),
        r"its attribute 0.net.lock \(",
    ),
    "a generator": (lambda: Own(lambda own, x: x, it=iter(lambda: 0, 1), g=(i for i in "a")), r"its attribute g \("),
    "no copies": (lambda: Uncopied(*plain().children()), r"Uncopied cannot be copied: no copies.*py:module:function"),
    "complex": (gives(torch.fft.fft), r"complex64 \[6, 8\]; say what of it counts: output.abs\(\), or torch.view_as_r"),
    "whole numbers": (gives(lambda z: (9 * z).long()), r"int64 \[6, 8\]; whole numbers have no gradient"),
    "truth values": (gives(lambda z: z > 0), r"bool \[6, 8\]; whole numbers have no gradient"),
    "sparse": (gives(lambda z: z.to_sparse()), r"a sparse_coo tensor; write output.to_dense"),
    "sparse rows": (gives(lambda z: z.to_sparse_csr()), r"a sparse_csr tensor; write output.to_dense"),
    "quantised": (gives(lambda z: torch.quantize_per_tensor(z, 0.1, 0, torch.qint8)), r"write output.dequantize"),
    "nested": (gives(lambda z: torch.nested.as_nested_tensor(list(z))), r"a nested tensor; give one size to all"),
    "masked": (gives(lambda z: torch.masked.masked_tensor(z, z > 0)), r"a MaskedTensor; return a plain tensor"),
    "dict": (gives(lambda z: {"map": z[:, :, None, None], "features": z}),
             r"dict of output\['map'\] \[6, 8, 1, 1\], output\['features'\] \[6, 8\]; .*such as output\['features'\]"),
    "tuple": (gives(lambda z: (None, z)), r"tuple of output\[1\] \[6, 8\]; return one of them, such as output\[1\]"),
    "list": (gives(lambda z: [z, z]), r"list of output\[0\] \[6, 8\], output\[1\] \[6, 8\]"),
    "namedtuple": (gives(lambda z: Pair(z, z)), r"Pair of output.features \[6, 8\], output.aux"),
    "dataclass": (gives(Out), r"Out of output.features \[6, 8\]; return one of them, such as output.features"),
    "namespace": (gives(lambda z: types.SimpleNamespace(z=z)), r"SimpleNamespace of output.z"),
    "nothing": (gives(lambda z: None), r"got NoneType; return a tensor, one vector per image"),
    "an array": (gives(lambda z: z.detach().numpy()), r"got ndarray; return a tensor"),
    "a map": (gives(lambda z: z.view(-1, 2, 2, 2)), r"\[6, 2, 2, 2\]; choose a layer and a pooling.*mean\(\(2, 3\)\)"),
    "tokens": (gives(lambda z: z.view(-1, 4, 2)), r"\[6, 4, 2\]; choose a layer .*output\[:, 0\] or output.mean\(1\)"),
    "one number": (gives(lambda z: z[:, 0]), r"\[6\], one number per image; where that is meant, return output\[:, No"),
    "no number": (gives(lambda z: z[:, :0]), r"\[6, 0\], no number for an image; return at least one"),
    "one vector for all": (gives(lambda z: z[:1]), r"\[1, 8\]; return one vector per image"),
    "on its side": (gives(lambda z: z.T), r"\[8, 6\]; return one vector per image"),
    "a single number": (gives(lambda z: z.sum()), r"float32 \[\]; return one vector per image"),
}  # fmt: skip


@pytest.mark.sweep(2)
@pytest.mark.parametrize("kind", REFUSED)
def test_what_cannot_be_audited_is_one_line_with_the_way_out(kind: str) -> None:
    make, says = REFUSED[kind]
    network = make()
    with pytest.raises(HoldfastError, match=says) as caught:
        freeze_copy(network, 0.0, 1.0)(X)
    assert "\n" not in str(caught.value)
    with pytest.raises(HoldfastError, match=r"expected|cannot be copied"):
        holdfast.audit(network, X, mean=0, std=1, measures=["breakaway_risk"], images=6, attacked=2, quiet=True)


def test_what_a_step_without_a_derivative_gives_is_no_gradient() -> None:
    network = torch.ao.quantization.quantize_dynamic(plain(), {nn.Linear}, dtype=torch.qint8)
    x = X.clone().requires_grad_()
    with pytest.raises(Unsupported, match="attack=square"):
        freeze_copy(network, 0.0, 1.0)(x).sum().backward()


@pytest.fixture
def one_process() -> Iterator[None]:
    import torch.distributed as dist

    dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    yield
    dist.destroy_process_group()


@pytest.mark.usefixtures("one_process")
def test_a_network_that_several_processes_train() -> None:
    network = plain()
    wrapped = nn.parallel.DistributedDataParallel(network)
    for around in (wrapped, torch.compile(wrapped, backend="eager")):
        encoder = freeze_copy(around, 0.0, 1.0)
        assert torch.equal(encoder(X), network(X).detach())
        assert type(encoder.module) is nn.Sequential


def test_a_copy_shares_nothing() -> None:
    network = used(linear(nn.utils.weight_norm))
    twin = copy_of(network)
    before = network(X).detach()
    for value in (twin[1].bias, twin[1].weight_g, twin[1].weight):  # type: ignore[index]
        value.detach().zero_()
    assert not bool(twin(X).any())
    assert torch.equal(network(X).detach(), before)


def test_the_draws_that_a_check_compares_are_normalised_once() -> None:
    noisy = Own(lambda own, x: x.flatten(1) + 0 * torch.rand(1), nn.Identity())
    encoder = Encoder(noisy, mean=0.5, std=0.25, draws=2)
    drawn = encoder.each_draw(X, 2)
    assert torch.equal(drawn[0], encoder(X))
