"""Blueprints by sampling, for games too large for full sweeps: MCCFR and public-chance sampling.

`external_sampling` is OpenSpiel's solver (Lanctot, Waugh, Zinkevich and Bowling 2009). Public-chance sampling
(Johanson, Bard, Lanctot, Gibson and Bowling 2012), which OpenSpiel lacks, samples public chance events and
sweeps over all private ones. This implementation alternates updates, as `cfr` does, and equals `cfr` in games
without public chance events.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from jaxgadget.core.solver import check_iterations
from jaxgadget.games.game import CHANCE, SIMULTANEOUS, TERMINAL
from jaxgadget.policy.openspiel import load_game, row_reader
from jaxgadget.policy.policy import Policy
from jaxgadget.tree.history import HistoryTree, check_whole
from jaxgadget.tree.matching import first_child
from jaxgadget.util.arguments import check_whole_number
from jaxgadget.util.arrays import FloatArray, IntArray
from jaxgadget.util.progress import progress_bar

LARGEST_SEED = 2**31 - 1
"""Maximum seed of OpenSpiel's solver."""


def external_sampling(
    tree: HistoryTree, counts: Sequence[int], *, seed: int = 0, progress: bool | None = None
) -> Policy:
    """Average policies of external-sampling MCCFR by OpenSpiel's C++ solver, several checkpoints of one run.

    An iteration is one sampled episode for each player. Infosets without visits are uniform. Games with
    simultaneous moves are solved in OpenSpiel's turn-based version.

    Args:
      tree: the game's histories.
      counts: numbers of iterations of the checkpoints, one lane each.
      seed: seed of the samples, which determines the policies.
      progress: as in `solve`.

    Raises:
      ImportError: if OpenSpiel is not installed.
      ValueError: if OpenSpiel does not have the game, or a number is out of range.
    """
    check_whole(tree)
    game = load_game(tree.game.name)
    import pyspiel

    if (tree.actor == SIMULTANEOUS).any():
        game = pyspiel.convert_to_turn_based(game)
    solver = pyspiel.ExternalSamplingMCCFRSolver(game, check_whole_number("seed", seed, 0, LARGEST_SEED))

    def look(label: str) -> Policy:
        return Policy.from_function(tree, row_reader(tree, solver.average_policy(), game), label)

    return _checkpoints("mccfr", counts, seed, solver.run_iteration, look, progress)


def public_chance_sampling(
    tree: HistoryTree, counts: Sequence[int], *, seed: int = 0, progress: bool | None = None
) -> Policy:
    """Average policies of CFR with public-chance sampling, several checkpoints of one run.

    In every iteration one outcome of each reached public chance event is sampled from its public
    distribution; values below are weighted by the inverse of its probability. A sample applies to all
    histories of one public state at which chance acts. If a player acts in the same public state, all of its
    actions are followed; an outcome without a public observation is one of the possible samples.

    Args:
      tree: the game's histories, with public states.
      counts: numbers of iterations of the checkpoints, one lane each.
      seed: seed of the samples, which determines the policies.
      progress: as in `solve`.

    Raises:
      ValueError: if the game does not define public states, or a number is out of range.
    """
    check_whole(tree)
    if tree.public is None:
        raise ValueError(
            f"{tree.game.name} does not define public states, which public-chance sampling requires; "
            "expected a game such as leduc_poker, or another blueprint: mccfr:N, cfr:N"
        )
    solver = _PublicChance(tree, check_whole_number("seed", seed, 0, LARGEST_SEED))
    return _checkpoints("pcs", counts, seed, solver.run_iteration, solver.average, progress)


def _checkpoints(
    name: str,
    counts: Sequence[int],
    seed: int,
    run_iteration: Callable[[], None],
    look: Callable[[str], Policy],
    progress: bool | None,
) -> Policy:
    last = max(check_iterations(count) for count in counts)
    requested, ending = set(counts), f":{seed}" if seed else ""
    by_count: dict[int, Policy] = {}
    with progress_bar(name, last, progress) as report:
        for done in range(1, last + 1):
            run_iteration()
            if done in requested:
                by_count[done] = look(f"{name}:{done}{ending}")
            report(done)
    return Policy.stack([by_count[count] for count in counts])


