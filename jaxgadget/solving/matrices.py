"""The linear programs: one player's best guarantee in every game of a batch, in sequence form.

The maximiser picks its realisation plan x. For the opponent, an infoset is worth (to the
maximiser) v(I) = (1−ε)·m(I) + Σ_a f_a·q(I, a) with m(I) ≤ q(I, a) for every legal a, floors
f and ε = Σ f: the sequence form of von Stengel (1996), perturbed as in Farina, Kroer and
Sandholm (2017). With w(I, a) = q(I, a) − m(I) ≥ 0 that is v(I) = m(I) + Σ_a f_a·w(I, a), and a
program needs one row a sequence of the opponent,

    m(I) + w(I, a) − Σ_J [m(J) + Σ_b f_b·w(J, b)] = payoff of (I, a) against x − constant,

J over the infosets right below (I, a). Where an infoset has no floors w is the row's slack.
The row's dual is the opponent's realisation plan. A game's value is a column of its own, so
floors right below a game's root change what that column is worth and nothing else: Eq. 3a of
Kubíček, Lisý and Sandholm (2026) with its missing factor (1−ε).
"""

from __future__ import annotations

import dataclasses
from typing import NamedTuple

import numpy as np
from scipy.sparse import csc_array

from jaxgadget.games.game import FloatArray, IntArray
from jaxgadget.solving.chain import BoolArray, Chain, Decisions, join
from jaxgadget.solving.highs import Model
from jaxgadget.solving.triplets import Triplets
from jaxgadget.tree.sequence import Entries

MOST_WEIGHT = 1e4
"""An objective is multiplied by at most this, so that reduced costs of rare floors are no rounding."""


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class Program:
    """What the maximiser can guarantee in every game; the objective is the sum over the games.

    With `linear` or `at_least` the games are one linear program, otherwise each is its own.

    Attributes:
      name: for errors.
      maximiser: 0 or 1.
      players: both players' decisions, with one root a game in both entries.
      payoff: player 0's payoff × chance for pairs of body sequences, in any order.
      guarantee_weight: what the guaranteed value weighs in the objective, in [0, 1].
      linear: `[S_body]` of the maximiser, added to the objective: what every sequence of its plan
        earns besides; its roots' scales must then be positive.
      at_least: the least guaranteed value, summed over the games.
    """

    name: str
    maximiser: int
    players: tuple[Decisions, Decisions]
    payoff: Entries
    guarantee_weight: float = 1.0
    linear: FloatArray | None = None
    at_least: float | None = None

    @property
    def joint(self) -> bool:
        """Whether all games are one linear program."""
        return self.linear is not None or self.at_least is not None or self.guarantee_weight != 1

    @property
    def sign(self) -> int:
        """Player 0's payoffs times this are the maximiser's."""
        return 1 if self.maximiser == 0 else -1


class Numbering(NamedTuple):
    """Which column or row stands for what; -1 for nothing.

    Attributes:
      plan: `[S]` columns of the maximiser's sequences.
      head: `[G + I]` columns of the opponent's games, then of m at its infosets.
      slack: `[S]` columns w of the opponent's sequences with floors.
      answer: `[S]` rows of the opponent's sequences.
      spread: `[I]` rows of the maximiser's infosets.
      least: `[S]` rows of the maximiser's floors.
    """

    plan: IntArray
    head: IntArray
    slack: IntArray
    answer: IntArray
    spread: IntArray
    least: IntArray


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class Built:
    """A program as matrices, its games sorted.

    Attributes:
      program: the source.
      mine: the maximiser.
      theirs: the opponent.
      numbering: of columns and rows.
      linear: `[S]` the maximiser's extra objective, in the program's units.
      unit: `[G]` what payoffs of each game were divided by, the same for all if joint.
      weight: `[G]` what each game's objective was multiplied by.
      model: all games' program.
      columns: `[games + 1]` where each game's columns begin.
      rows: `[games + 1]` where each game's rows begin.
      live: `[G]` whether a game has anything in it.
    """

    program: Program
    mine: Chain
    theirs: Chain
    numbering: Numbering
    linear: FloatArray
    unit: FloatArray
    weight: FloatArray
    model: Model
    columns: IntArray
    rows: IntArray
    live: BoolArray

    def part(self, game: int | None) -> Model:
        """One game's program, or that of all."""
        if game is None:
            return self.model
        columns = slice(int(self.columns[game]), int(self.columns[game + 1]))
        rows = slice(int(self.rows[game]), int(self.rows[game + 1]))
        matrix, whole = self.model.matrix, self.model
        entries = slice(int(matrix.indptr[columns.start]), int(matrix.indptr[columns.stop]))
        return Model(
            cost=whole.cost[columns],
            lower=whole.lower[columns],
            upper=whole.upper[columns],
            row_lower=whole.row_lower[rows],
            row_upper=whole.row_upper[rows],
            matrix=csc_array(
                (
                    matrix.data[entries],
                    matrix.indices[entries] - rows.start,
                    matrix.indptr[columns.start : columns.stop + 1] - matrix.indptr[columns.start],
                ),
                shape=(rows.stop - rows.start, columns.stop - columns.start),
            ),
        )


