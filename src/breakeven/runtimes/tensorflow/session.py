"""A training case built in this process: settings, data, net and training; and what can be read back of it.

Knows nothing about evaluation, checks or the protocol of runtimes.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from breakeven.errors import Unsupported
from breakeven.records.case import Case
from breakeven.runtimes.tensorflow import input, nets, place, precision
from breakeven.runtimes.tensorflow.library import keras, tf
from breakeven.runtimes.tensorflow.training import Plan, Training, training
from breakeven.workloads import models, splits, weights
from breakeven.workloads.layers import Model
from breakeven.workloads.splits import Split


@dataclass(frozen=True, kw_only=True, slots=True)
class Session:
    """A case built: what its functions close over. `device`: TensorFlow's name of it.

    `train`: one split, or A's and B's of a case that translates; `test` is A's then.
    """

    case: Case
    device: str
    policy: str
    model: Model
    first_weights: weights.Weights
    train: tuple[Split, ...]
    test: Split
    training: Training

    @property
    def xla(self) -> bool:
        return self.case.tuning.execution == "xla"


def build(case: Case, *, fp64: bool = False) -> Session:
    """Builds the case. Raises Unsupported where this machine lacks what it needs.

    With `fp64` (for parity) only the training functions are of use.
    """
    work, tuning = case.work, case.tuning
    assert work.recipe is not None  # `supports` has asked
    device = set_up(case)
    train, test = splits.of(work)
    if train.n < work.batch:
        raise Unsupported(f"batch {work.batch} is larger than the {train.n} samples of {work.data}")
    model = models.model(work.model, num_classes=work.num_classes, input_shape=work.input_shape)
    first = weights.initial_weights(model, work.seed)
    policy = precision.FP64 if fp64 else precision.policy_of(tuning.precision, "train")
    with tf.device(device):
        net = nets.build(model, first, policy)
    plan = plan_of(case, device, samples=train.n, fp64=fp64)
    source = input.source_of(tuning.residency, train, input.loading_of(case, device, drop_last=True))
    return Session(
        case=case,
        device=device,
        policy=policy,
        model=model,
        first_weights=first,
        train=(train,),
        test=test,
        training=training(plan, net, source),
    )


def plan_of(case: Case, device: str, *, samples: int, fp64: bool) -> Plan:
    """What a training of so many samples, or pairs, an epoch is told."""
    work, tuning = case.work, case.tuning
    assert work.recipe is not None
    channels, height, width = work.input_shape
    return Plan(
        recipe=work.recipe,
        seed=work.seed,
        shape=(work.batch, height, width, channels),
        steps_per_epoch=samples // work.batch,
        execution=tuning.execution,
        loss_every_step=tuning.loss_sync != "epoch",
        device=device,
        scaled=tuning.precision == "fp16",
        dtype="float64" if fp64 else "float32",
    )


def set_up(case: Case) -> str:
    """Every global setting from scratch; TensorFlow's name of the device."""
    device = place.set_up(case)
    native, why = precision.hardware(case.tuning.precision, case.device.kind == "cpu")
    if not native and case.tuning.precision == "tf32":
        raise Unsupported(f"{case.device.label} has no TF32: {why}")
    precision.set_precision(case.tuning.precision)
    # Nothing of an earlier net in this process: Keras numbers its names and remembers its graphs.
    keras.utils.clear_session()
    return device


def observe(session: Session) -> Mapping[str, Any]:
    """Cheap facts read back. Raises Mismatch if variables or the last loss are on another device."""
    made, case, policy = session.training, session.case, session.policy
    tensors = {f"variable {index} ({v.name})": v for index, v in enumerate(made.state)}
    if made.last_loss is not None:
        tensors |= {"the loss": made.last_loss}
    place.same_device(tensors, made.plan.device)
    products = precision.read_back(case.device.kind == "cpu")
    return place.facts(case.device) | {
        "output_device": None if made.last_loss is None else place.device_label(case.device),
        "matmul_precision": products,
        "conv_precision": products,
        "policy": policy,
        "autocast": policy.removeprefix("mixed_") if policy.startswith("mixed_") else None,
        "weights_dtype": made.net.trained[0].dtype,
        "weights_layout": "channels-last",
        "input_layout": "channels-last",
        "optimizer_impl": "TensorFlow's kernel by the recipe's formula",
        # Of two domains: of the larger one others are left out each epoch.
        "tail_dropped_samples": min(split.n for split in session.train) % case.work.batch,
    }
