"""The robust model: heavy tails, kernel densities and relatedness, with LRs that need no calibration.

`model` has the formulas of a pair, put together from `eigenbasis` (even scatter, and the axes), `population` (where sources
are), `single` (where one instance lies) and `tails` (what two sets of instances of one source may differ by); `all_pairs` goes
through many. `fit` finds a few scalars on the pairs of `folds`.
"""
