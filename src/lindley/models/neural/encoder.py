"""Any module in front of the projection, one copy per run, computed together."""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence

import torch
from torch import Tensor, nn
from torch.func import functional_call, stack_module_state

__all__ = ["StackedEncoder"]


class StackedEncoder(nn.Module):
    """Copies of an encoder with parameters of their own, stacked: (run, …, feature) → (run, …, embedding).

    ``make`` builds one copy; it is called once per run with torch's global generator seeded for that run (and put back
    afterwards), so that a run's copy does not depend on the others. The module must map (instances, feature) to
    (instances, embedding) and treat instances independently, without random numbers: no batch norm, no dropout.
    """

    def __init__(self, make: Callable[[], nn.Module], seeds: Sequence[int]) -> None:
        super().__init__()
        copies = []
        with torch.random.fork_rng(devices=[]):
            for seed in seeds:
                torch.manual_seed(seed)
                copies.append(make())
        parameters, buffers = stack_module_state(copies)
        self.names = list(parameters)
        self.values = nn.ParameterList([nn.Parameter(p.detach().clone()) for p in parameters.values()])
        self.buffers_: dict[str, Tensor] = buffers
        skeleton = copy.deepcopy(copies[0]).to("meta")
        # Kept out of the module tree: its own parameters are placeholders and must not be trained.
        self.__dict__["skeleton"] = skeleton

    @classmethod
    def joined(cls, encoders: Sequence[StackedEncoder], order: Tensor) -> StackedEncoder:
        """The copies of several stacks in one, in the given order."""
        result = copy.copy(encoders[0])
        nn.Module.__init__(result)
        values = zip(*(e.values for e in encoders), strict=True)
        result.values = nn.ParameterList([nn.Parameter(torch.cat(list(v))[order]) for v in values])
        result.buffers_ = {
            name: torch.cat([e.buffers_[name] for e in encoders])[order] for name in encoders[0].buffers_
        }
        return result

    def forward(self, instances: Tensor) -> Tensor:
        """Embeddings of (run, …, feature), every run by its own copy."""
        flat = instances.flatten(1, -2)
        parameters = dict(zip(self.names, self.values, strict=True))
        buffers = {name: b.to(flat) for name, b in self.buffers_.items()}

        def one(p: dict[str, Tensor], b: dict[str, Tensor], x: Tensor) -> Tensor:
            result: Tensor = functional_call(self.__dict__["skeleton"], (p, b), (x,))
            return result

        embedded: Tensor = torch.vmap(one)(parameters, buffers, flat)
        return embedded.view(*instances.shape[:-1], -1)
