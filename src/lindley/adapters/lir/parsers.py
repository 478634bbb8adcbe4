"""From LiR's experiment files to LR systems: what stands behind ``architecture``."""

from __future__ import annotations

from pathlib import Path
from typing import Any, TypeVar

from lir.config.base import ConfigValue, YamlParseError, check_is_empty, config_parser, pop_field
from lir.config.lrsystem_architectures import parse_default_pipeline
from lir.config.transform import parse_module, parse_pairing_config

from lindley.adapters.lir.system import SavedSystem, TwoLevelSystem
from lindley.errors import LindleyError

__all__ = ["saved_system", "two_level"]

T = TypeVar("T", TwoLevelSystem, SavedSystem)


def _two_level(config: ConfigValue, output_dir: Path) -> TwoLevelSystem:
    """A lindley model as an LR system.

    The keys of LiR's own ``two_level``: ``preprocessing``, ``pairing``, ``n_trace_instances``, ``n_ref_instances``,
    ``postprocessing`` and ``intermediate_output``; each may be left out. And lindley's: ``model``, ``integration``,
    ``calibration``, ``options``, ``validation``, ``seed``, ``device``.
    """
    default = parse_default_pipeline(config)
    before, after = (
        parse_module(pop_field(config, key, required=False), output_dir, default_method=default)
        for key in ("preprocessing", "postprocessing")
    )
    pairs = _pairs(config, output_dir)
    rest = config.as_dict()
    config.value = {}
    return _made(TwoLevelSystem, config.context, preprocessing=before, postprocessing=after, **pairs, **rest)


def _saved_system(config: ConfigValue, output_dir: Path) -> SavedSystem:
    """A saved lindley system as an LR system.

    The keys are ``path``, ``pairing``, ``n_trace_instances``, ``n_ref_instances``, ``bounded`` and ``transformed``.
    """
    path = pop_field(config, "path", validate_type=str)
    bounded = pop_field(config, "bounded", default=True, validate_type=bool)
    transformed = pop_field(config, "transformed", default=False, validate_type=bool)
    pairs = _pairs(config, output_dir)
    check_is_empty(config)
    return _made(SavedSystem, config.context, path=path, bounded=bounded, transformed=transformed, **pairs)


def _pairs(config: ConfigValue, output_dir: Path) -> dict[str, Any]:
    """What both architectures say about pairs."""
    pairing = pop_field(config, "pairing", required=False)
    return {
        "pairing": None if pairing is None or pairing.value is None else parse_pairing_config(pairing, output_dir),
        **{
            key: pop_field(config, key, default=1, validate_type=int)
            for key in ("n_trace_instances", "n_ref_instances")
        },
    }


def _made(kind: type[T], context: list[str], **arguments: Any) -> T:
    """The system; an error names its place in the file."""
    try:
        return kind(**arguments)
    except LindleyError as error:
        raise YamlParseError(context, str(error)) from error


two_level = config_parser(_two_level, reference=TwoLevelSystem)
saved_system = config_parser(_saved_system, reference=SavedSystem)
