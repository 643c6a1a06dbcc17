"""Iterations to convergence of gadget games, by regret-matching rule: `python -m experiments.convergence`."""

from __future__ import annotations

import pathlib

from experiments.convergence import lanes
from experiments.study import Study

STUDY = Study(
    name="convergence",
    description=__doc__,
    folder=pathlib.Path(__file__).parent,
    experiments=(lanes,),
)
main = STUDY.main

if __name__ == "__main__":
    main()
