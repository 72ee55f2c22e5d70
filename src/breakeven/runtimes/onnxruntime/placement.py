"""Which provider really ran each node of a graph, and in which number type: ONNX Runtime's own profile.

Knows nothing about time: of the profile it reads names only. The profiled session is one of its own.
"""

import json
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from breakeven.records.case import Case
from breakeven.runtimes.checks import Check, check
from breakeven.runtimes.onnx import graph
from breakeven.runtimes.onnx.graph import INPUT
from breakeven.runtimes.onnxruntime import providers
from breakeven.workloads import layers

PRODUCTS = ("Conv", "Gemm", "MatMul")
"""In the name of every operator that multiplies matrices, fused or quantised too: QLinearConv, QGemm."""

TYPES = {"fp32": "float", "tf32": "float", "fp16": "float16", "bf16": "bfloat16"}
INTEGERS = ("int8", "uint8")
NAMED = 5
"""Nodes that a reason names."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Ran:
    """One node as it ran: after all fusions, so that its name may be of several declared layers."""

    name: str
    op: str
    provider: str
    types: tuple[str, ...]  # of its inputs


def ran(proto: Any, case: Case, threads: int, images: Any) -> tuple[Ran, ...]:
    """Every node of one profiled run on `images`, as the graph takes them."""
    options = providers.session_options(threads)
    options.enable_profiling = True
    with TemporaryDirectory() as folder:
        options.profile_file_prefix = str(Path(folder) / "nodes")
        session = providers.session(proto, case, options)
        session.run(None, {INPUT: images})
        events = json.loads(Path(session.end_profiling()).read_text())
    nodes = [event for event in events if event.get("cat") == "Node" and "provider" in event.get("args", {})]
    return tuple(
        Ran(
            name=event["name"].removesuffix("_kernel_time"),
            op=event["args"]["op_name"],
            provider=event["args"]["provider"],
            types=tuple(kind for entry in event["args"].get("input_type_shape", ()) for kind in entry),
        )
        for event in nodes
    )


def placed(nodes: tuple[Ran, ...], asked: str) -> Check:
    """Whether the asked provider ran every node; if not, the others are named."""
    others = [node for node in nodes if node.provider != asked]
    found = {name: sum(node.provider == name for node in nodes) for name in {n.provider for n in nodes}}
    note = f"elsewhere: {_some(others)}" if others else f"{len(nodes)} nodes"
    return check(asked, dict(sorted(found.items())), bool(nodes) and not others, note)


def computed(nodes: tuple[Ran, ...], precision: str, weighted: int) -> Check:
    """Whether every matrix product ran in the asked type: ONNX Runtime casts where a kernel is missing.

    In INT8 as many as the `weighted` layers have to; attention's products of activations may stay FP32.
    """
    products = [node for node in nodes if any(part in node.op for part in PRODUCTS)]
    kinds = [node.types[0] if node.types else "unknown" for node in products]
    allowed = INTEGERS if precision == "int8" else (TYPES.get(precision, "float"),)
    others = [node for node, kind in zip(products, kinds, strict=True) if kind not in allowed]
    counts = {kind: kinds.count(kind) for kind in sorted(set(kinds))}
    right = len(products) - len(others)
    ok = right >= weighted if precision == "int8" else right > 0 and not others
    note = f"{weighted} layers with weights" + (f"; other: {_some(others)}" if others else "")
    return check(precision, counts, ok, note)


def _some(nodes: list[Ran]) -> str:
    more = f" and {len(nodes) - NAMED} more" if len(nodes) > NAMED else ""
    return ", ".join(f"{node.name} ({node.op} on {node.provider})" for node in nodes[:NAMED]) + more


def tiny(case: Case) -> tuple[Ran, ...]:
    """The nodes that one FP16 convolution becomes in the case's session."""
    conv = layers.Conv2d(name="conv", in_channels=8, out_channels=8, kernel=1)
    model = layers.Model(name="conv", num_classes=8, input_shape=(8, 8, 8), nodes=(conv,))
    weights = {"conv.weight": np.ones((8, 8, 1, 1), np.float32)}
    proto = graph.graph(model, weights, precision="fp16", batch=1)
    return ran(proto, case, 1, np.ones((1, 8, 8, 8), np.float16))
