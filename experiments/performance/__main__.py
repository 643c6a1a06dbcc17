"""All measurements of speed in one command: `python -m experiments.performance`.

Writes tables to `experiments/performance/DEVICE/data/`: the machine and its copy bandwidth, other solvers,
time by number of lanes, the parts of an iteration, the grid of Figure 2, separate gadgets, and random play of
state machines. `python -m experiments.performance.commits` compares two commits.
"""

from __future__ import annotations

import pathlib
import re

import jax

from experiments.performance import (
    flops,
    forms,
    gadgets,
    grid,
    lanes,
    machine,
    machines,
    peers,
    profile,
    programs,
    repeats,
    rivers,
    sharing,
)
from experiments.study import Study
from jaxgadget.bench.inspect import DEVICES

KIND = re.sub(r"[^a-z0-9]+", "-", jax.local_devices()[0].device_kind.lower()).strip("-")
DEVICE = next((name for name in DEVICES if name in KIND), KIND)

STUDY = Study(
    name="performance",
    description=__doc__,
    folder=pathlib.Path(__file__).parent / DEVICE,
    experiments=(
        machine,
        peers,
        lanes,
        profile,
        grid,
        sharing,
        gadgets,
        machines,
        programs,
        forms,
        rivers,
        flops,
        repeats,
    ),
    ending="csv",
)
main = STUDY.main

if __name__ == "__main__":
    main()
