"""The box of a query as the cube [0, 1]ⁿ of images, so that certifiers and attacks of the ℓ∞ ball know it."""

from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn

from holdfast.core import Encoder, Images, registry
from holdfast.core.source_spec import Options
from holdfast.runtime.errors import Failed, Mismatch, NotFinite
from holdfast.storage.vnnlib import Query
from holdfast.workflows.exchange.onnx_file import SAME, run_onnx


class OnCube(nn.Module):
    """x ↦ network(low + x · (high - low)): what a network computes of a box, for x in [0, 1]ⁿ.

    Computed in float64, the box is rounded outward: it holds what a file says in numbers that float64 does not have.
    """

    def __init__(self, network: nn.Module, low: Float[Tensor, "*shape"], high: Float[Tensor, "*shape"]):
        super().__init__()
        self.network = network
        least, most = torch.nextafter(low, low - 1), torch.nextafter(high, high + 1)
        self.low: Tensor
        self.width: Tensor
        self.register_buffer("low", least)
        self.register_buffer("width", torch.nextafter(most - least, torch.full_like(low, torch.inf)))

    def forward(self, x: Images) -> Tensor:
        """Return the network's outputs for points of the cube."""
        return self.network(self.point(x))

    def point(self, x: Images) -> Tensor:
        """Return the points of the box."""
        return self.low.to(x.dtype) + x * self.width.to(x.dtype)


def open_on_cube(name: str, query: Query) -> tuple[Encoder, tuple[int, int, int]]:
    """Return the network of an ONNX file on the cube in place of a query's box, and the shape of its images.

    What was opened is compared with the file itself, run at the centre and at a random point of the box: nothing shall
    be proved about another network.
    """
    source: Any = registry.find("encoders", "onnx")
    opened = source().open(name, Options({"mean": "0", "std": "1"}, name))
    shape = (opened.geometry.channels, *opened.geometry.size)
    if len(query.low) != torch.Size(shape).numel():
        raise Mismatch(f"{name!r}: expected {len(query.low)} inputs as the query has, got {list(shape)}")
    on_cube = OnCube(opened.module, query.low.view(shape), query.high.view(shape))
    encoder = Encoder(on_cube, mean=0, std=1, name=opened.name)
    random = torch.rand(1, *shape, generator=torch.Generator().manual_seed(0))
    for x in (torch.full((1, *shape), 0.5), random):
        with torch.no_grad():
            outputs = encoder(x)
        if outputs.shape[1] != query.outputs:
            raise Mismatch(f"{name!r}: expected {query.outputs} outputs as the query has, got {outputs.shape[1]}")
        if not bool(outputs.isfinite().all()):
            raise NotFinite(
                f"{name!r}: its outputs are NaN or infinite in the box of the query, expected numbers; look at the "
                "network's weights and at the bounds of the inputs"
            )
        expected = run_onnx(name, on_cube.point(x))
        if not bool((outputs - expected).abs().max() <= SAME * expected.abs().max()):  # nor NaN
            raise Failed(f"{name!r}: what was opened computes something else than the file; please report it")
    return encoder, shape


def inward(query: Query) -> tuple[Float[Tensor, "inputs"], Float[Tensor, "inputs"]]:
    """Return a query's box in float32, rounded inward; the nearest number where a side is too narrow to hold one.

    Example:
        >>> narrow = torch.tensor([0.1, 0.1]).double()
        >>> low, high = inward(Query(narrow - 1e-12, narrow + torch.tensor([1e-12, 0.5]), ()))
        >>> bool((low <= high).all()), bool(low[1] >= narrow[1] - 1e-12)
        (True, True)
    """
    low, high = query.low.float(), query.high.float()
    least = torch.where(low.double() < query.low, torch.nextafter(low, torch.full_like(low, torch.inf)), low)
    most = torch.where(high.double() > query.high, torch.nextafter(high, torch.full_like(high, -torch.inf)), high)
    narrow = least > most
    return torch.where(narrow, low, least), torch.where(narrow, low, most)
