"""Responses to models of an opponent: `python -m experiments.opponents`.

Every experiment writes its data (`data/`) and pictures (`pictures/`), prints a table, and resumes from
existing rows.
"""

from __future__ import annotations

from experiments.opponents import (
    approximate,
    breaker,
    gadgets,
    gains,
    large,
    larger,
    local,
    network,
    rounds,
    siblings,
    speed,
    steps,
    table1,
    tradeoff,
)
from experiments.opponents.common import HERE
from experiments.study import Study

STUDY = Study(
    name="opponents",
    description=__doc__,
    folder=HERE,
    experiments=(
        table1,
        breaker,
        siblings,
        tradeoff,
        approximate,
        gains,
        local,
        network,
        gadgets,
        steps,
        rounds,
        large,
        speed,
        larger,
    ),
    only_by_name=frozenset({approximate.NAME, larger.NAME, network.NAME}),
)
main = STUDY.main

if __name__ == "__main__":
    main()
