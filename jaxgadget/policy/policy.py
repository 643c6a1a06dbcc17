"""Policies of both players for a whole game, with lanes.

Plain NumPy in float64. Rows are in the order of the tree's infosets; files and OpenSpiel tables identify them
by infostate string.
"""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias, cast, runtime_checkable

import numpy as np
import pandas as pd

from jaxgadget.policy.openspiel import StatePolicy, row_reader, write_table
from jaxgadget.policy.tables import rows_of_dict, rows_of_frame
from jaxgadget.tree.history import HistoryTree, check_histories
from jaxgadget.tree.matching import places_in
from jaxgadget.tree.public import Tree, check_tree, match_sequences, other_layout, public_tree
from jaxgadget.util.arguments import check_whole_number, is_finite_number
from jaxgadget.util.arrays import FloatArray, IntArray
from jaxgadget.util.players import replaced
from jaxgadget.util.store import Format, find_format, read_archive, write_archive
from jaxgadget.util.viewers import Explorable

if TYPE_CHECKING:
    from open_spiel.python.policy import TabularPolicy

REMEDY = "write it again"
POLICY_FILE = Format(
    name="jaxgadget policy", version=2, noun="policy file", remedy=REMEDY, older=(1,), unsealed=(1,)
)
OLD_HANDS_FILE = Format(name="jaxgadget policy by hands", version=1, noun="policy file", remedy=REMEDY)
"""Format of policies by hands up to version 0.4."""

ROW_TOLERANCE = 1e-5
"""Maximum deviation from 1 of the sum of an infoset's probabilities."""


def _is_numbers(value: object) -> bool:
    return isinstance(value, np.ndarray) and value.dtype.kind in "fiu"


def _shown(value: object) -> str:
    """A value in an error, arrays by their shapes."""
    if isinstance(value, np.ndarray):
        return f"array of shape {value.shape}"
    if isinstance(value, tuple | list):
        return f"({', '.join(map(_shown, cast(Sequence[object], value)))})"
    return repr(value)


