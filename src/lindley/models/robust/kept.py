"""What is computed once of a model, and kept with it."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property, wraps
from typing import Any, TypeVar

import torch

__all__ = ["kept"]

T = TypeVar("T")


def kept(function: Callable[[Any], T]) -> cached_property[T]:
    """A cached property of tensors: whoever asks first, with a gradient or without, others may ask with one.

    Tensors that are made in torch's inference mode may not be.
    """

    @wraps(function)
    def outside(self: Any) -> T:
        with torch.inference_mode(False):
            return function(self)

    return cached_property(outside)
