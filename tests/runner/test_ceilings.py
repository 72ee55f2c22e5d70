"""Ceilings in a run: from the cache or measured, once a machine; a dead process leaves reasons, not holes."""

from __future__ import annotations

import dataclasses
import json
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from breakeven import cli
from breakeven.cli.measuring import failed
from breakeven.records import file
from breakeven.records.case import Device, parse_device
from breakeven.records.lines import Ceiling, Line
from breakeven.runner import ceilings
from breakeven.runner.plan import Plan, plan
from breakeven.runner.seat import Ending
from breakeven.runner.session import Session
from breakeven.runner.study import Study, read_study

CPU, ONE = parse_device("cpu"), parse_device("cpu:threads=1")


def a_line(name: str, value: float | None, device: str = "cpu", **changes: Any) -> Ceiling:
    values: dict[str, Any] = {
        "fingerprint_id": "f0", "started_utc": "2025-01-01T00:00:00+00:00", "name": name, "value": value,
        "unit": "tflop_per_s", "conditions": {"device": device, "flags": []},
    }  # fmt: skip
    return Ceiling(**(values | changes))


def a_session(tmp_path: Path, *devices: str, fingerprint_id: str = "f0", **keys: Any) -> Session:
    listed = {"model": ["simple-cnn"], "device": list(devices)} | keys
    study: Study = read_study("\n".join(["name: t", *(f"{k}: {v!r}" for k, v in listed.items())]), "t.yaml")
    planned: Plan = plan(study, cores=2, gpus=1, supports=lambda case: None, data_available=lambda name: None)
    path = tmp_path / file.NAME
    lines: list[Line] = list(file.read(path).lines) if path.exists() else []
    return Session(
        study, planned, path, lambda event: None, lambda: None, time.monotonic(),
        fingerprint_id=fingerprint_id, lines=lines,
    )  # fmt: skip


@pytest.fixture
def measured(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[tuple[str, tuple[str, ...]]]]:
    """What was measured, in place of measuring: (device, names)."""
    asked: list[tuple[str, tuple[str, ...]]] = []

    def measure(runtime: str, device: Device, names: Any, fingerprint_id: str, **_: Any) -> list[Ceiling]:
        asked.append((device.label, tuple(names)))
        return [
            a_line(name, float(len(asked)), device.label, fingerprint_id=fingerprint_id) for name in names
        ]

    monkeypatch.setattr(ceilings, "measure", measure)
    yield asked


def test_each_device_once_with_what_its_precisions_need(tmp_path: Path, measured: Any) -> None:
    session = a_session(tmp_path, "cpu:threads=1", "cpu", precision=["default", "bf16"])
    ceilings.for_study(session)
    names = ("matmul_fp32", "matmul_bf16", "triad")
    assert measured == [("cpu:threads=1", names), ("cpu", names)]
    assert [line.name for line in file.read(tmp_path).ceilings] == [*names, *names]
    ceilings.for_study(a_session(tmp_path, "cpu:threads=1", "cpu"))
    assert len(measured) == 2


def test_a_gpu_at_default_needs_fp32_tf32_and_its_memory(tmp_path: Path, measured: Any) -> None:
    ceilings.for_study(a_session(tmp_path, "cuda:0"))
    assert measured == [("cuda:0", ("matmul_fp32", "matmul_tf32", "copy"))]


def test_copies_by_size_are_measured_where_the_study_asks(tmp_path: Path, measured: Any) -> None:
    ceilings.for_study(a_session(tmp_path, "cpu", bandwidth=True))
    assert [device for device, _ in measured] == ["cpu", "cpu"]
    assert measured[1][1] == tuple(f"copy/{4096 * 4**power}" for power in range(10))
    ceilings.for_study(a_session(tmp_path, "cpu", bandwidth=True))
    assert len(measured) == 2
    there = ceilings._copies("torch", parse_device("cuda:0"))
    assert len(there) == 50 and set(there.values()) == {"gb_per_s"}
    assert ceilings._copies("sim", parse_device("sim:gpu")) == {}


def test_simulated_devices_have_none(tmp_path: Path, measured: Any) -> None:
    ceilings.for_study(a_session(tmp_path, "sim:cpu", "sim:gpu", runtime="sim"))
    assert measured == []
    assert not (tmp_path / file.NAME).exists()


