"""Portfolios: K strategies for the rest of the game, from which a player chooses at a depth limit.

A portfolio is a `Policy` with K lanes: player p's entry k is lane k of `probabilities[p]`, and entry 0 is the
blueprint. The two players choose their entries independently, so a lane is not a profile.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple, TypeAlias

import numpy as np

from jaxgadget.core.solver import MAX_ITERATIONS
from jaxgadget.policy.blueprints import make_blueprints
from jaxgadget.policy.evaluate import best_response, normalise_rows
from jaxgadget.policy.policy import Policy, PolicyLike, as_policy
from jaxgadget.policy.solve import cfr_checkpoints
from jaxgadget.tree.history import HistoryTree, check_whole
from jaxgadget.util.arguments import check_whole_number, is_finite_number, read_number
from jaxgadget.util.arrays import BoolArray, FloatArray

SIZE = 10
"""Default K; the refinement paper's value."""
FACTOR = 10.0
"""Default factor of a biased action class; Brown, Sandholm and Amos's value."""
CHECKPOINT_ITERATIONS = 1000
"""Length of the run of CFR+ whose averages are `checkpoints`."""

FORMS = "blueprint, biased[:FACTOR], checkpoints[:ITERATIONS], draws[:ALPHA] or best-responses"
"""Forms of an entry."""
DEFAULT_ENTRIES = ("blueprint", "biased", "best-responses")
"""Entries determined by the blueprint and the rules alone."""

Entry: TypeAlias = tuple[str, FloatArray]
"""A player's continuation strategy: its label, and `[Q]` its probabilities."""


class _Kind(NamedTuple):
    """A parsed entry spec: the kind before the colon, and the number (0 if it takes none)."""

    name: str
    number: float


NUMBERS = {
    "blueprint": None,
    "biased": FACTOR,
    "checkpoints": float(CHECKPOINT_ITERATIONS),
    "draws": 1.0,
    "best-responses": None,
}
"""Kinds of entries, before the colon, and the default number of each."""


def make_portfolio(
    blueprint: PolicyLike,
    entries: Sequence[str] = DEFAULT_ENTRIES,
    *,
    size: int = SIZE,
    seed: int = 0,
    progress: bool | None = None,
    tree: HistoryTree | None = None,
) -> Policy:
    """Creates a portfolio of exactly `size` entries for each player from a blueprint.

    The kinds fill the slots after the blueprint in turn, one each, until all slots are filled; an exhausted
    kind is skipped. Entries are in the order of `entries`:

    - `blueprint`: always first.
    - `biased[:FACTOR]`: for every action class the blueprint with the class's probabilities times FACTOR, by
      default 10, renormalised (Brown, Sandholm and Amos 2018). A class is an action id of the game; if there
      are more ids than slots, neighbouring ids are grouped evenly into as many classes as slots, at least
      two. Ids that are never an alternative to others for a player are omitted for that player.
    - `checkpoints[:ITERATIONS]`: averages of one run of CFR+ on the whole game, by default of 1,000
      iterations, after numbers of iterations that grow by a constant factor up to the last.
    - `draws[:ALPHA]`: Dirichlet(ALPHA) rows, by default uniform on the simplex.
    - `best-responses`: in sequence, each a pure best response in the whole game to the uniform mixture of the
      other player's entries so far, from which one entry is drawn before play.

    The default entries depend on the blueprint and the rules alone. Best responses matter most: nested search
    with exact leaves on Goofspiel 4 and Liar's Dice 1×4 was nearly always more exploitable with draws in
    their place. Checkpoints are omitted because late ones are nearly equilibria, which makes the search
    independent of the blueprint's quality; add them if the game can be solved and this is desired.

    Args:
      blueprint: a policy of one lane; with a tree, anything that `as_policy` accepts.
      entries: specs as above, each at most once.
      size: K; 1 is the blueprint alone.
      seed: seed of the draws, an integer ≥ 0.
      progress: as in `solve`.
      tree: the blueprint's tree; required unless the blueprint has one.

    Returns:
      A policy with `size` lanes; a label names both players' entries if they differ.

    Raises:
      ValueError: if an argument is out of range, the blueprint has several lanes, a spec is unknown, or the
        kinds cannot fill all slots.
    """
    blueprint = as_policy(blueprint, tree, name="blueprint")
    check_whole(blueprint.tree)
    if blueprint.num_lanes != 1:
        raise ValueError(
            f"blueprint has {blueprint.num_lanes} lanes {list(blueprint.labels[:3])}: expected one, such as "
            "blueprint.lane(0)"
        )
    size = check_whole_number("size", size, 1)
    entry_kinds, seed = _parse(entries), check_whole_number("seed", seed, 0)
    entry_counts = [_entry_counts(blueprint.histories, player, entry_kinds, size - 1) for player in (0, 1)]
    made: tuple[list[Entry], list[Entry]] = ([], [])
    for player in (0, 1):
        made[player].append((f"blueprint {blueprint.labels[0]}", blueprint.probabilities[player][:, 0]))
    for kind, *counts in zip(entry_kinds, *entry_counts, strict=True):
        new = _make(blueprint, kind, (counts[0], counts[1]), made, seed, progress)
        for player in (0, 1):
            made[player].extend(new[player])
    first, second = (np.stack([rows for _, rows in made[player]], axis=1) for player in (0, 1))
    names = zip(*([name for name, _ in made[player]] for player in (0, 1)), strict=True)
    return Policy(blueprint.tree, (first, second), tuple(a if a == b else f"{a} | {b}" for a, b in names))


