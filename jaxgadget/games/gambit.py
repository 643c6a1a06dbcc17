"""Gambit's `.efg` files, version 2: extensive-form games of two players.

The file defines infosets only where a player acts; elsewhere a player's infostate is its last
(infoset, action). Payoffs of outcomes along a path are summed. The size of numbers and the depth of the tree
are limited, so that reading takes time linear in the length of any file.
"""

from __future__ import annotations

import collections
import dataclasses
import math
import os
import pathlib
import re
import reprlib
from collections.abc import Mapping, Sequence
from fractions import Fraction
from typing import Any, NamedTuple

from jaxgadget.games.game import (
    ACTOR_BIT,
    CHANCE,
    LARGEST_RETURN,
    MAX_LEVELS,
    PROBABILITY_TOLERANCE,
    TERMINAL,
    CutRule,
    Move,
)
from jaxgadget.games.per_state import Branch, Node, PerStateGame

_CHANCE_PLAYER = -1
_TOKEN = re.compile(r'"[^"\\]*+(?:\\.[^"\\]*+)*+"|[{},]|[^\s{},"]+|"', re.DOTALL)
_NUMBER = re.compile(r"[+-]?(?:[0-9]+/[0-9]+|(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE](?P<exponent>[+-]?[0-9]+))?)")
_KINDS = {"c": "chance", "p": "player", "t": "terminal"}

_MAX_DIGITS = 1000  # maximum for a payoff or probability; enough for any float64
_LARGEST_DENOMINATOR = 10**_MAX_DIGITS

_short = reprlib.Repr()
_short.maxstring = 60


@dataclasses.dataclass(eq=False)
class _Infoset:
    player: int
    number: int
    label: str
    actions: tuple[str, ...]
    probabilities: tuple[float, ...]
    edges: dict[int, int] = dataclasses.field(default_factory=dict[int, int])
    """Action id → position among the infoset's actions; in ascending id."""


@dataclasses.dataclass(eq=False)
class _Vertex:
    """A node of the file; `infoset` is None at leaves, `total` is the sum of payoffs along its path."""

    infoset: _Infoset | None
    total: tuple[Fraction, Fraction]
    children: list[_Vertex] = dataclasses.field(default_factory=list["_Vertex"])


class _VertexAndPast(NamedTuple):
    vertex: _Vertex
    past: tuple[tuple[int, int], tuple[int, int]]  # both players' last own (infostate, action)


