"""What policies of a game by hands bring to its public subgames: what a gadget asks of histories.

A subgame begins at a public node, with a root for every hand of either player. So a root infostate of the
opponent is a public node and a hand, the mass `N(s)` is how likely chance deals that hand times the resolving
player's reach, and what lies above the cut is public too. A hand that public chance has made impossible is a
root of no mass, and users' arrays have no row for it.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import jax.numpy as jnp
import numpy as np

from jaxgadget.core.hands import build_hands_payoff
from jaxgadget.core.host import HostTreeplex, build_treeplex
from jaxgadget.core.treeplex import to_device
from jaxgadget.gadgets.capabilities import Capability
from jaxgadget.gadgets.ranges import Ranges, TrunkRanges, sum_rows
from jaxgadget.gadgets.structure import Bodies, find_ancestors, opponent_values
from jaxgadget.games.game import ACTOR_BIT, CHANCE
from jaxgadget.games.hands import HandsGame, PublicEnds, group_ends
from jaxgadget.hands.form import HandsForm
from jaxgadget.hands.policy import HandsPolicy
from jaxgadget.tree.public_form import hand_entries, keep_nodes
from jaxgadget.util.arrays import BoolArray, FloatArray, IntArray
from jaxgadget.util.precision import precision


def public_cut(game: HandsGame, where: str | Sequence[int] | IntArray) -> IntArray:
    """`[S]` public nodes at which subgames begin, ascending.

    Args:
      game: whose.
      where: `depth:D`, the first decisions after D moves of the players; `chance`, right after chance has
        shown something in public; or nodes.

    Raises:
      ValueError: if it is none of these, or there are no such nodes.
    """
    tree = game.nodes
    if isinstance(where, str):
        name, _, number = where.partition(":")
        moved = tree.actor[tree.parent] != CHANCE
        moved[0] = False
        if name == "chance" and not number:
            found = ~moved & (np.arange(len(tree)) > 0)
        elif name == "depth" and number.isdecimal():
            found = (count_above(game, moved) == int(number)) & np.isin(tree.actor, ACTOR_BIT)
        else:
            raise ValueError(f"where={where!r}: expected 'depth:D', 'chance', or numbers of public nodes")
        nodes = np.flatnonzero(found)
    else:
        nodes = np.unique(np.asarray(where, np.int64))
    if len(nodes) == 0 or nodes[0] < 0 or nodes[-1] >= len(tree):
        raise ValueError(
            f"where={where!r}: {game.name} has {len(tree)} public nodes; expected at least one of them"
        )
    return nodes


def count_above(game: HandsGame, counted: BoolArray) -> IntArray:
    """`[n]` how many nodes on the way to each public node are counted, itself included; `[n]` which are."""
    count = counted.astype(np.int64)
    for level in game.nodes.levels_below():
        count[level] += count[game.nodes.parent[level]]
    return count


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class HandsBodies(Bodies):
    """Public subgames; see `Bodies`. Roots are public nodes × hands.

    Attributes:
      form: the subgames' form; `form.roots` are their public nodes.
    """

    form: HandsForm

    @property
    def named_roots(self) -> IntArray:
        """`[R]` the row of each of the opponent's roots in users' arrays, -1 for impossible hands."""
        game, other = self.form.game, 1 - self.player
        possible = game.possible[other]
        if possible is None:
            return np.arange(len(self.form.roots) * game.num_hands[other])
        held = possible[self.form.roots].ravel()
        return np.where(held, np.cumsum(held) - 1, -1)

    def rows(self, policy: HandsPolicy, player: int) -> FloatArray:
        """`[Q, lanes]` a player's policies of the whole game below the roots."""
        return policy.probabilities[player][self.form.rows[player]].reshape(-1, policy.num_lanes)


def build_bodies(game: HandsGame, nodes: IntArray, player: int) -> HandsBodies:
    """Puts public subgames on the device for one resolving player.

    Raises:
      ValueError: if the game does not say how likely its deals are, or a node is below another.
    """
    if game.deals is None or game.board is None:
        raise ValueError(
            f"deals of {game.name} are not written down; expected a game with `deals` and `board`"
        )
    form = HandsForm(game, nodes)
    return HandsBodies(player=player, sides=form.sides(np.float64), payoff=form.payoff(np.float64), form=form)


def find_hands_ranges(
    bodies: HandsBodies,
    above: HandsPolicy,
    below: HandsPolicy | None = None,
    required: frozenset[Capability] = frozenset(),
) -> Ranges:
    """What policies bring to public subgames.

    Args:
      bodies: the subgames.
      above: what is played above them.
      below: what is played below; by default the same policies.
      required: capabilities of the gadgets; the trunk and both players' values are found if they are
        among them.
    """
    form, player, other = bodies.form, bodies.player, 1 - bodies.player
    game, nodes = form.game, form.roots
    below = above if below is None else below
    reach = [above.reach(p, nodes) for p in (0, 1)]
    for p, held in enumerate(game.possible):
        if held is not None:
            reach[p] *= held[nodes][:, :, None]
    flat = [x.reshape(-1, above.num_lanes) for x in reach]
    strategy = bodies.rows(below, 0), bodies.rows(below, 1)
    with precision(np.float64):
        best, followed = opponent_values(
            bodies.sides,
            bodies.payoff,
            strategy,
            (flat[0], flat[1]),
            player=player,
            played=Capability.PLAYED in required,
        )
    return Ranges(
        num_subgames=len(nodes),
        subgame=np.repeat(np.arange(len(nodes)), game.num_hands[other]),
        root=bodies.named_roots,
        resolver=flat[player],
        opponent=flat[other],
        mass=_mass(game, nodes, above, other).reshape(-1, above.num_lanes),
        cbv=-np.asarray(best),
        played=-np.asarray(followed) if Capability.PLAYED in required else None,
        trunk=_trunk_ranges(form, above, player) if Capability.TRUNK in required else None,
    )


