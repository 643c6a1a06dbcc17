"""Sources → Document: everything that a page shows, as JSON in compressed chunks.

`schema.json` documents the format. Numbers are integers times a unit that stands beside them: probabilities
in thousandths, reaches and shares in thousandths of the largest at their node, values in steps of at most a
thousandth of the range of payoffs. Probabilities of whole nodes have four significant digits.
"""

from __future__ import annotations

import base64
import contextlib
import dataclasses
import functools
import gc
import gzip
import json
import math
import re
from collections.abc import Generator, Iterator, Sequence
from importlib.metadata import version
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from jaxgadget.explorer.digits import SeatDigits, significant
from jaxgadget.explorer.nodes import Nodes
from jaxgadget.explorer.sources import Source
from jaxgadget.explorer.subgames import describe_spot, describe_subgames
from jaxgadget.explorer.values import Numbers, find_numbers
from jaxgadget.games.game import ACTOR_BIT, CHANCE, TERMINAL
from jaxgadget.holdem.betting import PLAYERS
from jaxgadget.subgames.refine import Refinement
from jaxgadget.util.arguments import check_whole_number
from jaxgadget.util.arrays import IntArray
from jaxgadget.util.memory import megabytes
from jaxgadget.util.progress import Progressed, progress_bar
from jaxgadget.util.records import jsonable

if TYPE_CHECKING:
    import pandas as pd

FORMAT, VERSION = "jaxgadget explorer", 1

CHUNK_CELLS = 30_000
"""Number of private states at nodes from which the nodes of a lane are split into several chunks."""

MAX_BYTES = 30_000_000
"""Maximum size of a page."""

TAG_BYTES = 60
"""Size of the tags around a chunk in a page, rounded up."""

LANES_AT_ONCE = 1 << 22
"""Number of nodes × hands × lanes that are evaluated at a time."""

PAGE_NAME = r"[A-Za-z0-9_][A-Za-z0-9_-]*\.html"
"""Names of pages in the same folder, the only ones to which a report links."""

PASSIVE = ("check", "call", "pass")
BETS = ("bet", "raise", "half-pot", "pot")

BET_SIZES = (0.25, 2.0)
"""Sizes of bets, as fractions of the pot, between which colours differ."""


@dataclasses.dataclass(frozen=True, eq=False, repr=False)
class Document:
    """A header and chunks.

    Attributes:
      header: the record that `schema.json` describes as `header`.
      chunks: compressed records, in base64.
    """

    header: dict[str, Any]
    chunks: tuple[str, ...]

    def __repr__(self) -> str:
        return f"<Document {self.header['title']!r}: {megabytes(self.num_bytes)}>"

    @functools.cached_property
    def packed_header(self) -> str:
        """The header, compressed, in base64."""
        return _pack(self.header)

    @property
    def num_bytes(self) -> int:
        """Size in a page, in bytes, with the tags of chunks."""
        return len(self.packed_header) + sum(len(chunk) + TAG_BYTES for chunk in self.chunks)

    def chunk(self, number: int) -> dict[str, Any]:
        """A chunk's record."""
        return json.loads(gzip.decompress(base64.b64decode(self.chunks[number])))


class PageTooLargeError(ValueError):
    """A page would be larger than its limit.

    Attributes:
      share: share of the page, 0 to 1, that fits.
    """

    def __init__(self, message: str, share: float) -> None:
        super().__init__(message)
        self.share = share


