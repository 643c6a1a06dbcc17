"""The optimal continuation at the price of one subgame: `python -m experiments.continuation`.

Every experiment writes its data (`data/`) and pictures (`pictures/`), prints a table, and resumes from
existing rows; networks are stored in `build/continuation/networks`.
"""

from __future__ import annotations

from experiments.continuation import closing, guard, nested, networks, play, speed, trunks
from experiments.continuation.common import HERE
from experiments.study import Study

STUDY = Study(
    name="continuation",
    description=__doc__,
    folder=HERE,
    experiments=(speed, networks, closing, guard, play, trunks, nested),
)
main = STUDY.main

if __name__ == "__main__":
    main()