def test_another_folder_takes_them_from_the_cache(tmp_path: Path, measured: Any) -> None:
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        ceilings.for_study(a_session(tmp_path / name, "cpu"))
    assert len(measured) == 1
    assert file.read(tmp_path / "a").ceilings == file.read(tmp_path / "b").ceilings


def test_a_changed_fingerprint_is_measured_again(tmp_path: Path, measured: Any) -> None:
    ceilings.for_study(a_session(tmp_path, "cpu"))
    ceilings.for_study(a_session(tmp_path, "cpu", fingerprint_id="f1"))
    assert len(measured) == 2
    assert {line.fingerprint_id for line in file.read(tmp_path).ceilings} == {"f0", "f1"}


def test_a_better_one_in_the_cache_is_added_and_a_worse_one_is_not(tmp_path: Path, measured: Any) -> None:
    ceilings.for_study(a_session(tmp_path, "cpu"))
    for value, expected in ((0.5, 2), (9.0, 3), (9.0, 3)):
        ceilings.remember([a_line("matmul_fp32", value)])
        ceilings.for_study(a_session(tmp_path, "cpu"))
        assert len(file.read(tmp_path).ceilings) == expected
    assert len(measured) == 1


def test_null_and_contended_ceilings_are_not_kept(private_cache: Path) -> None:
    busy = a_line("triad", 2.0, conditions={"device": "cpu", "flags": ["contended"]})
    ceilings.remember([a_line("copy", None, reason="no"), busy])
    assert ceilings.cached("f0") == [] and list(private_cache.iterdir()) == []


def test_a_damaged_or_unwritable_cache_is_no_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ceilings.remember([a_line("triad", 2.0)])
    (path,) = (Path(p) for p in ceilings._cache("f0").parent.iterdir())
    path.write_text('{"kind": "ceil\n')
    assert ceilings.cached("f0") == []
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("BREAKEVEN_CACHE", str(tmp_path / "file"))
    ceilings.remember([a_line("triad", 2.0)])
    assert ceilings.cached("f0") == []


def test_the_cache_keeps_other_devices(private_cache: Path) -> None:
    ceilings.remember([a_line("triad", 2.0), a_line("triad", 1.0, "cpu:threads=1")])
    ceilings.remember([a_line("triad", 3.0)])
    assert {(c.conditions["device"], c.value) for c in ceilings.cached("f0")} == {
        ("cpu:threads=1", 1.0),
        ("cpu", 3.0),
    }


def processes(monkeypatch: pytest.MonkeyPatch, *sent: tuple[list[Mapping[str, Any]], Ending]) -> None:
    """Processes that send these events and end so, in place of real ones."""
    turn = iter(sent)

    def attempt(seat: Any, request: Any, *, on_event: Any, **_: Any) -> Ending:
        events, ending = next(turn)
        for event in events:
            on_event({"event": "ceiling"} | dict(event))
        return ending

    monkeypatch.setattr(ceilings, "attempt", attempt)
    monkeypatch.setattr(ceilings, "open_seat", lambda runtime, env: None)
    monkeypatch.setattr(ceilings, "close_seat", lambda seat: None)
    monkeypatch.setattr(ceilings, "alive", lambda seat: True)


OK = Ending(result={"outcome": "ok"})


def told(name: str, per_second: float, **conditions: Any) -> dict[str, Any]:
    return {"name": name, "per_second": per_second, "flags": [], "conditions": conditions}


def test_the_best_process_counts_with_its_conditions(monkeypatch: pytest.MonkeyPatch) -> None:
    sent = [told("matmul_fp32", 1e12, threads=1), told("matmul_fp32", 2e12, threads=2)]
    processes(monkeypatch, ([sent[0]], OK), ([sent[1]], OK))
    (line,) = ceilings.measure("torch", CPU, ["matmul_fp32"], "f0", processes=2, seats={})
    assert (line.value, line.unit, line.reason) == (2.0, "tflop_per_s", None)
    assert line.conditions == {
        "device": "cpu", "runtime": "torch", "threads": 2, "n": 2, "each": [1.0, 2.0], "flags": [],
    }  # fmt: skip
    assert file.decode(file.encode(line)) == line


