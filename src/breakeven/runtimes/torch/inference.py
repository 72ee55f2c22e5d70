"""One call of inference as its tuning drives it: eager, fused, compiled, and captured or not.

Knows nothing about checks or the protocol of runtimes. A call takes the next of a few distinct batches. With
`residency` device they lie where the net runs, in its type and layout, and the output stays there; with host
a call copies its batch in as float32 and the output back.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from breakeven.records.case import Case
from breakeven.runtimes.torch import fused, int8_cuda, nets, place, precision, quantized
from breakeven.runtimes.torch.compiled import compiled, freezing, noting_caches
from breakeven.runtimes.torch.session import memory_format, set_up
from breakeven.runtimes.torch.training import Seen
from breakeven.workloads import data, layers, models, order, sources
from breakeven.workloads.fitting import known_data
from breakeven.workloads.weights import Weights

WARM_UP_CALLS = 3
"""Calls on a side stream before the capture: they initialise and search for algorithms."""

Net = Callable[[torch.Tensor], torch.Tensor]
"""Scores [batch, classes] of images [batch, C, H, W]; of a net that translates, images."""

Ready = Callable[[], Mapping[str, Any]]
"""Compiles or captures, once, and returns facts."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Calls:
    """What a call does. call(i) runs batch i of `inputs` and returns its scores, where the tuning wants them.

    `ready` compiles and captures; it comes before the first call and returns facts. None: nothing to do.
    """

    inputs: tuple[torch.Tensor, ...]
    call: Callable[[int], torch.Tensor]
    ready: Ready | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class Session:
    """A case built: what its functions close over. `rows`: samples of each batch, int64 [k, batch].

    `net` is the declared net in the type that runs; for int8 the one in FP32 that was quantised. `running`
    holds the weights on the device: `net` itself, or what runs in its place (`fused`, or `integers` where
    INT8 is cuDNN's), while `net` stays on the host.
    """

    case: Case
    device: torch.device
    model: layers.Model
    weights: Weights
    known: data.DataEntry
    test: data.DataSet
    rows: NDArray[np.int64]
    net: nn.Module
    calls: Calls
    seen: Seen
    facts: dict[str, Any]
    running: nn.Module
    integers: int8_cuda.Graphs | None = None
    fused_net: fused.Fused | None = None
    next: list[int] = field(default_factory=lambda: [0])

    def step(self) -> None:
        """Enqueues one call on the next batch."""
        index = self.next[0]
        with torch.inference_mode():
            self.seen.output = self.calls.call(index)
        self.next[0] = (index + 1) % len(self.rows)

    def build(self) -> Mapping[str, Any]:
        """Compiles and captures, once; what it found."""
        if self.calls.ready is None:
            return {}
        if "build" not in self.facts:
            with torch.inference_mode():
                self.facts["build"] = self.calls.ready()
        return dict(self.facts["build"])

    def scores(self, images: NDArray[np.float32]) -> torch.Tensor:
        """Scores [n, classes] of normalised images by the very calls that are timed; FP64 on the CPU.

        The last batch is filled up by repeating. The batches that calls take are as before afterwards.
        """
        self.build()
        batch, place_ = self.case.work.batch, self.calls.inputs[0]
        kept, made = place_.clone(), []
        with torch.inference_mode():
            for first in range(0, len(images), batch):
                chosen = images[first : first + batch]
                filled = np.resize(chosen, (batch, *chosen.shape[1:])) if len(chosen) < batch else chosen
                place_.copy_(torch.from_numpy(np.ascontiguousarray(filled)))
                made.append(self.calls.call(0)[: len(chosen)].cpu().double())
            place_.copy_(kept)
        return torch.cat(made)


