"""What the inference of every runtime shares: inputs, a net as `Prepared`, what answers are worth.

No runtime itself.
"""
