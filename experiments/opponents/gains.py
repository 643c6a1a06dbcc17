"""Figures 6 and 7: gains of best responses and of depth-limited ones, against early CFR and random models."""

from __future__ import annotations

import itertools
from typing import Any

import pandas as pd
from matplotlib.figure import Figure

from experiments.common import LIARS_DICE, make_axes, one_legend, tree_of, value_of
from experiments.opponents.common import (
    CFR_MODELS,
    DRAWN_MODELS,
    LEDUC,
    SMALL,
    SMOKE_MODELS,
    goofspiel,
    in_words,
    is_drawn,
    models_of,
    nested_exactly,
)
from experiments.study import Settings
from jaxgadget import (
    ExactValues,
    HistoryTree,
    Lookahead,
    Nested,
    Opponent,
    Policy,
    Solver,
    call_down,
    evaluate_policy,
    local_best_response,
    nested_search,
    respond,
)
from jaxgadget.report.styles import PALETTE
from jaxgadget.util.players import sign_of

NAME = "gains"
DEPTHS = {LEDUC: (1, 3, 5), goofspiel(5): (1, 2, 3), LIARS_DICE: (1, 3, 5)}
"""Moves from one own decision to the limit, of which the first is the player's own. A simultaneous one counts
once here and twice in the paper."""

ALSO = {LEDUC: (2, 4, 5)}
"""A limit after exactly this number of moves, with searches kept to their end."""

BEST, LBR, CALL_DOWN = "best response", "LBR", "CDBR, own 1, call-down"
"""LBR is the published local best response, which CDBR with values of calling down approximates."""

ITERATIONS = 1000
"""Iterations of CFR+ for CDBR with values of calling down; linear programs require optimal values."""


def compute(settings: Settings) -> pd.DataFrame:
    """A row for every game, player, method and model."""

    def measured(key: dict[str, Any]) -> pd.DataFrame:
        models = models_of(key["game"], settings.pick((*CFR_MODELS, *DRAWN_MODELS), SMOKE_MODELS))
        return measure(models, **key)

    games = settings.pick(tuple(DEPTHS), (SMALL,))
    players = {game: (0, 1) if game == LEDUC else (0,) for game in games}
    keys = [
        {"game": game, "player": player, "method": method}
        for game in games
        for player, method in itertools.product(players[game], _methods(game))
    ]
    return settings.gather(NAME, keys, measured)


def _methods(game: str) -> dict[str, dict[str, Any]]:
    """Searches by name; None for best and local best responses."""
    own = {f"CDBR, own {depth}": {"limit": "own", "depth": depth} for depth in DEPTHS.get(game, (1, 2))}
    moves = {f"CDBR, moves {depth}": {"limit": "moves", "depth": depth} for depth in ALSO.get(game, ())}
    local = {LBR: {}, CALL_DOWN: {"depth": 1}} if game == LEDUC else {}
    return {BEST: {}} | local | own | moves


def measure(models: Policy, game: str, player: int, method: str) -> pd.DataFrame:
    """A row for every model with a method's gain."""
    tree, value = tree_of(game), value_of(game)
    opponent, how = Opponent(models, 1.0), _methods(game)[method]
    if method == BEST:
        table = respond(
            tree, opponent, player=player, solver=Solver(algorithm="lp", progress=False), value=value
        ).table
    elif method == LBR:
        earned = evaluate_policy(local_best_response(models, player)).value - sum(value) / 2
        table = pd.DataFrame({"model": models.labels, "gain": sign_of(player) * earned})
    else:
        how |= {"opponent": opponent, "player": player, "value": value}
        table = _search(tree, method, how).table
    return table[["model", "gain"]].assign(game=game, player=player, method=method)


def _search(tree: HistoryTree, method: str, how: dict[str, Any]) -> Nested:
    """With values of calling down at the limit, or with optimal ones."""
    if method == CALL_DOWN:
        lookahead = Lookahead(ExactValues(call_down(tree)), depth=how.pop("depth"))
        solver = Solver(iterations=ITERATIONS, dtype="float64", progress=False)
        return nested_search(tree, Policy.uniform(tree), lookahead=lookahead, solver=solver, **how)
    return nested_exactly(tree, **how)


def shares(frame: pd.DataFrame) -> pd.DataFrame:
    """Rows with `share`, of the best response's gain."""
    keys = ["game", "player", "model"]
    most = frame[frame["method"] == BEST].set_index(keys)["gain"]
    return frame.assign(share=frame["gain"] / most.reindex(pd.MultiIndex.from_frame(frame[keys])).to_numpy())


def summarise(frame: pd.DataFrame) -> dict[str, pd.DataFrame]:
    """Shares of the best response's gain in per cent, by linear programs: mean and least over models.

    `gain`: the least in payoffs. `own D`: searches at own decisions that end at the first one at least D
    moves down; `moves D`: after exactly D moves, with the plan followed that long. `falls`: models against
    which a search gains less than that of the same kind with the next smaller depth. `call-down`: both
    players call from the limit on.
    """
    tables: dict[str, pd.DataFrame] = {}
    measured = shares(frame)
    for (game, player), rows in measured.groupby(["game", "player"], sort=False):
        gains = rows.pivot(index="model", columns="method", values="gain")
        table: list[dict[str, Any]] = []
        before: str | None = None
        for method, part in rows.groupby("method", sort=False):
            kind = str(method).rpartition(" ")[0]
            same = before is not None and before.rpartition(" ")[0] == kind and kind.startswith("CDBR")
            row: dict[str, Any] = {"method": method}
            for name, models in (
                ("CFR", part[~is_drawn(part["model"])]),
                ("drawn", part[is_drawn(part["model"])]),
            ):
                row[f"{name}, mean"] = 100 * models["share"].mean()
                row[f"{name}, least"] = 100 * models["share"].min()
            row["gain"] = part["gain"].min()
            row["falls"] = str((gains[method] < gains[before] - 1e-6).sum()) if same else "-"
            table.append(row)
            before = str(method)
        tables[f"{in_words(str(game))}, player {player}"] = pd.DataFrame(table)
    return tables


def draw(frame: pd.DataFrame) -> Figure:
    """Shares of the best response's gain by model, player 0: early averages of CFR, and random models."""
    frame = shares(frame[frame["player"] == 0])
    colors = {LBR: "#000000", CALL_DOWN: "#AAAAAA"}
    searches = [name for name in dict.fromkeys(frame["method"]) if name not in (BEST, *colors)]
    colors |= dict(zip(searches, PALETTE, strict=False))
    games = list(dict.fromkeys(frame["game"]))
    figure, axes = make_axes(2 * len(games), 2, (4.4, 2.8))
    for (game, drawn), ax in zip(itertools.product(games, (False, True)), axes, strict=True):
        rows = frame[(frame["game"] == game) & (is_drawn(frame["model"]) == drawn)]
        for method, part in rows[rows["method"] != BEST].groupby("method", sort=False):
            style: dict[str, Any] = {"color": colors[str(method)], "markersize": 3, "linewidth": 1}
            ax.plot(part["model"], 100 * part["share"], "o-", label=method, **style)
        ax.axhline(100, color="black", linewidth=0.8)
        ax.set_ylim(45, 103)
        ax.set_title(f"{in_words(game)}, player 0", fontsize=9)
        ax.set_ylabel("Gain [% of the best response's]", fontsize=8)
        ax.tick_params(labelsize=7)
        ax.legend(fontsize=7)
    one_legend(figure, axes, 4)
    return figure
