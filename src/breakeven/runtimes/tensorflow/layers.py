"""Layers that Keras lacks, or has with another meaning than the declared ones.

Knows nothing about models. Images are [n, height, width, channels], as everywhere in this runtime.
"""

from typing import Any

from breakeven.runtimes.tensorflow.library import keras, tf

Tensor = Any


class BatchNorm(keras.layers.BatchNormalization):
    """Keras's own but for two things: one kernel of TensorFlow's does it, and the unbiased estimate moves the
    running variance, as in torch. Keras 3 composes it of single operations and takes the biased one.

    ResNet18 at 32x32 trains twice as fast by the kernel as composed (a graph on two cores). It exists for
    float32 and narrower; FP64 is composed here.
    """

    def call(self, inputs: Tensor, training: bool | None = None) -> Tensor:
        wide = tf.float64 if inputs.dtype == tf.float64 else tf.float32
        gamma, beta, mean, variance = (
            tf.cast(v, wide) for v in (self.gamma, self.beta, self.moving_mean, self.moving_variance)
        )
        if inputs.dtype == tf.float64:
            return self._composed(inputs, gamma, beta, mean, variance, bool(training))
        if not training:
            made, *_ = tf.raw_ops.FusedBatchNormV3(
                x=inputs, scale=gamma, offset=beta, mean=mean, variance=variance,
                epsilon=self.epsilon, is_training=False,
            )  # fmt: skip
            return made
        empty = tf.zeros([0], wide)
        # With no statistics given it returns the batch's, the variance unbiased.
        made, batch_mean, batch_variance, *_ = tf.raw_ops.FusedBatchNormV3(
            x=inputs, scale=gamma, offset=beta, mean=empty, variance=empty,
            epsilon=self.epsilon, is_training=True,
        )  # fmt: skip
        self._move(batch_mean, batch_variance)
        return made

    def _composed(
        self, x: Tensor, gamma: Tensor, beta: Tensor, mean: Tensor, variance: Tensor, training: bool
    ) -> Tensor:
        if training:
            mean, variance = tf.nn.moments(x, axes=[0, 1, 2])
            n = x.shape[0] * x.shape[1] * x.shape[2]
            self._move(mean, variance * (n / (n - 1)))
        return tf.nn.batch_normalization(x, mean, variance, beta, gamma, self.epsilon)

    def _move(self, mean: Tensor, variance: Tensor) -> None:
        share = 1 - self.momentum  # Keras's momentum is what stays
        for moving, new in ((self.moving_mean, mean), (self.moving_variance, variance)):
            moving.assign(moving * self.momentum + tf.cast(tf.stop_gradient(new), moving.dtype) * share)


class PaddedMaxPool(keras.layers.Layer):
    """Keras pads by its own rule ('same'), which is another where the stride is not 1."""

    def __init__(self, kernel: int, stride: int, padding: int, **options: Any) -> None:
        super().__init__(**options)
        self.kernel, self.stride, self.padding = kernel, stride, padding

    def call(self, inputs: Tensor) -> Tensor:
        edge = [self.padding, self.padding]
        if self.padding:
            inputs = tf.pad(inputs, [[0, 0], edge, edge, [0, 0]], constant_values=inputs.dtype.min)
        return tf.nn.max_pool2d(inputs, self.kernel, self.stride, "VALID")


class Tokens(keras.layers.Layer):
    """[n, h, w, C] -> [n, 1 + h * w, C]: the class token, then the pixels; plus positions."""

    def __init__(self, channels: int, pixels: int, **options: Any) -> None:
        super().__init__(**options)
        self.channels, self.pixels = channels, pixels

    def build(self, input_shape: Any) -> None:
        self.cls_token = self.add_weight(shape=(1, 1, self.channels), name="cls_token")
        self.pos_embed = self.add_weight(shape=(1, 1 + self.pixels, self.channels), name="pos_embed")

    def call(self, inputs: Tensor) -> Tensor:
        n = tf.shape(inputs)[0]
        pixels = tf.reshape(inputs, [n, self.pixels, self.channels])
        first = tf.broadcast_to(tf.cast(self.cls_token, pixels.dtype), [n, 1, self.channels])
        return tf.concat([first, pixels], axis=1) + tf.cast(self.pos_embed, pixels.dtype)


