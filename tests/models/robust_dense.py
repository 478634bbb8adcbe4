"""The robust model once more, slowly: one pair at a time, loops over kernels and scales, nothing shared."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from lindley.models.robust import Robust


def ln_normal(x: Tensor, mean: Tensor, var: Tensor) -> Tensor:
    return -0.5 * ((x - mean) ** 2 / var + torch.log(2 * math.pi * var)).sum()


def ln_student(x: Tensor, scale2: Tensor, nu: Tensor) -> Tensor:
    constant = torch.lgamma((nu + 1) / 2) - torch.lgamma(nu / 2) - 0.5 * torch.log(nu * math.pi * scale2)
    return (constant - 0.5 * (nu + 1) * torch.log1p(x**2 / (nu * scale2))).sum()


def ln_sum(terms: list[Tensor]) -> Tensor:
    return torch.logsumexp(torch.stack(terms), 0)


class Dense:
    """Run ``run`` of a model."""

    def __init__(self, model: Robust, run: int) -> None:
        self.centres, self.ln_weights = model.population.centres[run], model.population.ln_weights[run]
        self.lam, self.w = model.population.var[run, 0], model.var_within[run, 0]
        tails = model.tails
        self.nu, self.alpha = tails.nu[run, 0, 0], tails.scatter_shape[run, 0, 0]
        self.eps, self.rho = tails.contamination[run, 0, 0], tails.relatedness[run, 0, 0]
        self.gamma = tails.batch_var[run, 0, 0]
        self.width, self.narrow = model.population.width[run, 0, 0], model.population.narrow_width[run, 0, 0]
        self.eta, self.pi = model.population.narrow_weight[run, 0, 0], model.population.background[run, 0, 0]

    def ln_f(self, x: Tensor, error: Tensor) -> Tensor:
        terms = [torch.log(self.pi) + ln_normal(x, torch.zeros_like(x), 4 * self.lam + error)]
        for mu, ln_w in zip(self.centres, self.ln_weights, strict=True):
            if torch.isinf(ln_w):
                continue
            wide = ln_normal(x, mu, self.width**2 * self.lam + error)
            narrow = ln_normal(x, mu, self.narrow**2 * self.lam + error)
            terms.append(torch.log((1 - self.pi) * (1 - self.eta)) + ln_w + wide)
            terms.append(torch.log((1 - self.pi) * self.eta) + ln_w + narrow)
        return ln_sum(terms)

    def ln_p(self, x: Tensor, n: int) -> Tensor:
        eps = 1 - (1 - self.eps / 4) ** n + self.eps / 2
        terms = [torch.log(1 - eps) + self.ln_f(x, self.w / n)]
        terms += [
            torch.log(eps / 4) + ln_student(x, self.lam + 2 * s * self.w / n, self.nu) for s in (10, 100, 1000, 10000)
        ]
        return ln_sum(terms)

    def ln_g(self, delta: Tensor, v: Tensor) -> Tensor:
        u = [-2.0 + 0.6875 * q for q in range(9)]
        weights = torch.stack([-self.alpha * a - self.alpha * math.exp(-a) for a in u])
        weights = weights - torch.logsumexp(weights, 0)
        return ln_sum([weights[q] + ln_student(delta, math.exp(u[q]) * v, self.nu) for q in range(9)])

    def ln_h1_h2(self, x: Tensor, y: Tensor, m: int, n: int) -> tuple[Tensor, Tensor]:
        delta, z = x - y, (m * x + n * y) / (m + n)
        v, scales = self.w / m + self.w / n, (10, 100, 1000, 10000)
        f_z, f_x, f_y = self.ln_f(z, self.w / (m + n)), self.ln_f(x, self.w / m), self.ln_f(y, self.w / n)
        eps_m, eps_n = 1 - (1 - self.eps / 4) ** m, 1 - (1 - self.eps / 4) ** n
        h1 = [torch.log(1 - eps_m - eps_n - self.eps / 2) + self.ln_g(delta, v) + f_z]
        for s in scales:
            h1.append(torch.log(self.eps / 8) + ln_student(delta, s * v, self.nu) + f_z)
            h1.append(torch.log(eps_m / 4) + ln_student(delta, v + 2 * (s - 1) * self.w / m**2, self.nu) + f_y)
            h1.append(torch.log(eps_n / 4) + ln_student(delta, v + 2 * (s - 1) * self.w / n**2, self.nu) + f_x)
        related = [self.ln_g(delta, v)]
        related += [ln_student(delta, v + 2 * j * self.gamma * self.lam, self.nu) for j in (0.1, 1.0, 10.0)]
        h2 = [
            torch.log(1 - self.rho) + self.ln_p(x, m) + self.ln_p(y, n),
            torch.log(self.rho / 4) + ln_sum(related) + f_z,
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
