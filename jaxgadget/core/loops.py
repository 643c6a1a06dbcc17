"""How accelerators run the loop of a solve: the one place to choose it."""

from __future__ import annotations

from typing import Any, Literal, get_args

LoopForm = Literal["graph", "blocks", "host"]
"""How an accelerator runs the loop; of no effect on a CPU, and on no result.

By default (`host`), XLA runs a loop whose number of iterations is an argument from the host: after every
iteration it copies the condition and waits. As `graph` the whole loop is one CUDA graph, which needs CUDA
12.3; in `blocks`, the host is asked after `BLOCK` iterations, and the program is twice as large.

An iteration of one lane of Leduc poker takes an H100 45 µs as `graph`, 41 in `blocks`, 56 by `host`; of 1,024
lanes 128, 121 and 135. A graph also has loops that check the gap every few iterations, which have no blocks.
"""

LOOP_FORM: LoopForm = "graph"
"""The form of all loops."""

LOOP_FORMS: tuple[LoopForm, ...] = get_args(LoopForm)

BLOCK = 32
"""Iterations of a block."""

_GRAPHS = "FUSION,CUBLAS,CUBLASLT,CUDNN,CUSTOM_CALL,CONDITIONAL,DYNAMIC_SLICE_FUSION,WHILE"
LOOP_OPTIONS: dict[LoopForm, dict[str, Any] | None] = {
    "graph": {"xla_gpu_enable_command_buffer": _GRAPHS},  # XLA's default, and WHILE
    "blocks": None,
    "host": None,
}
"""XLA's options for each form."""

MANY_LANES = 4096
"""With fewer lanes, arrays are never kept in pieces, nor are payoffs multiplied row by row.

On a CPU a chunk of lanes has fewer."""

PIECE_BYTES = 2 << 20
"""Least mean bytes of the pieces of an array over actions, in which the loop then keeps it; never in blocks.

An iteration of Leduc poker takes an H100 376 µs in pieces with 8,192 lanes, and 607 otherwise; with 65,536
2.4 and 5.0 ms. With 2,048 lanes it is faster in pieces, too, 150 and 187 µs, but programs in pieces take
twice as long to compile, and 230,000 iterations would have to make up for that."""
