"""One player's entry and body as a single treeplex, in NumPy: what the linear programs are made of.

A body infoset below a root hangs from the entry sequence that leads to the root, and the
root's scale goes into the payoff. What is left is an ordinary treeplex with one root a
game, where every realisation plan starts at 1.
"""

from __future__ import annotations

import dataclasses
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from jaxgadget.games.game import FloatArray, IntArray
from jaxgadget.tree.sequence import Treeplex

BoolArray = npt.NDArray[np.bool_]

REACH_TOLERANCE = 1e-9
"""A player whose plan × weight of the root (`Chain.relative`) is not above this does not reach an
infoset. It is what HiGHS allows a constraint to be violated by."""

LEAST_FLOOR = 2e-12
"""Smaller floors, but 0, are refused: HiGHS would leave them out of its matrix."""

ROUNDING = 1e-11
"""Weights of a solver's plan up to this are 0."""


class Rows(NamedTuple):
    """One player's behaviour: entry `[Q_entry]` and body `[Q_body]`, 0 at padding."""

    entry: FloatArray
    body: FloatArray


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class Decisions:
    """One player of a program, one lane; see `problem.Side` and `problem.Terms`.

    Attributes:
      entry: decisions above the roots, one root a game; no infosets if the entry is fixed.
      body: decisions below the roots.
      link: `[R]` entry sequence above every root of the body, -1 for padding.
      scale: `[R]` a root's reach is this × the reach of its entry sequence.
      constant: `[E]` what each sequence of the entry earns by itself, in the player's utility.
      entry_legal: `[Q_entry]` which actions of the entry exist; by default all. An infoset
        without any is worth 0 and its rows are 0.
      entry_floor: `[Q_entry]` least probability of every action; by default none.
      body_floor: `[Q_body]` the same for the body.
    """

    entry: Treeplex
    body: Treeplex
    link: IntArray
    scale: FloatArray
    constant: FloatArray
    entry_legal: BoolArray | None = None
    entry_floor: FloatArray | None = None
    body_floor: FloatArray | None = None


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class Chain:
    """A player's decisions, joined. Axes: S sequences, I infosets of the joined treeplex, R body roots.

    Attributes:
      entry: how many sequences and infosets are the entry's; they come first.
      treeplex: the joined decisions; its roots are the games.
      game: `[S]` the game of each sequence, -1 if it is padding.
      real: `[I]` whether an infoset is no padding and has a legal action.
      position: `[S_body]` the sequence that each sequence of the body became.
      scale: `[S_body]` scale of the root above.
      relative: `[I]` the largest payoff below the root above, both players' scales included, as a
        share of the game's; 1 in the entry. `matrices.build` fills it in.
      lost: `[I]` whether an infoset lies right below a root of scale 0: nothing there counts above.
      constant: `[S]`.
      legal: `[S]` whether an action exists.
      floor: `[S]` least probability of an action.
      floored: `[S]` whether an action was given a floor, be it 0.
    """

    entry: tuple[int, int]
    treeplex: Treeplex
    game: IntArray
    real: BoolArray
    position: IntArray
    scale: FloatArray
    relative: FloatArray
    lost: BoolArray
    constant: FloatArray
    legal: BoolArray
    floor: FloatArray
    floored: BoolArray

    @property
    def num_games(self) -> int:
        """Games side by side, padding included."""
        return self.treeplex.num_roots

    @property
    def infoset(self) -> IntArray:
        """`[S - games]` the infoset of every action."""
        return self.treeplex.sequence_infoset

    def split(self, rows: FloatArray) -> Rows:
        """Rows `[S - games]` as those of entry and body."""
        cut = self.entry[0] - self.num_games
        return Rows(rows[:cut], rows[cut:])

    def seen(self, plan: FloatArray) -> FloatArray:
        """`[S_body]` the reach that the payoff sees, from a plan `[S]`."""
        return plan[self.position] * self.scale

    def collect(self, gradient: FloatArray) -> FloatArray:
        """Sums what sequences of the body earn, `[S_body]`, by joined sequence, `[S]`.

        A root's scale counts, but not where it is 0: what lies there keeps its values, and does
        not count above (`lost`).
        """
        action = np.arange(len(self.scale)) >= len(self.scale) - (self.treeplex.num_sequences - self.entry[0])
        weight = np.where(action & (self.scale == 0), 1.0, self.scale)
        total = np.bincount(self.position, gradient * weight, self.treeplex.num_sequences)
        return np.asarray(total, np.float64)


