"""Local best response in poker: one action of lookahead, then calling to the showdown.

Lisý and Bowling 2017, "Equilibrium approximation quality of current no-limit poker bots". At each own
decision the player derives the opponent's range from the model by Bayes' rule and takes the best of three
estimates, all relative to folding:

- call: `wp·pot − (1 − wp)·asked`, where `wp` is the probability of winning without further bets;
- raise by b: `fp·pot + (1 − fp)·(wp'·(pot + b) − (1 − wp')·(asked + b))`, where the model folds with
  probability `fp`, and `wp'` is `wp` against the hands that do not fold;
- fold: 0.

Ties count half. The result is not a lower bound and may even be negative. Re-raises are ignored, so that a
depth-limited best response with call-down values (`ExactValues(call_down(tree))`) differs. Folding without a
bet to answer, which some games allow, is not considered.
"""

from __future__ import annotations

import itertools

import numpy as np

from jaxgadget.games.game import CHANCE, TERMINAL
from jaxgadget.policy.policy import Policy, PolicyLike, as_policy
from jaxgadget.tree.history import HistoryTree, check_whole
from jaxgadget.util.arguments import check_player
from jaxgadget.util.arrays import BoolArray, FloatArray, IntArray
from jaxgadget.util.players import sign_of

ACTIONS = ("Fold", "Call", "Raise")
"""Names of poker actions."""


def call_down(tree: HistoryTree) -> Policy:
    """The policy of both players that always calls or checks.

    Raises:
      ValueError: if the game's actions are not fold, call and raise.
    """
    call = _action_ids(tree)[1]

    def row(player: int, infoset: int, count: int) -> FloatArray:
        infosets = tree.infosets[player]
        first = int(infosets.first_sequence[infoset])
        return (infosets.action[first : first + count] == call).astype(np.float64)

    return Policy.from_function(tree, row, "call-down")


def is_poker(tree: HistoryTree) -> bool:
    """True if the game's actions are fold, call and raise."""
    return set(_action_names(tree)) == set(ACTIONS)


def local_best_response(model: PolicyLike, player: int, *, tree: HistoryTree | None = None) -> Policy:
    """Replaces a player's rows by a local best response to the other player's, lane by lane.

    Args:
      model: the opponent's policies, one per lane; with a tree, anything that `as_policy` accepts.
      player: the responding player, 0 or 1.
      tree: the game's histories; by default the model's.

    Returns:
      The policies; the player's rows are pure. At histories that the model never reaches, its range is that
      of the deal.

    Raises:
      ValueError: if the game's actions are not fold, call and raise (Leduc poker of any size has them).
    """
    check_player(player)
    model = as_policy(model, tree, name="model")
    tree = model.histories
    check_whole(tree)
    fold, call, raised = _action_ids(tree)
    other, infosets = 1 - player, tree.infosets[player]
    acts = np.nonzero(tree.infoset[player] >= 0)[0]
    infoset = tree.infoset[player, acts]
    wins, stake = _called_down(tree, call)
    reach = model.reach(other)
    dealt = tree.chance[acts, None] * np.ones(model.num_lanes)
    weight = dealt * reach[tree.sequence[other, acts]]
    came = _by_infoset(infoset, weight, len(infosets)) > 0
    weight = np.where(came[infoset], weight, dealt)

    folded, called, raising = (_child(tree, player, acts, action) for action in (fold, call, raised))
    ends = (folded >= 0) & (tree.actor[folded] == TERMINAL)
    paid = np.where(ends, -_payoff(tree, player)[folded], stake[acts])  # loss by folding
    price = _largest(infoset, np.where(called >= 0, stake[acts], 0), len(infosets))  # the stake if called
    to_call = price - _largest(infoset, paid, len(infosets))
    pot = 2 * price - to_call
    win = _win(infoset, weight, wins[acts, player], len(infosets))
    call_value = win * pot[:, None] - (1 - win) * to_call[:, None]

    answer = _child(tree, other, np.maximum(raising, 0), fold)
    can_fold = (raising >= 0) & (answer >= 0) & (tree.actor[np.maximum(answer, 0)] == TERMINAL)
    fold_row = tree.sequence[other, np.maximum(answer, 0)] - 1
    folds = np.where(can_fold[:, None], model.probabilities[other][np.maximum(fold_row, 0)], 0.0)
    total = _by_infoset(infoset, weight, len(infosets))
    fold_share = _by_infoset(infoset, weight * folds, len(infosets)) / np.where(total > 0, total, 1)
    stays = _win(infoset, weight * (1 - folds), wins[np.maximum(raising, 0), player], len(infosets))
    by = _largest(infoset, np.where(raising >= 0, stake[np.maximum(raising, 0)], 0), len(infosets)) - price
    raise_value = fold_share * pot[:, None] + (1 - fold_share) * (
        stays * (pot + by)[:, None] - (1 - stays) * (to_call + by)[:, None]
    )
    may_fold = _largest(infoset, ends.astype(np.float64), len(infosets)) > 0
    values = {
        fold: np.where(may_fold[:, None], 0.0, -np.inf) * np.ones_like(call_value),
        call: call_value,
        raised: np.where((by > 0)[:, None], raise_value, -np.inf),
    }
    best = _best_rows(tree, player, values)
    pair = list(model.probabilities)
    pair[player] = best
    return Policy(tree, (pair[0], pair[1]), tuple(f"lbr:{label}" for label in model.labels))


