"""The protocol of trees, in history or hand form, and lookup of infosets by name."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Literal, Protocol, TypeAlias, runtime_checkable

import numpy as np
import numpy.typing as npt

from jaxgadget.core.host import Entries, HandEntries, HostTreeplex, Rounding
from jaxgadget.games.game import CutRule, Move
from jaxgadget.tree.infosets import Infosets
from jaxgadget.util.arguments import check_player, near_names
from jaxgadget.util.arrays import BoolArray, IntArray

if TYPE_CHECKING:
    lazy = property  # equivalent to a property for a protocol
else:
    lazy = functools.cached_property

Form: TypeAlias = Literal["histories", "hands"]
"""Layout of a game: a list of its histories, or public nodes with a block of hands each."""


@runtime_checkable
class TreeGame(Protocol):
    """The part of a game's rules that a tree needs: names and named cuts."""

    @property
    def name(self) -> str:
        """The canonical string."""
        ...

    def action_string(self, player: int, action: int) -> str:
        """Name of a player's action."""
        ...

    def cuts(self) -> Mapping[str, CutRule]:
        """Named cuts."""
        ...


class Tree(Protocol):
    """A game laid out as arrays over n nodes in breadth-first order: histories, or public nodes.

    A node represents every pair of the players' hands: one pair in history form (`HistoryTree`), all deals in
    hand form (`PublicTree`). `infostate`, `infoset`, `sequence` and `decisions` describe the nodes with one
    hand; the methods `…_by_hand` repeat them for H hands, where H is `num_hands[player]`, which is 1 in
    history form. Policies have a row for each sequence of `infosets`, hand by hand.
    """

    @property
    def game(self) -> TreeGame:
        """The part of the rules that provides names."""
        ...

    @property
    def cache(self) -> dict[object, Any]:
        """Values computed from this tree, by name."""
        ...

    @property
    def layout(self) -> str:
        """`histories` or `hands`."""
        ...

    @property
    def sizes(self) -> dict[str, Any]:
        """Size of the game, by the names that `jaxgadget solve --json` uses."""
        ...

    @property
    def rounding(self) -> Rounding:
        """Rounding of level sizes of forests, so that forests of similar shape share programs."""
        ...

    # --- nodes ------------------------------------------------------------------------

    @property
    def level_offset(self) -> IntArray:
        """`[num_levels + 1]` first node of each level."""
        ...

    @property
    def parent(self) -> IntArray:
        """`[n]` the node above; the root is its own."""
        ...

    @property
    def actor(self) -> npt.NDArray[np.uint8]:
        """`[n]` bits as in `games.game.HistoryLevel`."""
        ...

    @property
    def action(self) -> IntArray:
        """`[3, n]` actions of player 0, player 1 and chance at the parent, -1 for none."""
        ...

    @property
    def num_moves(self) -> IntArray:
        """`[n]` number of players' previous moves; a simultaneous move counts once, chance moves do not."""
        ...

    @property
    def terminals(self) -> IntArray:
        """The terminal nodes, ascending."""
        ...

    @property
    def leaves(self) -> IntArray:
        """Nodes at which a truncated tree ends, ascending; none in a whole tree."""
        ...

    @property
    def public(self) -> IntArray | None:
        """`[n]` public state of each node; None if the game does not define it."""
        ...

    @property
    def num_terminals(self) -> int:
        """Number of terminal nodes."""
        ...

    @property
    def is_truncated(self) -> bool:
        """True if some non-terminal node has no children in the tree."""
        ...

    @property
    def payoff_bounds(self) -> tuple[float, float]:
        """Player 0's minimum and maximum payoff."""
        ...

    @property
    def payoff_range(self) -> float:
        """Range of player 0's payoff, at least a tiny positive number."""
        ...

    @property
    def constant(self) -> float:
        """The sum of both players' returns; half of it is subtracted from each player's payoff."""
        ...

    def moves(self, node: int, /) -> tuple[Move, ...]:
        """Actions and chance outcomes on the path to a node."""
        ...

    # --- decisions with one hand ------------------------------------------------------

    @property
    def infostate(self) -> IntArray:
        """`[2, n]` id of each player's previous observations and actions, without its hand."""
        ...

    @property
    def infoset(self) -> IntArray:
        """`[2, n]` index in `decisions` if the player acts, otherwise -1."""
        ...

    @property
    def sequence(self) -> IntArray:
        """`[2, n]` the player's last sequence in `decisions`."""
        ...

    @property
    def decisions(self) -> tuple[Infosets, Infosets]:
        """Both players' decisions with one hand."""
        ...

    # --- hands ------------------------------------------------------------------------

    @property
    def num_hands(self) -> tuple[int, int]:
        """Numbers of hands of both players, H_0 and H_1; 1 and 1 in history form."""
        ...

    @property
    def infosets(self) -> tuple[Infosets, Infosets]:
        """Both players' infosets: `decisions`, hand by hand."""
        ...

    def possible(self, player: int, infostates: IntArray) -> BoolArray:
        """`[m, H]` the hands that a player may hold at ids of `infostate`."""
        ...

    def infosets_by_hand(self, player: int, infosets: IntArray) -> IntArray:
        """`[m, H]` index in `infosets` of decisions with each hand; -1 if impossible, and for -1."""
        ...

    def sequences_by_hand(self, player: int, sequences: IntArray) -> IntArray:
        """`[m, H]` sequence of `infosets` for sequences of `decisions`; -1 if impossible, and for -1."""
        ...

    def treeplex_by_hand(self, player: int, treeplex: HostTreeplex) -> HostTreeplex:
        """A treeplex of `decisions` with a block of hands for every root, infoset and sequence."""
        ...

    def chance_entries(
        self, nodes: IntArray, rows: tuple[IntArray, IntArray], num_rows: tuple[int, int]
    ) -> Entries | HandEntries:
        """Chance's reach of nodes, as a matrix over rows of both players.

        Args:
          nodes: `[m]` nodes.
          rows: for both players `[m]` the block of H adjacent rows of each node, or `[m, H]` the row of each
            hand, -1 for none.
          num_rows: number of rows of each player.
        """
        ...

    def payoff_entries(
        self, nodes: IntArray, rows: tuple[IntArray, IntArray], num_rows: tuple[int, int], player: int = 0
    ) -> Entries | HandEntries:
        """Chance's reach × payoff of terminal nodes in `player`'s utility; see `chance_entries`."""
        ...

    # --- names ------------------------------------------------------------------------

    @property
    def infostate_strings(self) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """Both players' infosets as OpenSpiel names them, not necessarily unique."""
        ...

    @property
    def infoset_names(self) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """Names of both players' `infosets`, unique within a player."""
        ...

    def find_infoset(self, name: str, player: int | None = None) -> tuple[int, int]:
        """`(player, infoset)` of one of `infoset_names`; see `find_named` for errors."""
        ...

    def name_roots(
        self, player: int, infostates: IntArray, roots: IntArray, root: IntArray, infosets: IntArray
    ) -> tuple[str, ...]:
        """`[R]` names of a player's infostates at the roots of subgames.

        Args:
          player: 0 or 1.
          infostates: `[R]` ids of infostates; in hand form `infostate × H + hand`.
          roots: root nodes, with all of these infostates.
          root: `[n]` the root at or above each node.
          infosets: the player's infosets in the subgames.
        """
        ...

    def name_rows(self, player: int) -> tuple[dict[str, npt.NDArray[Any]], IntArray]:
        """Arrays that identify a player's rows in files, and `[Q]` their rows in policies."""
        ...

    def row_columns(self, player: int) -> dict[str, npt.NDArray[Any]]:
        """`[Q]` columns that identify the rows of a player's policy in tables."""
        ...


