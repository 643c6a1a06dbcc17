"""Nested depth-limited search, in one command: `python -m experiments.nested`.

Every experiment writes its data (`data/`, Parquet) and a picture (`pictures/`, PNG and SVG), prints a table,
and resumes if it was interrupted.
"""

from __future__ import annotations

from experiments.nested import (
    by_hands,
    effort,
    exploitability,
    large,
    matches,
    network,
    noise,
    paper_sizes,
    theorem,
    throughput,
)
from experiments.nested.common import HERE
from experiments.study import Study

STUDY = Study(
    name="nested",
    description=__doc__,
    folder=HERE,
    experiments=(
        theorem,
        exploitability,
        matches,
        network,
        noise,
        throughput,
        effort,
        large,
        paper_sizes,
        by_hands,
    ),
    only_by_name=frozenset({paper_sizes.NAME, by_hands.NAME}),
)
main = STUDY.main

if __name__ == "__main__":
    main()
