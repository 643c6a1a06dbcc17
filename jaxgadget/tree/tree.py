"""Names in trees of either kind: of the game, and of infosets."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal, Protocol, TypeAlias, runtime_checkable

from jaxgadget.games.game import CutRule
from jaxgadget.util.arguments import check_player, near_names

Form: TypeAlias = Literal["histories", "hands"]
"""Layout of a game: a list of its histories, or public nodes with a block of hands each."""


@runtime_checkable
class TreeGame(Protocol):
    """The part of a game's rules that a tree keeps: names."""

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


def find_named(
    names_of: tuple[tuple[str, ...], tuple[str, ...]], game: str, name: str, player: int | None
) -> tuple[int, int]:
    """`(player, infoset)` of one of a tree's `infoset_names`.

    Args:
      names_of: `infoset_names` of the tree.
      game: the game's name, for messages.
      name: the infoset's name.
      player: its player; needed only where both players have an infoset of that name.

    Raises:
      ValueError: if there is no such infoset, or both players have one and `player` is None.
    """
    players = (0, 1) if player is None else (check_player(player),)
    matches = [(p, names_of[p].index(name)) for p in players if name in names_of[p]]
    if len(matches) == 1:
        return matches[0]
    if matches:
        raise ValueError(
            f"infostate {name!r} is an infoset of both players of {game}; give the player too, 0 or 1"
        )
    names = [n for p in players for n in names_of[p]]
    candidates = [n for n in names if n.startswith(f"{name} | ")]
    shown = ", ".join(map(repr, candidates[:3])) if candidates else near_names(name, names)
    of = "" if player is None else f" of player {player}"
    raise ValueError(
        f"infostate {name!r} is no infoset{of} of {game}; expected one string of "
        f"tree.infoset_names, such as {shown}"
    )
