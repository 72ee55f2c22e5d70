"""The harness against the loop people write: the as-written step, interleaved in one run, as ratios.

A bare loop is a fresh process with a torch DataLoader, per-sample PIL transforms, zero_grad, forward,
backward, Adam and loss.item(), timed over many steps by perf_counter. The harness measures the same case its
own way. Both alternate (A B B A ...) so that a drift of the machine hits both. The ratio harness / bare
should be 1; the bound is 5 %.

    python benchmarks/bare_loop.py --model resnet18 -o benchmarks/results/bare_loop-resnet18-cpu.json
"""

import argparse
import random
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import quiet

from breakeven import api
from breakeven.records.lines import steady_step_ns

BATCH = 128


def bare(model: str, data: str, device: str, seconds: float) -> float:
    """Median milliseconds a step of a loop as people write it, in this process."""
    import numpy as np
    import torch
    from PIL import Image, ImageOps
    from torch.utils.data import DataLoader, Dataset

    from breakeven.runtimes.torch.nets import build
    from breakeven.workloads import data as data_sets
    from breakeven.workloads.models import model as declared
    from breakeven.workloads.weights import initial_weights

    train = data_sets.load(data, "train")
    known = data_sets.entry(data)
    mean = torch.tensor(known.mean).view(3, 1, 1)
    std = torch.tensor(known.std).view(3, 1, 1)

    class Train(Dataset):
        def __len__(self):
            return len(train.labels)

        def __getitem__(self, index):
            image = Image.fromarray(np.ascontiguousarray(train.images[index].transpose(1, 2, 0)))
            image = ImageOps.expand(image, border=4)
            left, top = random.randint(0, 8), random.randint(0, 8)
            image = image.crop((left, top, left + 32, top + 32))
            if random.random() < 0.5:
                image = image.transpose(Image.Transpose.FLIP_LEFT_RIGHT)
            tensor = torch.from_numpy(np.array(image, copy=True)).permute(2, 0, 1).contiguous()
            return tensor.to(torch.float32).div(255).sub_(mean).div_(std), int(train.labels[index])

    net_declared = declared(model, num_classes=10, input_shape=(3, 32, 32))
    net = build(net_declared, initial_weights(net_declared, 0)).to(device).train()
    adam = torch.optim.Adam(net.parameters(), lr=1e-3)
    criterion = torch.nn.CrossEntropyLoss()
    loader = DataLoader(Train(), batch_size=BATCH, shuffle=True, drop_last=True)
    times = []
    begin = time.perf_counter()
    while time.perf_counter() - begin < seconds:
        batches = iter(loader)
        while True:
            start = time.perf_counter()
            batch = next(batches, None)
            if batch is None:
                break
            images, labels = batch[0].to(device), batch[1].to(device)
            adam.zero_grad()
            loss = criterion(net(images), labels)
            loss.backward()
            adam.step()
            loss.item()
            if device.startswith("cuda"):
                torch.cuda.synchronize()
            times.append(time.perf_counter() - start)
            if time.perf_counter() - begin > seconds and len(times) > 5:
                break
    return 1e3 * statistics.median(times[len(times) // 3 :])


def harness(model: str, data: str, device: str, seconds: float) -> float:
    """Median milliseconds a step as breakeven measures the as-written case."""
    flags = {
        "model": [model], "device": [device], "data": [data], "tuning": ["as-written"],
        "set": ["replicates=1", "max_replicates=1", f"attempt_time={seconds}"],
    }  # fmt: skip
    study = api.load_study((model,), flags)
    with tempfile.TemporaryDirectory() as folder:
        api.measure(study, Path(folder))
        (line,) = api.read(folder).attempts
    ns = steady_step_ns(line)
    if ns is None:
        raise SystemExit(f"harness: {line.outcome}: {line.reason}")
    return ns / 1e6


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--model", default="resnet18")
    parser.add_argument("--data", default="fashion-mnist")
    parser.add_argument("--pairs", type=int, default=8)
    parser.add_argument("--seconds", type=float, default=6.0)
    parser.add_argument("--minutes", type=float, default=15.0, help="stop after this long at the latest")
    parser.add_argument("--load", type=float, default=0.7)
    parser.add_argument("--wait", type=float, default=0.0, help="minutes to wait for a quiet machine")
    parser.add_argument(
        "--bare", action="store_true", help="print one bare measurement (used by this script)"
    )
    parser.add_argument("-o", type=Path)
    args = parser.parse_args()
    if args.bare:
        print(bare(args.model, args.data, args.device, args.seconds))
        return
    here = [sys.executable, __file__, "--bare", "--device", args.device, "--model", args.model]
    here += ["--data", args.data, "--seconds", str(args.seconds)]
    load = quiet.wait(args.load, args.wait)

    def bare_ms() -> float:
        done = subprocess.run(here, capture_output=True, text=True, check=True)
        return float(done.stdout.split()[-1])

    result = {
        "what": "as-written step: harness / bare loop, pairs of fresh processes interleaved in one run",
        "bound": "0.95 <= ratio <= 1.05",
        "model": args.model, "device": args.device, "data": args.data,
        **quiet.pairs(
            lambda: harness(args.model, args.data, args.device, args.seconds),
            bare_ms, args.pairs, args.minutes,
        ),
    }  # fmt: skip
    quiet.save(result, args.o, load)


if __name__ == "__main__":
    main()
