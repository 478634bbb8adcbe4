"""`lindley.train` by kind and size: seconds, and the highest resident memory of a process that does nothing else.

Memory is that of the whole process, with Python, torch and the table in it, beside what is promised: `TIMES` the table, and
`BESIDE`. Networks train for a few epochs only, which tells of their memory and not of their time.
"""

from __future__ import annotations

import json
import sys
import time
import warnings
from typing import Any

import numpy as np
import torch

from bench.machine import rss_bytes
from bench.memory import UNREADABLE, _in_a_child
from bench.plan import Plan
from lindley.system.train import train
from lindley.table.table import Table

__all__ = ["BESIDE", "TIMES", "measure", "needed", "promised"]

TIMES, BESIDE = 6, 512 << 20
"""Memory of a training, at most: so many times the table, and so many bytes beside."""
KINDS = (
    "tlm", "tlm-kde", "tlm+logistic", "tlm-kde+kde+elub", "quantile:tlm", "ht-plda", "tlm-bayes", "robust",
    "ntlm-single-pairs-n1", "ntlm-double-sources-n2-varying",
)  # fmt: skip
EPOCHS = 2


def promised(table_bytes: int) -> int:
    """What a training of a table of so many bytes may take, in bytes."""
    return TIMES * table_bytes + BESIDE


def measure(plan: Plan) -> dict[str, Any]:
    """Every kind on a small table, and the kinds without a search on large ones."""
    sizes = [(name, plan.train_size) for name in KINDS]
    sizes += [(name, size) for size in plan.train_sizes for name in KINDS[: 2 if size[0] < 10_000 else 1]]
    rows = []
    for name, (sources, instances, features) in sizes:
        size = {"sources": sources, "instances": instances, "features": features}
        case = {"what": "train", "model": name, **size, "replicates": plan.train_replicates, "threads": plan.threads}
        found = _in_a_child(case, "bench.train", handed_back=False) if plan.apart else needed(case)
        rows.append({**case, "device": "cpu", **found})
    return {"rows": rows}


def needed(case: dict[str, Any]) -> dict[str, Any]:
    """Seconds, seconds of a processor, and bytes at most, of one training in this process."""
    table = _table(case["sources"], case["instances"], case["features"])
    options = {"epochs": EPOCHS} if "ntlm" in case["model"] else None
    started, busy = time.perf_counter(), time.process_time()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        train(table, case["model"], options=options, replicates=case.get("replicates"))
    taken = {"seconds": time.perf_counter() - started, "processor_seconds": time.process_time() - busy}
    highest = rss_bytes(peak=True)
    if highest is None:
        return {"left_out": UNREADABLE}
    return {**taken, "table": table.values.nbytes, "highest": highest, "promised": promised(table.values.nbytes)}


def _table(sources: int, instances: int, features: int) -> Table:
    """Measurements of sources that differ by 0.3 to 2 standard deviations of a measurement."""
    rng = np.random.default_rng((sources, instances, features))
    values = rng.normal(30.0, 1.0, size=(sources * instances, features))
    sd = np.geomspace(0.3, 2.0, features)
    for source in range(sources):
        values[source * instances : (source + 1) * instances] += rng.normal(size=features) * sd
    return Table.from_arrays(values, np.repeat(np.arange(sources), instances))


if __name__ == "__main__":
    given = json.loads(sys.argv[1])
    torch.set_num_threads(given["threads"])
    print(json.dumps(needed(given)))
