"""Products of matrices, and sums over axes that letters name."""

import torch
import torch.nn.functional as F
from torch import Tensor

from holdfast.sources.onnx.operator import MICROSOFT, NotRead, operator


@operator("MatMul", weights=(0, 1))
def matmul(a: Tensor, b: Tensor) -> Tensor:
    """A b."""
    return a @ b


@operator("Gemm", weights=(1, 2))
def gemm(
    a: Tensor, b: Tensor, c: Tensor | None = None, *, alpha: float = 1.0, beta: float = 1.0, transA: int = 0,
    transB: int = 0, broadcast: int = 0,
) -> Tensor:  # fmt: skip
    """Alpha a b + beta c, with a and b transposed where asked for."""
    # As one linear layer, which certifiers know
    if alpha == 1 and not transA and b.ndim == 2 and (c is None or (beta == 1 and c.ndim == 1)):
        return F.linear(a, b if transB else b.T, c)
    y = alpha * ((a.mT if transA else a) @ (b.mT if transB else b))
    return y if c is None else y + beta * c


@operator("FusedMatMul", domain=MICROSOFT, weights=(1,))
def fused_matmul(
    a: Tensor, b: Tensor, *, alpha: float = 1.0, transA: int = 0, transB: int = 0, transBatchA: int = 0,
    transBatchB: int = 0,
) -> Tensor:  # fmt: skip
    """Alpha a b, with a and b transposed where asked for."""
    if transBatchA or transBatchB:
        raise NotRead("FusedMatMul with transposed batches")
    return alpha * ((a.mT if transA else a) @ (b.mT if transB else b))


@operator("Einsum", weights=(0, 1))
def einsum(*values: Tensor, equation: str) -> Tensor:
    """What the equation says."""
    return torch.einsum(equation.replace(" ", ""), *values)


@operator("Det")
def determinant(x: Tensor) -> Tensor:
    """The determinant of each matrix."""
    return torch.linalg.det(x)