class Attention(keras.layers.Layer):
    """softmax(q k^T / sqrt(d)) v for each head, of what Linear layers before and after it mix."""

    def __init__(self, heads: int, **options: Any) -> None:
        super().__init__(**options)
        self.heads = heads

    def call(self, inputs: Tensor) -> Tensor:
        tokens, extent = inputs.shape[1], inputs.shape[2]
        width = extent // 3 // self.heads
        parts = tf.reshape(inputs, [-1, tokens, 3, self.heads, width])
        q, k, v = tf.unstack(tf.transpose(parts, [2, 0, 3, 1, 4]))  # each [n, heads, tokens, width]
        scores = tf.matmul(q, k, transpose_b=True) / tf.constant(width**0.5, q.dtype)
        wide = tf.float64 if inputs.dtype == tf.float64 else tf.float32
        shares = tf.cast(tf.nn.softmax(tf.cast(scores, wide)), v.dtype)
        mixed = tf.transpose(tf.matmul(shares, v), [0, 2, 1, 3])
        return tf.reshape(mixed, [-1, tokens, extent // 3])


class Gelu(keras.layers.Layer):
    """By the exact normal distribution function; Keras's default is the tanh approximation.

    tf.nn.gelu has the root of 2 in float32, whatever the type of its input.
    """

    def call(self, inputs: Tensor) -> Tensor:
        return 0.5 * inputs * (1 + tf.math.erf(inputs / tf.constant(2**0.5, inputs.dtype)))


class ClassToken(keras.layers.Layer):
    def call(self, inputs: Tensor) -> Tensor:
        return inputs[:, 0]


class Subsample(keras.layers.Layer):
    """Every `stride`-th row and column; zeros for the new channels, half of them before and half after."""

    def __init__(self, more: int, stride: int, **options: Any) -> None:
        super().__init__(**options)
        self.more, self.stride = more, stride

    def call(self, inputs: Tensor) -> Tensor:
        kept = inputs[:, :: self.stride, :: self.stride]
        return tf.pad(kept, [[0, 0], [0, 0], [0, 0], [self.more // 2, self.more - self.more // 2]])


class InstanceNorm(keras.layers.Layer):
    """By the mean and the biased variance of each channel of each image; in float32 at least."""

    def __init__(self, eps: float, **options: Any) -> None:
        super().__init__(**options)
        self.eps = eps

    def call(self, inputs: Tensor) -> Tensor:
        x = inputs if inputs.dtype == tf.float64 else tf.cast(inputs, tf.float32)
        centred = x - _mean(x)
        return tf.cast(centred / tf.sqrt(_mean(tf.square(centred)) + self.eps), inputs.dtype)


def _mean(x: Tensor) -> Tensor:
    """Over height and width, one after the other: a sum of all pixels in a row rounds far more."""
    return tf.reduce_mean(tf.reduce_mean(x, axis=2, keepdims=True), axis=1, keepdims=True)


class LeakyReLU(keras.layers.Layer):
    """By TensorFlow's kernel, which has the slope in float32; FP64 is composed."""

    def __init__(self, slope: float, **options: Any) -> None:
        super().__init__(**options)
        self.slope = slope

    def call(self, inputs: Tensor) -> Tensor:
        if inputs.dtype == tf.float64:
            return tf.where(inputs > 0, inputs, self.slope * inputs)
        return tf.nn.leaky_relu(inputs, self.slope)


class ReflectionPad(keras.layers.Layer):
    def __init__(self, padding: int, **options: Any) -> None:
        super().__init__(**options)
        self.padding = padding

    def call(self, inputs: Tensor) -> Tensor:
        edge = [self.padding, self.padding]
        return tf.pad(inputs, [[0, 0], edge, edge, [0, 0]], mode="REFLECT")
