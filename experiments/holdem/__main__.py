"""Rivers of hold'em: `python -m experiments.holdem`.

Figures from elsewhere beside ours, what an iteration costs, and a thousand rivers at once. Ten thousand of
them, `many_rivers`, run by name alone.
"""

from __future__ import annotations

from experiments.holdem import cost, figures, many_rivers, rivers
from experiments.holdem.common import HERE
from experiments.study import Study

STUDY = Study(
    name="holdem",
    description=__doc__,
    folder=HERE,
    experiments=(figures, cost, rivers, many_rivers),
    only_by_name=frozenset({many_rivers.NAME}),
)
main = STUDY.main

if __name__ == "__main__":
    main()
