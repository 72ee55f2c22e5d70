"""Deep checks that inference computes what its case says: device, precision, FLOPs, and the right answer.

Knows nothing about time. Slow: for a process of its own.
"""

import hashlib
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils.flop_counter import FlopCounterMode

from breakeven.runtimes import bits
from breakeven.runtimes.checks import Check, Told, answers, check, equal, gathered, native, relative_l2
from breakeven.runtimes.torch import fused, int8_cuda, nets, precision, quantized
from breakeven.runtimes.torch.inference import Session
from breakeven.runtimes.torch.session import memory_format, same_device
from breakeven.runtimes.torch.tokens import Attention
from breakeven.workloads import data, models, reference
from breakeven.workloads import fused as fused_nets
from breakeven.workloads.costs import forward_flops, parameter_count
from breakeven.workloads.fetch import cache_dir
from breakeven.workloads.tolerances import OUTPUT_ERROR, least_agreement
from breakeven.workloads.weights import weights_hash

OUTPUT_IMAGES = 8
"""Images of the comparison with FP64 in NumPy: ResNet152 takes it about a second each."""

AGREEMENT_IMAGES, EMULATED_IMAGES = 1024, 32
"""Most images on which the same answer as FP32's is looked for; and of a type that the hardware emulates: an
image of ResNet18 in FP16 takes a CPU without it tens of times as long as in FP32."""

AGREEMENT_FLOPS, AGREEMENT_LEAST = 2e12, 64
"""Limit of what FP32 computes for the agreement, about half a minute on two cores, but so many images at
least: 512 of ResNet18 and 64 of ViT-B/16 at 224x224."""

EXACT_IMAGES = 2
"""Images whose every step is computed again in exact integers: in FP64 on the CPU, seconds for ResNet152."""

TRANSLATED_IMAGES = 4
"""Images that a generator translates twice, the first of them in FP64 too: one of 128x128 is 25 GFLOP."""

LEAST = {"fp16": 1e-5, "bf16": 1e-4, "int8": 1e-4, "tf32": 1e-5}
"""Least error that a precision makes: rounding the scores alone to FP16 is 1.4e-4 of each. Below it FP32 ran
under another name."""


def run(session: Session, observed: Callable[[], Mapping[str, Any]]) -> dict[str, Check]:
    """All checks by name. Raises Mismatch at the first that shows another device, precision or output."""
    return gathered(_checks(session, observed))


def _checks(session: Session, observed: Callable[[], Mapping[str, Any]]) -> Iterator[Told]:
    asked, device = session.case.tuning.precision, session.device
    same_device(session.running, None, device)
    yield "parameters", "invalid", equal(parameter_count(session.model), nets.parameter_count(session.net))
    yield native(asked, precision.hardware(asked, device))
    session.build()
    session.step()
    ran, probed = _precision(session)
    yield "precision", "precision_mismatch", probed
    if session.fused_net is not None:
        yield "fused_precision", "precision_mismatch", _every_fused(session, session.fused_net)
    if session.integers is not None:
        yield from _integers(session.integers, session.calls.inputs[0])
    yield "forward_flops", "invalid", _flops(session)
    yield "evaluation", "invalid", _inference_mode(session)
    facts = observed()  # raises Mismatch if parameters or output are elsewhere
    yield "device", "device_mismatch", equal(str(device), facts["device"])
    yield "layout", "invalid", _layout(session, facts)
    yield from _answers(session, ran)


def _answers(session: Session, ran: str) -> Iterator[Told]:
    """What the calls that are timed say about real images, against FP64 and against FP32."""
    images = data.normalized(session.known, session.test.images[: _agreement_images(session)])
    scores = session.scores(images).numpy()
    few = 1 if models.translates(session.case.work.model) else OUTPUT_IMAGES
    exact = reference.logits(session.model, session.weights, images[:few])
    output = _output(scores[:few], exact, ran)
    yield "output_precision", "precision_mismatch", _rough_enough(output, ran)
    yield "output", "output_mismatch", output
    plain = _fp32_scores(session, images)
    weights = "trained weights" if session.case.work.weights else "random weights: no task is solved by them"
    if not models.translates(session.case.work.model):
        same = float((scores.argmax(1) == plain.argmax(1)).mean())
        note = f"top-1 of {len(images)} images against FP32 on the CPU; {weights}"
        trained = session.case.work.weights is not None
        least = least_agreement(ran, len(images), trained=trained)
        yield "agreement", "output_mismatch", check(least, same, same >= least, note)
        yield answers(plain)
    error = relative_l2(scores, plain)
    note = f"relative L2 of the scores of {len(images)} images against FP32 on the CPU"
    yield (
        "output_error",
        "output_mismatch",
        check(OUTPUT_ERROR[ran], error, error <= OUTPUT_ERROR[ran], note),
    )
    if session.known.labelled:
        labels = session.test.labels[: len(images)]
        found, expected = (float((s.argmax(1) == labels).mean()) for s in (scores, plain))
        note = f"asked is FP32's on the same {len(images)} images; {weights}"
        yield "accuracy", "output_mismatch", check(expected, found, True, note)


