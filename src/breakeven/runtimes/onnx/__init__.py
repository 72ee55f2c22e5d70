"""What runtimes that take ONNX graphs share: the graph of a declared model, its inputs, its checks.

No runtime itself. This module imports no onnx: `graph` beside it does.
"""
