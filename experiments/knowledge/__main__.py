"""Subgames without common knowledge: `python -m experiments.knowledge`.

Every experiment writes its data (`data/`) and pictures (`pictures/`), prints a table, and resumes from
existing rows.
"""

from __future__ import annotations

from experiments.knowledge import (
    cost,
    generation,
    larger_cut,
    larger_generation,
    nested,
    one_cut,
    pennies,
    proposition,
    sizes,
)
from experiments.knowledge.common import HERE
from experiments.study import Study

STUDY = Study(
    name="knowledge",
    description=__doc__,
    folder=HERE,
    experiments=(
        pennies,
        sizes,
        one_cut,
        proposition,
        generation,
        nested,
        cost,
        larger_cut,
        larger_generation,
    ),
    only_by_name=frozenset({larger_cut.NAME, larger_generation.NAME}),
)
main = STUDY.main

if __name__ == "__main__":
    main()