def build(case: Case) -> Session:
    """Builds the case. Raises Unsupported where this machine lacks what it needs."""
    work, tuning = case.work, case.tuning
    device = place.resolve(case.device)
    set_up(case, device)
    known = known_data(work)
    test = data.load(work.data, "test")
    if models.translates(work.model):  # images of A, to which nobody knows the answer
        known, test = replace(known, labelled=False), data.of_domain(test, 0)
    model = models.model(work.model, num_classes=work.num_classes, input_shape=work.input_shape)
    weights = sources.of(work, model)
    dtype, layout = precision.whole_dtype(tuning.precision), memory_format(case)
    elsewhere = tuning.fused or (tuning.precision == "int8" and device.type == "cuda")
    home = torch.device("cpu") if elsewhere else device
    net = nets.build(model, weights).eval().to(device=home, dtype=dtype, memory_format=layout)
    rows = order.inference_batches(work.seed, len(test.images), work.batch, work.input_shape)
    facts: dict[str, Any] = {}
    run: Net = net
    running: nn.Module = net
    integers: int8_cuda.Graphs | None = None
    fused_net: fused.Fused | None = None
    if tuning.precision == "int8" and device.type == "cuda":
        integers, facts["quantized"] = int8_cuda.quantised(case, model, weights, device)
        run, running = integers, fused.holding(list(integers.head.values()))
    elif tuning.precision == "int8":
        run, facts["quantized"] = quantized.quantized(case, net, layout)
    elif tuning.fused:
        run = fused_net = fused.fused_net(model, weights, device, dtype, layout)
        running = fused_net.held()
    # Placed as data on the host are, in float32: a call's copy in has nothing to convert.
    resident = tuning.residency == "device"
    batches = tuple(
        _placed(data.normalized(known, test.images[chosen]), device if resident else None, layout)
        for chosen in rows
    )
    pinned = bool(tuning.pinned) and device.type == "cuda"
    if resident:
        inputs = tuple(batch.to(dtype) for batch in batches)
    else:
        inputs = tuple(batch.pin_memory() for batch in batches) if pinned else batches
    seen = Seen(images=inputs[0], output_on_device=resident)
    calls = _calls(case, run, inputs, device, dtype, pinned)
    if integers is not None:
        calls = replace(calls, ready=_in_turn(integers.build, calls.ready))
    return Session(
        case=case,
        device=device,
        model=model,
        weights=weights,
        known=known,
        test=test,
        rows=rows,
        net=net,
        calls=calls,
        seen=seen,
        facts=facts,
        running=running,
        integers=integers,
        fused_net=fused_net,
    )


def _in_turn(first: Ready, then: Ready | None) -> Ready:
    def ready() -> Mapping[str, Any]:
        return dict(first()) | ({} if then is None else dict(then()))

    return ready


def _placed(
    images: NDArray[np.float32], device: torch.device | None, layout: torch.memory_format
) -> torch.Tensor:
    return torch.from_numpy(images).to(device=device).contiguous(memory_format=layout)


def _calls(
    case: Case,
    run: Net,
    inputs: tuple[torch.Tensor, ...],
    device: torch.device,
    dtype: torch.dtype,
    pinned: bool,
) -> Calls:
    """The net as the tuning drives it, between the copies that the residency asks for."""
    mode = case.tuning.compile_mode
    if case.tuning.residency == "device":
        return _driven(case, run if mode is None else compiled(run, mode), inputs, device)

    def converting(images: torch.Tensor) -> torch.Tensor:
        return run(images.to(dtype))

    staged = torch.empty_like(inputs[0], device=device)
    inner = _driven(case, converting if mode is None else compiled(converting, mode), (staged,), device)

    def call(index: int) -> torch.Tensor:
        staged.copy_(inputs[index], non_blocking=pinned)
        output = inner.call(0)
        # Of the CPU `to` would be no copy at all: this one is what a caller does to keep the answer.
        return output.clone() if device.type == "cpu" else output.to("cpu", non_blocking=pinned)

    return Calls(inputs=inputs, call=call, ready=inner.ready)


def _driven(case: Case, run: Net, inputs: tuple[torch.Tensor, ...], device: torch.device) -> Calls:
    if case.tuning.captured:
        made = _captured(run, inputs, device)
    else:
        made = Calls(inputs=inputs, call=lambda index: run(inputs[index]))
        if case.tuning.compile_mode is None:
            return made

    def ready() -> Mapping[str, Any]:
        with noting_caches() as found, freezing():
            facts = {"captured": False} if made.ready is None else dict(made.ready())
            run(inputs[0])
        return facts | (found if case.tuning.compile_mode else {})

    return Calls(inputs=inputs, call=made.call, ready=ready)


def _captured(run: Net, inputs: tuple[torch.Tensor, ...], device: torch.device) -> Calls:
    """One graph a batch, so that no call copies its input; they share their memory, as they run in turn."""
    graphs: list[torch.cuda.CUDAGraph] = []
    outputs: list[torch.Tensor] = []

    def ready() -> Mapping[str, Any]:
        side = torch.cuda.Stream(device)
        side.wait_stream(torch.cuda.current_stream(device))
        with torch.cuda.stream(side):
            for _ in range(WARM_UP_CALLS):
                run(inputs[0])
        torch.cuda.current_stream(device).wait_stream(side)
        for images in inputs:
            graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(graph, pool=graphs[0].pool() if graphs else None):
                outputs.append(run(images))
            graphs.append(graph)
        return {"captured": True, "graphs": len(graphs)}

    def call(index: int) -> torch.Tensor:
        graphs[index].replay()
        return outputs[index]

    return Calls(inputs=inputs, call=call, ready=ready)