def biased(policy: Policy, actions: Sequence[int], factor: float = FACTOR) -> Policy:
    """Multiplies the probabilities of some actions and renormalises the rows, in all lanes.

    Args:
      policy: the policy to bias, for both players.
      actions: action ids; infosets with none of them, or with no others, are unchanged.
      factor: positive; a factor below 1 makes the actions less likely.

    Raises:
      ValueError: if the factor is not a positive number.
    """
    policy = as_policy(policy)
    if not is_finite_number(factor) or factor <= 0:
        raise ValueError(f"factor={factor!r}: expected a positive number, such as {FACTOR:g}")
    pair: list[FloatArray] = []
    for player, rows in enumerate(policy.probabilities):
        infosets = policy.tree.infosets[player]
        weight = np.where(np.isin(infosets.action[1:], np.asarray(actions, int)), factor, 1.0)
        changed = normalise_rows(rows * weight[:, None], infosets.infoset[1:])
        pair.append(np.where(_tilts(policy.histories, player, actions)[:, None], changed, rows))
    labels = tuple(f"{label} biased to {_ids(actions)}" for label in policy.labels)
    return Policy(policy.tree, (pair[0], pair[1]), labels)


def _parse(entries: object) -> list[_Kind]:
    """Parses entry specs, except `blueprint`, which comes first."""
    if isinstance(entries, str) or not isinstance(entries, Sequence):
        raise ValueError(f"entries={entries!r}: expected a list of {FORMS}")
    entry_kinds: list[_Kind] = []
    for text in entries:
        name, colon, rest = text.partition(":") if isinstance(text, str) else ("", "", "")
        if name not in NUMBERS:
            own = isinstance(text, Policy)
            more = "; append your own policies by Policy.stack([make_portfolio(…), policy])" if own else ""
            raise ValueError(f"entries: {text!r} is unknown; expected {FORMS}{more}")
        usual = NUMBERS[name]
        if colon and usual is None:
            raise ValueError(f"entries: {text!r} takes no number; expected {name!r}")
        entry_kinds.append(_Kind(name, _number(text, rest) if colon else usual or 0.0))
    repeated = next((kind.name for i, kind in enumerate(entry_kinds) if kind in entry_kinds[:i]), None)
    if repeated is not None:
        raise ValueError(f"entries={entries!r}: duplicate {repeated!r}; expected it once")
    if not entry_kinds or entry_kinds[0].name != "blueprint":
        raise ValueError(f"entries={entries!r}: expected 'blueprint' first")
    return entry_kinds[1:]


def _number(text: str, rest: str) -> float:
    """Parses the number after the colon of an entry spec."""
    value = read_number(rest)
    if value is None or not value > 0:
        raise ValueError(f"entries: {text!r} has {rest!r}, expected a positive number, such as {FACTOR:g}")
    if text.startswith("checkpoints") and (value != int(value) or value > MAX_ITERATIONS):
        raise ValueError(
            f"entries: {text!r} has {rest!r}, expected a whole number of iterations up to {MAX_ITERATIONS}"
        )
    return value


def _entry_counts(tree: HistoryTree, player: int, entry_kinds: Sequence[_Kind], wanted: int) -> list[int]:
    """Number of entries of each kind for a player, assigned in turn until exhausted."""
    most = [_most_entries(tree, player, kind) for kind in entry_kinds]
    counts = [0] * len(entry_kinds)
    while sum(counts) < wanted:
        giving = [number for number in range(len(entry_kinds)) if counts[number] < most[number]]
        if not giving:
            raise ValueError(
                f"size={wanted + 1}: the blueprint and {[kind.name for kind in entry_kinds]} yield only "
                f"{sum(counts) + 1} entries for player {player} of {tree.game.name}; add 'draws' or "
                "'best-responses', or lower the size"
            )
        for number in giving[: wanted - sum(counts)]:
            counts[number] += 1
    return counts


def _most_entries(tree: HistoryTree, player: int, kind: _Kind) -> float:
    """Maximum number of entries of a kind for a player."""
    if kind.name == "biased":
        return len(_own_ids(tree, player))
    return kind.number if kind.name == "checkpoints" else math.inf


