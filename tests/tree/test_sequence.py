"""Sequence forms: the payoff as a sum over terminals, the layout, rounding and padding."""

import collections

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from jaxgadget.core.host import Run, build_treeplex, exact_size, merge_entries, rounded_size
from jaxgadget.tree.whole import sequence_form
from tests.tree.test_history import TREES, make


@pytest.fixture(scope="module", params=TREES)
def form(request):
    return sequence_form(make(request.param))


def tree_sequences(form, player):
    """The tree's sequence of every sequence of a form; roots and padding are None."""
    roots = form.treeplex[player].num_roots
    return [None] * roots + [s if s > 0 else None for s in form.action_sequences(player).tolist()]


def test_payoff_is_the_sum_over_terminals(form):
    tree = form.tree
    expected = collections.defaultdict(float)
    for h in tree.terminals.tolist():
        expected[tuple(s or None for s in tree.sequence[:, h].tolist())] += tree.chance[h] * tree.payoff[h]
    names = [tree_sequences(form, player) for player in (0, 1)]
    entries = form.payoff
    found = {
        (names[0][row], names[1][column]): value
        for row, column, value in zip(
            entries.row.tolist(), entries.column.tolist(), entries.value.tolist(), strict=True
        )
    }
    assert len(found) == len(entries.value)  # every pair occurs once
    assert found == pytest.approx({pair: v for pair, v in expected.items() if v != 0}, abs=1e-15)
    key = entries.row * entries.shape[1] + entries.column
    assert (np.diff(key) > 0).all() and (entries.value != 0).all()
    assert entries.shape == tuple(treeplex.num_sequences for treeplex in form.treeplex)


def test_every_infoset_and_action_is_there_once(form):
    for player, treeplex in enumerate(form.treeplex):
        infosets = form.tree.infosets[player]
        assert (treeplex.num_roots, treeplex.num_infosets) == (1, len(infosets))
        assert treeplex.num_sequences == infosets.num_sequences
        assert sorted(treeplex.infoset.tolist()) == list(range(len(infosets)))
        assert sorted(form.action_sequences(player).tolist()) == list(range(1, infosets.num_sequences))


def test_infosets_hang_below_the_sequence_that_leads_to_them(form):
    for player, treeplex in enumerate(form.treeplex):
        infosets, names = form.tree.infosets[player], tree_sequences(form, player)
        for j, parent in zip(treeplex.infoset.tolist(), treeplex.parent.tolist(), strict=True):
            assert names[parent] == (infosets.parent[j] or None)


def test_layout_is_roots_then_levels_then_runs(form):
    for treeplex in form.treeplex:
        check_layout(treeplex)
        assert len(treeplex.levels) == 1 + max(form.tree.infosets[form.treeplex.index(treeplex)].depth)


def check_layout(treeplex):
    """A level's sequences are ordered by slot, and its infosets by the parents of each run."""
    place, sequence = 0, treeplex.num_roots
    above = range(treeplex.num_roots)
    for runs in treeplex.levels:
        first, top = sequence, place
        widths = [run.num_actions for run in runs]
        assert widths == sorted(set(widths), reverse=True)
        for run in runs:
            rows = slice(place, place + run.num_infosets)
            assert (treeplex.num_actions[rows] == run.num_actions).all()
            real = treeplex.infoset[rows] >= 0
            assert (np.diff(real.astype(int)) <= 0).all()  # padding comes last
            assert (treeplex.parent[rows][~real] == 0).all()
            parents = treeplex.parent[rows][real].tolist()
            assert parents == sorted(parents) and set(parents) <= set(above)
            place += run.num_infosets
        for slot in range(widths[0]):  # first actions of all infosets, then second ones, …
            for infoset in range(top, place):
                if slot < treeplex.num_actions[infoset]:
                    assert treeplex.rows(infoset)[slot] == sequence - treeplex.num_roots
                    assert treeplex.sequence_infoset[sequence - treeplex.num_roots] == infoset
                    assert treeplex.sequence_slot[sequence - treeplex.num_roots] == slot
                    sequence += 1
        starts = treeplex.first_sequence[top:place]
        np.testing.assert_array_equal(starts, first + np.arange(place - top))
        above = range(first, sequence)
    assert place == treeplex.num_infosets and sequence == treeplex.num_sequences


def test_the_form_of_a_tree_is_built_once():
    tree = make("kuhn_poker")
    assert sequence_form(tree) is sequence_form(tree)


