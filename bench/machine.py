"""The machine that figures were measured on."""

from __future__ import annotations

import os
import platform
from pathlib import Path
from typing import Any

import numpy as np
import scipy
import torch

from lindley.version import __version__

__all__ = ["describe", "rss_bytes"]


def describe(threads: int) -> dict[str, Any]:
    """Processor, memory, GPU and versions; ``load`` is how many processes wanted to run in the minute before."""
    gpu = None
    if torch.cuda.is_available():
        properties = torch.cuda.get_device_properties(0)
        gpu = {"name": properties.name, "bytes": properties.total_memory}
    return {
        "cpu": _first("/proc/cpuinfo", "model name") or platform.processor() or platform.machine(),
        "cores": os.cpu_count(),
        "threads": threads,
        "bytes": os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") if hasattr(os, "sysconf") else None,
        "load": round(os.getloadavg()[0], 2) if hasattr(os, "getloadavg") else None,
        "gpu": gpu,
        "system": platform.system(),
        "python": platform.python_version(),
        "torch": torch.__version__,
        "numpy": np.__version__,
        "scipy": scipy.__version__,
        "lindley": __version__,
    }


def rss_bytes(peak: bool = False) -> int | None:
    """Memory of this process now, or at most since the mark was last reset; None where the system does not tell."""
    return _kib("/proc/self/status", "VmHWM" if peak else "VmRSS")


def _kib(path: str, name: str) -> int | None:
    text = _first(path, name)
    return None if text is None else int(text.split()[0]) * 1024


def _first(path: str, name: str) -> str | None:
    """What stands behind the first ``name:`` of a file of the Linux kernel."""
    try:
        lines = Path(path).read_text(encoding="utf-8").splitlines()
    except OSError:
        return None
    return next((line.partition(":")[2].strip() for line in lines if line.startswith(name)), None)
