"""Models that give LRs of pairs, each of all runs at once.

`two_level` has the model that most others are a kind of, and what is asked of every model; `between` holds laws of sources.
`classical` fits them by moments, `fitting` says how every kind of model is fitted, `pairs` scores given pairs, and `oracle`
knows the simulated population. Transforms in front of a model are in `gaussianise` and `flow`. Models with several modules are
packages: `robust`, `neural`, `bayes` and `heavy_tailed`.
"""
