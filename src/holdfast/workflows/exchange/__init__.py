"""Questions exchanged with other verifiers: written as ONNX and VNN-LIB files, and answered from such files."""