def build(program: Program, floored: tuple[BoolArray, BoolArray] | None = None) -> Built:
    """Builds the matrices of a program.

    Args:
      program: what to build.
      floored: of the maximiser and the opponent `[S]`, actions to treat as if they had a floor,
        so that programs that differ in floors only have the same columns and rows.

    Raises:
      ValueError: if arrays do not fit one another.
    """
    mine, theirs = (
        join(program.players[p], f"player {p} of {program.name}")
        for p in (program.maximiser, 1 - program.maximiser)
    )
    if floored is not None:
        mine = dataclasses.replace(mine, floored=mine.floored | floored[0])
        theirs = dataclasses.replace(theirs, floored=theirs.floored | floored[1])
    linear = _check(program, mine, theirs)
    own, other, value = _payoff(program, mine, theirs)
    unit = _units(mine, theirs, own, value, joint=program.joint)
    mine, theirs = _weighed(program, mine, theirs, unit)
    numbering, columns, rows, live = _number(mine, theirs, own, joint=program.joint)
    cost, weight = _cost(program, mine, theirs, numbering, linear / unit[mine.treeplex.root_of()], unit)
    if program.at_least is not None:
        rows = rows + (np.arange(len(rows)) == len(rows) - 1)
    size = (int(rows[-1]), int(columns[-1]))
    row_lower, row_upper = _sides(mine, theirs, numbering, unit, size[0])
    if program.at_least is not None:
        row_lower[-1], row_upper[-1] = program.at_least / unit[0], np.inf
    triplets = Triplets()
    triplets.add(numbering.answer[other], numbering.plan[own], -value / unit[mine.treeplex.root_of()[own]])
    _structure(triplets, mine, theirs, numbering)
    if program.at_least is not None:
        guarantee = _guarantee(mine, theirs, numbering, unit, size[1])
        earns = np.nonzero(guarantee)[0]
        triplets.add(np.full(len(earns), size[0] - 1), earns, guarantee[earns])
    lower, upper = _bounds(mine, theirs, numbering, size[1])
    return Built(
        program=program,
        mine=mine,
        theirs=theirs,
        numbering=numbering,
        linear=linear,
        unit=unit,
        weight=weight,
        model=Model(
            cost=cost,
            lower=lower,
            upper=upper,
            row_lower=row_lower,
            row_upper=row_upper,
            matrix=triplets.matrix(size),
        ),
        columns=columns,
        rows=rows,
        live=live,
    )


def _check(program: Program, mine: Chain, theirs: Chain) -> FloatArray:
    """`[S]` the extra objective by joined sequence."""
    if mine.num_games != theirs.num_games:
        raise ValueError(
            f"players of {program.name}: entries have {mine.num_games} and {theirs.num_games} roots; "
            "expected one root a game in both"
        )
    if not 0 <= program.guarantee_weight <= 1:
        raise ValueError(f"guarantee_weight={program.guarantee_weight}: expected a number in [0, 1]")
    if program.linear is None:
        return np.zeros(mine.treeplex.num_sequences)
    if program.linear.shape != mine.scale.shape:
        raise ValueError(
            f"linear of {program.name} has shape {program.linear.shape}: expected {mine.scale.shape}"
        )
    real = mine.game[mine.position] >= 0
    if (mine.scale[real] <= 0).any():
        raise ValueError(f"linear of {program.name}: expected positive scales of the maximiser's roots")
    fixed = mine.entry[1] == 0
    weighed = program.linear * (1.0 if fixed else mine.scale)
    return np.asarray(np.bincount(mine.position, weighed, mine.treeplex.num_sequences), np.float64)


