"""The refinement paper's experiments, in one command: `python -m experiments.refinements`.

Kubíček, Lisý and Sandholm, *Equilibrium Refinements Improve Subgame Solving in Imperfect-Information Games*
(2026), §8 and appendix B. Every experiment writes its data (`data/`, Parquet) and a picture (`pictures/`, PNG
and SVG), prints a table with explanations, and resumes if it was interrupted.
"""

from __future__ import annotations

from experiments.refinements import (
    claims,
    closing,
    figure2,
    figure3,
    figure18,
    figure19,
    figures14_17,
    larger,
    reach,
    sensitivity,
)
from experiments.refinements.common import HERE
from experiments.study import Study

STUDY = Study(
    name="refinements",
    description=__doc__,
    folder=HERE,
    experiments=(
        figure2,
        claims,
        figures14_17,
        figure18,
        figure3,
        sensitivity,
        reach,
        larger,
        closing,
        figure19,
    ),
    derived={
        "claims": ("figure2",),
        "figures14_17": ("figure2",),
        "figure18": ("figure2",),
        "closing": ("figure2", "larger", "reach"),
    },
)
main = STUDY.main

if __name__ == "__main__":
    main()
