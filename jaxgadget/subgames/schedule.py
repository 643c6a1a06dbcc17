"""Schedules of nested search: the levels of roots at which a player searches, and the limit below each.

A player may search at every own decision, or after a fixed number of moves of either player. The result of a
search is played from its roots down to those of the next level; deeper lookahead serves only for evaluation.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any, Literal, NamedTuple, TypeAlias, cast

import numpy as np

from jaxgadget.games.game import ACTOR_BIT, SIMULTANEOUS
from jaxgadget.subgames.knowledge import Knowledge
from jaxgadget.subgames.leaves import Leaf, OptimalValues
from jaxgadget.subgames.limits import check_depth, limit_at_decisions, limit_by_depth
from jaxgadget.tree.cut import Cut, CutSpec, cut_at, kept_subgames, leaf_above
from jaxgadget.tree.history import HistoryTree
from jaxgadget.tree.public import Tree
from jaxgadget.tree.states import is_from_public_state
from jaxgadget.util.arguments import check_whole_number
from jaxgadget.util.arrays import BoolArray, IntArray
from jaxgadget.values.histories import ValueFunction
from jaxgadget.values.ranges import RangeValues

LimitKind = Literal["own", "moves"]
LIMIT_KINDS: tuple[LimitKind, ...] = ("own", "moves")

OWN_DECISION = "own decision"
"""Names of cuts at a player's decisions."""

LimitValues: TypeAlias = "ValueFunction | Sequence[ValueFunction] | RangeValues | Leaf"


@dataclasses.dataclass(frozen=True, eq=False)
class Lookahead:
    """Start and end of the searches of `nested_search`, and the values at their limit.

    By default a player searches at each own decision to the end of the game.

    Attributes:
      values: values at the limit: one value function of histories, or one for each blueprint;
        range values; `OptimalValues()`, or a `Leaf` of your own. None for searches to the end of the game.
      depth: D, moves of the players down to the limit; with values of histories and `OptimalValues()`, for
        which the default is 1.
      limit: `own` (by default): a search ends where the player decides again, at least D moves down; `moves`:
        after exactly D moves of either player, the first search at the game's root. For range values, a cut;
        by default the network's.
      step: distance between two searches: in own decisions, by default 1; with `moves`, in moves, at most D
        and by default D.
      first: index of the player's first decision with a search, counted from 0; before it the player follows
        the blueprint. Only with `limit="own"`.
      visits: count visits of each leaf and pair of entries, K² numbers for each leaf; by default for values
        of histories, and only available for these.
      knowledge: search from each own infostate, based on the player's knowledge there, in place of public
        states; with values of histories, or to the end of the game.

    Raises:
      ValueError: if a number is out of range, or a setting has no effect with the values.
    """

    values: LimitValues | None = None
    depth: int | None = None
    limit: CutSpec | None = None
    step: int | None = None
    first: int = 0
    visits: bool | None = None
    knowledge: Knowledge | None = None

    def __post_init__(self) -> None:
        if self.depth is not None:
            check_depth(self.depth)
        if self.step is not None:
            check_whole_number("step", self.step, 1)
        check_whole_number("first", self.first, 0)
        values, ranged = self.values, self.range_values is not None
        if isinstance(values, Sequence) and any(map(_are_of_ranges, values)):
            raise ValueError(
                f"values={values!r}: expected a single object for range values, which serves all "
                "blueprints; several are for values of histories"
            )
        if ranged:
            self._check_cut()
        elif values is None and (self.depth is not None or self.kind != "own"):
            name, given = ("depth", self.depth) if self.depth is not None else ("limit", self.limit)
            raise ValueError(
                f"{name}={given!r} without values: searches extend to the end of the game; expected values "
                f"at the limit, or no {name}"
            )
        if self.visits and (ranged or values is None or isinstance(values, OptimalValues)):
            raise ValueError(
                f"visits=True with values={values!r}: visits are counted for values of histories alone; "
                "leave it out"
            )
        if self.knowledge is not None:
            self._check_knowledge(self.knowledge)
        if self.first and self.kind != "own":
            raise ValueError(
                f"first={self.first} with limit={self.limit!r}: expected limit='own', or no first"
            )

    def _check_knowledge(self, knowledge: object) -> None:
        """Raises ValueError unless searches can start from own infostates."""
        if not isinstance(knowledge, Knowledge):
            raise ValueError(f"knowledge={knowledge!r}: expected Knowledge(), such as Knowledge(order=3)")
        if isinstance(self.values, OptimalValues) or self.range_values is not None:
            raise ValueError(
                f"knowledge with values={self.values!r}: these are of public states, but searches from own "
                "infostates have only parts of these; expected values of histories, or none for searches to "
                "the end of the game"
            )
        if knowledge.generate is not None:
            raise ValueError(
                f"generate={knowledge.generate!r}: nested search considers all infostates; leave it out"
            )

    def _check_cut(self) -> None:
        """Raises ValueError unless the limit is a cut without settings of other kinds of limits."""
        if self.cut is None:
            raise ValueError(f"limit=None for values={self.values!r}: expected the cut where lookaheads end")
        if isinstance(self.cut, str) and self.cut in LIMIT_KINDS:
            raise ValueError(
                f"limit={self.cut!r} for values={self.values!r}: 'own' and 'moves' are for values of "
                "histories and optimal values; expected the cut where lookaheads end"
            )
        for name, given in (("depth", self.depth), ("step", self.step)):
            if given is not None:
                raise ValueError(
                    f"{name}={given!r} for values={self.values!r}: lookaheads end at a cut; expected limit=…"
                )

    @property
    def range_values(self) -> RangeValues | None:
        """The values if they are range values; else None."""
        return cast(RangeValues, self.values) if _are_of_ranges(self.values) else None

    @property
    def cut(self) -> CutSpec | None:
        """The cut to which range values apply."""
        return getattr(self.values, "cut", None) if self.limit is None else self.limit

    @property
    def kind(self) -> Any:
        """`own` or `moves`, if the limit is not a cut."""
        return "own" if self.limit is None else self.limit