def _payoff(program: Program, mine: Chain, theirs: Chain) -> tuple[IntArray, IntArray, FloatArray]:
    """The maximiser's payoff as joined sequences of both and values, scales included."""
    entries = program.payoff
    pairs = (entries.row, entries.column)
    own, other = pairs[program.maximiser], pairs[1 - program.maximiser]
    value = program.sign * entries.value * mine.scale[own] * theirs.scale[other]
    kept = value != 0
    return mine.position[own[kept]], theirs.position[other[kept]], value[kept]


def _weighed(program: Program, mine: Chain, theirs: Chain, unit: FloatArray) -> tuple[Chain, Chain]:
    """Fills in `Chain.relative`: what the payoff sees of every root."""
    pairs = (program.payoff.row, program.payoff.column)
    found: list[Chain] = []
    for chain, other, player in (
        (mine, theirs, program.maximiser),
        (theirs, mine, 1 - program.maximiser),
    ):
        body = program.players[player].body
        root_of = body.root_of()
        own, their = pairs[player], pairs[1 - player]
        most = np.zeros(body.num_roots)
        np.maximum.at(
            most, root_of[own], np.abs(program.payoff.value * chain.scale[own] * other.scale[their])
        )
        relative = chain.relative.copy()
        begin = chain.entry[1]
        game = chain.treeplex.root_of()[chain.treeplex.parent[begin:]]
        relative[begin:] = most[root_of[body.first_sequence]] / unit[game]
        found.append(dataclasses.replace(chain, relative=relative))
    return found[0], found[1]


def _units(mine: Chain, theirs: Chain, own: IntArray, value: FloatArray, *, joint: bool) -> FloatArray:
    """`[G]` the largest payoff or constant of each game, or of all."""
    unit = np.zeros(mine.num_games)
    np.maximum.at(unit, mine.game[own], np.abs(value))
    for chain in (mine, theirs):
        np.maximum.at(unit, chain.treeplex.root_of(), np.abs(chain.constant))
    if joint:
        unit[:] = unit.max()
    return np.where(unit > 0, unit, 1.0)


def _number(
    mine: Chain, theirs: Chain, own: IntArray, *, joint: bool
) -> tuple[Numbering, IntArray, IntArray, BoolArray]:
    """Columns and rows, sorted by game, where each game's begin, and which games are live."""
    games = mine.num_games
    live = np.zeros(games, np.bool_)
    for found in (mine.game[own], *(chain.game[chain.game >= 0][games:] for chain in (mine, theirs))):
        live[found] = True
    for chain in (mine, theirs):
        live[chain.treeplex.root_of()[chain.constant != 0]] = True
    their_game = np.where(theirs.real, theirs.treeplex.root_of()[theirs.treeplex.parent], -1)
    my_game = np.where(mine.real, mine.treeplex.root_of()[mine.treeplex.parent], -1)
    answers = np.where(theirs.legal, theirs.game, -1)
    owners = [
        [mine.game, np.concatenate([np.arange(games), their_game]), np.where(theirs.floored, answers, -1)],
        [answers, my_game, np.where(mine.floored & mine.legal, mine.game, -1)],
    ]
    numbers: list[list[IntArray]] = []
    begins: list[IntArray] = []
    for parts in owners:
        game = np.concatenate(parts)
        order = np.argsort(game, kind="stable")[np.count_nonzero(game < 0) :]
        number = np.full(len(game), -1, np.int64)
        number[order] = np.arange(len(order))
        numbers.append(np.split(number, np.cumsum([len(part) for part in parts])[:-1]))
        begin = np.searchsorted(game[order], np.arange(games + 1))
        begins.append(begin[[0, -1]] if joint else begin)
    (plan, head, slack), (answer, spread, least) = numbers
    return Numbering(plan, head, slack, answer, spread, least), begins[0], begins[1], live


