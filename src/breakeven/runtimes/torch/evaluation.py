"""Scoring a net on the test set without changing anything: one in training, or the calls of inference.

Knows nothing about training.
"""

from collections.abc import Callable, Iterator

import torch
from torch import nn
from torch.nn import functional

from breakeven.errors import Mismatch
from breakeven.runtimes import Evaluation
from breakeven.runtimes.torch import inference
from breakeven.runtimes.torch.input import Batch, Batches
from breakeven.runtimes.torch.precision import autocast
from breakeven.workloads import data


def evaluator(
    net: nn.Module,
    open_batches: Callable[[], Batches],
    device: torch.device,
    *,
    precision: str,
    labelled: bool,
) -> tuple[Callable[[int | None], Evaluation], Callable[[], None]]:
    """(evaluate, close). The test set is opened at the first evaluation: most attempts never make one."""
    opened: list[Batches] = []

    def evaluate(n: int | None) -> Evaluation:
        if not opened:
            opened.append(open_batches())
        net.eval()
        try:
            with torch.inference_mode():
                return _score(net, _first(opened[0], n), device, precision, labelled)
        finally:
            net.train()

    def close() -> None:
        for batches in opened:
            batches.close()
        opened.clear()

    return evaluate, close


def scored(session: inference.Session, n: int | None) -> Evaluation:
    """The test set, at most n batches of it, by the calls that are timed."""
    batch, images, labels = session.case.work.batch, session.test.images, session.test.labels
    samples = len(images) if n is None else min(len(images), n * batch)
    right, loss = 0, 0.0
    for first in range(0, samples, batch):
        last = min(first + batch, samples)
        scores = session.scores(data.normalized(session.known, images[first:last]))
        if not session.known.labelled:
            continue
        truth = torch.from_numpy(labels[first:last])
        right += int((scores.argmax(1) == truth).sum())
        loss += float(functional.cross_entropy(scores, truth, reduction="sum"))
    steps = -(-samples // batch)
    if not session.known.labelled or not samples:
        return Evaluation(steps=steps, samples=samples)
    return Evaluation(steps=steps, samples=samples, accuracy=right / samples, loss=loss / samples)


def _first(batches: Batches, n: int | None) -> Iterator[Batch]:
    batches.begin(0, 0)
    done = 0
    while n is None or done < n:
        try:
            batch = batches.next()
        except StopIteration:
            return
        yield batch
        done += 1


def _score(
    net: nn.Module, batches: Iterator[Batch], device: torch.device, precision: str, labelled: bool
) -> Evaluation:
    # Sums stay on the device: the one read at the end is what synchronises.
    right = torch.zeros((), dtype=torch.int64, device=device)
    loss = torch.zeros((), dtype=torch.float64, device=device)
    steps = samples = 0
    for images, labels in batches:
        with autocast(precision, device):
            output = net(images)
        if output.requires_grad or net.training:
            raise Mismatch("invalid", "evaluation ran in training mode or built an autograd graph")
        right += (output.argmax(1) == labels).sum()
        loss += functional.cross_entropy(output.float(), labels, reduction="sum")
        steps, samples = steps + 1, samples + len(labels)
    total_right, total_loss = right.item(), loss.item()
    if not labelled or not samples:
        return Evaluation(steps=steps, samples=samples)
    return Evaluation(steps=steps, samples=samples, accuracy=total_right / samples, loss=total_loss / samples)