def _are_of_ranges(values: object) -> bool:
    """True for range values: callables that are not a `ValueFunction`."""
    return callable(values) and not isinstance(values, Leaf | ValueFunction)


class SearchLevel(NamedTuple):
    """Roots of a player's n-th search: H nodes of the tree in S subgames.

    Attributes:
      roots: `[H]` the nodes, ascending.
      subgame: `[H]` their subgames, numbered by first root.
      name: name of the cut at the roots.
    """

    roots: IntArray
    subgame: IntArray
    name: str = OWN_DECISION

    @property
    def num_subgames(self) -> int:
        """Number of subgames, S."""
        return int(self.subgame.max()) + 1

    def cut(self, tree: Tree, subgames: IntArray | None = None) -> Cut:
        """The cut at these roots, or at those of the given subgames."""
        roots = self.roots if subgames is None else self.roots[np.isin(self.subgame, subgames)]
        return kept_subgames(tree, self.name, roots)


@dataclasses.dataclass(frozen=True, eq=False)
class Schedule:
    """A player's schedule of searches, by level.

    Attributes:
      tree: the game, in history or hand form.
      player: the searching player.
      kind: `own`: levels are every `step`-th decision of the player, and a search ends at the player's first
        decision at least `depth` moves below its roots. `moves`: the first level is the game's root, and each
        further level follows after `step` moves of either player; a search ends after exactly `depth` moves.
      depth: D, moves of the players from a root down to the limit; None if searches extend to the end.
      step: distance between two searches.
      levels: the levels.
    """

    tree: Tree
    player: int
    kind: LimitKind
    depth: int | None
    step: int
    levels: tuple[SearchLevel, ...]

    def leaves(self, where: Cut) -> IntArray:
        """`[H]` limits of searches at the roots of a cut; empty if they extend to the end of the game."""
        if self.depth is None:
            return np.zeros(0, np.int64)
        if self.kind == "own":
            return limit_at_decisions(self.tree, where, self.depth, self.player)
        return limit_by_depth(self.tree, where, self.depth)

    def kept(self, level_idx: int) -> BoolArray:
        """`[num_infosets]` mask of infosets where a level's result is played: above the next level's."""
        history = self.tree.infosets[self.player].history
        kept = self.levels[level_idx].cut(self.tree).root[history] >= 0
        if level_idx + 1 < len(self.levels):
            kept &= self.levels[level_idx + 1].cut(self.tree).root[history] < 0
        return kept


