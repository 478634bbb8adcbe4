"""Models that are trained: the paper's neural two-level models, and neural PLDA.

`fit` trains the former: `parameters` are what is trained, `batches`, `cost` and `program` the training. `integration`
integrates the within variance out of a trained model. `nplda` trains a quadratic score.
"""
