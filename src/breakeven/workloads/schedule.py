"""The learning rate of an epoch by a recipe: one formula for every runtime.

Knows nothing about optimizers.
"""

from breakeven.records.case import Recipe


def learning_rate(recipe: Recipe, epoch: int) -> float:
    """The rate of epoch number `epoch`, from 0.

    `linear` as in the authors' code of CycleGAN: constant for the first half of the epochs, then down in
    equal steps that would reach 0 one epoch after the last.
    """
    if recipe.schedule == "constant":
        return recipe.lr
    if recipe.schedule == "linear":
        half = recipe.epochs // 2
        return recipe.lr * (1 - max(0, epoch + 1 - half) / (recipe.epochs - half + 1))
    return recipe.lr * recipe.gamma ** (epoch // recipe.step_size)
