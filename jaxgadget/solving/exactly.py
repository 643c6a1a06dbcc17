"""Gadget games as linear programs: from lanes of a batch to programs, and back to strategies."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import jax
import numpy as np

from jaxgadget.gadgets.gadget import Layout
from jaxgadget.gadgets.structure import pad_rows
from jaxgadget.games.game import FloatArray
from jaxgadget.kernels.problem import Parts, Terms, fixed_entry
from jaxgadget.kernels.regret import Bounds
from jaxgadget.solving.chain import Decisions, Rows
from jaxgadget.solving.forest import GadgetGames
from jaxgadget.solving.program import Optimum, Program, refined, solve_program
from jaxgadget.tree.forest import Forest
from jaxgadget.tree.sequence import Treeplex


class Solved(NamedTuple):
    """Lanes of linear programs, solved.

    Attributes:
      played: both players' strategies, `[Q, lanes]`.
      iterations: `[lanes]` of the simplex method.
      epsilon: `[lanes]` the smallest ε that any game of the lane needed.
    """

    played: tuple[Parts, Parts]
    iterations: FloatArray
    epsilon: FloatArray


class HostGames(NamedTuple):
    """Gadget games of one kind in NumPy, all lanes.

    Attributes:
      forest: the subgames.
      layout: the opponent's entry.
      player: who re-solves.
      terms: both players' numbers.
      epsilon: `[lanes]`.
    """

    forest: Forest
    layout: Layout
    player: int
    terms: tuple[Terms, Terms]
    epsilon: FloatArray

    def program(self, lane: int, name: str) -> Program:
        """One lane as a program in which the resolving player maximises."""
        pair = (self._decisions(0, lane), self._decisions(1, lane))
        return Program(name=name, maximiser=self.player, players=pair, payoff=self.forest.form.payoff)

    def _decisions(self, player: int, lane: int) -> Decisions:
        body, terms = self.forest.form.treeplex[player], self.terms[player]
        entry, link = self.layout.treeplex, self.layout.link
        if player == self.player:
            entry = fixed_entry(entry.num_roots)
            game = self.layout.game[self.forest.roots[player].subgame]
            link = pad_rows(game, body.num_roots, -1)
        return Decisions(
            entry=entry,
            body=body,
            link=link,
            scale=_lane(terms.scale, lane),
            constant=_lane(terms.constant, lane),
            entry_legal=None if terms.entry.legal is None else _lane(terms.entry.legal, lane) > 0,
            entry_floor=_floor(terms.entry, entry, lane),
            body_floor=_floor(terms.body, body, lane),
        )


def _lane(values: jax.Array, lane: int) -> FloatArray:
    return np.asarray(values)[:, lane]


def _floor(bounds: Bounds, treeplex: Treeplex, lane: int) -> FloatArray | None:
    if bounds.floor is None or treeplex.num_infosets == 0:
        return None
    return _lane(bounds.floor, lane)


def to_host(games: GadgetGames, forest: Forest, layout: Layout) -> HostGames:
    """Copies what programs need from the device."""
    terms = jax.tree.map(np.asarray, games.problem.terms)
    return HostGames(forest, layout, games.problem.order[1], terms, np.asarray(games.epsilon))


def solve_lanes(
    games_of: Callable[[float | None], HostGames],
    names: Sequence[str],
    blueprint: FloatArray,
    *,
    auto: bool,
    time_limit: float | None = None,
    report: Callable[[], None],
) -> Solved:
    """Solves every lane of gadget games exactly.

    Args:
      games_of: the games with an ε in all lanes, or with their own for None.
      names: of the lanes, for errors.
      blueprint: `[Q, blueprints]` the resolving player's rows for infosets that nobody reaches.
      auto: whether to find an ε that changes nothing else (`program.refined`).
      time_limit: in seconds, for every lane; by default none.
      report: is told of every lane done.

    Raises:
      ProgramError: if HiGHS does not solve a program: which lane, which game, and why.
    """
    own = games_of(0.0 if auto else None)
    found: list[Optimum] = []
    for lane, name in enumerate(names):
        rows = blueprint[:, lane % blueprint.shape[1]]
        fallback = (rows, None) if own.player == 0 else (None, rows)
        if auto:

            def program_of(epsilon: float, lane: int = lane, name: str = name) -> Program:
                return games_of(epsilon).program(lane, name)

            found.append(refined(program_of, fallback=fallback, time_limit=time_limit))
        else:
            program = own.program(lane, name)
            found.append(solve_program(program, fallback=fallback, time_limit=time_limit))
        report()
    return Solved(
        played=(_stack([one.strategy[0] for one in found]), _stack([one.strategy[1] for one in found])),
        iterations=np.array([one.iterations for one in found]),
        epsilon=np.array([_least(one) for one in found]) if auto else own.epsilon,
    )


def _least(found: Optimum) -> float:
    if found.epsilon is None or np.isnan(found.epsilon).all():
        return 0.0
    return float(np.nanmin(found.epsilon))


def _stack(rows: Sequence[Rows]) -> Parts:
    entry, body = (np.stack([getattr(one, part) for one in rows], axis=1) for part in ("entry", "body"))
    return Parts(jax.device_put(entry), jax.device_put(body))