@dataclasses.dataclass(frozen=True, eq=False, repr=False)
class Policy(Explorable):
    """Policies of both players, one profile per lane.

    Attributes:
      tree: the game, by histories or by hands; `tree.infosets[p]` names the rows.
      probabilities: for both players `[Q, lanes]`, Q = `num_sequences - 1`: the probability of
        sequence `1 + q` at its infoset. Rows of an infoset sum to 1.
      labels: a name for every lane.
    """

    tree: Tree
    probabilities: tuple[FloatArray, FloatArray]
    labels: tuple[str, ...]

    def __repr__(self) -> str:
        shown = ", ".join(map(repr, self.labels[:3])) + (", …" if len(self.labels) > 3 else "")
        return f"<Policy of {self.tree.game.name}: {self.num_lanes} lane(s) {shown}>"

    def __post_init__(self) -> None:
        check_tree(self.tree)
        pair: Any = self.probabilities
        if not isinstance(pair, tuple) or len(pair) != 2 or not all(map(_is_numbers, pair)):
            raise ValueError(
                f"probabilities={_shown(pair)}: expected a pair of NumPy arrays, player 0's and player 1's, "
                "each [actions of all infosets, lanes]"
            )
        labels: Any = self.labels
        if not isinstance(labels, tuple) or not labels or not all(isinstance(label, str) for label in labels):
            raise ValueError(f"labels={_shown(labels)}: expected a tuple of names, one per lane")
        for player, rows in enumerate(self.probabilities):
            expected = (self.tree.infosets[player].num_sequences - 1, len(self.labels))
            if rows.shape != expected:
                raise ValueError(
                    f"policy of player {player} has shape {rows.shape}, expected {expected} (actions of all "
                    f"infosets of {self.tree.game.name}, lanes)"
                )
            _check_rows(self.tree, player, rows, self.labels)

    @property
    def num_lanes(self) -> int:
        """Number of profiles."""
        return len(self.labels)

    @property
    def histories(self) -> HistoryTree:
        """The tree of histories.

        Raises:
          ValueError: if the tree is by hands.
        """
        return check_histories(self.tree)

    # --- constructors -----------------------------------------------------------------

    @staticmethod
    def from_function(
        tree: Tree, row: Callable[[int, int, int], Sequence[float] | FloatArray], label: str
    ) -> Policy:
        """One lane from `row(player, infoset, num_actions)`; infosets are in the order of `infoset_names`."""
        check_tree(tree)
        parts: list[FloatArray] = []
        for player in (0, 1):
            counts = tree.infosets[player].num_actions.tolist()
            rows = [np.asarray(row(player, i, k), np.float64) for i, k in enumerate(counts)]
            for i, count in enumerate(counts):
                if rows[i].shape != (count,):
                    where = (
                        f"player {player} in infoset {tree.infoset_names[player][i]!r} of {tree.game.name}"
                    )
                    raise ValueError(f"policy of {where} has shape {rows[i].shape}, expected ({count},)")
            parts.append(np.concatenate([*rows, np.zeros(0)])[:, None])
        return Policy(tree, (parts[0], parts[1]), (label,))

    @staticmethod
    def uniform(tree: Tree) -> Policy:
        """Equal probabilities of all legal actions."""
        return Policy._by_width(tree, lambda k: np.full(k, 1 / k), "uniform")

    @staticmethod
    def geometric(tree: Tree, ratio: float) -> Policy:
        """The k-th legal action has probability ∝ ratio^k.

        Raises:
          ValueError: if the ratio is not a positive finite number.
        """
        if not is_finite_number(ratio) or ratio <= 0:
            raise ValueError(f"geometric ratio {ratio!r}: expected a positive number, such as 0.5")

        def row(k: int) -> FloatArray:
            weight = np.exp(np.log(ratio) * (np.arange(k) - (k - 1 if ratio > 1 else 0)))
            return weight / weight.sum()

        return Policy._by_width(tree, row, f"geometric:{ratio:g}")

    @staticmethod
    def _by_width(tree: Tree, row: Callable[[int], FloatArray], label: str) -> Policy:
        """One lane whose rows depend on the number of legal actions alone."""
        check_tree(tree)
        parts: list[FloatArray] = []
        for infosets in tree.infosets:
            owner = infosets.infoset[1:]
            width, slot = infosets.num_actions[owner], np.arange(len(owner))
            slot -= infosets.first_sequence[owner] - 1
            values = np.empty(len(owner))
            for k in np.unique(width).tolist():
                values[width == k] = row(k)[slot[width == k]]
            parts.append(values[:, None])
        return Policy(tree, (parts[0], parts[1]), (label,))

    @staticmethod
    def dirichlet(tree: Tree, seed: int, alpha: float = 1.0) -> Policy:
        """Independent Dirichlet(alpha) rows, reproducible from the seed.

        Drawn with NumPy's PCG64, player 0 then 1, infosets sorted by infostate string.

        Raises:
          ValueError: if alpha is not positive or the seed negative.
        """
        check_tree(tree)
        if not is_finite_number(alpha) or alpha <= 0:
            raise ValueError(f"dirichlet alpha {alpha!r}: expected a positive number, such as 1")
        seed = check_whole_number("seed", seed, 0)
        rng = np.random.Generator(np.random.PCG64(seed))
        drawn: dict[tuple[int, int], FloatArray] = {}
        for player in (0, 1):
            names = tree.infoset_names[player]
            counts = tree.infosets[player].num_actions
            for infoset in sorted(range(len(names)), key=names.__getitem__):
                drawn[player, infoset] = rng.dirichlet(np.full(int(counts[infoset]), alpha))
        label = f"dirichlet:{seed}" if alpha == 1 else f"dirichlet:{seed}:{alpha:g}"
        return Policy.from_function(tree, lambda p, i, k: drawn[p, i], label)

    @staticmethod
    def from_openspiel(tree: Tree, policy: TabularPolicy | StatePolicy, label: str = "openspiel") -> Policy:
        """Converts an OpenSpiel policy of the same game: a table, or any policy of states.

        An example is the `average_policy()` of an OpenSpiel solver, in Python or C++. The policy is called
        with one state of each infoset; infosets that share an infostate string in OpenSpiel get the same row.
        For games with simultaneous moves, policies of OpenSpiel's turn-based version are accepted, too.

        Raises:
          ImportError: if OpenSpiel is needed and not installed.
          ValueError: if the policy lacks an infoset, or OpenSpiel lacks the game.
        """
        check_tree(tree)
        return Policy.from_function(tree, row_reader(check_histories(tree), policy), label)

    @staticmethod
    def from_dict(tree: Tree, rows: Mapping[Any, Any], label: str = "dict") -> Policy:
        """One lane from a dictionary: infostate → probabilities.

        Args:
          tree: the game, by histories or by hands.
          rows: probabilities for every infoset of both players. A key is the infoset's name
            (`tree.infoset_names`), the game's own infostate string, for all infosets that share it, or
            `(player, name)` if both players have an infoset of that name. A value is a dictionary from action
            id to probability, in which zeros may be omitted, or a probability for each legal action in the
            order of ids.
          label: label of the lane.

        Raises:
          ValueError: if an infoset is missing, a key is unknown, a value is no distribution, or two keys of
            an infoset have different values.
        """
        check_tree(tree)
        first, second = rows_of_dict(tree, rows)
        return Policy(tree, (first[:, None], second[:, None]), (label,))

    @staticmethod
    def from_frame(tree: Tree, frame: pd.DataFrame) -> Policy:
        """The exact inverse of `to_frame`, with the same lanes in the same order.

        Args:
          tree: the game, by histories or by hands.
          frame: columns `lane`, `player`, `infostate`, `action` and `probability`, with one row for every
            lane, infostate and action, in any order; lanes are in the order of their first rows.

        Raises:
          ValueError: if a column is missing, a row is missing or duplicate (as with equal labels of lanes),
            an infostate or action is unknown, or probabilities of an infostate do not sum to 1.
        """
        check_tree(tree)
        probabilities, labels = rows_of_frame(tree, frame)
        return Policy(tree, probabilities, labels)

    @staticmethod
    def stack(policies: PolicyLike | Sequence[PolicyLike], *, tree: Tree | None = None) -> Policy:
        """Concatenates the lanes of several policies of one tree.

        Args:
          policies: one or several policies, as `as_policy` accepts them.
          tree: tree of the result, by default that of the first policy.

        Raises:
          ValueError: if there are none, or they belong to different trees.
        """
        if isinstance(policies, Policy) or not _is_several(policies):
            return as_policy(policies, tree)
        several = cast("Sequence[PolicyLike]", policies)
        if not several:
            raise ValueError("no policies to stack; expected at least one")
        trees = [policy.tree for policy in several if isinstance(policy, Policy)]
        tree = trees[0] if tree is None and trees else tree
        made = [as_policy(policy, tree) for policy in several]
        first, second = (np.concatenate([p.probabilities[i] for p in made], axis=1) for i in (0, 1))
        return Policy(made[0].tree, (first, second), tuple(label for p in made for label in p.labels))

    def on(self, tree: Tree) -> Policy:
        """The same policy for another tree of the same game, by histories (truncated or not) or by hands.

        Hands that are impossible in this tree but not in the other one play uniformly.

        Raises:
          ValueError: if the tree is of another game, or goes deeper than the policy's.
        """
        check_tree(tree)
        if tree is self.tree:
            return self
        name = "policy " + ", ".join(map(repr, self.labels[:1]))
        if not isinstance(self.tree, HistoryTree) or not isinstance(tree, HistoryTree):
            return self._on_other_layout(tree, name)
        whole_history = places_in(self.tree, tree, name)
        pair: list[FloatArray] = []
        for player, rows in enumerate(self.probabilities):
            infosets, own_infosets = tree.infosets[player], self.tree.infosets[player]
            same = self.tree.infoset[player, whole_history[infosets.history]]
            shift = own_infosets.first_sequence[same] - infosets.first_sequence
            taken = np.arange(infosets.num_sequences - 1) + shift[infosets.infoset[1:]]
            is_all = np.array_equal(taken, np.arange(len(rows)))
            pair.append(rows if is_all else rows[taken])
        return Policy(tree, (pair[0], pair[1]), self.labels)

    def _on_other_layout(self, tree: Tree, name: str) -> Policy:
        pair: list[FloatArray] = []
        uniform, matches = Policy.uniform(tree).probabilities, match_sequences(tree, self.tree, name)
        for rows, other, sequence in zip(self.probabilities, uniform, matches, strict=True):
            source = sequence[1:] - 1
            pair.append(np.where(source[:, None] >= 0, rows[source], other))
        return Policy(tree, (pair[0], pair[1]), self.labels)

    # --- reading and combining ----------------------------------------------------------------

    def lane(self, lane: int | str) -> Policy:
        """One lane, by number or label.

        Raises:
          ValueError: if there is no such lane, or several have the label.
        """
        if isinstance(lane, str):
            lanes = [k for k, label in enumerate(self.labels) if label == lane]
        else:
            lane = check_whole_number("lane", lane, -self.num_lanes)
            lanes = [k for k in (lane, lane + self.num_lanes) if 0 <= k < self.num_lanes]
        if len(lanes) != 1:
            problem = "is unknown" if not lanes else f"is the label of lanes {lanes}"
            raise ValueError(
                f"lane={lane!r} {problem}; expected a number below {self.num_lanes} or one of the labels "
                f"{list(self.labels)}"
            )
        return self.take_lanes(np.array(lanes))

    def take_lanes(self, lanes: IntArray) -> Policy:
        """A selection of lanes by number, possibly with repetition."""
        first, second = (rows[:, lanes] for rows in self.probabilities)
        return Policy(self.tree, (first, second), tuple(self.labels[lane] for lane in lanes.tolist()))

    def action_probabilities(
        self, infostate: str, lane: int | str = 0, *, player: int | None = None
    ) -> dict[int, float]:
        """Action id → probability at an infostate.

        Args:
          infostate: one of `tree.infoset_names`.
          lane: number or label of the lane.
          player: the player; required only if both players have an infostate of that name.

        Raises:
          ValueError: if there is no such infostate or lane; the message lists similar names.
        """
        player, infoset = self.tree.find_infoset(infostate, player)
        rows = self.lane(lane).probabilities[player][:, 0]
        infosets = self.tree.infosets[player]
        first = int(infosets.first_sequence[infoset])
        ids = range(first, first + int(infosets.num_actions[infoset]))
        return {int(infosets.action[q]): float(rows[q - 1]) for q in ids}

    def __getitem__(self, infostate: str | tuple[int, str]) -> dict[int, float]:
        """Action id → probability at an infostate of a policy with one lane: `policy["0pb"]`.

        Args:
          infostate: one of `tree.infoset_names`, or `(player, name)` if both players have that name.

        Raises:
          ValueError: if there is no such infostate, or the policy has several lanes; for these use
            `policy.lane(k)[…]` or `policy.action_probabilities(…, k)`.
        """
        key: Any = infostate
        player, name = (
            key if isinstance(key, tuple) and len(cast("tuple[Any, ...]", key)) == 2 else (None, key)
        )
        if not isinstance(name, str):
            raise ValueError(
                f"policy[{key!r}]: expected an infostate's name or (player, name); a lane is policy.lane(0)"
            )
        if self.num_lanes != 1:
            raise ValueError(
                f"policy[{key!r}]: the policy has {self.num_lanes} lanes {list(self.labels[:3])}; pick one "
                f"by policy.lane(0)[{key!r}], or policy.action_probabilities({name!r}, 0)"
            )
        return self.action_probabilities(name, player=player)

    def to_frame(self) -> pd.DataFrame:
        """One row for every lane, player, infostate and action."""
        frames: list[pd.DataFrame] = []
        for player in (0, 1):
            columns = self.tree.row_columns(player)
            actions = self.tree.infosets[player].action[1:]
            for lane, label in enumerate(self.labels):
                frames.append(
                    pd.DataFrame(
                        {
                            "lane": label,
                            "player": player,
                            **columns,
                            "action": actions,
                            "action_name": [
                                self.tree.game.action_string(player, a) for a in actions.tolist()
                            ],
                            "probability": self.probabilities[player][:, lane],
                        }
                    )
                )
        return pd.concat(frames, ignore_index=True)

    def reach(self, player: int) -> FloatArray:
        """`[num_sequences, lanes]` product of the player's own probabilities along each sequence."""
        infosets = self.tree.infosets[player]
        reach = np.ones((infosets.num_sequences, self.num_lanes))
        depth = infosets.depth[infosets.infoset[1:]]
        for level in range(int(depth.max(initial=-1)) + 1):
            rows = 1 + np.nonzero(depth == level)[0]
            above = infosets.parent[infosets.infoset[rows]]
            reach[rows] = reach[above] * self.probabilities[player][rows - 1]
        return reach

    def splice(self, player: int, infosets: IntArray, other: Policy) -> Policy:
        """This policy with a player's rows at some infosets replaced by those of `other`, lane by lane."""
        replaced = np.isin(self.tree.infosets[player].infoset[1:], infosets)
        rows = np.where(replaced[:, None], other.probabilities[player], self.probabilities[player])
        return dataclasses.replace(self.with_player(player, rows), labels=other.labels)

    def with_player(self, player: int, rows: FloatArray) -> Policy:
        """This policy with the given player's rows `[Q, lanes]` replaced."""
        return dataclasses.replace(self, probabilities=replaced(self.probabilities, player, rows))

    def to_openspiel(self, lane: int = 0) -> TabularPolicy:
        """The lane as an OpenSpiel `TabularPolicy` of the OpenSpiel game of the same name.

        Raises:
          ImportError: if OpenSpiel is not installed.
          ValueError: if there is no such lane, OpenSpiel has no such game, or several infosets share one of
            its strings.
        """
        return write_table(check_histories(self.tree), self.lane(lane).probabilities, 0)

    # --- files ------------------------------------------------------------------------

    def save(self, path: str | os.PathLike[str]) -> None:
        """Writes a `.npz` file, atomically.

        The file contains `header` (JSON: format, version, game, tree, labels, checksum) and for each player p
        the names of its rows and `probabilities_p` `[actions, lanes]` in their order. The names are, for
        histories, `infostates_p` (strings, sorted), `num_actions_p` and `actions_p` (ids, ascending in an
        infoset); by hands, `hands_p` (strings), `nodes_p` (public nodes) and `actions_p`, the actions at
        these nodes, and a row is an action at a node with a hand that is possible there.
        """
        header = {
            "game": self.tree.game.name,
            "tree": self.tree.layout,
            "labels": list(self.labels),
        }
        arrays: dict[str, Any] = {}
        for player in (0, 1):
            names, rows = self.tree.name_rows(player)
            arrays |= {f"{name}_{player}": array for name, array in names.items()}
            arrays[f"probabilities_{player}"] = self.probabilities[player][rows]
        write_archive(path, POLICY_FILE, header, arrays, compress=True)

    @staticmethod
    def load(path: str | os.PathLike[str], tree: Tree) -> Policy:
        """Reads a policy written by `save`.

        Raises:
          ValueError: if the file is not a policy, damaged, of another version, or of another game.
        """
        check_tree(tree)
        where = f"policy file {os.fspath(path)!r}"
        is_old = find_format(path) == OLD_HANDS_FILE.name
        header, arrays = _read(path, OLD_HANDS_FILE if is_old else POLICY_FILE)
        if is_old:
            return _load_old_hands(header, arrays, tree, where)
        layout = header.get("tree", "histories")
        if layout != tree.layout:
            return Policy.load(path, _other_layout(tree, layout, where)).on(tree)
        probabilities: list[FloatArray] = []
        for player in (0, 1):
            names, rows = tree.name_rows(player)
            same = header["game"] == tree.game.name and all(
                np.array_equal(arrays.get(f"{name}_{player}", ()), array) for name, array in names.items()
            )
            if not same:
                raise ValueError(
                    f"{where} is a policy of {header['game']!r}, not of {tree.game.name!r}; "
                    "load it with the game that it was written for"
                )
            stored = arrays[f"probabilities_{player}"]
            expected = (len(rows), len(header["labels"]))
            if stored.shape != expected or stored.dtype != np.float64:
                raise ValueError(
                    f"{where} is damaged: probabilities of player {player} have shape {stored.shape}, "
                    f"expected {expected}, and are {stored.dtype}, expected float64; {REMEDY}"
                )
            values = np.empty(stored.shape)
            values[rows] = stored
            probabilities.append(values)
        return _checked(tree, probabilities, header, where)


