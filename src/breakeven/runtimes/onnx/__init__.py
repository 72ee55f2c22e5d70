"""What runtimes that take ONNX graphs share: the graph of a declared model, a cache of those made of it.

No runtime itself. This module imports no onnx: `graph` beside it does.
"""