class _Chunks:
    """Collects compressed chunks, up to the largest page.

    Args:
      limit: maximum size of the page, in bytes.
      reserved: size of the page without the document, in bytes.
      report: progress callback; receives numbers of private states, once for all lanes and once for each.
    """

    def __init__(self, limit: int, reserved: int, report: Progressed) -> None:
        self.chunks: list[str] = []
        self._limit, self._reserved, self._size, self._cells = limit, reserved, 0, 0
        self._report, self._done, self._total = report, 0, 0

    def expect(self, cells: int) -> None:
        """Announces chunks of private states."""
        self._total += cells
        self._report(self._done, self._total)

    @property
    def fitting_cells(self) -> float:
        """Number of private states that fit if all are stored as those so far."""
        return (self._limit - self._reserved) * max(self._cells, 1) / max(self._size, 1)

    def add(self, record: dict[str, Any], cells: int = 0, *, shared: bool = False) -> int:
        """Adds a chunk of some private states; returns its number.

        Args:
          record: the chunk.
          cells: number of private states.
          shared: True for what all lanes share, False for a lane's numbers.

        Raises:
          PageTooLargeError: if the page would be too large.
        """
        packed = _pack(record)
        self.chunks.append(packed)
        self._done += cells
        self._report(self._done, self._total)
        self._cells += 0 if shared else cells
        self.count(len(packed) + TAG_BYTES)
        return len(self.chunks) - 1

    def count(self, size: int) -> None:
        """Adds the size of a part of the page; raises PageTooLargeError if it is too large."""
        self._size += size
        if self._reserved + self._size > self._limit:
            raise PageTooLargeError(
                f"the page would be larger than {megabytes(self._limit)}: expected fewer strategies (lanes; "
                "on the command line --lanes), fewer moves (depth, --depth), or only the game after a line "
                "(below, --below), such as 'check, bet 50'",
                self._done / max(self._total, 1),
            )


def _pack(record: dict[str, Any]) -> str:
    text = json.dumps(record, separators=(",", ":"), allow_nan=False)
    return base64.b64encode(gzip.compress(text.encode(), 6, mtime=0)).decode()


def make_document(
    sources: Sequence[Source],
    *,
    title: str = "",
    depth: int | None = None,
    lanes: Sequence[int | str] | None = None,
    below: str = "",
    max_bytes: int = MAX_BYTES,
    reserved: int = 0,
    fit: bool = False,
) -> Document:
    """Evaluates strategies at all public nodes.

    Args:
      sources: the strategies.
      title: title of the document; by default that of the first source.
      depth: number of moves, those of chance included, below the line `below`; by default all.
      lanes: strategies to include, by number or label, with those that they are compared with.
      below: line such as `check, bet 50` of the node below which the game is included.
      max_bytes: maximum size of the page, in bytes.
      reserved: size of the page without the document, in bytes.
      fit: include fewer moves, instead of raising an error, if the document is too large.

    Raises:
      ValueError: if there is no such line or lane, or a number is out of range.
      PageTooLargeError: if the document is too large.
    """
    if depth is not None:
        check_whole_number("depth", depth, 0)
    sources = [source.take(lanes) for source in sources]
    title = title or (sources[0].title if len(sources) == 1 else f"{len(sources)} results")
    with progress_bar("writing the page", None) as report, _collector_suspended():
        while True:
            chunks = _Chunks(max_bytes, reserved, report)
            try:
                views = [_make_view(source, chunks, depth, below) for source in sources]
                document = Document(_header(title) | {"views": views}, tuple(chunks.chunks))
                chunks.count(len(document.packed_header))
                return document
            except PageTooLargeError:
                if not fit or depth == 0:
                    raise
                depth = _find_depth(sources, depth, below, chunks.fitting_cells)


class RowLink(NamedTuple):
    """The place of a row's strategies: a page, and the lanes of the result and of its blueprint there."""

    page: str
    lane: int
    base: int


