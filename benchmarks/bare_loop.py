"""The harness against the loop people write: the as-written step, interleaved in one process, as ratios.

The bare loop has a torch DataLoader, per-sample PIL transforms, zero_grad, forward, backward, Adam and
loss.item(), timed step by step by perf_counter. The harness measures the same case as an attempt does, its
probes running. Both alternate (A B B A ...) every few seconds in one process: between fresh processes a
shared machine drifts by more than the bound. The ratio harness / bare should be 1; the bound is 5 %.

    python benchmarks/bare_loop.py --model resnet18 -o benchmarks/results/bare_loop-resnet18-cpu.json
"""

import argparse
import random
import statistics
import time
from collections.abc import Callable
from pathlib import Path

import quiet
from harness_step import harness

from breakeven import api, runtimes

BATCH = 128


def bare_loop(model: str, data: str, device: str) -> Callable[[float], float]:
    """A loop as people write it: train(seconds) returns its median nanoseconds a step."""
    import numpy as np
    import torch
    from PIL import Image, ImageOps
    from torch.utils.data import DataLoader, Dataset

    from breakeven.runtimes.torch.nets import build
    from breakeven.workloads import data as data_sets
    from breakeven.workloads.models import model as declared
    from breakeven.workloads.weights import initial_weights

    split = data_sets.load(data, "train")
    pixels = np.ascontiguousarray(split.images.transpose(0, 2, 3, 1))  # as torchvision's CIFAR10 holds them
    known = data_sets.entry(data)
    mean = torch.tensor(known.mean).view(3, 1, 1)
    std = torch.tensor(known.std).view(3, 1, 1)

    class Train(Dataset):  # type: ignore[misc]  # torch is not followed
        def __len__(self) -> int:
            return len(split.labels)

        def __getitem__(self, index: int) -> tuple[torch.Tensor, int]:
            image = Image.fromarray(pixels[index])
            image = ImageOps.expand(image, border=4)
            left, top = random.randint(0, 8), random.randint(0, 8)
            image = image.crop((left, top, left + 32, top + 32))
            if random.random() < 0.5:
                image = image.transpose(Image.Transpose.FLIP_LEFT_RIGHT)
            tensor = torch.from_numpy(np.array(image, copy=True)).permute(2, 0, 1).contiguous()
            return tensor.to(torch.float32).div(255).sub_(mean).div_(std), int(split.labels[index])

    net_declared = declared(model, num_classes=10, input_shape=(3, 32, 32))
    net = build(net_declared, initial_weights(net_declared, 0)).to(device).train()
    adam = torch.optim.Adam(net.parameters(), lr=1e-3)
    criterion = torch.nn.CrossEntropyLoss()
    loader = DataLoader(Train(), batch_size=BATCH, shuffle=True, drop_last=True)

    def train(seconds: float) -> float:
        times: list[float] = []
        begin = time.perf_counter()
        batches = iter(loader)
        while time.perf_counter() - begin < seconds or len(times) < 6:
            start = time.perf_counter()
            batch = next(batches, None)
            if batch is None:
                batches = iter(loader)
                continue
            images, labels = batch[0].to(device), batch[1].to(device)
            adam.zero_grad()
            loss = criterion(net(images), labels)
            loss.backward()
            adam.step()
            loss.item()
            if device.startswith("cuda"):
                torch.cuda.synchronize()
            times.append(time.perf_counter() - start)
        return 1e9 * statistics.median(times[len(times) // 5 :])

    return train


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--model", default="resnet18")
    parser.add_argument("--data", default="fashion-mnist")
    parser.add_argument("--pairs", type=int, default=12)
    parser.add_argument("--seconds", type=float, default=4.0)
    parser.add_argument("--minutes", type=float, default=15.0, help="stop after this long at the latest")
    parser.add_argument("--load", type=float, default=0.7)
    parser.add_argument("--wait", type=float, default=0.0, help="minutes to wait for a quiet machine")
    parser.add_argument("-o", type=Path)
    args = parser.parse_args()
    flags = {"device": [args.device], "data": [args.data], "tuning": ["as-written"]}
    study = api.load_study((args.model,), flags)
    (planned,) = api.plan(study, api.look(study)).cases
    load = quiet.wait(args.load, args.wait)
    prepared = runtimes.load(planned.case.tuning.runtime).prepare(planned.case)
    train = bare_loop(args.model, args.data, args.device)
    harness(prepared, planned.case, args.seconds)  # warms both up
    train(args.seconds)
    result = {
        "what": "as-written step: harness / bare loop, pairs interleaved in one process",
        "bound": "0.95 <= ratio <= 1.05",
        "model": args.model, "device": args.device, "data": args.data,
        **quiet.pairs(
            lambda: harness(prepared, planned.case, args.seconds)[0],
            lambda: train(args.seconds),
            args.pairs, args.minutes,
        ),
    }  # fmt: skip
    quiet.save(result, args.o, load)


if __name__ == "__main__":
    main()
