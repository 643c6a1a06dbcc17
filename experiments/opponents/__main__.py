"""Responses to models of an opponent: `python -m experiments.opponents`.

Every experiment writes its data (`data/`), prints a table, and goes on from what is there.
"""

from __future__ import annotations

import pathlib

from experiments.opponents import speed
from experiments.study import Study

STUDY = Study(
    name="opponents",
    description=__doc__,
    folder=pathlib.Path(__file__).parent,
    experiments=(speed,),
)
main = STUDY.main

if __name__ == "__main__":
    main()
