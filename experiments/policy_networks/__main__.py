"""Policy networks, and search that starts from them: `python -m experiments.policy_networks`."""

from __future__ import annotations

from experiments.policy_networks import matches, search, training
from experiments.policy_networks.common import HERE
from experiments.study import Study

STUDY = Study(
    name="policy_networks",
    description=__doc__,
    folder=HERE,
    experiments=(training, search, matches),
    only_by_name=frozenset({matches.NAME}),
)
main = STUDY.main

if __name__ == "__main__":
    main()
