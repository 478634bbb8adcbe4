"""Heavy-tailed PLDA: Student-t laws within and between sources. `model` has the LR, `fit` the maximum of the likelihood."""
