"""Fused INT8 convolutions on an NVIDIA GPU: one graph of cuDNN's a step, through nvidia-cudnn-frontend.

Knows nothing about nets or cases. The only module that imports `cudnn`, and only when a step is made. All
tensors are channels last. cuDNN's heuristics rank the plans and the first that builds runs: no search.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch

from breakeven.errors import Unsupported
from breakeven.runtimes.torch import integer
from breakeven.workloads import int8

CHANNELS = 16
"""Channels are filled up to a multiple of it. cuDNN takes int8 in groups of 4; 16 are 128 bits, what kernels
for tensor cores load at once. Only a net's first layer (3 channels) and very narrow ones are wider by it."""

PACKAGE = "nvidia-cudnn-frontend"
INSTALL = 'pip install "breakeven[torch,int8-cuda]"'

FORMS = ("fused", "fused, sums as float", "sums")
"""How a step may be asked for, the first that cuDNN has a plan for: as one graph, with the sums inside it
declared int32 or float32 (the convolution computes in int32 either way); or the convolution alone, whose
sums torch finishes by kernels of its own."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Drawn:
    """A graph and its tensors: x, w, y; of a fused one bias, multiplier and maybe residual with ratio."""

    graph: Any
    tensors: Mapping[str, Any]


@dataclass(frozen=True, kw_only=True, slots=True)
class Planned:
    """A graph with the plan that runs: its index, its name by cuDNN and the bytes that it works in."""

    form: str
    drawn: Drawn
    index: int
    name: str
    workspace: int


@dataclass(frozen=True, kw_only=True, slots=True)
class Room:
    """What the steps of a net share: a handle of cuDNN's, and memory to work in for the greediest."""

    cudnn: Any
    handle: Any
    device: torch.device
    work: list[torch.Tensor]

    def follow(self) -> None:
        """Kernels go to torch's current stream from here on: the one being captured, if one is."""
        self.cudnn.set_stream(handle=self.handle, stream=torch.cuda.current_stream(self.device).cuda_stream)

    def reserve(self, size: int) -> None:
        if not self.work or self.work[0].numel() < size:
            self.work[:] = [torch.empty(max(size, 1), dtype=torch.uint8, device=self.device)]


def library() -> Any:
    """The package. Raises Unsupported, one line, where it or the library below it is missing."""
    try:
        import cudnn
    except ImportError as error:
        raise Unsupported(
            f"INT8 convolutions on CUDA need {PACKAGE} ({error.name or error}): {INSTALL}"
        ) from error
    return cudnn


def room(device: torch.device) -> Room:
    """A handle on `device`. Raises Unsupported where the package, or cuDNN itself, is not here."""
    cudnn = library()
    try:
        with torch.cuda.device(device):
            handle = cudnn.create_handle()
    except RuntimeError as error:
        raise Unsupported(f"{PACKAGE} finds no cuDNN that it can use: {_line(error)}") from error
    return Room(cudnn=cudnn, handle=handle, device=device, work=[])


def versions(cudnn: Any) -> dict[str, str]:
    return {"cudnn_frontend": str(cudnn.__version__), "cudnn": str(cudnn.backend_version())}


def draw(cudnn: Any, made: int8.Conv, batch: int, form: str, handle: Any = None) -> Drawn:
    """The step for `batch` samples as a graph, in one of FORMS: every tensor's extents, strides and type."""
    kind, step = cudnn.data_type, made.step
    graph = cudnn.pygraph(
        io_data_type=kind.INT8,
        intermediate_data_type=kind.FLOAT,
        compute_data_type=kind.FLOAT,
        handle=handle,
    )
    out, taken, kernel, _ = made.weight.shape
    shape = (batch, out, *step.out_shape[1:])
    tensors = {
        "x": _tensor(graph, "x", (batch, taken, *step.in_shape[1:]), kind.INT8),
        "w": _tensor(graph, "w", (out, taken, kernel, kernel), kind.INT8),
    }
    y = graph.conv_fprop(
        image=tensors["x"],
        weight=tensors["w"],
        padding=[step.conv.padding] * 2,
        stride=[step.conv.stride] * 2,
        dilation=[1, 1],
        compute_data_type=kind.INT32,
        name="sums",
    )
    y.set_data_type(kind.FLOAT if form == FORMS[1] else kind.INT32)
    if form != FORMS[2]:
        y = _finished(cudnn, graph, tensors, y, made, shape)
    y.set_output(True).set_data_type(kind.INT32 if form == FORMS[2] else kind.INT8)
    y.set_dim(list(shape)).set_stride(_strides(shape))
    return Drawn(graph=graph, tensors=tensors | {"y": y})