def _agreement_images(session: Session) -> int:
    """How many test images, from the first on, are answered twice; fewer where the set is smaller."""
    if models.translates(session.case.work.model):
        return TRANSLATED_IMAGES
    if not precision.hardware(session.case.tuning.precision, session.device)[0]:
        return EMULATED_IMAGES
    affordable = int(AGREEMENT_FLOPS / forward_flops(session.model))
    return min(AGREEMENT_IMAGES, max(AGREEMENT_LEAST, affordable))


def _precision(session: Session) -> tuple[str, Check]:
    """(the roughest precision that runs, its check).

    Bits that the costliest layer of each kind keeps at its real shape; of INT8 the layers that the compiler
    has made INT8 kernels of.
    """
    asked, device = session.case.tuning.precision, session.device
    if session.integers is not None:
        convs = {"conv": sum(isinstance(m, nn.Conv2d) for m in session.net.modules())}
        made = {"conv": sum(session.integers.forms().values())}
        return "int8", equal(
            convs, made, "convolutions that cuDNN has a plan for with int8 in and int32 sums"
        )
    if asked == "int8":
        made = dict(quantized.lowered())
        wanted = {
            "conv": sum(isinstance(m, nn.Conv2d) for m in session.net.modules()),
            "matmul": sum(isinstance(m, nn.Linear) for m in session.net.modules()),
        }
        # A layer may be left in FP32 by the rules of the quantiser; none at all is another precision.
        ok = all(made[kind] > 0 for kind, n in wanted.items() if n)
        note = "layers that run as INT8 kernels, of all layers with products but attention's own"
        return "int8", check(wanted, made, ok, note)
    found: dict[str, dict[str, Any]] = {}
    dtype = precision.whole_dtype(asked)
    for name, (module, shape) in _costliest(session).items():
        if name == "conv" and session.fused_net is not None:
            found[name] = _probed_step(
                session, session.fused_net, fused_nets.costliest(session.fused_net.net)
            )
        elif name == "attention":
            found[name] = precision.probe_attention(
                module, shape, precision="default", device=device, dtype=dtype
            )
        else:
            found[name] = precision.probe(
                module,
                shape,
                precision="default",
                device=device,
                memory_format=memory_format(session.case),
                dtype=dtype,
            )
    names = {name: probed["precision"] for name, probed in found.items()}
    settable = {name: value for name, value in names.items() if name != "attention"}
    ran = next((name for name in reversed(OUTPUT_ERROR) if name in names.values()), "bf16")
    return ran, check(asked, found, bits.same(asked, settable))


def _every_fused(session: Session, net: fused.Fused) -> Check:
    """Whether any fused convolution is rougher than asked: cuDNN chooses for each, and a few of them hide in
    the error of the output. Steps of one form and shape are probed once.
    """
    asked = session.case.tuning.precision
    forms = {
        (s.conv.in_channels, s.conv.out_channels, s.conv.kernel, s.conv.stride, s.in_shape, s.relu, added): s
        for s in net.net.steps
        if isinstance(s, fused_nets.Conv)
        for added in (s.residual is not None,)
    }
    kept = {step.name: _probed_step(session, net, step)["precision"] for step in forms.values()}
    rough = {name: p for name, p in kept.items() if asked != "default" and bits.rank(p) > bits.rank(asked)}
    note = f"fused convolutions rougher than asked; {len(kept)} forms and shapes were probed"
    return check({}, rough, not rough, note)


def _probed_step(session: Session, net: fused.Fused, step: fused_nets.Conv) -> dict[str, Any]:
    """The mantissa bits that a step keeps, by the very function that convolves in the timed calls."""
    node, batch = step.conv, session.case.work.batch
    module = nn.Conv2d(
        node.in_channels, node.out_channels, node.kernel, node.stride, node.padding, bias=False
    )

    def run(layer: nn.Module, x: torch.Tensor) -> torch.Tensor:
        weight = layer.get_parameter("weight")
        bias = None if net.biases[step.name] is None else weight.new_zeros(node.out_channels)
        added = None
        if step.residual is not None:
            added = weight.new_zeros((len(x), *step.out_shape)).contiguous(
                memory_format=memory_format(session.case)
            )
        return net.convolved(step, x, weight, bias, added)

    return precision.probe(
        module,
        (batch, *step.in_shape),
        precision="default",
        device=session.device,
        memory_format=memory_format(session.case),
        dtype=precision.whole_dtype(session.case.tuning.precision),
        run=run,
    )


