"""The blueprints, opponents and value of a game in a sweep; one process computes them, all read them."""

from __future__ import annotations

import pathlib
from typing import Any, NamedTuple

from jaxgadget.opponents.opponent import Opponents
from jaxgadget.policy.blueprints import DRAWS, make_blueprints, parse_blueprint
from jaxgadget.policy.exact import find_value
from jaxgadget.policy.identity import fingerprint
from jaxgadget.policy.policy import Policy
from jaxgadget.sweeping.request import Request
from jaxgadget.tree.public import Tree
from jaxgadget.util.arguments import check_whole_number, is_finite_number
from jaxgadget.util.store import Format, read_record, write_record

GAME_FORMAT = Format(
    name="jaxgadget game of a sweep",
    version=1,
    noun="game",
    remedy="delete it and sweep again",
    anonymous=True,
    unsealed=(None,),
)


class Setup(NamedTuple):
    """Inputs of a game's pieces: tree, blueprints, their seeds (None for no seed), value and opponents."""

    tree: Tree
    blueprints: Policy
    seeds: list[int | None]
    value: tuple[float, float]
    opponents: Opponents | None = None

    @property
    def num_opponents(self) -> int:
        """Number of opponents; 1 without any."""
        return 1 if self.opponents is None else len(self.opponents)


def make_setup(request: Request, tree: Tree, progress: bool | None) -> Setup:
    """Creates a game's blueprints and opponents, and computes its value.

    Raises:
      ValueError: if a policy among the blueprints has the label of another one.
    """
    lanes: dict[tuple[str, int | None], Policy] = {}
    drawn = [spec for spec in request.blueprints if parse_blueprint(spec).kind == DRAWS]
    fixed = [spec for spec in request.blueprints if spec not in drawn]
    for specs, seed in [(fixed, None), *((drawn, seed) for seed in request.seeds)]:
        if specs:
            policy = make_blueprints(tree, specs, seed=seed or 0, progress=progress)
            lanes |= {(label, seed): policy.lane(lane) for lane, label in enumerate(policy.labels)}
    if (policies := request.policies) is not None:
        for lane, label in enumerate(policies.labels):
            if (label, None) in lanes:
                raise ValueError(f"blueprints: duplicate label {label!r}; give the policy another one")
            lanes[label, None] = policies.lane(lane)
    value = find_value(tree, request.exact, progress)
    seeds = [seed for _, seed in lanes]
    return Setup(tree, Policy.stack(list(lanes.values())), seeds, value, request.make_opponents(tree))


class SetupFiles:
    """The files of a game's setup: a record, and policies of blueprints and models.

    Args:
      folder: folder of the games.
      key: key of the game, from `Request.game_key`.
    """

    def __init__(self, folder: pathlib.Path, key: str):
        self.record = folder / f"{key}.json"
        self.blueprints, self.models = folder / f"{key}.npz", folder / f"{key}.models.npz"

    def exist(self) -> bool:
        """True if the setup was written; raises ValueError if its record is damaged or of another version."""
        return read_record(self.record, GAME_FORMAT) is not None

    def write(self, name: str, setup: Setup) -> None:
        """Writes the policies, then the record, whose existence shows that all files are complete."""
        setup.blueprints.save(self.blueprints)
        record: dict[str, Any] = {
            "game": name,
            "fingerprint": fingerprint(setup.tree),
            "value": list(setup.value),
            "seeds": setup.seeds,
        }
        if (opponents := setup.opponents) is not None:
            opponents.models.save(self.models)
            record["opponents"] = opponents.record
        write_record(self.record, GAME_FORMAT, record)

    def read(self, name: str, tree: Tree) -> Setup:
        """Reads the setup of a game.

        Raises:
          ValueError: if a file is damaged, or the rules have changed since the sweep began.
        """
        record = read_record(self.record, GAME_FORMAT) or {}
        try:
            seeds = [
                None if seed is None else check_whole_number("seeds", seed, 0) for seed in record["seeds"]
            ]
            low, high = record["value"]
            if not (is_finite_number(low) and is_finite_number(high) and low <= high):
                raise ValueError(f"value={record['value']!r}: expected a bracket of two numbers")
            rules, opponents_record = record["fingerprint"], record.get("opponents")
        except (KeyError, TypeError, ValueError) as error:
            raise GAME_FORMAT.damaged(self.record, error) from error
        folder = self.record.parent
        if rules != fingerprint(tree):
            raise ValueError(
                f"game {name!r}: its rules are not those with which the sweep in {str(folder.parent)!r} "
                "began; choose another folder"
            )
        try:
            blueprints, opponents = Policy.load(self.blueprints, tree), None
            if blueprints.num_lanes != len(seeds):
                raise ValueError(
                    f"{str(self.blueprints)!r} has {blueprints.num_lanes} lanes, expected {len(seeds)}"
                )
            if opponents_record is not None:
                opponents = Opponents.from_record(opponents_record, Policy.load(self.models, tree))
        except ValueError as error:
            raise ValueError(
                f"{error}; delete the folder {str(folder)!r} and sweep again, which creates it again"
            ) from error
        return Setup(tree, blueprints, seeds, (low, high), opponents)