def _action_ids(tree: HistoryTree) -> tuple[int, int, int]:
    """The ids of fold, call and raise; raises ValueError if a decision has other actions."""
    check_whole(tree)
    ids = _action_names(tree)
    if set(ids) != set(ACTIONS):
        raise ValueError(
            f"{tree.game.name} has the actions {', '.join(sorted(ids)) or 'none'}; expected a poker game "
            f"with {', '.join(ACTIONS)}, such as leduc_poker of any size"
        )
    fold, call, raised = (ids[name] for name in ACTIONS)
    return fold, call, raised


def _action_names(tree: HistoryTree) -> dict[str, int]:
    """The ids of all actions that players can take, by name."""
    return {
        tree.game.action_string(player, action): action
        for player in (0, 1)
        for action in np.unique(tree.infosets[player].action[1:]).tolist()
    }


def _called_down(tree: HistoryTree, call: int) -> tuple[FloatArray, FloatArray]:
    """Results of calling down from every history.

    Returns:
      `[n, 2]` both players' probability of winning, ties counted half; and `[n]` each player's payment.
    """
    wins, stake = np.zeros((tree.num_histories, 2)), np.abs(tree.payoff).astype(np.float64)
    ends = tree.terminals
    sign = np.sign(tree.payoff[ends])
    wins[ends] = np.stack([0.5 + sign / 2, 0.5 - sign / 2], axis=1)
    for begin, end in reversed(list(itertools.pairwise(tree.level_offset[1:].tolist()))):
        above = tree.parent[begin:end]
        by_chance = tree.actor[above] == CHANCE
        share = tree.chance[begin:end] / np.where(tree.chance[above] > 0, tree.chance[above], 1)
        moved = tree.action[:2, begin:end].max(axis=0)
        weight = np.where(by_chance, share, moved == call)
        np.add.at(wins, above, weight[:, None] * wins[begin:end])
        np.maximum.at(stake, above, np.where(weight > 0, stake[begin:end], 0))
    return wins, stake


def _child(tree: HistoryTree, player: int, histories: IntArray, action: int) -> IntArray:
    """`[H]` the history after a player's action, -1 if the player does not act or lacks the action."""
    after = np.nonzero(tree.action[player] == action)[0]
    child = np.full(tree.num_histories, -1)
    child[tree.parent[after]] = after
    return child[histories]


def _payoff(tree: HistoryTree, player: int) -> FloatArray:
    return sign_of(player) * tree.payoff


def _by_infoset(infoset: IntArray, x: FloatArray, count: int) -> FloatArray:
    """Sums over histories: `[H, L]` → `[I, L]`."""
    total = np.zeros((count, x.shape[1]))
    np.add.at(total, infoset, x)
    return total


def _largest(infoset: IntArray, x: FloatArray, count: int) -> FloatArray:
    """`[I]` maximum of `[H]` numbers ≥ 0; a stake is known only from histories whose cards do not tie."""
    most = np.zeros(count)
    np.maximum.at(most, infoset, x)
    return most


def _win(infoset: IntArray, weight: FloatArray, wins: FloatArray, count: int) -> FloatArray:
    """`[I, L]` probability of winning against a range, ½ if it is empty."""
    total = _by_infoset(infoset, weight, count)
    won = _by_infoset(infoset, weight * wins[:, None], count)
    return np.where(total > 0, won / np.where(total > 0, total, 1), 0.5)


def _best_rows(tree: HistoryTree, player: int, values: dict[int, FloatArray]) -> FloatArray:
    """`[Q, L]` the first best action at every infoset, given the values `[I, L]` of every action."""
    infosets = tree.infosets[player]
    owner, action = infosets.infoset[1:], infosets.action[1:]
    worth = np.stack([values[int(a)][i] for a, i in zip(action, owner, strict=True)])
    most = np.full((len(infosets), worth.shape[1]), -np.inf)
    np.maximum.at(most, owner, worth)
    is_best: BoolArray = worth == most[owner]
    before = np.cumsum(is_best, axis=0) - is_best
    first = infosets.first_sequence - 1
    return (is_best & (before == before[first][owner])).astype(np.float64)
