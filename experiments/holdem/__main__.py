"""Rivers and flops of hold'em: `python -m experiments.holdem`.

Published figures beside ours, the cost of an iteration, and a thousand rivers in batches. These run only if
named: ten thousand rivers, `many_rivers`; flops, `flops`; turns with values of ranges, `leaves`; and rivers
below turns, and turns below a flop, re-solved with gadgets, `gadgets`.
"""

from __future__ import annotations

from experiments.holdem import cost, figures, flops, gadgets, leaves, many_rivers, rivers
from experiments.holdem.common import HERE
from experiments.study import Study

STUDY = Study(
    name="holdem",
    description=__doc__,
    folder=HERE,
    experiments=(figures, cost, rivers, many_rivers, flops, leaves, gadgets),
    only_by_name=frozenset({many_rivers.NAME, flops.NAME, leaves.NAME, gadgets.NAME}),
)
main = STUDY.main

if __name__ == "__main__":
    main()
