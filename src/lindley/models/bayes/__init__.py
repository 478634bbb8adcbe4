"""The two-level model, means and covariances integrated out: `fit` draws them, `averaged` is the model of the draws."""
