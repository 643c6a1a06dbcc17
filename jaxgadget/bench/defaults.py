"""Default games, engines and settings of benchmarks; independent of JAX."""

from __future__ import annotations

PEERS = ("openspiel", "liteefg")
"""Engines of `jaxgadget.bench.peers`."""

OURS = "jaxgadget"
ENGINES = (OURS, *PEERS)

DEFAULT_GAMES = (
    "leduc_poker",
    "liars_dice(dice_sides=4)",
    "goofspiel(num_cards=5,imp_info=True,points_order=descending)",
)
DEFAULT_LANES = (1, 256)
DEFAULT_SECONDS = 2.0
DEFAULT_REPEATS = 10