def _integers(net: int8_cuda.Graphs, images: torch.Tensor) -> Iterator[Told]:
    """Whether every step makes the integers of exact arithmetic, and whether sums are integers."""
    unlike = int8_cuda.unlike(net.net(), images.to(net.device), EXACT_IMAGES)
    wrong = {name: share for name, share in unlike.items() if share > 0}
    note = f"share of integers other than exact ones, by step; {len(unlike)} values of {EXACT_IMAGES} images"
    yield "integers", "output_mismatch", equal({}, wrong, note)
    share = net.witness()
    told = (
        "by sums that only integers hold" if share is not None else "no layer's sums are large enough to tell"
    )
    yield "integer_sums", "precision_mismatch", check(1.0, share, share in (1.0, None), told)


def _costliest(session: Session) -> dict[str, tuple[nn.Module, tuple[int, ...]]]:
    """The layer of each kind with the most FLOPs, with the input shape that it gets in this case."""
    kinds = {"conv": nn.Conv2d, "matmul": nn.Linear, "attention": Attention}
    best: dict[str, tuple[int, nn.Module, tuple[int, ...]]] = {}

    def note(module: nn.Module, args: tuple[torch.Tensor, ...], output: torch.Tensor) -> None:
        kind = next(name for name, of in kinds.items() if isinstance(module, of))
        cost = output[0].numel() * (1 if isinstance(module, Attention) else module.weight[0].numel())
        if cost > best.get(kind, (-1,))[0]:
            best[kind] = cost, module, (session.case.work.batch, *args[0].shape[1:])

    with torch.device("meta"):  # shapes only
        net = nets.Net(session.model).eval()
        for module in net.modules():
            if isinstance(module, nn.Conv2d | nn.Linear | Attention):
                module.register_forward_hook(note)
        with torch.no_grad():
            net(torch.empty(1, *session.model.input_shape))
    return {kind: (module, shape) for kind, (_, module, shape) in best.items()}


def _flops(session: Session) -> Check:
    """torch's own count of the forward pass against the analytic one; attention as plain products."""
    with torch.device("meta"), sdpa_kernel(SDPBackend.MATH), torch.no_grad():
        net = nets.Net(session.model).eval()
        with FlopCounterMode(display=False) as counter:
            net(torch.empty(1, *session.model.input_shape))
    return equal(forward_flops(session.model), counter.get_total_flops(), "forward, one image")


def _inference_mode(session: Session) -> Check:
    output = session.seen.output
    right = output is not None and not output.requires_grad and not session.net.training
    return equal("inference mode", "inference mode" if right else "training or gradients")


def _layout(session: Session, facts: Mapping[str, Any]) -> Check:
    found = facts["weights_layout"]
    asked = session.case.tuning.layout
    if session.case.tuning.compile_mode is not None:
        return check(
            asked, found, found in (asked, None), "of the weights given to the compiler, which may choose"
        )
    return check(asked, found, found in (asked, None))


def _output(scores: NDArray[np.float64], exact: NDArray[np.float64], ran: str) -> Check:
    error = relative_l2(scores, exact)
    found = {"relative_l2": error, "max_abs": float(np.abs(scores - exact).max())}
    note = f"scores of {len(exact)} images against FP64 of the declared layers, as {ran}"
    return check({"relative_l2": OUTPUT_ERROR[ran]}, found, error <= OUTPUT_ERROR[ran], note)


def _rough_enough(output: Check, ran: str) -> Check:
    """Whether the scores are as far off as the precision must make them: exact ones are another's."""
    least, error = LEAST.get(ran, 0.0), output["found"]["relative_l2"]
    return check(f"at least {least:g}", error, not error < least, f"error of the scores, as {ran}")


def _fp32_scores(session: Session, images: NDArray[np.float32]) -> NDArray[np.float64]:
    """torch's own in FP32 on the CPU, kept for the other cases of these weights and images."""
    path = _cached(session, len(images))
    if path.is_file():
        kept: NDArray[np.float64] = np.load(path)
        return kept
    net = nets.build(session.model, session.weights).eval()
    with torch.inference_mode(), precision.ieee_on("cpu"):
        made = [net(torch.from_numpy(images[first : first + 16])) for first in range(0, len(images), 16)]
    scores: NDArray[np.float64] = torch.cat(made).double().numpy()
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_name(f".{path.name}")
    with part.open("wb") as file:
        np.save(file, scores)
    part.replace(path)
    return scores


def _cached(session: Session, n: int) -> Path:
    what = [
        torch.__version__,
        session.case.work.model,
        weights_hash(session.weights),
        session.test.content_hash,
        n,
    ]
    name = hashlib.sha256("\n".join(map(str, what)).encode()).hexdigest()
    return cache_dir() / "fp32-scores" / f"{name}.npy"
