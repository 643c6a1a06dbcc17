"""All measurements of speed in one command: `python -m experiments.performance`.

Writes tables to `experiments/performance/DEVICE/data/`: the machine and its copy bandwidth, other solvers,
time by number of lanes, the parts of an iteration, the grid of Figure 2, separate gadgets, and random play of
state machines. `python -m experiments.performance.commits` compares two commits.
"""

from __future__ import annotations

import pathlib
import re

import jax

from experiments.performance import gadgets, grid, lanes, machine, machines, peers, profile, sharing
from experiments.study import Study

DEVICE = re.sub(r"[^a-z0-9]+", "-", jax.local_devices()[0].device_kind.lower()).strip("-")

STUDY = Study(
    name="performance",
    description=__doc__,
    folder=pathlib.Path(__file__).parent / DEVICE,
    experiments=(machine, peers, lanes, profile, grid, sharing, gadgets, machines),
    ending="csv",
)
main = STUDY.main

if __name__ == "__main__":
    main()
