"""What torch shows of a device at its best: names, real work on this CPU, and refusals."""

from __future__ import annotations

from pathlib import Path

import pytest

from breakeven.errors import Unsupported
from breakeven.records.case import Device, parse_device
from breakeven.records.transfers import KINDS
from breakeven.runtimes import copying, load, measurable
from breakeven.timing import sample_peak

CPU = Device(kind="cpu")


def test_names_and_units_by_kind_of_device() -> None:
    torch = measurable("torch")
    assert torch is not None
    assert set(torch.peaks(CPU)) == {"matmul_fp32", "matmul_bf16", "triad", "copy"}
    there = torch.peaks(parse_device("cuda:1"))
    assert {name for name, unit in there.items() if unit == "tflop_per_s"} == {
        f"matmul_{name}" for name in ("fp32", "tf32", "fp16", "bf16")
    }
    assert there["matmul_int8"] == "top_per_s"
    assert torch.peaks(parse_device("sim:gpu")) == {}


def test_a_simulated_runtime_has_those_that_are_planted() -> None:
    shows = measurable("sim")
    assert shows is not None and shows.peaks(parse_device("sim:gpu")) == {}
    assert set(shows.peaks(parse_device("sim:gpu:gb_per_s=10"))) == {"matmul_fp32", "matmul_bf16", "copy"}
    assert load("sim").PRELOAD == ()


@pytest.mark.framework
def test_a_product_is_counted_verified_and_runs_on_other_data_each_time() -> None:
    from breakeven.runtimes.torch.ceilings import peak

    work = peak(CPU, "matmul_fp32")
    n = work.conditions["shape"][0]
    assert work.conditions["shape"] == [n, n, n]
    assert work.amount == 2 * n**3
    assert work.conditions["verified"] in {f"{bits} mantissa bits" for bits in range(20, 24)}
    assert work.conditions["buffers"] >= 8
    assert work.conditions["threads"] >= 1
    assert sample_peak(work, budget_s=0.2).per_second > 0


@pytest.mark.framework
def test_memory_is_counted_as_it_says() -> None:
    import torch

    from breakeven.runtimes.torch.ceilings import _host_caches, peak

    for name, per_element in (("triad", 12), ("copy", 8)):
        work = peak(CPU, name)
        (elements,) = work.conditions["shape"]
        assert work.amount == per_element * elements == work.conditions["bytes_per_element"] * elements
        assert 4 * elements > _host_caches()
        work.call()
    assert torch.get_num_threads() >= 1


@pytest.mark.framework
def test_copies_by_size_move_their_bytes_and_too_large_ones_are_refused(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    import torch

    from breakeven.runtimes.torch import ceilings, transfers

    work = transfers.transfer(CPU, "copy", 64 * 1024)
    assert work.amount == 2 * 64 * 1024  # read and written
    assert work.conditions["shape"] == [16 * 1024] and work.conditions["buffers"] == 2
    work.call()
    runtime = copying("torch")
    assert runtime is not None and runtime.copies(CPU) == ("copy",)
    assert len(runtime.copies(parse_device("cuda:0"))) == 5
    assert runtime.peak(CPU, "copy/4096").amount == 8192
    monkeypatch.setattr(ceilings, "memory_of", lambda device: 2**20)
    with pytest.raises(Unsupported, match="too much for the memory of cpu"):
        transfers.transfer(CPU, "copy", 2**20)
    assert torch.get_num_threads() >= 1


@pytest.mark.framework
@pytest.mark.gpu
def test_copies_over_a_link_stay_below_it() -> None:
    """No board's link carries 250 GB/s one way; a copy that nobody waited for would show thousands."""
    from breakeven.runtimes.torch import transfers

    device = parse_device("cuda:0")
    for kind in KINDS[1:]:
        for size in (4096, 64 * 1024**2):
            reached = sample_peak(transfers.transfer(device, kind, size), budget_s=0.1).per_second
            assert 0 < reached < 250e9


@pytest.mark.framework
def test_what_the_hardware_lacks_is_unsupported(monkeypatch: pytest.MonkeyPatch) -> None:
    from breakeven.runtimes.torch import ceilings, precision

    with pytest.raises(Unsupported, match="no tf32 in hardware"):
        ceilings.peak(CPU, "matmul_tf32")
    monkeypatch.setattr(precision, "hardware", lambda name, device: (False, "neither of them"))
    with pytest.raises(Unsupported, match="no bf16 in hardware: neither of them"):
        ceilings.peak(CPU, "matmul_bf16")


@pytest.mark.framework
def test_another_precision_than_asked_is_a_mismatch(monkeypatch: pytest.MonkeyPatch) -> None:
    import torch

    from breakeven.errors import Mismatch
    from breakeven.runtimes.torch import ceilings

    def rounded(out: torch.Tensor, a: torch.Tensor, b: torch.Tensor) -> None:
        out.copy_(a.bfloat16().float() @ b.bfloat16().float())

    monkeypatch.setattr(ceilings, "_multiply", rounded)
    with pytest.raises(Mismatch, match="asked fp32, found bf16"):
        ceilings.peak(CPU, "matmul_fp32")


@pytest.mark.framework
def test_last_level_caches_are_counted_once(tmp_path: Path) -> None:
    from breakeven.runtimes.torch.ceilings import _host_caches

    assert _host_caches(tmp_path) == 0
    for cpu, shared in enumerate(("0-1", "0-1", "2-3", "2-3")):
        for index, (level, mine, size) in enumerate(((1, str(cpu), "32K"), (3, shared, "16384K"))):
            folder = tmp_path / f"sys/devices/system/cpu/cpu{cpu}/cache/index{index}"
            folder.mkdir(parents=True)
            for name, text in (("level", str(level)), ("shared_cpu_list", mine), ("size", size)):
                (folder / name).write_text(f"{text}\n")
    assert _host_caches(tmp_path) == 2 * 16384 * 1024


@pytest.mark.framework
@pytest.mark.gpu
@pytest.mark.slow
def test_every_ceiling_of_a_gpu_can_be_built_and_run() -> None:
    from breakeven.runtimes.torch import ceilings, peaks

    device = parse_device("cuda:0")
    for name in peaks(device):
        try:
            work = ceilings.peak(device, name)
        except Unsupported:
            continue  # a board before Ampere
        assert sample_peak(work, budget_s=0.2).per_second > 0
