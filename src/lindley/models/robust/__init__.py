"""The robust model: `law` and `model` hold its equations, `coordinates`, `folds`, `scalars` and `fit` find its numbers."""