class GambitGame(PerStateGame):
    """A game read from an `.efg` file.

    Actions with the same name share an id.

    Attributes:
      name: the file's path, which `load` reads again.
      title: the title in the file.

    Raises:
      ValueError: if the file cannot be read, is malformed (with the line), or not a game of two players.
    """

    def __init__(self, path: str | os.PathLike[str]):
        self.name = os.fspath(path)
        parser = _Parser(self.name, _read(self.name))
        self.title, self._tree, infosets = parser.parse()
        self._action_names = _number_actions(self._tree)
        self._strings = _infostate_strings(infosets)
        self._ids: tuple[dict[object, int], dict[object, int]] = ({}, {})

    @property
    def num_actions(self) -> int:
        """Number of distinct action names in the file."""
        return len(self._action_names)

    def action_string(self, player: int, action: int) -> str:
        """The action's name in the file."""
        return self._action_names[action]

    def infostate_string(self, player: int, history: Sequence[Move]) -> str:
        """The infoset's label if it is unique, otherwise `player:number`."""
        infoset = self.replay(history).state.vertex.infoset
        if infoset is None or infoset.player != player:
            raise ValueError(
                f"{self.name}: player={player} does not act after history {tuple(history)!r}; expected a "
                "history at which it does"
            )
        return self._strings[player, infoset.number]

    def cuts(self) -> Mapping[str, CutRule]:
        """No named cuts."""
        return {}

    def root(self) -> Node:
        """The first node of the file."""
        nothing = (-1, -1)
        return self._arrive(_VertexAndPast(self._tree, (nothing, nothing)))

    def branches(self, node: Node) -> list[Branch]:
        """Actions in ascending id, or chance outcomes in the file's order."""
        infoset: _Infoset = node.state.vertex.infoset
        if infoset.player == _CHANCE_PLAYER:
            return [Branch((-1, -1, k), p) for k, p in enumerate(infoset.probabilities)]
        return [_choice(infoset, action) for action in infoset.edges]

    def find_branch(self, node: Node, move: Move) -> Branch | None:
        """Looks a move up by its index, since an infoset may have very many actions."""
        infoset: _Infoset = node.state.vertex.infoset
        if isinstance(move, tuple):
            return None
        if infoset.player != _CHANCE_PLAYER:
            return _choice(infoset, move) if move in infoset.edges else None
        is_legal = 0 <= move < len(infoset.probabilities)
        return Branch((-1, -1, move), infoset.probabilities[move]) if is_legal else None

    def child(self, node: Node, branch: Branch) -> Node:
        """Follows an edge of the file's tree."""
        position: _VertexAndPast = node.state
        infoset: _Infoset = node.state.vertex.infoset
        first, second, outcome = branch.action
        edge = outcome if outcome >= 0 else infoset.edges[max(first, second)]
        past = (
            (node.infostate[0], first) if first >= 0 else position.past[0],
            (node.infostate[1], second) if second >= 0 else position.past[1],
        )
        return self._arrive(_VertexAndPast(position.vertex.children[edge], past))

    def _arrive(self, position: _VertexAndPast) -> Node:
        infoset, total = position.vertex.infoset, position.vertex.total
        keys: list[Any] = [("after", position.past[0]), ("after", position.past[1])]
        actor = TERMINAL
        if infoset is not None:
            actor = CHANCE if infoset.player == _CHANCE_PLAYER else ACTOR_BIT[infoset.player]
            if actor != CHANCE:
                keys[infoset.player] = ("at", infoset.number)
        first, second = (ids.setdefault(key, len(ids)) for ids, key in zip(self._ids, keys, strict=True))
        return Node(position, actor, (first, second), (float(total[0]), float(total[1])))


def _read(path: str) -> str:
    try:
        return pathlib.Path(path).read_text(encoding="utf-8-sig")
    except OSError as error:
        raise ValueError(
            f"{path}: cannot be read: {error.strerror or error}; expected the path of a Gambit file"
        ) from error
    except UnicodeDecodeError as error:
        raise ValueError(
            f"{path}: not a text file in UTF-8 ({error.reason} at byte {error.start})"
        ) from error


def _choice(infoset: _Infoset, action: int) -> Branch:
    return Branch((action, -1, -1) if infoset.player == 0 else (-1, action, -1))


def _number_actions(root: _Vertex) -> list[str]:
    """Assigns action ids by name and returns the names; equal names within an infoset are numbered.

    Ids follow depth-first order and ascending ids within a node, so that writing the tree to a file and
    reading it again keeps them.
    """
    ids: dict[tuple[str, int], int] = {}
    waiting = [root]
    while waiting:
        vertex = waiting.pop()
        infoset, children = vertex.infoset, vertex.children
        if infoset is not None and infoset.player != _CHANCE_PLAYER:
            if not infoset.edges:
                seen: collections.Counter[str] = collections.Counter()
                own: list[tuple[int, int]] = []
                for edge, name in enumerate(infoset.actions):
                    seen[name] += 1
                    own.append((ids.setdefault((name, seen[name]), len(ids)), edge))
                infoset.edges = dict(sorted(own))
            children = [children[edge] for edge in infoset.edges.values()]
        waiting.extend(reversed(children))
    taken = {name for name, count in ids if count == 1}
    names: list[str] = []
    for name, count in ids:
        if count > 1 or not name:
            name = f"{name}#{count}"
            while name in taken:
                name += "#"
            taken.add(name)
        names.append(name)
    return names


def _infostate_strings(infosets: Sequence[_Infoset]) -> dict[tuple[int, int], str]:
    """Labels; `player:number` for infosets without a unique label, or with a label of that form."""
    labels = {(i.player, i.number): i.label for i in infosets if i.player != _CHANCE_PLAYER}
    uses = collections.Counter(labels.values())
    names = {key: label for key, label in labels.items() if label and uses[label] == 1}
    owner = {label: key for key, label in names.items()}
    unnamed = [key for key in labels if key not in names]
    while unnamed:
        player, number = unnamed.pop()
        names[player, number] = f"{player}:{number}"
        like = owner.pop(names[player, number], None)
        if like is not None:
            unnamed.append(like)
    return names