@contextlib.contextmanager
def _collector_suspended() -> Generator[None]:
    """Suspends the garbage collector, which would search the many small lists of records again and again."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


def make_report(rows: pd.DataFrame, title: str, links: Sequence[RowLink | None] = ()) -> Document:
    """A document of rows of numbers alone, such as those of a sweep; columns without any are omitted.

    Args:
      rows: the rows.
      title: title of the document.
      links: for each row the page with its strategies, None for none; by default none has one.

    Raises:
      ValueError: if a page's name is none in the folder of the document.
    """
    pages = sorted({link.page for link in links if link is not None})
    if wrong := [page for page in pages if not re.fullmatch(PAGE_NAME, page)]:
        raise ValueError(f"links: {wrong[0]!r}: expected the name of a page, such as 'kuhn.html'")
    places = [None if link is None else [pages.index(link.page), link.lane, link.base] for link in links]
    table = {**_rows_of(rows), "pages": pages, "links": places}
    return Document(_header(title) | {"views": [], "sweep": table}, ())


def _header(title: str) -> dict[str, Any]:
    return {
        "format": FORMAT,
        "version": VERSION,
        "written_by": f"jaxgadget {version('jaxgadget')}",
        "title": title,
    }


def _make_view(source: Source, chunks: _Chunks, depth: int | None, line: str) -> dict[str, Any]:
    """The record of a source, whose nodes go into chunks."""
    nodes, spot = source.nodes, source.spot
    kept = _kept_nodes(nodes, depth, line)
    inside = set(kept)
    number_of = np.full(len(nodes), -1, np.int64)
    number_of[kept] = np.arange(len(kept))
    groups = list(_groups_of_nodes(nodes, kept))
    by_node = _cells_by_node(nodes)
    cells = [int(by_node[members].sum()) for members in groups]
    chunks.expect(sum(cells) * (1 + source.policy.num_lanes))
    frames = [
        chunks.add(_frames(nodes, members, number_of), count, shared=True)
        for members, count in zip(groups, cells, strict=True)
    ]
    unit = _value_unit(source.policy.tree.payoff_range)
    values: list[list[int]] = []
    for numbers in _evaluated(nodes, source):
        for lane in range(len(numbers.labels)):
            seats = [SeatDigits(nodes.cells[player], numbers.seats[player], lane, unit) for player in (0, 1)]
            reach = numbers.reach[:, lane].tolist()
            values.append([])
            for members, count in zip(groups, cells, strict=True):
                record = {
                    str(number_of[node]): _node_numbers(nodes, inside, reach, seats, node) for node in members
                }
                values[-1].append(chunks.add(record, count))
    return {
        "title": source.title,
        "game": source.policy.tree.game.name,
        "players": list(PLAYERS) if spot is not None else ["player 0", "player 1"],
        "unit": "chips" if spot is not None else "units of payoff",
        "value_unit": unit,
        "board": None if spot is None else spot.board,
        "pot": None if spot is None else spot.pot,
        "message": source.message,
        "tree": _tree(nodes, kept, groups, number_of),
        "num_omitted": len(nodes) - len(kept),
        "states": [states.names for states in nodes.states],
        "lanes": [
            {"label": label, "group": group, "base": base}
            for label, group, base in zip(source.policy.labels, source.groups, source.base, strict=True)
        ],
        "table": _table(source),
        "frames": frames,
        "values": values,
        "refined": _refined(source, nodes, number_of, chunks),
    }


def _tree(
    nodes: Nodes, kept: Sequence[int], groups: Sequence[Sequence[int]], number_of: IntArray
) -> dict[str, Any]:
    """The record of the kept nodes: what is above them, who acts, and the chunk with their numbers."""
    chunk_of = np.full(len(nodes), -1, np.int64)
    for number, members in enumerate(groups):
        chunk_of[members] = number
    above = nodes.parent[kept]
    omitted = np.bincount(nodes.parent[1:][number_of[1:] < 0], minlength=len(nodes))
    if nodes.spot is not None and nodes.spot.is_flop:
        deals = np.flatnonzero(nodes.actor == CHANCE)
        omitted[deals] = [nodes.spot.betting.count_cards(node) for node in nodes.in_betting[deals].tolist()]
    moves = list(dict.fromkeys(nodes.label[node] for node in kept))
    move_of = {move: number for number, move in enumerate(moves)}
    return {
        "parent": np.where(above >= 0, number_of[above], -1).tolist(),
        "actor": [_actor_name(actor) for actor in nodes.actor[kept].tolist()],
        "move": [move_of[nodes.label[node]] for node in kept],
        "moves": moves,
        "chunk": chunk_of[kept].tolist(),
        "omitted": omitted[kept].tolist(),
    }


def _refined(source: Source, nodes: Nodes, number_of: IntArray, chunks: _Chunks) -> list[dict[str, Any]]:
    """Records of the subgames of refinements, in chunks; one entry for each player and cut."""
    refined: dict[tuple[int, str], dict[str, int]] = {}
    for refinement, lanes in source.refined:
        if isinstance(refinement, Refinement):
            key = refinement.player, refinement.forest.cut.name
            records = describe_subgames(nodes, refinement, number_of)
        else:
            key = refinement[0].player, "the start"
            records = list(map(describe_spot, refinement))
        numbers = refined.setdefault(key, {})
        for lane, record in zip(lanes, records, strict=True):
            if lane >= 0:
                numbers[str(lane)] = chunks.add(record)
    return [{"player": player, "cut": cut, "chunks": numbers} for (player, cut), numbers in refined.items()]


def _evaluated(nodes: Nodes, source: Source) -> Iterator[Numbers]:
    """Numbers of the lanes, as many at a time as fit."""
    tree, lanes = nodes.tree, source.policy.num_lanes
    size = len(tree.parent) * max(tree.num_hands)
    step = max(LANES_AT_ONCE // size, 1)
    for begin in range(0, lanes, step):
        chosen = np.arange(begin, min(begin + step, lanes))
        worth = None if source.worth is None else (source.worth[0][..., chosen], source.worth[1][..., chosen])
        yield find_numbers(nodes, source.policy.take_lanes(chosen), worth)


def _kept_nodes(nodes: Nodes, depth: int | None, below: str) -> list[int]:
    """The node after a line, the nodes above it, and those below it down to a depth."""
    top = nodes.find(below)
    last = int(nodes.depth.max()) if depth is None else int(nodes.depth[top]) + depth
    above: set[int] = set()
    node = top
    while node >= 0:
        above.add(node)
        node = int(nodes.parent[node])
    inside = np.zeros(len(nodes), np.bool_)
    inside[top] = True
    for node in range(top + 1, len(nodes)):
        inside[node] = inside[nodes.parent[node]] and nodes.depth[node] <= last
    return sorted({*above, *np.flatnonzero(inside).tolist()})


def _cells_by_node(nodes: Nodes) -> IntArray:
    """`[N]` number of both players' private states at each node."""
    first, second = (np.bincount(cells.node, minlength=len(nodes)) for cells in nodes.cells)
    return first + second


