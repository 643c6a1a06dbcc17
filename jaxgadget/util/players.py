"""Pairs and values of the two players of a zero-sum game."""

from __future__ import annotations

from typing import NamedTuple, TypeVar

T = TypeVar("T")


def pair_for(player: int, own: T, other: T) -> tuple[T, T]:
    """A player's item and the other player's, ordered by player."""
    return (own, other) if player == 0 else (other, own)


def replaced(pair: tuple[T, T], player: int, own: T) -> tuple[T, T]:
    """A pair with one player's item replaced."""
    return pair_for(player, own, pair[1 - player])


def sign_of(player: int) -> int:
    """The factor that turns player 0's utility into a player's: 1 or -1."""
    return 1 if player == 0 else -1


class Bracket(NamedTuple):
    """Lower and upper bounds on the value of a game, in player 0's utility unless stated otherwise."""

    low: float
    high: float

    @property
    def middle(self) -> float:
        """The estimate with the smallest possible error."""
        return (self.low + self.high) / 2

    @property
    def half_width(self) -> float:
        """The largest possible error of the middle."""
        return (self.high - self.low) / 2

    def for_player(self, player: int) -> Bracket:
        """Converts bounds from player 0's utility to a player's, or back."""
        return self if player == 0 else Bracket(-self.high, -self.low)
