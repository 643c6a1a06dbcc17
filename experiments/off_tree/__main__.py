"""Actions outside the blueprint's menu: `python -m experiments.off_tree`.

Every experiment writes its data (`data/`) and pictures (`pictures/`), prints a table, and resumes from
existing rows.
"""

from __future__ import annotations

from experiments.off_tree import cost, epsilons, estimates, games, iterates, large, menus, spreads, values
from experiments.off_tree.common import HERE
from experiments.study import Study

STUDY = Study(
    name="off_tree",
    description=__doc__,
    folder=HERE,
    experiments=(games, menus, values, estimates, iterates, spreads, epsilons, cost, large),
    derived={values.NAME: (games.NAME, menus.NAME)},
    only_by_name=frozenset({large.NAME}),
)
main = STUDY.main

if __name__ == "__main__":
    main()
