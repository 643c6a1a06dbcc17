"""Pieces of a sweep: units of work, determined before anything is solved."""

from __future__ import annotations

import dataclasses
import itertools
import re
from collections.abc import Mapping
from typing import Any

from jaxgadget.core.devices import HOME
from jaxgadget.core.memory import suggest_chunk, whole_memory
from jaxgadget.gadgets.games import group_gadgets
from jaxgadget.policy.identity import fingerprint, identity, lane_digest, record_digest
from jaxgadget.subgames.knowledge import Knowledge
from jaxgadget.sweeping.request import FORMAT, Request
from jaxgadget.sweeping.setups import Setup
from jaxgadget.tree.forest import Forest, build_forest
from jaxgadget.tree.knowledge import knowledge_cover
from jaxgadget.util.arguments import check_whole_number
from jaxgadget.util.digest import digest


@dataclasses.dataclass(frozen=True)
class Piece:
    """A unit of work, lost if interrupted: gadgets that share lanes, for some blueprints.

    Each piece covers all opponents.

    Attributes:
      key: digest of all inputs of its results; the name of its file.
      gadgets: indices of gadgets in the request.
      blueprints: range of blueprints of the game, end exclusive.
      chunk: number of lanes that a device solves at once.
      work: estimated run time, in arbitrary units.
      opponents: number of opponents.
      knowledge: index of the knowledge in the request.
    """

    key: str
    game: str
    cut: str
    player: int
    iterations: int
    gadgets: tuple[int, ...]
    blueprints: tuple[int, int]
    chunk: int
    work: int
    opponents: int = 1
    knowledge: int = 0

    @staticmethod
    def read(record: Mapping[str, Any]) -> Piece:
        """Reads a piece from a manifest; raises ValueError if the manifest is damaged."""
        try:
            lists: dict[str, Any] = {key: tuple(record[key]) for key in ("gadgets", "blueprints")}
            piece = Piece(**{**record, **lists})
            texts: list[Any] = [piece.key, piece.game, piece.cut]
            if not all(isinstance(text, str) for text in texts) or not re.fullmatch(
                "[0-9a-f]{16}", piece.key
            ):
                raise ValueError(f"{texts!r}: expected a key of sixteen hexadecimal digits, a game and a cut")
            check_whole_number("player", piece.player, 0, 1)
            for key, least in {"iterations": 0, "chunk": 1, "work": 0}.items():
                check_whole_number(key, record[key], least)
            check_whole_number("opponents", piece.opponents, 1)
            check_whole_number("knowledge", piece.knowledge, 0)
            for gadget_idx in piece.gadgets:
                check_whole_number("gadgets", gadget_idx, 0)
            begin, end = piece.blueprints
            check_whole_number("blueprints", end, check_whole_number("blueprints", begin, 0) + 1)
            return piece
        except (KeyError, TypeError, ValueError) as error:
            raise ValueError(f"{record!r} describes no piece of a sweep: {error}") from error

    @property
    def num_rows(self) -> int:
        """Number of results, one for each gadget, opponent and blueprint."""
        return len(self.gadgets) * self.opponents * (self.blueprints[1] - self.blueprints[0])


def cut_pieces(request: Request, setup: Setup, forest: Forest, name: str, cut: str) -> list[Piece]:
    """Divides one game and cut into pieces: blocks of blueprints of equal size, with gadgets solved together.

    Sizes depend on the request, the game, the kind of machine and the memory of a device, but not on free
    memory or on the number of devices, which may differ between workers.
    """
    num_blueprints = setup.blueprints.num_lanes
    num_blocks = -(-num_blueprints // request.blueprints_at_once)
    blocks = list(itertools.pairwise(num_blueprints * k // num_blocks for k in range(num_blocks + 1)))
    groups = group_gadgets(request.gadgets)
    if (
        request.exact
    ):  # gadgets are solved separately, and an interruption loses less work if pieces are small
        groups = [[gadget_idx] for gadget_idx in range(len(request.gadgets))]
    searches = [
        (idx, player, *_known_subgames(forest, player, knowledge))
        for idx, knowledge in enumerate(request.knowledge)
        for player in request.players
    ]
    pieces: list[Piece] = []
    for (iterations, solver), (knowledge_idx, player, subgames, draws), group, (
        begin,
        end,
    ) in itertools.product(request.solvers.items(), searches, groups, blocks):
        memory = solver.memory_limit or whole_memory(HOME)
        lanes = len(group) * setup.num_opponents * (end - begin) * draws
        sequences = subgames.form.num_sequences
        piece = Piece(
            key="",
            game=name,
            cut=cut,
            player=player,
            iterations=iterations,
            gadgets=tuple(group),
            blueprints=(begin, end),
            chunk=suggest_chunk(sequences, lanes, solver.precision, HOME, memory),
            work=lanes * max(iterations, 1) * subgames.form.payoff.num_entries,
            opponents=setup.num_opponents,
            knowledge=knowledge_idx,
        )
        pieces.append(dataclasses.replace(piece, key=piece_key(request, setup, forest, piece)))
    return pieces


def _known_subgames(forest: Forest, player: int, knowledge: Knowledge | None) -> tuple[Forest, int]:
    """Subgames of a player's knowledge, and the number of searches in each."""
    if knowledge is None:
        return forest, 1
    covered = knowledge_cover(forest.cut, player, knowledge.order, unfrozen=knowledge.unfrozen)
    return build_forest(forest.tree, covered.cover), knowledge.draws


def piece_key(request: Request, setup: Setup, forest: Forest, piece: Piece) -> str:
    """Digest of all inputs of a piece's rows, except versions and device.

    Raises:
      ValueError: if gadgets, blueprints or the number of iterations are not in the request.
    """
    profiles, lanes = setup.blueprints, range(*piece.blueprints)
    try:
        solver = request.solvers[piece.iterations]
        gadgets = [request.record["gadgets"][gadget_idx] for gadget_idx in piece.gadgets]
        knowledge = request.knowledge[piece.knowledge]
        blueprints = [[profiles.labels[k], setup.seeds[k], lane_digest(profiles, k)] for k in lanes]
    except (IndexError, KeyError) as error:
        raise ValueError(f"{piece!r} is not a piece of this sweep") from error
    record: dict[str, Any] = {
        "format": FORMAT,
        "game": piece.game,
        "rules": fingerprint(setup.tree),
        "value": list(setup.value),
        "cut": [piece.cut, digest(forest.cut.roots, forest.cut.subgame)],
        "player": piece.player,
        "gadgets": gadgets,
        "blueprints": blueprints,
        "settings": [solver.name, piece.iterations, str(solver.precision), solver.memory_limit],
        "chunk": piece.chunk,
    }
    if (opponents := setup.opponents) is not None:
        policy = opponents.policy
        record["opponents"] = [
            [opponents.labels[k], float(opponents.p[k]), lane_digest(policy, k)]
            for k in range(len(opponents))
        ]
    if knowledge is not None:
        record["knowledge"] = identity(knowledge)
    return record_digest(record)
