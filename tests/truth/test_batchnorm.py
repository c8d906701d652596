"""BatchNorm of attacked and clean rows, of nobody, and of several processes, against computations by hand."""

import copy
import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.optim.swa_utils import AveragedModel, get_ema_multi_avg_fn

from holdfast.core import Batch, Encoder, Facts
from holdfast.core.student import mark_attacked_views
from holdfast.parts.methods.byol import Byol
from holdfast.parts.methods.simclr import Simclr
from holdfast.runtime.distributed import gather
from holdfast.runtime.errors import Mismatch, Unsupported
from holdfast.sources.encoders import open_encoder
from holdfast.sources.encoders.shared.copies import trainable
from holdfast.training.batchnorm import unwrap_batchnorm, wrap_batchnorm


class Active(nn.BatchNorm2d):
    """A layer with its activation inside, as timm's are."""

    def forward(self, input: Tensor) -> Tensor:
        return super().forward(input).tanh()


def network(layer: nn.Module | None = None) -> Encoder:
    """BatchNorm of the pixels, then a linear map."""
    with torch.random.fork_rng():
        torch.manual_seed(3)
        linear = nn.Linear(2 * 4 * 4, 6)
    module = nn.Sequential(nn.BatchNorm2d(2) if layer is None else layer, nn.Flatten(), linear)
    return trainable(Encoder(module, mean=0.0, std=1.0, name="net"))


def images(seed: int, count: int = 6) -> Tensor:
    return torch.rand(count, 2, 4, 4, generator=torch.Generator().manual_seed(seed))


def moments(x: Tensor) -> tuple[Tensor, Tensor]:
    """Running statistics after one batch, from (0, 1) with momentum 0.1."""
    return 0.1 * x.mean((0, 2, 3)), 0.9 + 0.1 * x.transpose(0, 1).flatten(1).var(1)


