"""A cast to the precision of the weights, as CLIP and DINOv2 begin with one, changes no network."""

import pytest
import torch
from torch import Tensor, nn

from holdfast.core import Encoder
from holdfast.numerics.bounds.trace import trace
from holdfast.runtime.errors import NotCertified


class Cast(nn.Module):
    """A layer after a cast to `dtype`, or to the precision that its weights have."""

    def __init__(self, cast: bool, dtype: torch.dtype | None = None):
        super().__init__()
        self.layer = nn.Linear(4, 3)
        self.cast, self.dtype = cast, dtype

    def forward(self, x: Tensor) -> Tensor:
        """Return the layer's ReLU."""
        x = x.flatten(1)
        if self.cast:
            x = x.to(dtype=self.dtype or self.layer.weight.dtype)
        return self.layer(x.to(self.layer.weight.dtype) if self.dtype else x).relu()


def test_a_cast_to_the_precision_of_the_weights_leaves_the_network_as_it_is():
    with_cast, without = Cast(True), Cast(False)
    without.load_state_dict(with_cast.state_dict())
    networks = [trace(Encoder(m, mean=0, std=1), (1, 2, 2)) for m in (with_cast, without)]
    x = torch.rand(50, 1, 2, 2, dtype=torch.float64)
    assert torch.equal(networks[0](x), networks[1](x))
    kinds = [[(type(n.operation), n.inputs, n.shape) for n in network.nodes] for network in networks]
    assert kinds[0] == kinds[1]


def test_a_cast_that_rounds_is_refused():
    torch.manual_seed(0)
    with pytest.raises(NotCertified, match="computes"):
        trace(Encoder(Cast(True, torch.bfloat16), mean=0, std=1), (1, 2, 2))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16])
def test_a_cast_at_the_end_is_refused_by_name(dtype: torch.dtype):
    class Ends(Cast):
        def forward(self, x: Tensor) -> Tensor:
            return super().forward(x).to(dtype)

    with pytest.raises(NotCertified, match=f"to {str(dtype)[6:]}"):
        trace(Encoder(Ends(False), mean=0, std=1), (1, 2, 2))


def test_a_large_coordinate_hides_no_error_of_another(monkeypatch: pytest.MonkeyPatch):
    class Far(Cast):
        def forward(self, x: Tensor) -> Tensor:
            return nn.functional.pad(super().forward(x), (0, 1), value=1e8)

    encoder = Encoder(Far(False), mean=0, std=1)
    assert trace(encoder, (1, 2, 2))(torch.rand(1, 1, 2, 2).double()).shape == (1, 4)
    network = type(trace(encoder, (1, 2, 2)))
    computed = network.__call__
    monkeypatch.setattr(network, "__call__", lambda self, x: computed(self, x) + torch.tensor([0.01, 0, 0, 0]).to(x))
    with pytest.raises(NotCertified, match="computes"):
        trace(Encoder(Far(False), mean=0, std=1), (1, 2, 2))