# Rounding and padding


def significant_bits(n):
    return len(f"{n:b}".rstrip("0"))


def test_rounded_sizes_are_the_next_of_three_significant_bits():
    found = [rounded_size(n) for n in range(1, 2000)]
    for n, size in enumerate(found, 1):
        assert size == next(k for k in range(n, 3 * n) if significant_bits(k) <= 3)
    assert sorted(set(found))[6:14] == [7, 8, 10, 12, 14, 16, 20, 24]
    assert rounded_size(0) == 0


@given(st.integers(1, 10**9))
def test_rounding_adds_at_most_a_quarter(n):
    assert n <= rounded_size(n) <= 1.25 * n
    assert rounded_size(rounded_size(n)) == rounded_size(n)
    assert exact_size(n) == n


def small(rounding):
    """Two roots; five infosets below them, and two below the second action of infoset row 3."""
    return build_treeplex(
        num_roots=2,
        depth=np.array([0, 0, 0, 0, 0, 1, 1]),
        num_actions=np.array([2, 3, 2, 2, 2, 1, 2]),
        parent_infoset=np.array([-1, -1, -1, -1, -1, 3, 3]),
        parent_slot=np.array([1, 0, 0, 1, 0, 1, 1]),
        infoset=np.arange(10, 17),
        rounding=rounding,
    )


def test_a_small_treeplex_by_hand():
    treeplex, position = small(exact_size)
    check_layout(treeplex)
    assert treeplex.levels == ((Run(1, 3), Run(4, 2)), (Run(1, 2), Run(1, 1)))
    assert treeplex.infoset.tolist() == [11, 12, 14, 10, 13, 16, 15]  # by actions, then by parent
    assert treeplex.parent.tolist() == [0, 0, 0, 1, 1, 11, 11]
    assert position.tolist() == [3, 0, 1, 4, 2, 6, 5]
    assert treeplex.first_sequence.tolist() == [2, 3, 4, 5, 6, 13, 14]
    assert treeplex.rows(0).tolist() == [0, 5, 10]
    assert treeplex.rows(4).tolist() == [4, 9]
    assert treeplex.num_sequences == 16
    assert treeplex.sequence_infoset.tolist() == [0, 1, 2, 3, 4, 0, 1, 2, 3, 4, 0, 5, 6, 5]
    assert treeplex.sequence_slot.tolist() == [0] * 5 + [1] * 5 + [2, 0, 0, 1]
    assert treeplex.root_of().tolist() == [0, 1, 0, 0, 0, 1, 1, 0, 0, 0, 1, 1, 0, 1, 1, 1]


def test_padding_changes_nothing_but_sizes():
    plain, position = small(exact_size)
    padded, moved = small(lambda size: size + 3)
    check_layout(padded)
    assert padded.num_roots == 5
    assert [[run.num_actions for run in runs] for runs in padded.levels] == [[3, 2], [2, 1]]
    assert [[run.num_infosets for run in runs] for runs in padded.levels] == [[4, 7], [4, 4]]
    assert padded.infoset[padded.infoset >= 0].tolist() == plain.infoset.tolist()
    root = padded.root_of()
    here, there = padded.first_sequence[moved], plain.first_sequence[position]
    assert root[here].tolist() == plain.root_of()[there].tolist()


def test_a_player_without_decisions():
    nothing = np.zeros(0, np.int64)
    treeplex, first = build_treeplex(
        num_roots=3,
        depth=nothing,
        num_actions=nothing,
        parent_infoset=nothing,
        parent_slot=nothing,
        infoset=nothing,
    )
    assert (treeplex.num_infosets, treeplex.num_sequences, treeplex.levels, len(first)) == (0, 3, (), 0)
    assert treeplex.root_of().tolist() == [0, 1, 2]
    form = sequence_form(make("matching_pennies_forfeit"))
    assert form.treeplex[1].num_infosets == 1


def test_entries_of_a_pair_are_summed_and_zeros_left_out():
    row, column = np.array([2, 0, 2, 1, 1]), np.array([1, 3, 1, 0, 0])
    entries = merge_entries(row, column, np.array([0.25, 1.0, 0.5, 1.0, -1.0]), (3, 4))
    assert entries.row.tolist() == [0, 2] and entries.column.tolist() == [3, 1]
    assert entries.value.tolist() == [1.0, 0.75] and entries.shape == (3, 4)