def _finished(
    cudnn: Any, graph: Any, tensors: dict[str, Any], y: Any, made: int8.Conv, shape: tuple[int, ...]
) -> Any:
    """The pointwise operations after the sums, in the order of `int8`; notes the tensors that they read."""
    kind, column = cudnn.data_type, (1, shape[1], 1, 1)

    def applied(operation: Any, a: Any, b: Any) -> Any:
        result = operation(a=a, b=b, compute_data_type=kind.FLOAT)
        result.set_data_type(kind.FLOAT)
        return result

    def given(name: str, extents: tuple[int, ...], of: Any) -> Any:
        tensors[name] = _tensor(graph, name, extents, of)
        return tensors[name]

    y = applied(graph.add, y, given("bias", column, kind.FLOAT))
    if made.ratio is not None:
        residual = given("residual", shape, kind.INT8)
        y = applied(graph.add, y, applied(graph.mul, residual, given("ratio", column, kind.FLOAT)))
    y = applied(graph.mul, y, given("multiplier", column, kind.FLOAT))
    return graph.relu(input=y, compute_data_type=kind.FLOAT) if made.step.relu else y


def planned(cudnn: Any, handle: Any, made: int8.Conv, batch: int) -> Planned:
    """The first form of the step that cuDNN has a plan for. Raises Unsupported with its words for none."""
    refused: list[str] = []
    for form in FORMS:
        drawn = draw(cudnn, made, batch, form, handle)
        try:
            return _first_plan(cudnn, drawn, form)
        except (cudnn.cudnnGraphNotSupportedError, RuntimeError) as error:
            # What cuDNN's descriptors reject comes as RuntimeError; a broken device fails in every form.
            refused.append(f"{form}: {_line(error)}")
    raise Unsupported(f"cuDNN has no INT8 plan for {made.step.name} ({'; '.join(refused)})")


def _first_plan(cudnn: Any, drawn: Drawn, form: str) -> Planned:
    graph, modes = drawn.graph, cudnn.heur_mode
    graph.validate()
    graph.build_operation_graph()
    graph.create_execution_plans([modes.A, modes.FALLBACK])
    graph.check_support()
    refusal: Exception | None = None
    for index in range(graph.get_execution_plan_count()):
        try:
            graph.build_plan_at_index(index)
        except cudnn.cudnnGraphNotSupportedError as error:
            refusal = error
            continue
        return Planned(
            form=form,
            drawn=drawn,
            index=index,
            name=str(graph.get_plan_name_at_index(index)),
            workspace=int(graph.get_workspace_size_plan_at_index(index)),
        )
    raise refusal or cudnn.cudnnGraphNotSupportedError("no plan")


def convolution(room: Room, made: int8.Conv, batch: int) -> tuple[integer.Convolve, Planned]:
    """The step on the room's device for exactly `batch` samples, and the plan by which it runs."""
    plan = planned(room.cudnn, room.handle, made, batch)
    room.reserve(plan.workspace)
    after = integer.finish(made, room.device)
    weight = torch.from_numpy(made.weight).to(room.device).contiguous(memory_format=integer.LAST)
    columns = {"bias": after.bias, "ratio": after.ratio, "multiplier": after.multiplier}
    tensors, whole = plan.drawn.tensors, plan.form != FORMS[2]
    shape = (batch, len(made.weight), *made.step.out_shape[1:])
    kind = torch.int8 if whole else torch.int32

    def convolve(values: torch.Tensor, residual: torch.Tensor | None) -> torch.Tensor:
        y = torch.empty(shape, dtype=kind, device=room.device, memory_format=integer.LAST)
        here = {"x": values, "w": weight, "y": y, "residual": residual, **columns}
        plan.drawn.graph.execute_plan_at_index(
            {tensor: here[name] for name, tensor in tensors.items()},
            room.work[0],
            plan.index,
            handle=room.handle,
        )
        return y if whole else after(y, residual)

    return convolve, plan


def _tensor(graph: Any, name: str, extents: tuple[int, ...], of: Any) -> Any:
    return graph.tensor(name=name, dim=list(extents), stride=_strides(extents), data_type=of)


def _strides(extents: tuple[int, ...]) -> list[int]:
    """Of [n, c, h, w] with the channels last."""
    _, c, h, w = extents
    return [c * h * w, 1, w * c, c]


def _line(error: Exception) -> str:
    return " ".join(str(error).split())[:300] or type(error).__name__
