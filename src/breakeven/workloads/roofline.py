"""The least time that a model's layers take on a device of given rates: the sum of each layer's roofline.

Knows nothing about devices or measurements. Each layer is bound by its arithmetic or by its traffic,
whichever takes longer (Williams, Waterman and Patterson 2009), and layers run one after the other. The
traffic is that of unfused kernels, as `costs` counts it: activations read and written once a pass, weights
once a batch. Fused layers and caches move less, so a compiled step may pass this floor honestly. Where layers
of an inference are counted as fused, only caches undercut it.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from breakeven.workloads import costs, layers

ADAM_BYTES = 28
"""A parameter's traffic in a step of Adam: weight, gradient and both moments read, all but the gradient
written, four bytes each. Its arithmetic weighs nothing beside that."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Floor:
    """Seconds of a step or of a call, `memory_s` of them bound by traffic; its `flops` and `bytes`."""

    forward_s: float
    backward_s: float
    optimizer_s: float
    memory_s: float
    flops: float
    bytes: float

    @property
    def seconds(self) -> float:
        return self.forward_s + self.backward_s + self.optimizer_s

    @property
    def memory_share(self) -> float:
        """Share of the floor's time in which memory is what bounds."""
        return self.memory_s / self.seconds

    @property
    def flops_per_byte(self) -> float:
        """Arithmetic intensity of the whole step."""
        return self.flops / self.bytes


def floor(
    model: layers.Model,
    batch: int,
    *,
    flop_per_s: float,
    byte_per_s: float,
    dtype_bytes: int = 4,
    training: bool = True,
    fused: bool = False,
) -> Floor:
    """The floor of a training step: forward, backward and Adam; without `training` of a forward pass alone.

    `dtype_bytes`: of activations and weights. `fused`: of a forward pass whose layers are folded into each
    other where they can be (`costs.fused_costs`), which no runtime goes below.
    """
    forward = backward = memory = flops = moved = 0.0
    for one, cost, back in runs(model, dtype_bytes, training, fused):
        work, traffic = work_of(one, cost, batch, back)
        arithmetic_s, traffic_s = one.times * work / flop_per_s, one.times * traffic / byte_per_s
        seconds = max(arithmetic_s, traffic_s)
        flops, moved = flops + one.times * work, moved + one.times * traffic
        memory += seconds if traffic_s > arithmetic_s else 0.0
        forward, backward = (forward, backward + seconds) if back else (forward + seconds, backward)
    state = ADAM_BYTES * costs.trained_parameter_count(model) if training else 0
    return Floor(
        forward_s=forward,
        backward_s=backward,
        optimizer_s=state / byte_per_s,
        memory_s=memory + state / byte_per_s,
        flops=flops,
        bytes=moved + state,
    )


def runs(
    model: layers.Model, dtype_bytes: int, training: bool, fused: bool = False
) -> Iterator[tuple[layers.Pass, costs.LayerCost, bool]]:
    """(pass, layer, whether backward) of all that a step runs, or of one forward pass of the nodes."""
    if not training:
        alone = layers.Pass(net=model.name, input_shape=model.input_shape, nodes=model.nodes)
        of = costs.fused_costs if fused else costs.layer_costs
        yield from ((alone, cost, False) for cost in of(model, dtype_bytes))
        return
    for one in costs.training_passes(model):
        for cost in costs.pass_costs(one, dtype_bytes):
            yield one, cost, False
            yield one, cost, True


def work_of(one: layers.Pass, cost: costs.LayerCost, batch: int, back: bool) -> tuple[float, float]:
    """(FLOPs, bytes) of a layer's forward or backward pass over a batch."""
    if not back:
        return batch * cost.flops, batch * (cost.bytes_read + cost.bytes_written) + cost.weight_bytes
    return (
        batch * (cost.input_grad_flops + cost.weight_grad_flops),
        batch * (cost.backward_bytes_read + cost.backward_bytes_written)
        + costs.backward_weight_bytes(cost, one),
    )
