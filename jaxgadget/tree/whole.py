"""Tree → SequenceForm of the whole game."""

from __future__ import annotations

from jaxgadget.core.host import exact_size
from jaxgadget.tree.cover import cover_of
from jaxgadget.tree.cut import whole_cut
from jaxgadget.tree.sequence import Layout, SequenceForm, Treeplexes, build_treeplexes, with_terminals
from jaxgadget.tree.tree import Tree, check_ends


def whole_treeplexes(tree: Tree) -> Treeplexes:
    """Both players' decisions in a whole game; cached.

    Each player has one root, the empty sequence; in hand form, one root for each hand.

    Raises:
      ValueError: if the tree is truncated.
    """
    if "treeplexes" not in tree.cache:
        tree.cache["treeplexes"] = build_treeplexes(_whole_layout(tree), exact_size)
    return tree.cache["treeplexes"]


def sequence_form(tree: Tree) -> SequenceForm:
    """Both players' decisions and the payoff of a whole game; cached."""
    if "sequence form" not in tree.cache:
        tree.cache["sequence form"] = with_terminals(whole_treeplexes(tree), _whole_layout(tree))
    return tree.cache["sequence form"]


def _whole_layout(tree: Tree) -> Layout:
    check_ends(tree)
    return Layout.of(cover_of(whole_cut(tree)))
