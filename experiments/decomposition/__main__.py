"""The experiments of *Solving games using decomposition*: `python -m experiments.decomposition`.

Burch, Johanson and Bowling, *Solving Imperfect Information Games Using Decomposition* (2014), Figures 3 to 5.
Every experiment writes its data (`data/`, CSV) and a picture (`pictures/`), prints a table, and resumes from
existing rows.
"""

from __future__ import annotations

from experiments.decomposition import figure3, figure4, figure4_paper, figure5
from experiments.decomposition.common import HERE
from experiments.study import Study

STUDY = Study(
    name="decomposition",
    description=__doc__,
    folder=HERE,
    experiments=(figure3, figure4, figure4_paper, figure5),
    only_by_name=frozenset({figure4_paper.NAME}),
    ending="csv",
)
main = STUDY.main

if __name__ == "__main__":
    main()