def _make(
    blueprint: Policy,
    kind: _Kind,
    counts: tuple[int, int],
    made: tuple[list[Entry], list[Entry]],
    seed: int,
    progress: bool | None,
) -> tuple[list[Entry], list[Entry]]:
    """Creates the given number of entries of a kind for each player, after the existing entries."""
    if not any(counts):
        return [], []
    tree = blueprint.tree
    if kind.name == "best-responses":
        return _best_responses(blueprint, counts, made)
    if kind.name == "biased":
        first, second = (_biased(blueprint, player, counts[player], kind.number) for player in (0, 1))
        return first, second
    if kind.name == "draws":
        policy = make_blueprints(tree, f"draws:{max(counts)}:{kind.number!r}", seed=seed)
        lanes = [list(range(count)) for count in counts]
    else:  # both players' checkpoints are from one run
        iterations = [_geometric_counts(int(kind.number), count) for count in counts]
        together = sorted({*iterations[0], *iterations[1]})
        policy = cfr_checkpoints(tree, together, algorithm="cfr+", progress=progress)
        lanes = [[together.index(number) for number in numbers] for numbers in iterations]
    first, second = (
        [(policy.labels[lane], policy.probabilities[player][:, lane]) for lane in lanes[player]]
        for player in (0, 1)
    )
    return first, second


def _biased(blueprint: Policy, player: int, count: int, factor: float) -> list[Entry]:
    entries: list[Entry] = []
    for ids in _classes(blueprint.histories, player, count):
        rows = biased(blueprint, ids, factor).probabilities[player][:, 0]
        entries.append((f"biased:{factor:g} to {_ids(ids)}", rows))
    return entries


def _classes(tree: HistoryTree, player: int, count: int) -> list[tuple[int, ...]]:
    """Up to `count` action classes of a player, each of which has alternatives at some infoset."""
    ids = _own_ids(tree, player)
    if count >= len(ids):
        return [(action,) for action in ids]
    groups = [tuple(part.tolist()) for part in np.array_split(np.asarray(ids), max(count, 2))][:count]
    if all(_tilts(tree, player, group).any() for group in groups):
        return groups
    return [(ids[number],) for number in np.linspace(0, len(ids) - 1, count).round().astype(int)]


def _own_ids(tree: HistoryTree, player: int) -> list[int]:
    """Ids of actions that are not forced at some infoset of a player, ascending."""
    infosets = tree.infosets[player]
    chosen = infosets.num_actions[infosets.infoset[1:]] > 1
    return np.unique(infosets.action[1:][chosen]).tolist()


def _tilts(tree: HistoryTree, player: int, actions: Sequence[int]) -> BoolArray:
    """`[Q]` mask of rows whose infoset has both some of the given actions and other ones."""
    infosets = tree.infosets[player]
    inside = np.isin(infosets.action[1:], np.asarray(actions, int))
    count = np.bincount(infosets.infoset[1:], weights=inside, minlength=len(infosets))
    return ((count > 0) & (count < infosets.num_actions))[infosets.infoset[1:]]


def _ids(actions: Sequence[int]) -> str:
    """Action ids in a label: `3`, `2-4` or `0,3`."""
    ids = [int(action) for action in actions]
    if len(ids) > 1 and ids == list(range(ids[0], ids[-1] + 1)):
        return f"{ids[0]}-{ids[-1]}"
    return ",".join(map(str, ids))


def _geometric_counts(last: int, count: int) -> list[int]:
    """`count` distinct numbers of iterations up to `last`, in geometric progression."""
    numbers: list[int] = []
    for nth in range(1, count + 1):
        least = numbers[-1] + 1 if numbers else 1
        numbers.append(min(max(round(last ** (nth / count)), least), last - (count - nth)))
    return numbers


def _best_responses(
    blueprint: Policy, counts: tuple[int, int], made: tuple[list[Entry], list[Entry]]
) -> tuple[list[Entry], list[Entry]]:
    """Up to `count` best responses, each to the mixture of all previous entries."""
    tree, new = blueprint.tree, (list[Entry](), list[Entry]())
    for nth in range(1, max(counts) + 1):
        first, second = (_even_mix(blueprint, player, made[player] + new[player]) for player in (0, 1))
        mixes = Policy(tree, (first[:, None], second[:, None]), ("even mix",))
        for player in (0, 1):
            if nth <= counts[player]:
                rows = best_response(mixes, player).policy.probabilities[player][:, 0]
                new[player].append((f"best response {nth}", rows))
    return new


def _even_mix(blueprint: Policy, player: int, entries: Sequence[Entry]) -> FloatArray:
    """`[Q]` the policy of a player that draws an entry uniformly before play and follows it.

    At each infoset, entries are weighted by their own reach, or equally if none reaches it.
    """
    rows = np.stack([rows for _, rows in entries], axis=1)
    copies = blueprint.take_lanes(np.zeros(len(entries), np.int64))
    reach = copies.with_player(player, rows).reach(player)
    infosets = blueprint.tree.infosets[player]
    reached = (reach[infosets.parent].sum(axis=1) > 0)[infosets.infoset[1:]]
    weight = np.where(reached[:, None], reach[1:], rows)
    return normalise_rows(weight.sum(axis=1), infosets.infoset[1:])