def test_what_a_dead_process_did_not_reach_is_null_with_the_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    dead = Ending(result=None, outcome="killed", reason="killed by SIGKILL")
    lacking = {"name": "matmul_bf16", "per_second": None, "reason": "no bf16 in hardware"}
    processes(monkeypatch, ([told("matmul_fp32", 1e12), lacking], dead))
    lines = ceilings.measure(
        "torch", CPU, ["matmul_fp32", "matmul_bf16", "triad"], "f0", processes=1, seats={}
    )
    assert [(line.value, line.reason) for line in lines] == [
        (1.0, None),
        (None, "no bf16 in hardware"),
        (None, "killed: killed by SIGKILL"),
    ]


def test_stopped_by_the_user_leaves_no_line(monkeypatch: pytest.MonkeyPatch) -> None:
    processes(monkeypatch, ([told("triad", 1e9)], Ending(result=None, outcome="interrupted", reason="stop")))
    assert ceilings.measure("torch", CPU, ["triad"], "f0", processes=2, seats={}) == []


@pytest.mark.framework
def test_a_real_measurement_on_one_core_and_an_unknown_name() -> None:
    names = ["matmul_fp32", "matmul_tf32"]
    with pytest.MonkeyPatch.context() as patch, ceilings.parents() as seats:
        patch.setattr(ceilings, "BUDGET_S", {"cpu": 0.2})
        patch.setattr("breakeven.runtimes.torch.PEAKS", {"cpu": dict.fromkeys(names, "tflop_per_s")})
        found, missing = ceilings.measure("torch", ONE, names, "f0", processes=1, seats=seats)
    assert found.value is not None and found.value > 0
    assert found.conditions["threads"] == 1 and found.conditions["device"] == "cpu:threads=1"
    assert missing.value is None and missing.reason is not None and "no tf32 in hardware" in missing.reason


def doctor(monkeypatch: pytest.MonkeyPatch, *words: str) -> str:
    shape = {"device": "cpu", "shape": [9, 9, 9], "threads": 2, "n": 3, "flags": []}
    lines = [
        a_line("matmul_fp32", 0.1234, conditions=shape),
        a_line("matmul_bf16", None, reason="no bf16 in hardware: neither"),
        a_line("triad", 30.0, unit="gb_per_s", conditions=shape | {"shape": [729], "bytes_per_element": 12}),
    ]
    monkeypatch.setattr(ceilings, "measure_machine", lambda say: lines)
    done = CliRunner().invoke(cli.app, ["doctor", *words])
    assert done.exit_code == 0, done.output
    return done.stdout


def test_doctor_prints_ceilings_only_when_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    shown = doctor(monkeypatch, "--ceilings")
    table = shown[shown.index("device  ceiling") :].split("\n\n")[0]
    assert [line.rstrip() for line in table.splitlines()] == [
        "device  ceiling       value  unit     bytes  shape  threads  n  notes",
        "                                       each",
        "------  -----------  ------  -------  -----  -----  -------  -  ----------------",
        "cpu     matmul_fp32  0.1234  TFLOP/s      -  9x9x9        2  3",
        "cpu     matmul_bf16       -  TFLOP/s      -               -  -  no bf16 in",
        "                                                                hardware:",
        "                                                                neither",
        "cpu     triad            30  GB/s        12  729          2  3",
    ]
    assert "matmul_fp32" not in doctor(monkeypatch)


def test_doctor_as_json_holds_the_lines(monkeypatch: pytest.MonkeyPatch) -> None:
    found = json.loads(doctor(monkeypatch, "--ceilings", "--json"))["ceilings"]
    assert [line["value"] for line in found] == [0.1234, None, 30.0]
    assert found[1]["reason"] == "no bf16 in hardware: neither"
    assert "ceilings" not in json.loads(doctor(monkeypatch, "--json"))


def test_a_case_faster_than_the_hardware_makes_the_run_exit_3() -> None:
    from breakeven.analysis.findings import CaseFinding

    @dataclasses.dataclass
    class Found:
        cases: tuple[CaseFinding, ...]

    session_case = a_session(Path("nowhere"), "cpu").plan.cases[0].case
    case = CaseFinding(
        case_id="c", case=session_case, tuning_name="t", device_label="cpu", simulated=False, in_study=True,
        processes=0, outcomes={"invalid": 3},
    )  # fmt: skip
    assert failed({"ok": 3}, Found(cases=(case,)))  # type: ignore[arg-type]
    assert not failed({"ok": 3}, Found(cases=()))  # type: ignore[arg-type]
    assert failed({"error": 1}, Found(cases=()))  # type: ignore[arg-type]
