"""Whether two attempts may be set against each other: what has to match, and what has to be shown.

Knows nothing about times. For comparing two results of one case (before and after, here and there); ratios
between devices have their own rules (`pairs`).
"""

import dataclasses
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from breakeven.records.canonical import to_json
from breakeven.records.case import Tuning
from breakeven.records.lines import Attempt, Fingerprint

ABSENT = "none"
"""A fact that this machine does not have, such as a quota: None without a reason in `nulls`. It can match."""

READ_BACK = ("conv_precision", "matmul_precision")
"""What ran, not what was asked: must be known on both sides."""
READ_BACK_BY: Mapping[str, tuple[str, ...]] = {
    "onnxruntime": ("providers", "input_dtype", "fp32_precision"),
    "openvino": ("inference_precision",),
}
"""The same of runtimes that are given a whole net: they tell it by other names."""
SETTINGS = (
    *("autocast", "cudnn_benchmark", "cudnn_deterministic", "deterministic_algorithms", "optimizer_impl"),
)
"""Settings that some runtimes have: must match where either side has them."""
STUDIED_TOO = {
    "precision": {
        *("observed.conv_precision", "observed.matmul_precision", "observed.autocast"),
        *("observed.input_dtype", "observed.fp32_precision", "observed.inference_precision"),
    },
    "autotune": {"observed.cudnn_benchmark"},
    "optimizer_impl": {"observed.optimizer_impl"},
}
"""A tuning's field under study frees what is read back of it as well."""


