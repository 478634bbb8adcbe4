"""The robust model once more, slowly: one pair at a time, loops over kernels and scales, nothing shared."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from lindley.models.robust.model import Robust


def ln_normal(x: Tensor, mean: Tensor, var: Tensor) -> Tensor:
    return -0.5 * ((x - mean) ** 2 / var + torch.log(2 * math.pi * var)).sum()


def ln_student(x: Tensor, scale2: Tensor, nu: Tensor) -> Tensor:
    constant = torch.lgamma((nu + 1) / 2) - torch.lgamma(nu / 2) - 0.5 * torch.log(nu * math.pi * scale2)
    return (constant - 0.5 * (nu + 1) * torch.log1p(x**2 / (nu * scale2))).sum()


def ln_sum(terms: list[Tensor]) -> Tensor:
    return torch.logsumexp(torch.stack(terms), 0)


SCATTER = [-1.4 + 1.1 * q for q in range(5)]
"""ln τ_q."""


class Dense:
    """Run ``run`` of a model."""

    def __init__(self, model: Robust, run: int) -> None:
        self.centres, self.ln_weights = model.population.centres[run], model.population.ln_weights[run]
        self.lam, self.w = model.population.var[run, 0], model.var_within[run, 0]
        tails = model.tails
        self.nu, self.alpha = tails.nu[run, 0, 0], tails.scatter_shape[run, 0, 0]
        self.eps, self.rho = tails.contamination[run, 0, 0], tails.relatedness[run, 0, 0]
        self.gamma = tails.batch_var[run, 0, 0]
        self.sigma, self.kappa = tails.spike[run, 0, 0], tails.second_spike[run, 0, 0]
        self.tau, self.u = tails.variants[run, 0, 0], model.directions[run]
        self.width, self.narrow = model.population.width[run, 0, 0], model.population.narrow_width[run, 0, 0]
        self.eta, self.pi = model.population.narrow_weight[run, 0, 0], model.population.background[run, 0, 0]

    def ln_f(self, x: Tensor, error: Tensor) -> Tensor:
        terms = [
            torch.log(self.pi) + math.log(b) + ln_normal(x, torch.zeros_like(x), c * self.lam + error)
            for b, c in ((0.9, 4), (0.09, 20), (0.01, 100))
        ]
        for mu, ln_w in zip(self.centres, self.ln_weights, strict=True):
            if torch.isinf(ln_w):
                continue
            wide = ln_normal(x, mu, self.width**2 * self.lam + error)
            narrow = ln_normal(x, mu, self.narrow**2 * self.lam + error)
            terms.append(torch.log((1 - self.pi) * (1 - self.eta)) + ln_w + wide)
            terms.append(torch.log((1 - self.pi) * self.eta) + ln_w + narrow)
        return ln_sum(terms)

    def ln_omega(self) -> Tensor:
        weights = torch.stack([-self.alpha * u - self.alpha * math.exp(-u) for u in SCATTER])
        return weights - torch.logsumexp(weights, 0)

    def ln_f_q(self, x: Tensor, n: int) -> list[Tensor]:
        """ln f of the mean of n instances for every scatter."""
        return [self.ln_f(x, math.exp(u) * self.w / n) for u in SCATTER]

    def ln_seen(self, x: Tensor, n: int) -> Tensor:
        return ln_sum([w + f for w, f in zip(self.ln_omega(), self.ln_f_q(x, n), strict=True)])

    def ln_p(self, x: Tensor, n: int) -> Tensor:
        eps = 1 - (1 - self.eps / 4) ** n + self.eps / 2
        sigma = 1 - (1 - self.sigma / 2) ** n
        terms = [torch.log(1 - eps - sigma) + self.ln_seen(x, n)]
        for u in self.u:
            for scale in (30, 1000):
                spike = (scale - 1) * 2 / n**2 * torch.outer(u * self.w.sqrt(), u * self.w.sqrt())
                law = torch.distributions.MultivariateNormal(
                    torch.zeros_like(x), torch.diag(4 * self.lam + self.w / n) + spike
                )
                terms.append(torch.log(sigma / (2 * len(self.u))) + law.log_prob(x))
        terms += [
            torch.log(eps / 4) + ln_student(x, self.lam + 2 * s * self.w / n, self.nu) for s in (10, 100, 1000, 10000)
        ]
        return ln_sum(terms)

    def ln_t(self, delta: Tensor, covariance: Tensor) -> Tensor:
        """Multivariate t with 2α degrees of freedom."""
        p, nu = len(delta), 2 * self.alpha
        quadratic = delta @ torch.linalg.solve(covariance, delta)
        constant = torch.lgamma((nu + p) / 2) - torch.lgamma(nu / 2) - 0.5 * p * torch.log(nu * math.pi)
        return constant - 0.5 * torch.logdet(covariance) - 0.5 * (nu + p) * torch.log1p(quadratic / nu)

    def ln_s(self, delta: Tensor, v: Tensor, strength: float) -> Tensor:
        one, features = torch.diag(v), range(len(self.u))
        spike = [torch.outer(u * v.sqrt(), u * v.sqrt()) * strength for u in self.u]
        single = ln_sum([self.ln_t(delta, one + (s - 1) * spike[f]) for f in features for s in (30, 1000)])
        single = single - math.log(2 * len(self.u))
        if len(self.u) == 1:
            return single
        k = strength * 999
        explained = [(u @ (delta / v.sqrt())) ** 2 * k / (1 + k * (u @ u)) for u in self.u]
        worst = max(features, key=lambda f: float(explained[f].detach()))
        double = ln_sum(
            [
                self.ln_t(delta, one + 999 * spike[worst] + (s - 1) * spike[f])
                for f in features
                if f != worst
                for s in (30, 1000)
            ]
        )
        double = double - math.log(2 * math.comb(len(self.u), 2))
        return ln_sum([torch.log(1 - self.kappa) + single, torch.log(self.kappa) + double])

    def ln_h1_h2(self, x: Tensor, y: Tensor, m: int, n: int) -> tuple[Tensor, Tensor]:
        delta, z = x - y, (m * x + n * y) / (m + n)
        v, scales = self.w / m + self.w / n, (10, 100, 1000, 10000)
        f_z, f_x, f_y = self.ln_seen(z, m + n), self.ln_seen(x, m), self.ln_seen(y, n)
        f_q = self.ln_f_q(z, m + n)
        clean = [
            w + ln_student(delta, math.exp(u) * v, self.nu) + f
            for w, u, f in zip(self.ln_omega(), SCATTER, f_q, strict=True)
        ]
        eps_m, eps_n = 1 - (1 - self.eps / 4) ** m, 1 - (1 - self.eps / 4) ** n
        sigma_m, sigma_n = 1 - (1 - self.sigma / 2) ** m, 1 - (1 - self.sigma / 2) ** n
        h1 = [torch.log(1 - eps_m - eps_n - self.eps / 2 - sigma_m - sigma_n) + ln_sum(clean)]
        for s in scales:
            h1.append(torch.log(self.eps / 8) + ln_student(delta, s * v, self.nu) + f_q[-1])
            h1.append(torch.log(eps_m / 4) + ln_student(delta, v + 2 * (s - 1) * self.w / m**2, self.nu) + f_y)
            h1.append(torch.log(eps_n / 4) + ln_student(delta, v + 2 * (s - 1) * self.w / n**2, self.nu) + f_x)
        together = 1 / m + 1 / n
        h1.append(torch.log(sigma_m) + self.ln_s(delta, v, 2 / (m**2 * together)) + f_y)
        h1.append(torch.log(sigma_n) + self.ln_s(delta, v, 2 / (n**2 * together)) + f_x)
        alike = [ln_sum(h1)]
        alike += [ln_student(delta, v + 2 * j * self.gamma * self.lam, self.nu) + f_z for j in (0.1, 1.0, 10.0)]
        variant = self.ln_s(delta, v, 2 / together) + ln_sum([f_x, f_y])
        h2 = [
            torch.log(1 - self.rho) + self.ln_p(x, m) + self.ln_p(y, n),
            torch.log(self.rho * (1 - self.tau) / 4) + ln_sum(alike),
            torch.log(self.rho * self.tau / 2) + variant,
        ]
        return ln_sum(h1), ln_sum(h2)

    def ln_lr(self, x: Tensor, y: Tensor, m: int, n: int) -> Tensor:
        h1, h2 = self.ln_h1_h2(x, y, m, n)
        return h1 - h2


def all_pairs(model: Robust, trace: Tensor, ref: Tensor, m: int = 1, n: int = 1) -> Tensor:
    x, y = model.project(trace), model.project(ref)
    return torch.stack(
        [
            torch.stack([torch.stack([Dense(model, run).ln_lr(a, b, m, n) for b in y[run]]) for a in x[run]])
            for run in range(len(x))
        ]
    )
