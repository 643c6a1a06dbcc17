"""A larger Leduc poker against a blueprint from a lossy abstraction, as an exploitable bot."""

from __future__ import annotations

import functools
import re
import time
from typing import Any

import pandas as pd

from experiments.common import tree_of, value_of
from experiments.opponents.common import nested_exactly
from experiments.study import Settings
from jaxgadget import (
    Abstraction,
    Opponent,
    Policy,
    Solver,
    best_nash,
    enumerate_game,
    evaluate_policy,
    exploitability,
    lift,
    load,
    local_best_response,
    respond,
    solve,
)
from jaxgadget.util.players import sign_of

NAME = "large"
GAME, SMOKE_GAME = "leduc_poker(num_ranks=6)", "leduc_poker(num_ranks=4)"
BUCKETS = (3, 2)
"""Numbers of buckets of neighbouring ranks, in which pairs remain pairs."""

ITERATIONS, SMOKE_ITERATIONS = 1000, 10
NUM_SUITS = 2
METHODS: dict[str, dict[str, Any]] = {
    "CDBR, own 1": {"depth": 1, "p": 1.0},
    "CDBR, own 3": {"depth": 3, "p": 1.0},
    "CDRNR, joint, own 1, p = 0.5": {"depth": 1, "p": 0.5},
}


def compute(settings: Settings) -> pd.DataFrame:
    """A row for every abstraction, player and method."""

    def measure(key: dict[str, Any]) -> pd.DataFrame:
        return pd.DataFrame([key | row for row in _measure(settings, **key)])

    game, buckets = settings.pick(GAME, SMOKE_GAME), settings.pick(BUCKETS, (2,))
    keys = [{"game": game, "buckets": count, "player": player} for count in buckets for player in (0, 1)]
    return settings.gather(NAME, keys, measure)


def bucketed(ranks_a_bucket: int, player: int, infostate: str) -> str:
    """An infostate with ranks in buckets, without suits; pairs of private and public card are kept."""
    rank = {name: int(card) // NUM_SUITS for name, card in re.findall(r"(Private|Public): (\d+)", infostate)}
    is_pair = rank.get("Private") == rank.get("Public")
    without = re.sub(r"(Private|Public): \d+", lambda found: found[1], infostate)
    return f"{without} {[(name, card // ranks_a_bucket) for name, card in rank.items()]} {is_pair}"


@functools.cache
def blueprint(game: str, buckets: int, iterations: int) -> Policy:
    """The average of CFR+ on an abstraction, lifted to the game."""
    inside = re.fullmatch(r".*num_ranks=(\d+).*", game)
    assert inside is not None
    merge = functools.partial(bucketed, -(-int(inside[1]) // buckets))
    coarse = enumerate_game(Abstraction(load(game), merge, name=f"{buckets} buckets"))
    return lift(solve(coarse, solver=Solver(iterations=iterations, progress=False)).policy, tree_of(game))


def _measure(settings: Settings, game: str, buckets: int, player: int) -> list[dict[str, Any]]:
    tree, value = tree_of(game), value_of(game)
    model = blueprint(game, buckets, settings.pick(ITERATIONS, SMOKE_ITERATIONS))
    how: dict[str, Any] = {
        "player": player,
        "value": value,
        "solver": Solver(progress=False),
    }
    searching = {name: how[name] for name in ("player", "value")}
    exact = Solver(algorithm="lp", progress=False)
    rows: list[dict[str, Any]] = []

    def add(method: str, found: Any, begin: float) -> None:
        numbers = {"gain": float(found.gain[0]), "exploitability": float(found.table["exploitability"][0])}
        rows.append({"method": method} | numbers | {"seconds": time.perf_counter() - begin})

    begin = time.perf_counter()
    add("best response", respond(tree, Opponent(model, 1.0), **how | {"solver": exact}), begin)
    begin = time.perf_counter()
    add("RNR, p = 0.5", respond(tree, Opponent(model, 0.5), **how | {"solver": exact}), begin)
    begin = time.perf_counter()
    add("best Nash", best_nash(tree, model, **how), begin)
    begin, local = time.perf_counter(), local_best_response(model, player)
    earned = float(evaluate_policy(local).value[0]) - sum(value) / 2
    lost = float(exploitability(local, player, value=value)[0])
    numbers = {"gain": sign_of(player) * earned, "exploitability": lost}
    rows.append({"method": "LBR"} | numbers | {"seconds": time.perf_counter() - begin})
    for method, options in METHODS.items():
        begin, opponent = time.perf_counter(), Opponent(model, options["p"])
        found = nested_exactly(tree, opponent=opponent, limit="own", depth=options["depth"], **searching)
        add(method, found, begin)
    return rows


def summarise(frame: pd.DataFrame) -> dict[str, pd.DataFrame]:
    """Gain against the abstraction's blueprint, and exploitability, by linear programs.

    `share`: of the best response's gain, in per cent. Exploitability is that of the response.
    """
    tables: dict[str, pd.DataFrame] = {}
    for (game, player), rows in frame.groupby(["game", "player"], sort=False):
        most = rows[rows["method"] == "best response"].set_index("buckets")["gain"]
        share = 100 * rows["gain"] / most.reindex(rows["buckets"]).to_numpy()
        columns = ["buckets", "method", "gain", "exploitability", "seconds"]
        table = rows[columns].copy()
        table.insert(3, "share", share)
        tables[f"{game}, player {player}"] = table
    return tables
