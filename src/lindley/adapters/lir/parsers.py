"""From LiR's experiment files to LR systems: what stands behind ``architecture``."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

from lir.config.base import ConfigValue, YamlParseError, check_is_empty, config_parser, pop_field
from lir.config.lrsystem_architectures import parse_default_pipeline
from lir.config.transform import parse_module, parse_pairing_config

from lindley.adapters.lir.lr_systems import SavedSystem, TwoLevelSystem
from lindley.errors import LindleyError
from lindley.system.named import ModelChoices

__all__ = ["saved_system", "two_level"]

T = TypeVar("T")

MODULES = ("preprocessing", "postprocessing")
COUNTS = ("n_trace_instances", "n_ref_instances")
LIR_KEYS = ("pairing", *COUNTS, *MODULES, "intermediate_output")
"""What LiR's own ``two_level`` knows."""


def _two_level(config: ConfigValue, output_dir: Path) -> TwoLevelSystem:
    """A lindley model as an LR system.

    The keys of LiR's own ``two_level``: ``preprocessing``, ``pairing``, ``n_trace_instances``, ``n_ref_instances``,
    ``postprocessing`` and ``intermediate_output``; each may be left out. And lindley's: ``model``, ``integration``,
    ``calibration``, ``options``, ``validation``, ``seed``, ``device``.
    """
    default = parse_default_pipeline(config)
    before, after = (
        parse_module(pop_field(config, key, required=False), output_dir, default_method=default) for key in MODULES
    )
    pairs = _pairs(config, output_dir)
    rest = config.as_dict()
    config.value = {}
    _told(config.context, lambda: ModelChoices.read(rest, beside=LIR_KEYS))
    return _told(config.context, lambda: TwoLevelSystem(preprocessing=before, postprocessing=after, **pairs, **rest))


def _saved_system(config: ConfigValue, output_dir: Path) -> SavedSystem:
    """A saved lindley system as an LR system.

    The keys are ``path``, ``pairing``, ``n_trace_instances``, ``n_ref_instances``, ``bounded`` and ``transformed``.
    """
    path = pop_field(config, "path", validate_type=str)
    bounded = pop_field(config, "bounded", default=True, validate_type=bool)
    transformed = pop_field(config, "transformed", required=False, validate_type=bool)
    pairs = _pairs(config, output_dir)
    check_is_empty(config)
    return _told(config.context, lambda: SavedSystem(path=path, bounded=bounded, transformed=transformed, **pairs))


def _pairs(config: ConfigValue, output_dir: Path) -> dict[str, Any]:
    """What both architectures say about pairs."""
    pairing = pop_field(config, "pairing", required=False)
    return {
        "pairing": None if pairing is None or pairing.value is None else parse_pairing_config(pairing, output_dir),
        **{key: pop_field(config, key, default=1, validate_type=int) for key in COUNTS},
    }


def _told(context: list[str], make: Callable[[], T]) -> T:
    """What is made; an error names its place in the file, and nothing else."""
    try:
        return make()
    except LindleyError as error:
        raise YamlParseError(context, str(error)) from None


two_level = config_parser(_two_level, reference=TwoLevelSystem)
saved_system = config_parser(_saved_system, reference=SavedSystem)