def _checked(tree: Tree, probabilities: Sequence[FloatArray], header: dict[str, Any], where: str) -> Policy:
    """Validates a policy read from a file; raises ValueError if its rows are not distributions."""
    try:
        return Policy(tree, (probabilities[0], probabilities[1]), tuple(header["labels"]))
    except ValueError as error:
        raise ValueError(f"{where} is damaged: {error}; {REMEDY}") from error


def _other_layout(tree: Tree, layout: str, where: str) -> Tree:
    """The tree of the same game that a file was written for."""
    other = other_layout(tree)
    if other is not None:
        return other
    raise ValueError(
        f"{where} is by {layout}; expected one by {tree.layout}: load it with enumerate_game(game), then "
        "convert it with policy.on(tree)"
    )


def _load_old_hands(header: dict[str, Any], arrays: dict[str, Any], tree: Tree, where: str) -> Policy:
    """A policy by hands of version 0.4 or earlier: `[actions at public nodes, hands, lanes]`."""
    if header["game"] != tree.game.name:
        raise ValueError(f"{where} is of {header['game']!r}; expected one of {tree.game.name!r}")
    public = public_tree(tree)
    probabilities: list[FloatArray] = []
    for player in (0, 1):
        sequence = public.sequence_to(player, np.flatnonzero(public.action[player] >= 0))
        stored = arrays[f"probabilities_{player}"]
        if stored.shape != (*sequence.shape, len(header["labels"])):
            raise ValueError(
                f"{where} is damaged: probabilities of player {player} have shape {stored.shape}, expected "
                f"{(*sequence.shape, len(header['labels']))}; {REMEDY}"
            )
        rows = np.empty((public.infosets[player].num_sequences - 1, stored.shape[2]))
        rows[sequence[sequence >= 0] - 1] = stored[sequence >= 0]
        probabilities.append(rows)
    return _checked(public, probabilities, header, where).on(tree)