def make_schedule(
    tree: Tree, player: int, depth: int | None, limit: str = "own", step: int | None = None, first: int = 0
) -> Schedule:
    """Creates the schedule of a player's searches in a game.

    Args:
      tree: the game, in history or hand form.
      player: the searching player.
      depth: D; None for searches to the end of the game, at own decisions.
      limit: `own` or `moves`.
      step: own decisions, or moves, between two searches; by default one own decision, or D moves.
      first: number of own decisions before the first search.

    Raises:
      ValueError: if an argument is out of range, an infoset lies on both sides of a level or of a limit, or a
        search ends before a decision that it must determine.
    """
    if is_from_public_state(tree):
        raise ValueError(
            f"tree={tree!r}: expected a tree of the whole game, as this one lacks the decisions above its "
            "public state; SearchPlayer creates such trees itself"
        )
    depth = None if depth is None else check_depth(depth)
    if limit not in LIMIT_KINDS:
        raise ValueError(
            f"limit={limit!r}: expected 'own' (at own decisions) or 'moves' (after depth moves); a cut is "
            "for values of ranges"
        )
    kind: LimitKind = limit
    if step is None:
        step = 1 if kind == "own" or depth is None else depth
    step = check_whole_number("step", step, 1)
    if kind == "moves":
        if depth is None:
            raise ValueError(
                "depth=None cannot be combined with limit='moves', as a search to the end of the game has no "
                "later searches; expected a number of moves, or limit='own'"
            )
        if step > depth:
            raise ValueError(
                f"step={step}: a search looks ahead depth={depth} moves; expected a step of 1 to {depth}"
            )
        return Schedule(tree, player, kind, depth, step, tuple(_after_moves(tree, depth, step)))
    every = decisions(tree, player)
    if first and first >= len(every):
        raise ValueError(
            f"first={first}: player {player} of {tree.game.name} decides less often; expected at most "
            f"{max(len(every) - 1, 0)}"
        )
    every = every[first:]
    schedule = Schedule(tree, player, kind, depth, step, tuple(every[::step]))
    if (late := _first_late(schedule)) is not None:
        fits = next(
            fewer
            for fewer in range(step - 1, 0, -1)
            if _first_late(dataclasses.replace(schedule, step=fewer, levels=tuple(every[::fewer]))) is None
        )
        raise ValueError(
            f"step={step}: the decision at {_name_moves(tree, late)} comes before the next search and below "
            f"the limit of the one before, depth={depth} moves down; expected a step of at most {fits}, or a "
            "larger depth"
        )
    return schedule


def _first_late(schedule: Schedule) -> int | None:
    """A decision below the limit of the search that must determine it; None if there is none."""
    tree = schedule.tree
    for number in range(len(schedule.levels) if schedule.step > 1 else 0):
        where = schedule.levels[number].cut(tree)
        ends = leaf_above(where, schedule.leaves(where))
        history = tree.infosets[schedule.player].history[schedule.kept(number)]
        late = history[ends[history] >= 0]
        if len(late):
            return int(late[0])
    return None


def _name_moves(tree: Tree, history: int) -> str:
    """The moves to a history: players' moves by name, chance outcomes by number."""
    names = list[str]()
    while history:
        *actions, outcome = tree.action[:, history].tolist()
        done = [tree.game.action_string(player, a) for player, a in enumerate(actions) if a >= 0]
        names.append(" and ".join(done) or f"chance {outcome}")
        history = int(tree.parent[history])
    return ", ".join(reversed(names))


def _after_moves(tree: Tree, depth: int, step: int) -> list[SearchLevel]:
    """The game's root, then levels at fixed numbers of moves, until a search extends to the end."""
    levels = [SearchLevel(np.zeros(1, np.int64), np.zeros(1, np.int64), "root")]
    acts = (tree.actor & SIMULTANEOUS) > 0
    most = int(tree.num_moves[acts].max(initial=-1))
    for moves in range(step, most + 1, step):
        if moves - step + depth > most:
            break  # the search above extends to the end
        roots = np.nonzero(acts & (tree.num_moves == moves))[0]
        name = f"after {moves} moves"
        levels.append(SearchLevel(roots, cut_at(tree, name, roots).subgame, name))
    return levels


def decisions(tree: Tree, player: int) -> list[SearchLevel]:
    """Levels at a player's first, second, … decisions on every line of play.

    Raises:
      ValueError: if an infoset of the opponent lies on both sides of a level.
    """
    acts = np.flatnonzero(tree.actor & ACTOR_BIT[player])
    before = decisions_before(tree, player, acts)
    levels: list[SearchLevel] = []
    for level in range(int(before.max(initial=-1)) + 1):
        roots = acts[before == level]
        levels.append(SearchLevel(roots, cut_at(tree, OWN_DECISION, roots).subgame))
    return levels


def decisions_before(tree: Tree, player: int, nodes: IntArray) -> IntArray:
    """`[m]` number of a player's decisions before each node."""
    decisions = tree.decisions[player]
    depth = np.append(decisions.depth, -1)  # the empty sequence's infoset is -1
    return depth[decisions.infoset[tree.sequence[player, nodes]]] + 1


def decision_above(tree: HistoryTree, player: int, histories: IntArray) -> IntArray:
    """`[H]` the player's last decision before each history; every history must have one."""
    above = tree.parent[histories]
    while len(late := np.nonzero((tree.actor[above] & ACTOR_BIT[player]) == 0)[0]):
        above[late] = tree.parent[above[late]]
    return above.astype(np.int64)
