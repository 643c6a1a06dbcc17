"""Climb from its rules, with physical cards, as explicit two-player trees.

Nothing is shared with `jaxgadget.games`: turns follow from counting passes, teammates are weighted nodes, and
infosets are written out as the player's information.
"""

from __future__ import annotations

import collections
import itertools
from collections.abc import Iterator

from tests.reference.efg import Chance, Decision, Node, Terminal

Hands = tuple[tuple[int, ...], ...]
Play = tuple[int, str, int]
"""Seat, kind (`single`, `pair` or `pass`), and rank (0 for a pass)."""


def deals(num_ranks: int, hand_size: int) -> dict[Hands, int]:
    """All deals of physical cards, as the ranks of the four hands, with their multiplicities."""
    cards = range(2 * num_ranks)  # card c has rank c // 2 + 1

    def hand(chosen: tuple[int, ...]) -> tuple[int, ...]:
        return tuple(sorted(card // 2 + 1 for card in chosen))

    def deal(left: frozenset[int], seats: int) -> Iterator[Hands]:
        if seats == 0:
            yield ()
            return
        for chosen in itertools.combinations(sorted(left), hand_size):
            for others in deal(left - set(chosen), seats - 1):
                yield (hand(chosen), *others)

    return collections.Counter(deal(frozenset(cards), 4))


def plays(hand: list[int], standing: Play | None) -> list[Play]:
    """The legal plays of a hand, as kind and rank without the seat: passes, singles, then pairs."""
    options: list[Play] = []
    if standing is not None:
        options.append((-1, "pass", 0))
    for kind, copies in (("single", 1), ("pair", 2)):
        for rank in sorted(set(hand)):
            if hand.count(rank) >= copies:
                if standing is None or (standing[1] == kind and rank > standing[2]):
                    options.append((-1, kind, rank))
    return options


def lowest(hand: list[int], options: list[Play], standing: Play | None, seat: int) -> dict[Play, float]:
    """The blueprint `lowest`, from its description."""
    if standing is None:
        rank = min(hand)
        return {(-1, "pair" if hand.count(rank) == 2 else "single", rank): 1.0}
    higher = [option for option in options if option[1] != "pass"]
    if standing[0] == (seat + 2) % 4 or not higher:
        return {(-1, "pass", 0): 1.0}
    return {min(higher, key=lambda option: option[2]): 1.0}


def points(out: list[int]) -> int | None:
    """The score of the team of seats 0 and 2, None before the end."""
    teams = [seat % 2 for seat in out]
    if teams.count(0) < 2 and teams.count(1) < 2:
        return None
    order = teams + [team for team in (0, 1) for _ in range(2 - teams.count(team))]
    score = {1: 3, 2: 2, 3: 1}[order.index(order[0], 1)]
    return score if order[0] == 0 else -score


def play_out(dealt: Hands, seat: int, teammate: str) -> Node:
    """The tree below a deal, in which `seat` is player 0 and the seat opposite plays `teammate`."""
    mate = (seat + 2) % 4
    sign = 1 if seat % 2 == 0 else -1

    def node(
        hands: list[list[int]],
        line: tuple[Play, ...],
        turn: int,
        standing: Play | None,
        passed: int,
        out: list[int],
    ) -> Node:
        score = points(out)
        if score is not None:
            return Terminal(float(sign * score))
        while not hands[turn]:
            turn = (turn + 1) % 4
        options = plays(hands[turn], standing)

        def below(option: Play) -> Node:
            _, kind, rank = option
            move = (turn, kind, rank)
            left = [list(hand) for hand in hands]
            if kind == "pass":
                playing = [s for s in range(4) if left[s] and s != standing[0]]
                if passed + 1 == len(playing):  # all others passed
                    leader = standing[0] if left[standing[0]] else (standing[0] + 2) % 4
                    return node(left, (*line, move), leader, None, 0, out)
                return node(left, (*line, move), (turn + 1) % 4, standing, passed + 1, out)
            for _ in range(2 if kind == "pair" else 1):
                left[turn].remove(rank)
            gone = out if left[turn] else [*out, turn]
            return node(left, (*line, move), (turn + 1) % 4, move, 0, gone)

        if turn == mate:
            chances = dict.fromkeys(options, 1 / len(options))
            if teammate == "lowest":
                chances = lowest(hands[turn], options, standing, turn)
            return Chance(tuple(chances.values()), tuple(map(below, chances)))
        player = 0 if turn == seat else 1
        known = (dealt[seat],) if player == 0 else (dealt[(seat + 1) % 4], dealt[(seat + 3) % 4])
        return Decision(player, (player, known, line), tuple(options), tuple(map(below, options)))

    return node([list(hand) for hand in dealt], (), 3, None, 0, [])


def game(num_ranks: int, hand_size: int, seat: int = 0, teammate: str = "lowest") -> Chance:
    """The whole game; all hands are dealt in one chance move."""
    ways = deals(num_ranks, hand_size)
    total = sum(ways.values())
    return Chance(tuple(w / total for w in ways.values()), tuple(play_out(d, seat, teammate) for d in ways))
