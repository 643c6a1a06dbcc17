"""Explicit games from the rules: recursion over moves, without a `HistoryTree`."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any

from jaxgadget.games.game import CHANCE, PLAYER_0, SIMULTANEOUS, TERMINAL, Move
from jaxgadget.games.stepwise import Rules
from jaxgadget.tree.history import HistoryTree
from tests.reference import efg
from tests.reference.efg import Chance, Decision, Label, Node, Terminal
from tests.reference.random_games import History, RandomGame


def histories(game: RandomGame) -> list[History]:
    """All histories, by length, then by their moves."""
    return [h for level in game.histories for h in level]


def from_rules(game: RandomGame) -> efg.Game:
    """Histories numbered as in `histories`; infosets labelled `(player, infostate)`, in order of arrival."""
    order = histories(game)
    number = {h: k for k, h in enumerate(order)}
    states = tuple(_infostates(game, player, order) for player in (0, 1))
    nodes: dict[History, Node] = {}

    def decision(h: History, player: int, below: dict[Move, Node]) -> Decision:
        label = player, states[player][number[h]]
        return Decision(player, label, tuple(below), tuple(below.values()))

    for h in reversed(order):
        actor, moves = game.shape.turn(h)
        below = {move: nodes[(*h, move)] for move in moves}
        if actor == TERMINAL:
            nodes[h] = Terminal(game.returns[h])
        elif actor == CHANCE:
            nodes[h] = Chance(tuple(game.probability[(*h, move)] for move in moves), tuple(below.values()))
        elif actor == SIMULTANEOUS:
            pairs: dict[Move, dict[Move, Node]] = {}
            for move, node in below.items():
                assert isinstance(move, tuple)
                pairs.setdefault(move[0], {})[move[1]] = node
            nodes[h] = decision(h, 0, {first: decision(h, 1, then) for first, then in pairs.items()})
        else:
            nodes[h] = decision(h, 0 if actor == PLAYER_0 else 1, below)
    parents = (number[h[:-1]] for h in order)  # the root's own for the root
    return efg.Game(tuple(nodes[h] for h in order), tuple(parents), (states[0], states[1]))


def _infostates(game: RandomGame, player: int, order: list[History]) -> tuple[int, ...]:
    ids: dict[Hashable, int] = {}
    return tuple(ids.setdefault(game.knows(player, h), len(ids)) for h in order)


def reach_of_chance(game: RandomGame, history: History) -> float:
    """Chance's reach of a history."""
    reach = 1.0
    for length in range(1, len(history) + 1):
        reach *= game.probability[history[:length]]
    return reach


def labels(tree: HistoryTree, game: RandomGame, explicit: efg.Game) -> dict[Label, Label]:
    """The explicit game's label of every `(player, infoset)` of a tree that has a subset of its histories."""
    number = {h: k for k, h in enumerate(histories(game))}
    return {
        (player, infoset): (player, explicit.infostate[player][number[tree.moves(history)]])
        for player in (0, 1)
        for infoset, history in enumerate(tree.infosets[player].history.tolist())
    }


def from_state_rules(rules: Rules[Any]) -> efg.Game:
    """The explicit game of rules by states, whose players act in turn.

    Histories are numbered depth first. Infosets are labelled by the rules' own names, infostates by all
    actions and observations of the player.
    """
    nodes: list[Node | None] = []
    parent: list[int] = []
    known: tuple[list[Label], list[Label]] = ([], [])

    def visit(state: Any, above: int, states: tuple[Label, Label], paid: float) -> Node:
        number = len(nodes)
        nodes.append(None)
        parent.append(max(above, 0))
        for player in (0, 1):
            known[player].append(states[player])
        actors = tuple(rules.actors(state))
        if not actors:
            node: Node = Terminal(paid)
        else:
            (actor,) = actors
            is_chance = actor == CHANCE
            chances = dict(rules.chance_outcomes(state)) if is_chance else {}
            moves = sorted(chances if is_chance else rules.legal_actions(state, actor))
            children: list[Node] = []
            for move in moves:
                step = rules.step(state, move)
                first, second = (
                    _longer(states[p], move if actor == p else None, step.public, step.private[p])
                    for p in (0, 1)
                )
                assert isinstance(step.reward, float)
                children.append(visit(step.state, number, (first, second), paid + step.reward))
            if is_chance:
                node = Chance(tuple(chances[move] for move in moves), tuple(children))
            else:
                label = actor, rules.infostate_string(state, actor)
                node = Decision(actor, label, tuple(moves), tuple(children))
        nodes[number] = node
        return node

    visit(rules.initial_state(), -1, ((), ()), 0.0)
    return efg.Game(tuple(node for node in nodes if node), tuple(parent), (tuple(known[0]), tuple(known[1])))


def _longer(known: Label, own: int | None, public: Label, private: Label) -> Label:
    """A player's information after a move."""
    assert isinstance(known, tuple)
    return known if own is public is private is None else (*known, (own, public, private))
