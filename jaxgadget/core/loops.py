"""Execution form of a solve's loop on accelerators; it is chosen only here."""

from __future__ import annotations

from typing import Any, Literal, get_args

LoopForm = Literal["graph", "blocks", "host"]
"""Execution form of the loop on an accelerator; no effect on a CPU, and none on results.

With `host`, the default of XLA for a loop whose number of iterations is an argument, the host drives the
loop: after every iteration it copies the condition and waits. With `graph` the whole loop is one CUDA graph,
which needs CUDA 12.3. With `blocks` the host checks the condition only after every `BLOCK` iterations, and
the program is twice as large.

An iteration of one lane of Leduc poker takes an H100 45 µs as `graph`, 41 in `blocks`, 56 by `host`; of 1,024
lanes 128, 121 and 135. `graph` also covers loops that check the gap every few iterations, `blocks` does not.
"""

LOOP_FORM: LoopForm = "graph"
"""The form of all loops, also of trainings."""

LOOP_FORMS: tuple[LoopForm, ...] = get_args(LoopForm)

BLOCK = 32
"""Number of iterations of a block."""

_GRAPHS = "FUSION,CUBLAS,CUBLASLT,CUDNN,CUSTOM_CALL,CONDITIONAL,DYNAMIC_SLICE_FUSION,WHILE"
LOOP_OPTIONS: dict[LoopForm, dict[str, Any] | None] = {
    "graph": {
        "xla_gpu_enable_command_buffer": _GRAPHS,  # XLA's default, and WHILE
        "xla_gpu_graph_min_graph_size": 1,  # a program that is little besides its loop, too
    },
    "blocks": None,
    "host": None,
}
"""XLA's options for each form."""

MANY_LANES = 4096
"""Minimum number of lanes for arrays in pieces and for payoffs multiplied row by row.

On a CPU a chunk has fewer lanes."""

PIECE_BYTES = 2 << 20
"""Minimum mean size in bytes of the pieces of an array over actions for the loop to keep it in pieces; the
form `blocks` never does.

An iteration of Leduc poker takes an H100 376 µs in pieces with 8,192 lanes, and 607 otherwise; with 65,536
2.4 and 5.0 ms. With 2,048 lanes it is faster in pieces, too, 150 and 187 µs, but programs in pieces take
twice as long to compile, and 230,000 iterations would have to make up for that."""