class _PublicChance:
    """CFR on a sample of public chance; arrays are indexed by the tree's sequences and histories."""

    def __init__(self, tree: HistoryTree, seed: int):
        self.tree = tree
        self._rng = np.random.Generator(np.random.PCG64(seed))
        self._first_child = first_child(tree, np.arange(tree.num_histories + 1))
        self._events = _public_events(tree)
        sizes = [infosets.num_sequences for infosets in tree.infosets]
        self._regret = [np.zeros(size) for size in sizes]
        self._sum = [np.zeros(size) for size in sizes]
        self._strategy = [np.append(1.0, rows[:, 0]) for rows in Policy.uniform(tree).probabilities]
        self._gradient = [np.zeros(size) for size in sizes]
        self._reach = [np.ones(size) for size in sizes]

    def run_iteration(self) -> None:
        """Samples public chance and updates both players in turn."""
        tree = self.tree
        histories, weight = self._sample()
        ends = tree.actor[histories] == TERMINAL
        terminals, payoff = histories[ends], weight[ends] * tree.payoff[histories[ends]]
        levels = [self._levels(player, histories) for player in (0, 1)]
        for player in (0, 1):
            for infosets, rows, owner in levels[player]:
                above = self._reach[player][tree.infosets[player].parent[infosets]]
                self._reach[player][rows] = above[owner] * self._strategy[player][rows]
        for player, sign in ((0, 1.0), (1, -1.0)):
            own, other = tree.sequence[player, terminals], tree.sequence[1 - player, terminals]
            np.add.at(self._gradient[player], own, sign * payoff * self._reach[1 - player][other])
            self._update(player, levels[player])

    def average(self, label: str) -> Policy:
        """The current average policy; uniform at infosets without visits."""
        pair: list[FloatArray] = []
        for total, infosets in zip(self._sum, self.tree.infosets, strict=True):
            mass = np.bincount(infosets.infoset[1:], total[1:], len(infosets))[infosets.infoset[1:]]
            share = 1 / infosets.num_actions[infosets.infoset[1:]]
            pair.append(np.where(mass > 0, total[1:] / np.where(mass > 0, mass, 1), share)[:, None])
        return Policy(self.tree, (pair[0], pair[1]), (label,))

    def _sample(self) -> tuple[IntArray, FloatArray]:
        """The sampled histories, ascending, and chance's reach of each divided by that of the sample."""
        tree = self.tree
        assert tree.public is not None
        level, weight = np.zeros(1, np.int64), np.ones(1)
        histories, weights = [level], [weight]
        while len(level):
            begin, end = self._first_child[level], self._first_child[level + 1]
            parent = np.repeat(np.arange(len(level)), end - begin)
            child = np.arange(len(parent)) + (begin - np.cumsum(end - begin) + (end - begin))[parent]
            share = np.divide(
                tree.chance[child],
                tree.chance[level[parent]],
                out=np.zeros(len(child)),
                where=tree.chance[level[parent]] > 0,
            )
            public, is_chance = tree.public[level], tree.actor[level] == CHANCE
            sampled = share > 0
            for state in np.unique(public[is_chance]).tolist():
                if state in self._events:
                    outcomes, probability = self._events[state]
                    drawn = self._rng.choice(len(outcomes), p=probability)
                    below = ((public == state) & is_chance)[parent]
                    sampled &= ~below | (tree.public[child] == outcomes[drawn])
                    share = np.where(below, share / probability[drawn], share)
            level, weight = child[sampled], (weight[parent] * share)[sampled]
            histories.append(level)
            weights.append(weight)
        return np.concatenate(histories), np.concatenate(weights)

    def _levels(self, player: int, histories: IntArray) -> list[tuple[IntArray, IntArray, IntArray]]:
        """A player's sampled infosets by depth: infosets, their sequences, and the infoset index of each."""
        infosets, visited = self.tree.infosets[player], self.tree.infoset[player, histories]
        inside = np.unique(visited[visited >= 0])
        levels: list[tuple[IntArray, IntArray, IntArray]] = []
        for depth in np.unique(infosets.depth[inside]).tolist():
            at_depth = inside[infosets.depth[inside] == depth]
            count = infosets.num_actions[at_depth]
            owner = np.repeat(np.arange(len(at_depth)), count)
            slot = np.arange(len(owner)) - (np.cumsum(count) - count)[owner]
            levels.append((at_depth, infosets.first_sequence[at_depth][owner] + slot, owner))
        return levels

    def _update(self, player: int, levels: list[tuple[IntArray, IntArray, IntArray]]) -> None:
        """Updates a player's regrets and average, then its strategy and reach, from its sequences' values."""
        infosets, gradient, regret = self.tree.infosets[player], self._gradient[player], self._regret[player]
        strategy, reach = self._strategy[player], self._reach[player]
        for inside, rows, owner in reversed(levels):
            self._sum[player][rows] += reach[rows]
            value = np.bincount(owner, strategy[rows] * gradient[rows], len(inside))
            np.add.at(gradient, infosets.parent[inside], value)
            regret[rows] += gradient[rows] - value[owner]
            gradient[rows] = 0
        gradient[0] = 0
        for inside, rows, owner in levels:
            positive = np.maximum(regret[rows], 0)
            total = np.bincount(owner, positive, len(inside))[owner]
            uniform = 1 / infosets.num_actions[inside][owner]
            strategy[rows] = np.where(total > 0, positive / np.where(total > 0, total, 1), uniform)
            reach[rows] = reach[infosets.parent[inside]][owner] * strategy[rows]


def _public_events(tree: HistoryTree) -> dict[int, tuple[IntArray, FloatArray]]:
    """Public states with a public chance event: the following public states and their probabilities."""
    assert tree.public is not None
    below = 1 + np.nonzero(tree.actor[tree.parent[1:]] == CHANCE)[0]
    pairs = np.stack([tree.public[tree.parent[below]], tree.public[below]])
    unique, pair_idx = np.unique(pairs, axis=1, return_inverse=True)
    mass = np.bincount(pair_idx.ravel(), tree.chance[below], unique.shape[1])
    events: dict[int, tuple[IntArray, FloatArray]] = {}
    for state in np.unique(unique[0]).tolist():
        is_outcome = (unique[0] == state) & (mass > 0)
        if is_outcome.sum() > 1:
            events[state] = unique[1, is_outcome], mass[is_outcome] / mass[is_outcome].sum()
    return events