ONE_SPEED = 1.1
"""Readings of one core's speed (`core_loop_ns`) up to this factor apart are one speed."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Difference:
    """One fact that is not known to be equal. `unknown`: why it is not known, None where both values are."""

    field: str
    base: Any
    candidate: Any
    unknown: str | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class Gate:
    """`blocked` forbids the comparison; `shown` has to stand beside it."""

    blocked: tuple[Difference, ...]
    shown: tuple[Difference, ...]

    @property
    def allowed(self) -> bool:
        return not self.blocked


@dataclass(frozen=True, kw_only=True, slots=True)
class Side:
    """One side: an attempt, the fingerprint of its machine and the version of the tool that measured it."""

    attempt: Attempt
    machine: Fingerprint | None = None
    tool_version: str | None = None


@dataclass(frozen=True, slots=True)
class _Unknown:
    reason: str


def gate(base: Side, candidate: Side, *, studied: frozenset[str] = frozenset()) -> Gate:
    """What forbids a comparison of the two and what has to be shown beside it.

    `studied` names the fields of a tuning, or `device`, that the comparison is about: those may differ, and
    are shown. Unknown never equals anything, not even unknown. ValueError for a name that is neither.
    """
    known = {f.name for f in dataclasses.fields(Tuning)} | {"device"}
    if strange := studied - known:
        raise ValueError(f"no field of a tuning: {', '.join(sorted(strange))}")
    freed = {f"tuning.{name}" for name in studied} | studied
    freed |= {field for name in studied for field in STUDIED_TOO.get(name, ())}
    must = list(_differences(*_paired(base.attempt, candidate.attempt)))
    shown = (*_differences(_must_show(base), _must_show(candidate)), *_core_speed(base, candidate))
    return Gate(
        blocked=tuple(d for d in must if d.field not in freed),
        shown=(*(d for d in must if d.field in freed), *shown),
    )


def other_machine(base: Side, candidate: Side) -> tuple[Difference, ...]:
    """What tells that the two were measured on different machines: then no difference is the code's.

    The CPU's facts count for every device but a simulated one, a GPU's and its hashed id for a GPU only. What
    neither fingerprint could read is shown (`gate`) and does not count; what one alone read does. Drivers,
    libraries and settings are not the machine: they may be what is compared.
    """
    kind = base.attempt.device.kind
    if kind == "sim" and candidate.attempt.device.kind == "sim":
        return ()
    if base.machine is None or candidate.machine is None:
        return (Difference(field="machine", base=None, candidate=None, unknown="a file has no fingerprint"),)
    if base.machine.fingerprint_id == candidate.machine.fingerprint_id:
        return ()
    a, b = (_hardware(side.machine, kind) for side in (base, candidate) if side.machine is not None)
    sizes = [float(side["memory_gib"]) for side in (a, b) if isinstance(side.get("memory_gib"), int | float)]
    if len(sizes) == 2 and max(sizes) <= ONE_MEMORY * min(sizes):
        b = b | {"memory_gib": a["memory_gib"]}
    found = _differences(a, b)
    return tuple(d for d in found if d.unknown is None or (d.base, d.candidate) != (None, None))


HARDWARE = ("cpu", "memory_gib", "machine")
ONE_MEMORY = 1.02
"""Sizes of memory up to this factor apart are one: a kernel keeps more or less of it for itself."""
FIRMWARE = ("vbios", "persistence", "power_limit_w")
"""Facts of a board that an administrator changes: shown, for they are no other board."""


def _hardware(machine: Fingerprint, kind: str) -> dict[str, Any]:
    parts = {name: machine.platform.get(name) for name in HARDWARE}
    if kind == "cuda":
        parts |= {"gpus": machine.platform.get("gpus"), "unit": dict(machine.unit)}
    facts: dict[str, Any] = {}
    for field, value in _leaves("", parts):
        reason = machine.nulls.get(f"platform.{field}")
        if field.rpartition(".")[2] not in FIRMWARE:
            facts[field] = _Unknown(reason) if value is None and reason else value
    return facts


def _must_match(attempt: Attempt) -> dict[str, Any]:
    facts: dict[str, Any] = {
        "work_id": attempt.work_id,
        "region": attempt.region,
        "device": attempt.device.label,
    }
    facts |= {f"tuning.{name}": value for name, value in to_json(attempt.tuning).items()}
    for name in READ_BACK_BY.get(attempt.tuning.runtime, READ_BACK):
        facts[f"observed.{name}"] = attempt.observed.get(name, _Unknown("not read back"))
    for name in SETTINGS:
        if name in attempt.observed:
            facts[f"observed.{name}"] = attempt.observed[name]
    # Which images a call takes changes none of its work: a runtime of inference need not tell.
    needed = ("weights",) if attempt.work.task == "infer" else ("weights", "order")
    for name in dict.fromkeys([*needed, *sorted(attempt.hashes)]):
        facts[f"hashes.{name}"] = attempt.hashes.get(name) or _Unknown("no hash was recorded")
    return facts


def _paired(base: Attempt, candidate: Attempt) -> tuple[dict[str, Any], dict[str, Any]]:
    """What must match of both sides; of inference without the images that one side alone tells."""
    a, b = _must_match(base), _must_match(candidate)
    if base.work.task == candidate.work.task == "infer":
        alone = {field for field in a.keys() ^ b.keys() if field.startswith("hashes.")}
        a, b = ({k: v for k, v in side.items() if k not in alone} for side in (a, b))
    return a, b


def _must_show(side: Side) -> dict[str, Any]:
    facts: dict[str, Any] = {
        "tool_version": side.tool_version or _Unknown("the file does not say"),
        "threads": side.attempt.observed.get("threads", _Unknown("not read back")),
    }
    if side.machine is None:
        return facts | {"machine": _Unknown("the file has no fingerprint of it")}
    for field, value in _leaves("", side.machine.platform):
        reason = next((why for key, why in side.machine.nulls.items() if key == f"platform.{field}"), None)
        facts[field] = _Unknown(reason) if value is None and reason else value
    facts["machine"] = side.machine.platform_id
    return facts


def _core_speed(base: Side, candidate: Side) -> Iterator[Difference]:
    """The speed of one core, unless both are known and as good as equal: no two readings are the same."""
    a, b = (side.attempt.observed.get("core_loop_ns") for side in (base, candidate))
    known = [float(ns) for ns in (a, b) if isinstance(ns, int | float) and ns > 0]
    if len(known) < 2:
        yield Difference(field="core_loop_ns", base=a, candidate=b, unknown="not measured")
    elif max(known) > ONE_SPEED * min(known):
        yield Difference(field="core_loop_ns", base=a, candidate=b)


def _leaves(prefix: str, value: Any) -> Iterator[tuple[str, Any]]:
    """Facts by dotted name; boards of a list by their number."""
    if isinstance(value, Mapping):
        items = [(str(key), item) for key, item in value.items()]
    elif isinstance(value, list | tuple) and any(isinstance(item, Mapping) for item in value):
        items = [(str(index), item) for index, item in enumerate(value)]
    else:
        yield prefix, value
        return
    for key, item in items:
        yield from _leaves(f"{prefix}.{key}" if prefix else key, item)


def _differences(base: Mapping[str, Any], candidate: Mapping[str, Any]) -> Iterator[Difference]:
    for field in dict.fromkeys([*base, *candidate]):
        a = base.get(field, _Unknown("not recorded"))
        b = candidate.get(field, _Unknown("not recorded"))
        reasons = [value.reason for value in (a, b) if isinstance(value, _Unknown)]
        if reasons or to_json(a) != to_json(b):
            yield Difference(
                field=field, base=_plain(a), candidate=_plain(b), unknown=reasons[0] if reasons else None
            )


def _plain(value: Any) -> Any:
    return None if isinstance(value, _Unknown) else ABSENT if value is None else value
