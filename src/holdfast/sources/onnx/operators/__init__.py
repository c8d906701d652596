"""The operators of ONNX as functions of torch tensors, a family a file; importing this package makes them known."""

from holdfast.sources.onnx.operators import attention as attention
from holdfast.sources.onnx.operators import convolution as convolution
from holdfast.sources.onnx.operators import elementwise as elementwise
from holdfast.sources.onnx.operators import normalisation as normalisation
from holdfast.sources.onnx.operators import pooling as pooling
from holdfast.sources.onnx.operators import products as products
from holdfast.sources.onnx.operators import quantised as quantised
from holdfast.sources.onnx.operators import reductions as reductions
from holdfast.sources.onnx.operators import resizing as resizing
from holdfast.sources.onnx.operators import selection as selection
from holdfast.sources.onnx.operators import shapes as shapes
