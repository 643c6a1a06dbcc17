"""The grid of a sweep: games, blueprints, gadgets and the other axes that are crossed."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Mapping, Sequence
from typing import Any

from jaxgadget.gadgets.alternative import Alternative
from jaxgadget.gadgets.gadget import DEFAULT_EPSILON, Epsilon, Gadget
from jaxgadget.gadgets.prior import Prior
from jaxgadget.gadgets.registry import BEST_RESPONSE, DEFAULT_GADGETS, DEFAULT_PRIORS
from jaxgadget.games.game import DEFAULT_MAX_HISTORIES, Game
from jaxgadget.games.stepwise import Rules
from jaxgadget.opponents.opponent import OpponentLike
from jaxgadget.policy.policy import PolicyLike
from jaxgadget.subgames.knowledge import Knowledge
from jaxgadget.tree.tree import Form

GameSpec = str | os.PathLike[str] | Game | Rules[Any]
Cuts = str | Sequence[str]

DEFAULT_BLUEPRINTS = ("cfr-spread:25", "draws:20")
"""The blueprints of the paper's sweeps."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class SweepGrid:
    """Axes of a sweep; the sweep computes all combinations of their values.

    Attributes:
      games: games that `load` accepts; or a dict from game to its cut or cuts.
      cuts: names of cuts for all games, unless `games` is a dict.
      blueprints: SPECs, see `make_blueprints`; for a sweep of a single game also policies that `as_policy`
        accepts, each lane with a unique label.
      gadgets: names, each combined with all `priors` and `epsilons` that the gadget accepts, or gadget
        objects. Custom classes are compared by name and field values only: change one of these when their
        code changes.
      priors: names or priors.
      epsilons: numbers in [0, 1); for linear programs also `auto`.
      alternatives: names of alternative values that `refine --alternative` accepts, or values.
      opponent: as in `refine`; models that are SPECs are made for every game (`draws:COUNT` with seed 0).
      knowledge: as in `refine`, one or several; None for common knowledge.
      players: resolving players.
      seeds: seeds of `draws:COUNT`; other blueprints occur once, with an empty seed.
      iterations: one number of iterations or several, each solved separately; linear programs ignore them.
      max_histories: maximum number of histories of a game, as in `enumerate_game`.
      form: layout of all games: `histories`, or `hands`, see `jaxgadget.public_tree`.
    """

    games: GameSpec | Sequence[GameSpec] | Mapping[str, Cuts]
    cuts: Cuts | None = None
    blueprints: PolicyLike | Sequence[PolicyLike] = DEFAULT_BLUEPRINTS
    gadgets: str | Gadget | Sequence[str | Gadget] = DEFAULT_GADGETS
    priors: str | Prior | Sequence[str | Prior] = DEFAULT_PRIORS
    epsilons: Epsilon | Sequence[Epsilon] = DEFAULT_EPSILON
    alternatives: str | Alternative | Sequence[str | Alternative] = BEST_RESPONSE
    opponent: OpponentLike | Sequence[OpponentLike] | None = None
    knowledge: Knowledge | Sequence[Knowledge | None] | None = None
    players: int | Sequence[int] = (0, 1)
    seeds: int | Sequence[int] = 0
    iterations: int | Sequence[int] = 5000
    max_histories: int = DEFAULT_MAX_HISTORIES
    form: Form = "histories"