def _earned_at(
    game: HandsGame, ends: Sequence[PublicEnds], nodes: IntArray, policy: HandsPolicy, player: int
) -> FloatArray:
    """`[m, H, lanes]` what a player's hands earn at each of m nodes, by the other's reach and chance's."""
    number = np.zeros(len(game.nodes), np.int64)
    number[nodes] = np.arange(len(nodes))
    with precision(np.float64):
        entries = hand_entries(game.num_hands, ends, (number, number), (len(nodes), len(nodes)))
        payoff = build_hands_payoff(entries, np.float64)
        reach = [jnp.asarray(policy.reach(p, nodes).reshape(-1, policy.num_lanes)) for p in (0, 1)]
        earned, _ = payoff.gradient(player, (reach[0], reach[1]), None)
    return np.asarray(earned).reshape(len(nodes), game.num_hands[player], policy.num_lanes)


def _mass(game: HandsGame, nodes: IntArray, policy: HandsPolicy, player: int) -> FloatArray:
    """`[m, H, lanes]` how likely chance and the other player bring a player's hands to nodes."""
    assert game.deals is not None and game.board is not None
    deals = group_ends(nodes, np.ones(len(nodes)), game.board[nodes].astype(np.int64), game.deals)
    return np.abs(_earned_at(game, deals, nodes, policy, player))


def _trunk_ranges(form: HandsForm, policy: HandsPolicy, player: int) -> TrunkRanges:
    """What policies bring above the cut: the opponent's decisions there, node by node and hand by hand."""
    game, tree, other = form.game, form.game.nodes, 1 - player
    hands = np.arange(game.num_hands[other])
    treeplex, sequence, nodes = _lay_out_trunk(form, other)
    link = sequence[form.roots].ravel()
    ends = keep_nodes(game.ends, form.root_of < 0)
    paid = np.sort(np.concatenate([np.zeros(0, np.int64), *(group.node.ravel() for group in ends)]))
    paid = paid[form.root_of[paid] < 0]
    earned = _earned_at(game, ends, paid, policy, other).reshape(-1, policy.num_lanes)
    # Actions in the treeplex's order, and where they are in policies.
    infoset, slot = treeplex.infoset[treeplex.sequence_infoset], treeplex.sequence_slot
    node, hand = nodes[infoset // len(hands)], infoset % len(hands)
    child = tree.first_child[node] + slot
    mass = _mass(game, nodes, policy, other).reshape(-1, policy.num_lanes)
    with precision(np.float64):
        on_device = to_device(treeplex, np.float64)
    return TrunkRanges(
        treeplex=treeplex,
        on_device=on_device,
        link=link,
        ancestors=find_ancestors(treeplex, link),
        terminates=tree.num_children[child] == 0,
        strategy=policy.probabilities[other][np.searchsorted(form.children[other], child), hand],
        outside=sum_rows(sequence[paid].ravel(), earned, treeplex.num_sequences),
        mass=mass[treeplex.infoset],
    )


def _lay_out_trunk(form: HandsForm, player: int) -> tuple[HostTreeplex, IntArray, IntArray]:
    """A player's decisions above the cut, one root: infosets are `node × H + hand`.

    Returns:
      The treeplex; `[n, H]` its sequence at every public node with every hand, of the last node above the cut
      where it lies below; and `[nodes]` where the player decides there.
    """
    tree, hands = form.game.nodes, np.arange(form.game.num_hands[player])
    nodes = tree.decisions(player)
    nodes = nodes[form.root_of[nodes] < 0]
    number, acts = np.full(len(tree), -1, np.int64), np.zeros(len(tree), np.bool_)
    number[nodes], acts[nodes] = np.arange(len(nodes)), True
    last, slot, depth = np.full(len(tree), -1, np.int64), np.zeros(len(tree), np.int64), acts * 0
    for level in tree.levels_below():
        above = tree.parent[level]
        last[level] = np.where(acts[above], number[above], last[above])
        slot[level] = np.where(acts[above], tree.slot[level], slot[above])
        depth[level] = depth[above] + acts[above]
    parent = last[nodes, None] * len(hands) + hands
    parent[last[nodes] < 0] = -1
    treeplex, position = build_treeplex(
        num_roots=1,
        depth=np.repeat(depth[nodes], len(hands)),
        num_actions=np.repeat(tree.num_children[nodes], len(hands)),
        parent_infoset=parent.ravel(),
        parent_slot=np.repeat(slot[nodes], len(hands)),
        infoset=np.arange(len(nodes) * len(hands)),
    )
    sequence = np.zeros((len(tree), len(hands)), np.int64)
    below = np.flatnonzero(last >= 0)
    infoset = position[last[below, None] * len(hands) + hands]
    sequence[below] = treeplex.sequence(infoset, np.broadcast_to(slot[below, None], infoset.shape))
    return treeplex, sequence, nodes
