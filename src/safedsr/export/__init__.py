"""Policies as files for other programs: ONNX, NumPy, and new cost weights as JSON."""