@runtime_checkable
class TreePolicy(Protocol):
    """A policy of a game without a tree, such as a `NetworkPolicy`."""

    def on(self, tree: Tree) -> Policy:
        """The policy of a tree of the game; ValueError if it is of another game."""
        ...


PolicyLike: TypeAlias = "Policy | TreePolicy | TabularPolicy | StatePolicy | Mapping[Any, Any] | str"
"""Accepted forms of a policy: a `Policy`, a network, an OpenSpiel policy, a dictionary (`Policy.from_dict`),
or a SPEC."""


def as_policy(
    policy: PolicyLike | Sequence[PolicyLike],
    tree: Tree | None = None,
    *,
    name: str = "policy",
    label: str | None = None,
) -> Policy:
    """Converts a policy in any accepted form to a `Policy` of a tree.

    Args:
      policy: a `Policy`; a network, from `load_policy`; a SPEC of `make_blueprints`, such as `cfr+:100`; an
        OpenSpiel policy, which is any object with `action_probabilities(state)`; a dictionary from infostate
        to probabilities (`Policy.from_dict`); or several of these, which are stacked.
      tree: tree of the result; required unless the policy is a `Policy`, which may have another tree of the
        same game.
      name: name of the argument, for errors.
      label: label of the lane of a dictionary or an OpenSpiel policy; by default `dict` or `openspiel`.

    Raises:
      ValueError: if it is none of these, of another game, or the tree is missing.
      ImportError: if OpenSpiel is needed and not installed.
    """
    if isinstance(policy, Policy):
        return policy if tree is None else policy.on(tree)
    if _is_several(policy):
        several = cast("Sequence[PolicyLike]", policy)
        return Policy.stack(
            several if tree is None else [as_policy(each, tree, name=name, label=label) for each in several],
            tree=tree,
        )
    given: Any = policy
    if isinstance(given, type) or not (
        isinstance(given, Mapping | str | TreePolicy) or hasattr(given, "action_probabilities")
    ):
        shown = repr(given) if given is None else f"a {type(given).__name__}"
        hint = "; its average_policy() is one" if hasattr(given, "average_policy") else ""
        raise ValueError(
            f"{name}={shown}: expected a Policy, such as Policy.uniform(tree), solve(tree).policy or "
            "Policy.from_openspiel(tree, table); a network, from load_policy; the SPEC of a blueprint, such "
            f"as 'cfr+:100'; an OpenSpiel policy; or a dictionary from infostate to probabilities{hint}"
        )
    if tree is None:
        shown = "a dictionary" if isinstance(given, Mapping) else f"a {type(given).__name__}"
        shown = repr(given) if isinstance(given, str) else shown
        raise ValueError(
            f"{name} is {shown}, which has no tree; pass tree=…, or convert it to a Policy with "
            "as_policy(…, tree)"
        )
    if isinstance(given, str):
        from jaxgadget.policy.blueprints import make_blueprints

        return make_blueprints(tree, given, argument=name)
    try:
        if isinstance(given, TreePolicy):
            return given.on(tree)
        if isinstance(given, Mapping):
            return Policy.from_dict(tree, cast("Mapping[Any, Any]", given), label or "dict")
        return Policy.from_openspiel(tree, given, label or "openspiel")
    except ValueError as error:
        raise ValueError(f"{name}: {error}") from error


