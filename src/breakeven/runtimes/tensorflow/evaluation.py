"""Scoring a net in training on the test set without changing anything.

Knows nothing about training.
"""

from collections.abc import Callable

from breakeven.runtimes import Evaluation
from breakeven.runtimes.tensorflow import input
from breakeven.runtimes.tensorflow.library import tf
from breakeven.runtimes.tensorflow.session import Session
from breakeven.runtimes.tensorflow.training import driven


def evaluator(session: Session) -> tuple[Callable[[int | None], Evaluation], Callable[[], None]]:
    """(evaluate, close). The test set is opened at the first evaluation: most attempts never make one.

    The last batch is filled up, so that there is one shape, and what fills it is not counted.
    """
    opened: list[tuple[input.Source, Callable[..., object]]] = []
    case, split = session.case, session.test
    loading = input.loading_of(case, session.device, drop_last=False)
    labelled, batch = split.known.labelled, case.work.batch

    def evaluate(n: int | None) -> Evaluation:
        if not opened:
            source = input.source_of(case.tuning.residency, split, loading)
            opened.append((source, driven(_scores(session, source), case.tuning.execution)))
        source, score = opened[0]
        steps = loading.steps(split) if n is None else min(n, loading.steps(split))
        source.begin(0, 0)
        with tf.device(session.device):
            # Sums stay on the device: the one read at the end is what synchronises.
            sums = tf.zeros([2], tf.float64)
            for step in range(steps):
                counted = tf.constant(min(batch, split.n - step * batch), tf.int64)
                sums = sums + score(counted, *source.next())
        right, loss = sums.numpy().tolist()
        samples = min(split.n, steps * batch)
        if not labelled or not samples:
            return Evaluation(steps=steps, samples=samples)
        return Evaluation(steps=steps, samples=samples, accuracy=right / samples, loss=loss / samples)

    def close() -> None:
        for source, _ in opened:
            source.close()
        opened.clear()

    return evaluate, close


def _scores(session: Session, source: input.Source) -> Callable[..., object]:
    net = session.training.net

    def score(counted: object, *given: object) -> object:
        """[right answers, summed cross-entropy] of the first `counted` samples of a batch."""
        images, labels = source.take(*given)
        logits = tf.cast(net(images, training=False), tf.float32)
        mask = tf.range(session.case.work.batch, dtype=tf.int64) < counted
        right = tf.cast(tf.equal(tf.argmax(logits, axis=1), labels) & mask, tf.float64)
        losses = tf.nn.sparse_softmax_cross_entropy_with_logits(labels, logits)
        loss = tf.where(mask, tf.cast(losses, tf.float64), tf.zeros_like(right))
        return tf.stack([tf.reduce_sum(right), tf.reduce_sum(loss)])

    return score
