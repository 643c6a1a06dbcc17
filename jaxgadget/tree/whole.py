"""Tree → SequenceForm of the whole game, for trees of either kind."""

from __future__ import annotations

import numpy as np

from jaxgadget.core.host import exact_size
from jaxgadget.tree.cover import cover_of
from jaxgadget.tree.cut import whole_cut
from jaxgadget.tree.history import check_whole
from jaxgadget.tree.public import PublicTree, Tree
from jaxgadget.tree.public_form import lay_out_public
from jaxgadget.tree.sequence import Layout, SequenceForm, Treeplexes, build_treeplexes, with_terminals


def whole_treeplexes(tree: Tree) -> Treeplexes:
    """Both players' decisions in a whole game, built once.

    Each player has one root, the empty sequence; by hands a root for each hand.

    Raises:
      ValueError: if the tree is truncated.
    """
    if isinstance(tree, PublicTree):
        return sequence_form(tree)
    if "treeplexes" not in tree.cache:
        layout = Layout.of(cover_of(whole_cut(check_whole(tree))))
        tree.cache["treeplexes"] = build_treeplexes(layout, exact_size)
    return tree.cache["treeplexes"]


def sequence_form(tree: Tree) -> SequenceForm:
    """Both players' decisions and the payoff of a whole game, likewise."""
    if "sequence form" not in tree.cache:
        if isinstance(tree, PublicTree):
            tree.cache["sequence form"] = lay_out_public(tree, np.zeros(1, np.int64))
        else:
            layout = Layout.of(cover_of(whole_cut(check_whole(tree))))
            tree.cache["sequence form"] = with_terminals(whole_treeplexes(tree), layout)
    return tree.cache["sequence form"]