def _find_depth(sources: Sequence[Source], depth: int | None, below: str, fitting: float) -> int:
    """The largest depth, smaller than a given one, down to which so many private states fit."""
    all_nodes = [source.nodes for source in sources]
    cells_by_depth = np.zeros(1 + max(int(nodes.depth.max()) for nodes in all_nodes))
    deepest = 0
    for source, nodes in zip(sources, all_nodes, strict=True):
        kept = np.array(_kept_nodes(nodes, depth, below))
        under = np.maximum(nodes.depth[kept] - nodes.depth[nodes.find(below)], 0)
        np.add.at(cells_by_depth, under, _cells_by_node(nodes)[kept] * source.policy.num_lanes)
        deepest = max(deepest, int(under.max()))
    fits = np.flatnonzero(np.cumsum(cells_by_depth) <= fitting)
    return max(min(int(fits.max(initial=0)), deepest - 1), 0)


def _groups_of_nodes(nodes: Nodes, kept: Sequence[int]) -> Iterator[list[int]]:
    """Groups of nodes that share a chunk, from the top down, subtree by subtree; no terminal nodes."""
    inside, cells = set(kept), _cells_by_node(nodes).tolist()
    is_end = (nodes.actor == TERMINAL).tolist()
    group: list[int] = []
    count, stack = 0, [0]
    while stack:
        node = stack.pop()
        if is_end[node]:
            continue
        stack += [child for child in reversed(nodes.children[node]) if child in inside]
        group.append(node)
        count += cells[node] + 1
        if count >= CHUNK_CELLS:
            yield group
            group, count = [], 0
    if group:
        yield group


def _frames(nodes: Nodes, members: Sequence[int], number_of: IntArray) -> dict[str, Any]:
    """Records of nodes that all lanes share: private states, infostates, actions."""
    records: dict[str, Any] = {}
    for node in members:
        seats: list[dict[str, Any] | None] = []
        for player in (0, 1):
            cells = nodes.cells[player]
            at = cells.at(node)
            if at.stop == at.start:
                seats.append(None)
                continue
            seat: dict[str, Any] = {"states": nodes.states[player].idx[at].tolist()}
            if cells.actions[node]:
                seat["actions"] = _actions(nodes, node, player, number_of)
                if nodes.spot is None:
                    names = nodes.tree.infoset_names[player]
                    seat["infostates"] = [
                        " ".join(names[infoset].split()) if infoset >= 0 else None
                        for infoset in cells.infoset[at].tolist()
                    ]
            seats.append(seat)
        records[str(number_of[node])] = {"seats": seats}
    return records


