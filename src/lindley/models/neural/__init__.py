"""Models that are trained: the paper's neural two-level models, and neural PLDA.

`fit` trains the former: `parameters` are what is trained, `batches`, `cost` and `program` the training, `apart` a process for
one of two programs. `integration` integrates the within variance out of a trained model. `nplda` trains a quadratic score.
"""
