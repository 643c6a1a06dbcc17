"""OpenSpiel's rules as an explicit game, without this package's code."""

from __future__ import annotations

from typing import Any

from tests.reference.efg import Chance, Decision, Game, Label, Node, Terminal


def from_openspiel(game: Any) -> Game:
    """The explicit game of a `pyspiel.Game`; labels are `(player, information state string)`."""
    nodes: list[Node | None] = []
    parents: list[int] = []
    states: list[tuple[Label, Label]] = []

    def strings(state: Any) -> tuple[Label, Label]:
        if state.is_terminal() or state.is_chance_node():
            return None, None
        return state.information_state_string(0), state.information_state_string(1)

    def add(state: Any, parent: int) -> Node:
        h = len(nodes)
        nodes.append(None)
        parents.append(parent)
        states.append(strings(state))
        node = build(state, h)
        nodes[h] = node
        return node

    def build(state: Any, h: int) -> Node:
        if state.is_terminal():
            a, b = state.returns()
            return Terminal((a - b) / 2)
        if state.is_chance_node():
            outcomes = state.chance_outcomes()
            return Chance(
                tuple(p for _, p in outcomes), tuple(add(state.child(outcome), h) for outcome, _ in outcomes)
            )
        if state.is_simultaneous_node():
            mine, theirs = (tuple(state.legal_actions(p)) for p in (0, 1))
            rows: list[Node] = []
            for a in mine:
                row: list[Node] = []
                for b in theirs:
                    child = state.clone()
                    child.apply_actions([a, b])
                    row.append(add(child, h))
                rows.append(Decision(1, (1, states[h][1]), theirs, tuple(row)))
            return Decision(0, (0, states[h][0]), mine, tuple(rows))
        player = state.current_player()
        actions = tuple(state.legal_actions())
        children = tuple(add(state.child(a), h) for a in actions)
        return Decision(player, (player, states[h][player]), actions, children)

    add(game.new_initial_state(), 0)
    both = (tuple(s[0] for s in states), tuple(s[1] for s in states))
    return Game(tuple(node for node in nodes if node is not None), tuple(parents), both)