def _is_several(policy: object) -> bool:
    return isinstance(policy, Sequence) and not isinstance(policy, str)


def _read(path: str | os.PathLike[str], file: Format) -> tuple[dict[str, Any], dict[str, Any]]:
    """Header and arrays of a policy file, after all checks that do not depend on the game."""
    archive = read_archive(path, file)
    if archive is None:
        raise ValueError(f"{file.label(path)} does not exist")
    fields, arrays = archive
    labels = fields.get("labels")
    by_hands = file is OLD_HANDS_FILE or fields.get("tree") == "hands"
    names = ("probabilities",) if by_hands else ("infostates", "actions", "probabilities")
    parts = [f"{name}_{player}" for name in names for player in (0, 1)]
    missing = [part for part in parts if part not in arrays]
    named = isinstance(labels, list) and all(isinstance(label, str) for label in labels)
    if not isinstance(fields.get("game"), str) or not named or missing:
        raise file.damaged(path, ValueError(f"it lacks {missing or 'game or labels'}"))
    return fields, arrays


def _check_rows(tree: Tree, player: int, rows: FloatArray, labels: tuple[str, ...]) -> None:
    infosets = tree.infosets[player]
    if len(infosets) == 0:
        return
    total = np.add.reduceat(rows, infosets.first_sequence - 1, axis=0)
    bad = ~(np.abs(total - 1) <= ROW_TOLERANCE)
    negative = ~(rows >= 0)
    if negative.any():
        row, lane = np.argwhere(negative)[0].tolist()
        bad = np.zeros_like(bad)
        bad[infosets.infoset[1 + row], lane] = True
    if bad.any():
        infoset, lane = np.argwhere(bad)[0].tolist()
        first = int(infosets.first_sequence[infoset]) - 1
        values = rows[first : first + int(infosets.num_actions[infoset]), lane]
        raise ValueError(
            f"policy {labels[lane]!r} of player {player} at {tree.infoset_names[player][infoset]!r}: "
            f"{values.tolist()} is not a distribution; expected numbers >= 0 that sum to 1 within "
            f"{ROW_TOLERANCE}"
        )