def join(player: Decisions, name: str = "player") -> Chain:
    """Joins entry and body.

    Args:
      player: the decisions.
      name: of the player, for errors.

    Raises:
      ValueError: if an array has the wrong length, or floors are negative or sum to more than 1.
    """
    entry, body = player.entry, player.body
    _check_sizes(player, name)
    num_entry = (entry.num_sequences, entry.num_infosets)
    shift = num_entry[0] - body.num_roots
    link = np.maximum(player.link, 0)
    below_root = body.parent < body.num_roots
    treeplex = Treeplex(
        num_roots=entry.num_roots,
        levels=(*entry.levels, *body.levels),
        parent=np.concatenate(
            [entry.parent, np.where(below_root, link[body.parent * below_root], body.parent + shift)]
        ),
        infoset=np.concatenate([entry.infoset, body.infoset]),
        num_actions=np.concatenate([entry.num_actions, body.num_actions]),
        first_sequence=np.concatenate([entry.first_sequence, body.first_sequence + shift]),
    )
    games, infoset = treeplex.num_roots, treeplex.sequence_infoset
    legal, floor, floored = _bounds(player, treeplex, name)
    padding = treeplex.infoset == -1
    some = np.bincount(infoset, legal[games:], treeplex.num_infosets) > 0
    root = treeplex.root_of()
    scale = np.where(player.link >= 0, player.scale, 0.0)
    scale_above = scale[body.root_of()]
    above = scale_above[body.first_sequence]
    return Chain(
        entry=num_entry,
        treeplex=treeplex,
        game=np.where(np.concatenate([np.zeros(games, np.bool_), padding[infoset]]), -1, root),
        real=~padding & some,
        position=np.concatenate([link, np.arange(num_entry[0], treeplex.num_sequences)]),
        scale=scale_above,
        relative=np.ones(treeplex.num_infosets),
        lost=np.concatenate([np.zeros(num_entry[1], np.bool_), below_root & (above == 0)]),
        constant=np.pad(player.constant, (0, treeplex.num_sequences - num_entry[0])),
        legal=legal,
        floor=floor,
        floored=floored,
    )


def _bounds(player: Decisions, treeplex: Treeplex, name: str) -> tuple[BoolArray, FloatArray, BoolArray]:
    """Legal actions, floors, and which actions have one, `[S]` each."""
    games, cut = treeplex.num_roots, player.entry.num_sequences
    legal = np.ones(treeplex.num_sequences, np.bool_)
    floor, floored = np.zeros(treeplex.num_sequences), np.zeros(treeplex.num_sequences, np.bool_)
    if player.entry_legal is not None:
        legal[games:cut] = player.entry_legal
    for given, part in ((player.entry_floor, slice(games, cut)), (player.body_floor, slice(cut, None))):
        if given is not None:
            floor[part], floored[part] = given, True
    _check_floors(floor[games:], treeplex.sequence_infoset, treeplex.num_infosets, name)
    return legal, floor, floored


def _check_sizes(player: Decisions, name: str) -> None:
    entry, body = player.entry, player.body
    expected = {
        "link": (player.link, body.num_roots),
        "scale": (player.scale, body.num_roots),
        "constant": (player.constant, entry.num_sequences),
        "entry_legal": (player.entry_legal, entry.num_sequences - entry.num_roots),
        "entry_floor": (player.entry_floor, entry.num_sequences - entry.num_roots),
        "body_floor": (player.body_floor, body.num_sequences - body.num_roots),
    }
    for field, (values, size) in expected.items():
        if values is not None and values.shape != (size,):
            raise ValueError(f"{field} of {name} has shape {values.shape}: expected ({size},), one lane")


def _check_floors(floor: FloatArray, infoset: IntArray, num_infosets: int, name: str) -> None:
    total = np.bincount(infoset, floor, num_infosets)
    if (floor < 0).any() or (total > 1 + 1e-12).any() or not np.isfinite(floor).all():
        raise ValueError(
            f"floors of {name} reach from {floor.min():.3g} and sum to at most {total.max():.3g} in an "
            "infoset: expected numbers >= 0 that sum to at most 1; lower them"
        )
    small = floor[(floor > 0) & (floor < LEAST_FLOOR)]
    if len(small):
        raise ValueError(
            f"floors of {name} are as small as {small.min():.1e}: HiGHS leaves out what is below "
            f"{LEAST_FLOOR:.0e}; take a larger ε, or a prior without such small probabilities"
        )


def plan_of(chain: Chain, rows: FloatArray) -> FloatArray:
    """`[S]` realisation plan of a behaviour `[S - games]`, 1 at the games' roots."""
    treeplex = chain.treeplex
    plan = np.ones(treeplex.num_sequences)
    for infosets, actions in _levels(chain):
        above = np.repeat(plan[treeplex.parent[infosets]], treeplex.num_actions[infosets])
        plan[actions] = above * rows[actions - chain.num_games]
    return plan


def behaviour(chain: Chain, plan: FloatArray) -> tuple[FloatArray, BoolArray]:
    """Behaviour of a solver's realisation plan, exact in spite of its rounding.

    Args:
      chain: the player.
      plan: `[S]`.

    Returns:
      `[S - games]` rows that sum to 1 and keep to floors and legality (0 at padding and where no
      action is legal), and `[I]` whether the player reaches the infoset, see `REACH_TOLERANCE`.
    """
    games, infoset = chain.num_games, chain.infoset
    num_infosets = chain.treeplex.num_infosets
    above = plan[chain.treeplex.parent]
    floor, legal = chain.floor[games:], chain.legal[games:]
    free = plan[games:] - floor * above[infoset]
    free = np.where(legal & (free > ROUNDING), free, 0.0)
    total = np.bincount(infoset, free, num_infosets)
    reached = (above * chain.relative > REACH_TOLERANCE) & (total > 0) & chain.real
    return _with_floor(chain, np.where((total > 0)[infoset], free, legal)), reached


