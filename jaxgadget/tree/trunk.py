"""What lies above a cut: both players' decisions before any subgame, and where they lead.

A gadget may need the opponent's real way in (full, optimal continuation) or what it passed up on
that way (reach gadgets), and CFR-D solves the trunk itself.
"""

from __future__ import annotations

import dataclasses

import numpy as np

from jaxgadget.games.game import BoolArray, IntArray
from jaxgadget.tree.cut import Cut
from jaxgadget.tree.forest import Forest
from jaxgadget.tree.sequence import SequenceForm, build_sequence_form, exact_size


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class Trunk:
    """Both players' decisions above a cut.

    Attributes:
      form: their sequence form, one root each; its payoff is that of terminals outside all subgames.
      link: for both players `[R]` the trunk's sequence that leads to each root of the forest.
      terminates: for both players `[num_actions]` whether an action ends the game at once, wherever
        in its infoset it is taken.
    """

    form: SequenceForm
    link: tuple[IntArray, IntArray]
    terminates: tuple[BoolArray, BoolArray]


def build_trunk(forest: Forest) -> Trunk:
    """Lays out what lies above a forest's cut."""
    cut, tree = forest.cut, forest.tree
    above = np.where(cut.root < 0, 0, -1)
    nowhere = np.zeros(tree.num_histories, np.int64)
    form = build_sequence_form(tree, above, (nowhere, nowhere), (1, 1), exact_size)
    links: list[IntArray] = []
    terminates: list[BoolArray] = []
    for player in (0, 1):
        number = np.zeros(tree.infosets[player].num_sequences, np.int64)
        number[form.action_sequences(player)] = 1 + np.arange(form.treeplex[player].num_sequences - 1)
        links.append(number[forest.roots[player].sequence])
        terminates.append(_terminates(cut, form, player))
    return Trunk(form=form, link=(links[0], links[1]), terminates=(terminates[0], terminates[1]))


def _terminates(cut: Cut, form: SequenceForm, player: int) -> BoolArray:
    """`[num_actions]` which of a player's actions above the cut always end the game."""
    tree = cut.tree
    moved = np.nonzero(tree.action[player] >= 0)[0]
    goes_on = np.zeros(tree.infosets[player].num_sequences, np.bool_)
    goes_on[tree.sequence[player, moved[tree.actor[moved] != 0]]] = True
    return ~goes_on[form.action_sequences(player)]