def check_ends(tree: Tree) -> None:
    """Raises ValueError if a tree is truncated."""
    if tree.is_truncated:
        raise ValueError(
            f"tree={tree!r}: expected a tree of the whole game, as the game below the leaves is "
            "unknown; call enumerate_game without depth"
        )


def find_named(
    names_of: tuple[tuple[str, ...], tuple[str, ...]], game: str, name: str, player: int | None
) -> tuple[int, int]:
    """`(player, infoset)` of one of a tree's `infoset_names`.

    Args:
      names_of: `infoset_names` of the tree.
      game: the game's name, for errors.
      name: the infoset's name.
      player: its player; required only if both players have an infoset of that name.

    Raises:
      ValueError: if there is no such infoset, or both players have one and `player` is None.
    """
    players = (0, 1) if player is None else (check_player(player),)
    matches = [(p, names_of[p].index(name)) for p in players if name in names_of[p]]
    if len(matches) == 1:
        return matches[0]
    if matches:
        raise ValueError(
            f"infostate {name!r} is an infoset of both players of {game}; also give the player, 0 or 1"
        )
    names = [n for p in players for n in names_of[p]]
    candidates = [n for n in names if n.startswith(f"{name} | ")]
    shown = ", ".join(map(repr, candidates[:3])) if candidates else near_names(name, names)
    of = "" if player is None else f" of player {player}"
    raise ValueError(
        f"infostate {name!r} is not an infoset{of} of {game}; expected an element of "
        f"tree.infoset_names, such as {shown}"
    )