class _Parser:
    """Parses the tokens of a file, tracking the line for error messages."""

    def __init__(self, path: str, text: str):
        self._path = path
        self._text = text
        self._tokens = _TOKEN.finditer(text)
        self._last: re.Match[str] | None = None
        self._next = next(self._tokens, None)
        self._infosets: dict[tuple[int, int], _Infoset] = {}
        self._outcomes: dict[int, tuple[Fraction, Fraction]] = {0: (Fraction(0), Fraction(0))}

    def parse(self) -> tuple[str, _Vertex, list[_Infoset]]:
        """Returns the title, the tree and all infosets."""
        for word in ("EFG", "2"):
            self._expect(word, "an .efg file of version 2 starts with EFG 2 R")
        if self._take("R or D") not in ("R", "D"):
            raise self._error("expected R or D after EFG 2")
        title = self._string("the game's title")
        players = self._names("the players' names")
        if len(players) != 2:
            raise self._error(f"the game has {len(players)} players; expected 2")
        if self._peek().startswith('"'):
            self._string("a comment")
        root = self._vertex((Fraction(0), Fraction(0)))
        waiting = [root] if root.infoset else []
        while waiting:  # the file lists the nodes depth first
            above = waiting[-1]
            assert above.infoset is not None
            if len(above.children) == len(above.infoset.actions):
                waiting.pop()
                continue
            if len(waiting) >= MAX_LEVELS:
                raise self._error(
                    f"a history has more than {MAX_LEVELS:,} steps; expected at most {MAX_LEVELS:,}", 0
                )
            below = self._vertex(above.total)
            above.children.append(below)
            if below.infoset:
                waiting.append(below)
        if self._peek():
            raise self._error(
                f"expected the end of the file, as the tree is complete, got {self._shown_next()}", 0
            )
        return title, root, list(self._infosets.values())

    def _vertex(self, above: tuple[Fraction, Fraction]) -> _Vertex:
        kind = self._take("a node: c, p or t")
        if kind not in _KINDS:
            raise self._error(f"expected a node (c, p or t), got {_short.repr(kind)}")
        self._string(f"the {_KINDS[kind]} node's name")
        infoset = None if kind == "t" else self._infoset(kind)
        payoff = self._outcome()
        total = (above[0] + payoff[0], above[1] + payoff[1])
        if max(each.denominator for each in total) > _LARGEST_DENOMINATOR:
            raise self._error(
                f"the sum of the payoffs on the path to this node has more than {_MAX_DIGITS:,} digits; "
                "expected numbers with fewer"
            )
        return _Vertex(infoset, total)

    def _infoset(self, kind: str) -> _Infoset:
        player = _CHANCE_PLAYER
        if kind == "p":
            player = self._integer("the player's number", 1) - 1
            if player > 1:
                raise self._error(f"player number {player + 1}: expected 1 or 2")
        number = self._integer("the infoset's number", 1)
        label = self._string("a label") if self._peek().startswith('"') else ""
        previous = self._infosets.get((player, number))
        if previous is not None:
            previous.label = previous.label or label
        if self._peek() != "{":
            if previous is None:
                raise self._error(
                    f"expected the actions of infoset {number} in {{ }}, got {self._shown_next()}", 0
                )
            return previous
        actions, probabilities = self._actions(player)
        new = _Infoset(player, number, label, actions, probabilities)
        if previous is None:
            self._infosets[player, number] = new
            return new
        if (previous.actions, previous.probabilities) != (actions, probabilities):
            raise self._error(
                f"infoset {number} has different actions or probabilities at an earlier node: expected "
                f"{_short.repr(list(previous.actions))}, got {_short.repr(list(actions))}"
            )
        return previous

    def _actions(self, player: int) -> tuple[tuple[str, ...], tuple[float, ...]]:
        if player != _CHANCE_PLAYER:
            actions = tuple(self._names("the names of the actions"))
            probabilities: list[float] = []
        else:
            self._expect("{", "the chance actions and probabilities in { }")
            names: list[str] = []
            probabilities = []
            while self._peek() != "}":
                names.append(self._string("a chance action"))
                probabilities.append(float(self._number("a probability")))
            self._take("}")
            actions = tuple(names)
            total = math.fsum(probabilities)
            if actions and (min(probabilities) < 0 or abs(total - 1) > PROBABILITY_TOLERANCE):
                raise self._error(
                    f"chance probabilities sum to {total:.12g}; expected numbers >= 0 that sum to 1, "
                    "such as 1/3 for a third"
                )
        if not actions:
            raise self._error("a node that is not terminal has no actions; expected at least one")
        return actions, tuple(probabilities)

    def _outcome(self) -> tuple[Fraction, Fraction]:
        number = self._integer("the outcome's number", 0)
        if self._peek().startswith('"'):
            self._string("the outcome's name")
        if self._peek() != "{":
            if number not in self._outcomes:
                raise self._error(f"outcome {number} is not defined yet; expected its payoffs in {{ }}")
            return self._outcomes[number]
        self._take("{")
        payoffs: list[Fraction] = []
        while self._peek() != "}":
            payoffs.append(self._number("a payoff"))
            if self._peek() == ",":
                self._take(",")
        self._take("}")
        if len(payoffs) != 2:
            raise self._error(f"outcome {number} has {len(payoffs)} payoffs; expected 2, one for each player")
        payoff = (payoffs[0], payoffs[1])
        if self._outcomes.setdefault(number, payoff) != payoff:
            raise self._error(
                f"outcome {number} has different payoffs at an earlier node (outcome 0 pays 0); expected "
                "equal payoffs"
            )
        return payoff

    def _names(self, expected: str) -> list[str]:
        self._expect("{", f"{expected} in {{ }}")
        names: list[str] = []
        while self._peek() != "}":
            names.append(self._string(expected))
        self._take("}")
        return names

    def _peek(self) -> str:
        return self._next[0] if self._next else ""

    def _shown_next(self) -> str:
        return _short.repr(self._peek())

    def _take(self, expected: str) -> str:
        token = self._peek()
        if not token:
            raise self._error(f"the file ends where {expected} was expected", 0)
        self._last, self._next = self._next, next(self._tokens, None)
        return token

    def _expect(self, token: str, why: str) -> None:
        actual = self._take(why)
        if actual != token:
            raise self._error(f"expected {token!r} ({why}), got {_short.repr(actual)}")

    def _string(self, expected: str) -> str:
        token = self._take(expected)
        if not token.startswith('"'):
            raise self._error(f"expected {expected} in quotes, got {_short.repr(token)}")
        if len(token) == 1:
            raise self._error(f"unterminated quotes around {expected}")
        return re.sub(r"\\(.)", r"\1", token[1:-1], flags=re.DOTALL)

    def _integer(self, expected: str, low: int) -> int:
        token = self._take(expected)
        if not re.fullmatch(r"[0-9]{1,18}", token) or int(token) < low:
            raise self._error(
                f"expected {expected}, an integer of at least {low}, got {_short.repr(token)} (at most 18 "
                "digits)"
            )
        return int(token)

    def _number(self, expected: str) -> Fraction:
        token = self._take(expected)
        match = _NUMBER.fullmatch(token) if len(token) <= _MAX_DIGITS else None
        if match and abs(int(match["exponent"] or 0)) <= _MAX_DIGITS:
            try:
                value = Fraction(token)
            except ZeroDivisionError:
                value = None
            if value is not None and abs(value) <= LARGEST_RETURN:
                return value
        raise self._error(
            f"expected {expected}, such as 2, -0.5 or 1/3, got {_short.repr(token)} (at most "
            f"{LARGEST_RETURN:g} "
            f"in size, with at most {_MAX_DIGITS:,} digits)"
        )

    def _error(self, problem: str, back: int = 1) -> ValueError:
        """An error at the token before the next one (`back` 1) or at the next one."""
        token = (self._last or self._next) if back else (self._next or self._last)
        line = self._text.count("\n", 0, token.start() if token else 0) + 1
        return ValueError(f"{self._path}, line {line}: {problem}; correct the file")