def _structure(triplets: Triplets, mine: Chain, theirs: Chain, numbering: Numbering) -> None:
    """Everything of the matrix but the payoff."""
    games, plex = theirs.num_games, theirs.treeplex
    above = numbering.head[np.concatenate([np.arange(games), games + theirs.infoset])]
    triplets.add(numbering.answer, above, 1.0)
    triplets.add(numbering.answer, numbering.slack, 1.0)
    below = numbering.answer[plex.parent]
    triplets.add(below, numbering.head[games:], -1.0)
    triplets.add(below[theirs.infoset], numbering.slack[games:], -theirs.floor[games:])
    parent = numbering.plan[mine.treeplex.parent]
    triplets.add(numbering.spread[mine.infoset], numbering.plan[games:], 1.0)
    triplets.add(numbering.spread, parent, -1.0)
    triplets.add(numbering.least, numbering.plan, 1.0)
    triplets.add(numbering.least[games:], parent[mine.infoset], -mine.floor[games:])


def _sides(
    mine: Chain, theirs: Chain, numbering: Numbering, unit: FloatArray, num_rows: int
) -> tuple[FloatArray, FloatArray]:
    """Bounds of the rows."""
    lower, upper = np.zeros(num_rows), np.zeros(num_rows)
    there = numbering.answer >= 0
    rows = numbering.answer[there]
    upper[rows] = -(theirs.constant / unit[theirs.treeplex.root_of()])[there]
    lower[rows] = np.where(numbering.slack[there] >= 0, upper[rows], -np.inf)
    upper[numbering.least[numbering.least >= 0]] = np.inf
    return lower, upper


def _bounds(
    mine: Chain, theirs: Chain, numbering: Numbering, num_columns: int
) -> tuple[FloatArray, FloatArray]:
    """Bounds of the columns."""
    lower, upper = np.zeros(num_columns), np.full(num_columns, np.inf)
    roots = numbering.plan[: mine.num_games]
    lower[roots] = upper[roots] = 1.0
    forbidden = numbering.plan[~mine.legal]
    upper[forbidden[forbidden >= 0]] = 0.0
    lower[numbering.head[numbering.head >= 0]] = -np.inf
    return lower, upper


def _guarantee(
    mine: Chain, theirs: Chain, numbering: Numbering, unit: FloatArray, num_columns: int
) -> FloatArray:
    """`[num_columns]` what each column adds to the guaranteed value."""
    adds = np.zeros(num_columns)
    adds[numbering.head[: mine.num_games]] = 1.0
    there = numbering.plan >= 0
    adds[numbering.plan[there]] += (mine.constant / unit[mine.treeplex.root_of()])[there]
    return adds


def _cost(
    program: Program,
    mine: Chain,
    theirs: Chain,
    numbering: Numbering,
    linear: FloatArray,
    unit: FloatArray,
) -> tuple[FloatArray, FloatArray]:
    """What is minimised, and `[G]` the factor of each game in it.

    The factor makes up for the smallest floor of a game's entry, see `MOST_WEIGHT`.
    """
    columns = 1 + max(int(part.max(initial=-1)) for part in numbering[:3])
    adds = _guarantee(mine, theirs, numbering, unit, columns)
    cost = -program.guarantee_weight * adds
    there = numbering.plan >= 0
    cost[numbering.plan[there]] -= linear[there]
    least = np.ones(mine.num_games)
    floors = np.nonzero((theirs.floor > 0) & (theirs.game >= 0) & theirs.legal)[0]
    floors = floors[floors < theirs.entry[0]]
    np.minimum.at(least, theirs.game[floors], theirs.floor[floors])
    weight = np.ones_like(least) if program.joint else np.minimum(1 / least, MOST_WEIGHT)
    game = np.empty(columns, np.int64)
    for part, owner in (
        (numbering.plan, mine.treeplex.root_of()),
        (numbering.head[: mine.num_games], np.arange(mine.num_games)),
    ):
        game[part[part >= 0]] = owner[part >= 0]
    used = cost != 0
    cost[used] *= weight[game[used]]
    return cost, weight
