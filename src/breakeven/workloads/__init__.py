"""What is computed: models, data sets, initial weights, sample order and augmentation.

Knows nothing about frameworks, devices or time. Import the module you need: layers, models, weights, data,
order, philox.
"""
