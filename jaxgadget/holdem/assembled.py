"""Solutions of flops with other strategies on their turns and rivers, evaluated exactly."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import jax
import jax.numpy as jnp
import numpy as np

from jaxgadget.core.branches import BranchState
from jaxgadget.core.problem import Parts
from jaxgadget.core.regret import follows_from_regrets
from jaxgadget.holdem.cards import HANDS, card_name
from jaxgadget.holdem.isomorphism import exchanged_hands
from jaxgadget.holdem.runouts import Runouts, StreetStrategies, evaluate_streets, lay_out_streets
from jaxgadget.holdem.solution import SpotSolution
from jaxgadget.holdem.solve import DEFAULT, conclude_streets
from jaxgadget.holdem.spots import Spot
from jaxgadget.holdem.strategies import HeldRows, action_nodes
from jaxgadget.holdem.streets import Suits, exchange_card
from jaxgadget.util.arguments import check_player
from jaxgadget.util.arrays import FloatArray
from jaxgadget.util.precision import precision


def replace_turns(
    solution: SpotSolution, turns: Mapping[str, HeldRows], player: int, *, label: str = "replaced"
) -> SpotSolution:
    """Replaces a player's strategies on turns and rivers of a flop, and evaluates the whole in float64.

    Args:
      solution: the solution of a flop. Where it merged turns that an exchange of suits maps to each other, a
        strategy holds after all cards of its card's class, with hands and rivers exchanged likewise.
      turns: the player's strategies on turns and their rivers, in the form of `SpotSolution.held`, by the
        lines that lead to them, such as `check, check, Ah`. Strategies elsewhere stay.
      player: the player.
      label: name of the strategies, `SpotSolution.algorithm` of the result.

    Returns:
      The strategies of both players, with EVs and gains from best responses on all streets. Runouts are not
      merged.

    Raises:
      ValueError: if the solution is not a flop's, a line does not end with the turn's card, a strategy is of
        another spot, or two lines differ only by a card of the same class.
    """
    check_player(player)
    spot, source = solution.spot, solution.streets
    if source is None:
        raise ValueError(f"solution={solution!r}: expected the solution of a flop")
    runouts = lay_out_streets(spot, ())
    weights = _list_weights(source, runouts)
    replaced: dict[tuple[int, int], str] = {}
    for line, held in turns.items():
        deal = spot.find_deal(line)
        if deal is None or deal.rest:
            raise ValueError(f"turns[{line!r}]: expected a line that ends with the turn's card")
        turn, _ = spot.find_street(line)
        rows, num_rows = held.whole(), len(action_nodes(turn.betting.tree, player))
        if rows.shape != (num_rows, len(turn.hands)):
            raise ValueError(
                f"turns[{line!r}] has {rows.shape[0]} rows over {rows.shape[1]} hands; expected "
                f"{num_rows} rows over {len(turn.hands)} hands, those of {turn.board}"
            )
        for card, suits in _find_class(source.runouts, deal.card):
            before = replaced.setdefault((deal.node, card), line)
            if before != line:
                raise ValueError(
                    f"turns[{line!r}]: the turn {card_name(card)} is of the class of {before!r}, too; "
                    "expected one line for each class"
                )
            _insert(weights, runouts, player, turn, rows, deal.node, card, suits)
    return _evaluate(runouts, weights, label)


def _insert(
    weights: Sequence[tuple[FloatArray, FloatArray]],
    runouts: Runouts,
    player: int,
    turn: Spot,
    rows: FloatArray,
    node: int,
    card: int,
    suits: Suits,
) -> None:
    """Writes a player's strategy on a turn into the weights of all streets.

    Args:
      weights: as from `_list_weights`.
      runouts: the layout, without merged runouts.
      player: the player.
      turn: the turn's spot.
      rows: `[C, H]` the strategy there.
      node: the flop's node where the turn is dealt.
      card: the card that is dealt.
      suits: the exchange of suits that maps it to the card of the turn's spot.
    """
    betting, flop = turn.betting, runouts.spot.street_betting
    children = action_nodes(betting.tree, player)
    alike = runouts.find_alike(betting, flop.children(node)[0])[children]
    column = np.full(len(HANDS), -1)
    column[turn.hands] = np.arange(len(turn.hands))
    image = np.where(runouts.hands >= 0, column[exchanged_hands(suits)[runouts.of_deck]], -1)
    held = np.flatnonzero(image >= 0)
    for street_idx in (1, 2):
        after = runouts.streets[street_idx].children(flop.tree, player)
        place_of = np.zeros(len(flop.tree), np.int64)
        place_of[after] = np.arange(len(after))
        for lane_idx, lane in enumerate(runouts.lanes[street_idx]):
            if lane.cards[0] != card:
                continue
            dealt = -1 if street_idx == 1 else exchange_card(lane.cards[1], suits)
            own = np.flatnonzero(betting.card[children] == dealt)
            slice_idx, place = runouts.place(street_idx, lane_idx)
            by_hand = weights[street_idx][player][slice_idx, :, place].reshape(len(after), -1)
            by_hand[place_of[alike[own]][:, None], held] = rows[own[:, None], image[held]]
            weights[street_idx][player][slice_idx, :, place] = by_hand.ravel()


def _list_weights(source: StreetStrategies, runouts: Runouts) -> list[tuple[FloatArray, FloatArray]]:
    """Strategies in a layout of the same spot: by street and player `[slices, Q, lanes]` probabilities."""
    nodes, hands = runouts.spot.street_betting.tree, np.maximum(runouts.of_deck, 0)  # padding has no reach
    weights: list[tuple[FloatArray, FloatArray]] = []
    for street_idx, (street, shapes) in enumerate(zip(runouts.streets, runouts.shapes, strict=True)):
        first, second = (np.zeros(shape) for shape in shapes)
        for player, own in enumerate((first, second)):
            children = street.children(nodes, player)
            for lane_idx, lane in enumerate(runouts.lanes[street_idx]):
                by_node, column = source.lane(player, lane.cards, hands)
                slice_idx, place = runouts.place(street_idx, lane_idx)
                own[slice_idx, :, place] = by_node[children][:, column].ravel()
        weights.append((first, second))
    return weights


def _find_class(runouts: Runouts, card: int) -> Sequence[tuple[int, Suits]]:
    """The turns that were merged with a card, and the exchange of suits that maps each of them to it."""
    lane, suits = runouts.find_lane((card,))
    back = tuple(int(suit) for suit in np.argsort(suits))
    return [
        (outcome, tuple(back[suit] for suit in then)) for outcome, then in runouts.lanes[1][lane].outcomes
    ]


def _evaluate(runouts: Runouts, weights: Sequence[tuple[FloatArray, FloatArray]], label: str) -> SpotSolution:
    """Evaluates strategies, given as in `StreetStrategies.weights`."""
    rule = DEFAULT.iterative_rule()
    assert follows_from_regrets(rule)
    with precision(np.float64):
        later, nothing = None, jnp.zeros(0)
        for first, second in weights[:0:-1]:
            pair = jnp.asarray(first), jnp.asarray(second)
            later = BranchState(regrets=(nothing, nothing), strategy_sum=pair, below=later)
        assert later is not None
        roots, no_entry = np.ones((len(runouts.hands), 1)), np.ones((1, 1))
        first, second = (
            Parts(jnp.asarray(no_entry), jnp.asarray(np.concatenate([roots, body[0]]))) for body in weights[0]
        )
        problem = jax.tree.map(jax.device_put, runouts.batch(rule).problem())
        evaluated = evaluate_streets(problem, (first, second), (jnp.zeros((), jnp.int32), later))
        return conclude_streets(runouts, evaluated, later, (label, 0))