def _with_floor(chain: Chain, free: FloatArray) -> FloatArray:
    """Normalises rows, then mixes floors in; 0 at padding."""
    games, infoset, count = chain.num_games, chain.infoset, chain.treeplex.num_infosets
    total = np.bincount(infoset, free, count)
    floor = chain.floor[games:]
    rest = np.maximum(1.0 - np.bincount(infoset, floor, count), 0.0)
    rows = floor + (rest / np.where(total > 0, total, 1.0))[infoset] * free
    return np.where(chain.real[infoset], rows, 0.0)


def respond(
    chain: Chain,
    gradients: tuple[FloatArray, ...],
    *,
    rows: FloatArray | None = None,
    kept: BoolArray | None = None,
    fallback: FloatArray | None = None,
) -> tuple[FloatArray, FloatArray]:
    """Counterfactual best responses, from the bottom up, where a behaviour is not kept.

    Source: *Solving games using decomposition*, "Generating a trunk strategy using CFR-D": a
    best response by counterfactual values wherever the player's own reach is 0.

    Args:
      chain: the player.
      gradients: `[S]` each, what every sequence earns against the other player, in order: the
        later ones are asked where all that the earlier ones weigh is 0.
      rows: `[S - games]` the behaviour to keep.
      kept: `[I]` where it is kept; by default nowhere.
      fallback: `[S - games]` rows for infosets where all gradients are 0; by default, and where
        it does not sum to 1, all legal actions alike.

    Returns:
      The completed rows, and `[games]` what they earn by the first gradient.
    """
    treeplex, games = chain.treeplex, chain.num_games
    kept = np.zeros(treeplex.num_infosets, np.bool_) if kept is None else kept
    rows = np.zeros(treeplex.num_sequences - games) if rows is None else rows.copy()
    q, size = np.stack(gradients), np.abs(np.stack(gradients))
    spare = _fallback(chain, fallback)
    for infosets, actions in reversed(_levels(chain)):
        widths, below = treeplex.num_actions[infosets], actions - games
        starts = np.cumsum(widths) - widths
        weighs = np.add.reduceat(size[:, actions], starts, axis=1)
        chosen = spare[below]
        for k in reversed(range(len(q))):
            best = _best_rows(chain, q[k, actions], actions, starts, widths)
            chosen = np.where(np.repeat(weighs[k] > 0, widths), best, chosen)
        chosen = np.where(np.repeat(chain.real[infosets], widths), chosen, 0.0)
        rows[below] = np.where(np.repeat(kept[infosets], widths), rows[below], chosen)
        counts = chain.real[infosets] & ~chain.lost[infosets]
        parent = treeplex.parent[infosets][counts]
        value = np.add.reduceat(rows[below] * q[:, actions], starts, axis=1)[:, counts]
        for k in range(len(q)):
            np.add.at(q[k], parent, value[k])
            np.add.at(size[k], parent, weighs[k, counts])
    return rows, q[0, :games]


def _best_rows(
    chain: Chain, q: FloatArray, actions: IntArray, starts: IntArray, widths: IntArray
) -> FloatArray:
    """The first of the best legal actions of each infoset, floors mixed in."""
    allowed = np.where(chain.legal[actions], q, -np.inf)
    best = np.repeat(np.maximum.reduceat(allowed, starts), widths)
    number = np.where(allowed == best, np.arange(len(q)), len(q))
    first = np.arange(len(q)) == np.repeat(np.minimum.reduceat(number, starts), widths)
    floor = chain.floor[actions]
    rest = np.maximum(1.0 - np.add.reduceat(floor, starts), 0.0)
    return floor + np.repeat(rest, widths) * first


def _fallback(chain: Chain, given: FloatArray | None) -> FloatArray:
    """`[S - games]` rows where nothing tells actions apart."""
    games, infoset, count = chain.num_games, chain.infoset, chain.treeplex.num_infosets
    uniform = _with_floor(chain, chain.legal[games:].astype(np.float64))
    if given is None:
        return uniform
    fair = np.abs(np.bincount(infoset, given, count) - 1) < 1e-6
    within = np.bincount(infoset, given < chain.floor[games:], count) == 0
    mixed = _with_floor(chain, np.where(chain.legal[games:], given, 0.0))
    exact = given / np.where(fair, np.bincount(infoset, given, count), 1.0)[infoset]
    return np.where(fair[infoset], np.where(within[infoset], exact, mixed), uniform)


def _levels(chain: Chain) -> list[tuple[slice, IntArray]]:
    """Infosets and action sequences of every level, top down; the sequences infoset by infoset."""
    found: list[tuple[slice, IntArray]] = []
    for infosets, actions in chain.treeplex.level_slices():
        if infosets.stop > infosets.start:
            begin = actions.start - chain.num_games
            owner = chain.infoset[begin : actions.stop - chain.num_games]
            found.append((infosets, actions.start + np.argsort(owner, kind="stable")))
    return found