def _actions(nodes: Nodes, node: int, player: int, number_of: IntArray) -> list[dict[str, Any]]:
    """Names, kinds and children of a player's actions at a node."""
    ids = nodes.cells[player].actions[node]
    below = {int(nodes.action[child]): child for child in nodes.children[node]}
    alone = int(nodes.actor[node]) in ACTOR_BIT and len(below) == len(nodes.children[node])
    spot = nodes.spot
    names = [nodes.action_names[player][action] for action in ids]
    if spot is not None:
        names = [spot.betting.action_name(nodes.in_betting[below[action]]) for action in ids]
    records: list[dict[str, Any]] = []
    bets = [name for name in names if _kind(name) == "bet"]
    for action, name in zip(ids, names, strict=True):
        kind = _kind(name)
        record: dict[str, Any] = {"name": name, "kind": kind, "id": int(action)}
        if kind == "bet":
            record["size"] = (bets.index(name) + 0.5) / len(bets)
            if spot is not None:
                record["size"] = _bet_size(nodes, below[action])
        child = int(number_of[below[action]]) if alone and action in below else -1
        records.append(record | {"child": child})
    return records


@functools.cache
def _kind(name: str) -> str:
    """Kind of an action, by which the page colours it."""
    lower = name.casefold().replace("all-in", "allin").replace("all in", "allin")
    if lower.startswith("fold"):
        return "fold"
    if lower.startswith(PASSIVE):
        return "passive"
    if lower.startswith("allin"):
        return "all-in"
    return "bet" if lower.startswith(BETS) else "other"


def _bet_size(nodes: Nodes, child: int) -> float:
    """Position of a bet's size between the smallest and the largest colour, 0 to 1."""
    assert nodes.spot is not None
    (low, high), size = BET_SIZES, nodes.spot.betting.bet_size(int(nodes.in_betting[child])) or 0.0
    return float(np.clip(math.log(max(size, low) / low) / math.log(high / low), 0, 1))


def _actor_name(actor: int) -> str:
    return {TERMINAL: "end", CHANCE: "chance", **{ACTOR_BIT[p]: str(p) for p in (0, 1)}}.get(actor, "both")


def _value_unit(payoff_range: float) -> float:
    """A power of ten, at most a thousandth of the range of payoffs."""
    return float(10.0 ** (math.floor(math.log10(max(payoff_range, 1e-300))) - 3))


def _node_numbers(
    nodes: Nodes, inside: set[int], reach: Sequence[float], seats: Sequence[SeatDigits], node: int
) -> dict[str, Any]:
    """A lane's numbers at a node.

    Args:
      nodes: all public nodes.
      inside: those in the document.
      reach: `[N]` probability of reaching each of them.
      seats: both players' numbers.
      node: the node.
    """
    reached, below = reach[node], [child for child in nodes.children[node] if child in inside]
    record: dict[str, Any] = {"reach": significant(reached)}
    if below:
        record["to"] = [significant(reach[child] / reached) if reached > 0 else None for child in below]
    both = [seat.at(node) for seat in seats]
    return record | {"seats": both} if any(both) else record


def _table(source: Source) -> dict[str, Any] | None:
    if source.table is None:
        return None
    return {**_rows_of(source.table), "lanes": list(source.rows)}


def _rows_of(table: pd.DataFrame) -> dict[str, Any]:
    """Columns and rows of a table; missing values are null, and columns without any value are omitted."""
    known = table.dropna(axis=1, how="all")
    known = known.astype(object).where(known.notna(), None)
    rows = [[jsonable(value) for value in row] for row in known.itertuples(index=False)]
    return {"columns": list(map(str, known.columns)), "rows": rows}