def normal(x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    mean, var = x.mean((0, 2, 3), keepdim=True), x.var((0, 2, 3), keepdim=True, correction=0)
    return (x - mean) / (var + 1e-5).sqrt() * weight.view(1, -1, 1, 1) + bias.view(1, -1, 1, 1)


def test_attacked_and_clean_rows_have_layers_of_their_own() -> None:
    encoder = wrap_batchnorm(network(nn.BatchNorm2d(2)), "split")
    encoder.module.train()
    own, twin = encoder.module[0].layer, encoder.module[0].clean  # pyright: ignore
    with torch.no_grad():
        own.weight.copy_(torch.tensor([2.0, 3.0]))
        twin.bias.copy_(torch.tensor([-1.0, 4.0]))
    clean, attacked = torch.cat([images(0), images(1)]), images(2) * 0.3
    with mark_attacked_views(1, 3):
        reps = encoder(torch.cat([clean, attacked]))
    middle = [
        normal(clean, torch.ones(2), torch.tensor([-1.0, 4.0])),
        normal(attacked, torch.tensor([2.0, 3.0]), own.bias),
    ]
    torch.testing.assert_close(reps, encoder.module[2](torch.cat(middle).flatten(1)))  # pyright: ignore
    for layer, x in ((own, attacked), (twin, clean)):
        mean, var = moments(x)
        torch.testing.assert_close(layer.running_mean, mean)
        torch.testing.assert_close(layer.running_var, var)
    reps[:12].sum().backward()  # what the clean rows say moves their own scale alone
    assert own.weight.grad.abs().sum() == 0
    assert twin.weight.grad.abs().sum() > 0


def test_eval_mode_and_what_comes_out_are_those_of_attacked_rows() -> None:
    start = network()
    encoder = wrap_batchnorm(trainable(start), "split")
    encoder.module.train()
    with mark_attacked_views(1, 2):
        encoder(torch.cat([images(0), images(1)]))
    encoder.module.eval()
    out = unwrap_batchnorm(encoder)
    x = images(5)
    mean, var = moments(images(1))
    by_hand = F.batch_norm(x, mean, var, eps=1e-5).flatten(1)
    torch.testing.assert_close(encoder(x), encoder.module[2](by_hand))  # pyright: ignore
    torch.testing.assert_close(out(x), encoder(x))
    assert list(out.module.state_dict()) == list(start.module.state_dict())
    assert type(out.module[0]) is nn.BatchNorm2d  # pyright: ignore
    assert not any(value.requires_grad for value in out.parameters())
    assert not out.module.training


@pytest.mark.parametrize("clean", [1.0, 0.0])
@pytest.mark.parametrize("method", [Simclr(hidden=8, dim=4), Byol(hidden=8, dim=4)])
def test_a_student_says_which_rows_are_attacked(method: Simclr | Byol, clean: float) -> None:
    student = method.student(wrap_batchnorm(network(), "split"), Facts(6, 6))
    student.train()
    views, attacked = [images(0), images(1)], images(2) * 0.3
    student(views, [attacked], Batch(torch.arange(6)), clean)
    networks = [student.encoder.module] + ([student.twin[0].module] if student.twin is not None else [])
    for one in networks:
        layer = one[0]
        torch.testing.assert_close(layer.layer.running_mean, moments(attacked)[0])
        seen = torch.cat(views if clean else views[1:])
        torch.testing.assert_close(layer.clean.running_mean, moments(seen)[0])


def test_frozen_statistics_stay_and_scale_learns() -> None:
    student = Simclr(hidden=8, dim=4).student(wrap_batchnorm(network(), "frozen"), Facts(6, 6))
    student.train()
    layer = student.encoder.module[0].layer  # pyright: ignore
    layer.running_mean.fill_(0.5)
    before = copy.deepcopy(layer.state_dict())
    reps = student.encoder(images(0))
    by_hand = F.batch_norm(images(0), layer.running_mean, layer.running_var, eps=1e-5).flatten(1)
    torch.testing.assert_close(reps, student.encoder.module[2](by_hand))  # pyright: ignore
    student([images(0), images(1)], [images(2)], Batch(torch.arange(6))).loss.backward()
    assert all(torch.equal(value, before[name]) for name, value in layer.state_dict().items())
    assert layer.weight.grad.abs().sum() > 0
    assert not layer.training
    assert student.encoder.module.training
    student.eval()
    student.train()
    assert not layer.training


def test_shared_statistics_of_one_process_are_the_plain_layers() -> None:
    encoder = network()
    module = encoder.module
    assert wrap_batchnorm(encoder, "shared").module is module
    assert type(module[0]) is nn.BatchNorm2d  # pyright: ignore


@pytest.mark.sweep(2)
@pytest.mark.parametrize("kind", ["shared", "frozen", "split"])
def test_a_whole_network_is_released_as_it_was_built(kind: str) -> None:
    start = open_encoder("zoo:resnet20_32")
    encoder = wrap_batchnorm(trainable(start), kind)
    mean = AveragedModel(encoder.module, multi_avg_fn=get_ema_multi_avg_fn(0.5), use_buffers=True)
    kinds = [type(module) for module in start.module.modules()]
    untouched = unwrap_batchnorm(encoder)
    assert untouched.refresh_fingerprint() == start.fingerprint
    encoder.module.train()
    mean.update_parameters(encoder.module)
    with mark_attacked_views(1, 2):
        encoder(torch.rand(4, 3, 32, 32)).sum().backward()
    with torch.no_grad():
        for value in encoder.module.parameters():
            value.add_(1.0)
    mean.update_parameters(encoder.module)
    new, slow = unwrap_batchnorm(encoder), unwrap_batchnorm(encoder, mean.module)
    for out in (new, slow):
        assert [type(module) for module in out.module.modules()] == kinds
    for name, first in start.module.named_parameters():
        torch.testing.assert_close(new.module.get_parameter(name), first + 1)
        torch.testing.assert_close(slow.module.get_parameter(name), first + 0.5)
    for name, first in start.module.named_buffers():
        if first.is_floating_point():
            middle = (first + new.module.get_buffer(name)) / 2
            torch.testing.assert_close(slow.module.get_buffer(name), middle)
            assert torch.equal(new.module.get_buffer(name), first) == (kind == "frozen")
    untouched_again = unwrap_batchnorm(encoder)
    with torch.no_grad():
        next(encoder.module.parameters()).zero_()
    assert untouched_again.take_fingerprint() == new.take_fingerprint()  # memory of its own


def test_a_layer_in_two_places_stays_one() -> None:
    class Twice(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.a = nn.BatchNorm2d(2)
            self.b = self.a

        def forward(self, x: Tensor) -> Tensor:
            return self.b(self.a(x)).flatten(1)

    encoder = wrap_batchnorm(trainable(Encoder(Twice(), mean=0.0, std=1.0)), "split")
    assert encoder.module.a is encoder.module.b
    out = unwrap_batchnorm(encoder).module
    assert out.a is out.b
    assert type(out.a) is nn.BatchNorm2d


@pytest.mark.parametrize("kind", ["frozen", "split"])
def test_layers_without_running_statistics_are_refused(kind: str) -> None:
    with pytest.raises(Unsupported, match="batchnorm="):
        wrap_batchnorm(network(nn.BatchNorm2d(2, track_running_stats=False)), kind)


def test_layers_that_mix_images_cannot_be_split() -> None:
    layer = wrap_batchnorm(network(), "split").module[0].train()  # pyright: ignore
    with mark_attacked_views(1, 3), pytest.raises(Mismatch, match="mixes"):
        layer(images(0, 4))


# --- two processes ---------------------------------------------------------------------------------


def trained(kind: str, rank: int, of: int) -> dict[str, Tensor]:
    """Two steps of a network with all kinds of layers on this process's rows: gradients, statistics, outputs."""
    layers = nn.Sequential(
        nn.Conv2d(2, 5, 3), Active(5), nn.Conv2d(5, 4, 2), nn.BatchNorm2d(4, momentum=None), nn.Flatten(),
        nn.Linear(4, 3), nn.BatchNorm1d(3),
    )  # fmt: skip
    generator = torch.Generator().manual_seed(0)
    for value in layers.parameters():
        value.data = torch.randn(value.shape, generator=generator)
    encoder = wrap_batchnorm(trainable(Encoder(layers.double(), mean=0.0, std=1.0)).double(), kind)
    encoder.module.train()
    whole = [torch.rand(6, 2, 4, 4, generator=generator).double() for _ in range(4)]
    found = {}
    for step in range(2):
        views = [view.chunk(of)[rank] for view in whole[2 * step : 2 * step + 2]]
        encoder.zero_grad()
        with mark_attacked_views(1, 2):
            clean, attacked = encoder(torch.cat(views)).chunk(2)
        clean, attacked = gather(clean), gather(attacked)
        (clean.pow(3).sum() + (clean * attacked.roll(1, 0)).cos().sum()).backward()
        found |= {f"{step}.clean": clean.detach(), f"{step}.attacked": attacked.detach()}
    gradients = {f"gradient.{name}": value.grad for name, value in encoder.module.named_parameters()}
    named = {key: value for key, value in gradients.items() if value is not None} | dict(encoder.module.named_buffers())
    inside = {key.replace("layer.", ""): value for key, value in (found | named).items()}
    return inside | {f"released.{name}": value for name, value in unwrap_batchnorm(encoder).module.state_dict().items()}


def work(rank: int, folder: Path) -> None:
    torch.set_num_threads(1)
    torch.distributed.init_process_group("gloo", init_method=f"file://{folder}/meet", rank=rank, world_size=2)
    found = {kind: trained(kind, rank, 2) for kind in ("shared", "split")}
    for tensors in found.values():
        for name, value in tensors.items():
            if name.startswith("gradient."):  # what DistributedDataParallel does
                torch.distributed.all_reduce(value)
                value /= 2
    torch.save(found, folder / f"{rank}.pt")
    torch.distributed.destroy_process_group()


@pytest.fixture(scope="module")
def two(tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, dict[str, Tensor]]]:
    folder = tmp_path_factory.mktemp("two")
    environment = {**os.environ, "GLOO_SOCKET_IFNAME": "lo", "OMP_NUM_THREADS": "1"}
    command = [sys.executable, "-W", "error::FutureWarning", __file__]
    running = [
        subprocess.Popen([*command, str(rank), str(folder)], env=environment, stderr=subprocess.PIPE, text=True)
        for rank in range(2)
    ]
    for process in running:
        _, said = process.communicate(timeout=100)
        assert process.returncode == 0, said[-2000:]
    return [torch.load(folder / f"{rank}.pt", weights_only=True) for rank in range(2)]


@pytest.mark.parametrize("kind", ["shared", "split"])
@pytest.mark.slow
def test_two_processes_normalise_as_one_does(kind: str, two: list[dict[str, dict[str, Tensor]]]) -> None:
    one = trained(kind, 0, 1)
    for process in two:
        assert process[kind].keys() == one.keys()
        for name, value in one.items():
            torch.testing.assert_close(
                process[kind][name], value, atol=1e-11, rtol=1e-9, msg=lambda m, n=name: f"{n}: {m}"
            )


if __name__ == "__main__":
    work(int(sys.argv[1]), Path(sys.argv[2]))
