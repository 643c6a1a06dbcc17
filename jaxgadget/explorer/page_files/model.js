// The rows of a node: private states with a policy's numbers, and their cells in the grid of hold'em.

import { at, atAction, frameOf, valuesOf } from "./data.js";

export const RANKS = "AKQJT98765432";
const SUITS = "cdhs";

/**
 * @typedef {{index: number, name: string, infostate: string | null, reach: number, weight: number, ev: number,
 *   equity: number, strategy: number[], actionEv: number[]}} Row
 * @typedef {{player: number, actions: import("./data.js").Action[], rows: Row[], frequency: number[],
 *   meanEv: number, maxReach: number}} Seat
 * @typedef {{node: number, lane: number, reach: number, to: (number | null)[], seats: (Seat | null)[]}} Info
 * @typedef {{name: string, row: number, column: number, rows: Row[], combos: number, height: number,
 *   weight: number, strategy: number[], ev: number, equity: number, reach: number}} Cell
 */

/**
 * A lane's numbers at a node.
 * @param {import("./data.js").View} view
 * @param {number} lane
 * @param {number} node
 * @returns {Promise<Info>}
 */
export async function infoOf(view, lane, node) {
  const [frame, values] = await Promise.all([frameOf(view, node), valuesOf(view, lane, node)]);
  const seats = [0, 1].map((player) => {
    const own = frame?.seats[player];
    const numbers = values?.seats?.[player];
    if (!own || !numbers) return null;
    const actions = own.actions ?? [];
    const rows = own.states.map((state, index) => ({
      index,
      name: view.states[player][state],
      infostate: own.infostates?.[index] ?? null,
      reach: at(numbers.reach, index),
      weight: at(numbers.weight, index),
      ev: at(numbers.ev, index),
      equity: at(numbers.equity, index),
      strategy: actions.map((_, action) => atAction(numbers.strategy, action, index)),
      actionEv: actions.map((_, action) => atAction(numbers.action_ev, action, index)),
    }));
    const total = rows.reduce((sum, row) => sum + row.weight, 0) || 1;
    for (const row of rows) row.weight /= total;
    return {
      player,
      actions,
      rows,
      frequency: numbers.frequency ?? [],
      meanEv: numbers.mean_ev ?? NaN,
      maxReach: Math.max(...rows.map((row) => row.reach), 1e-300),
    };
  });
  return { node, lane, reach: values?.reach ?? (await reachOfEnd(view, lane, node)), to: values?.to ?? [], seats };
}

/**
 * The probability of getting to an end, for which no numbers are stored.
 * @param {import("./data.js").View} view
 * @param {number} lane
 * @param {number} node
 */
async function reachOfEnd(view, lane, node) {
  const parent = view.tree.parent[node];
  const above = parent < 0 ? null : await valuesOf(view, lane, parent);
  if (!above?.reach) return above?.reach ?? NaN;
  const siblings = view.tree.parent.flatMap((each, child) => (each === parent ? [child] : []));
  return above.reach * (above.to?.[siblings.indexOf(node)] ?? NaN);
}

/**
 * Half of the sum of absolute differences of probabilities: the share of play that differs.
 * @param {{strategy: number[]}} first
 * @param {{strategy: number[]}} second
 */
export function change(first, second) {
  let sum = 0;
  first.strategy.forEach((share, action) => {
    const difference = Math.abs(share - second.strategy[action]);
    if (!Number.isNaN(difference)) sum += difference;
  });
  return sum / 2;
}

/**
 * Row and column of a hand such as AhKd in the grid, suited hands above the diagonal.
 * @param {string} hand
 * @returns {[number, number]}
 */
export function placeOf(hand) {
  const first = RANKS.indexOf(hand[0]);
  const second = RANKS.indexOf(hand[2]);
  const high = Math.min(first, second);
  const low = Math.max(first, second);
  return hand[1] === hand[3] ? [high, low] : [low, high];
}

/**
 * @param {number} row
 * @param {number} column
 */
export function cellName(row, column) {
  const kind = row === column ? "" : column > row ? "s" : "o";
  return RANKS[Math.min(row, column)] + RANKS[Math.max(row, column)] + kind;
}

/**
 * The cell of a hand such as AhKd.
 * @param {string} hand
 */
export function cellOfHand(hand) {
  return cellName(...placeOf(hand));
}

/**
 * Number of hands of a cell without given cards.
 * @param {number} row
 * @param {number} column
 * @param {Set<string>} dead
 */
function combosOf(row, column, dead) {
  const [high, low] = [RANKS[Math.min(row, column)], RANKS[Math.max(row, column)]];
  let count = 0;
  for (const first of SUITS)
    for (const second of SUITS) {
      if (dead.has(high + first) || dead.has(low + second)) continue;
      if (row === column ? first < second : (first === second) === column > row) count += 1;
    }
  return count;
}

/**
 * The 169 cells of a seat; shares are means over hands by their reach, values by their weight.
 * @param {Seat} seat
 * @param {string[]} cards public cards
 * @returns {Cell[]}
 */
export function cellsOf(seat, cards) {
  const dead = new Set(cards);
  /** @type {Map<string, Row[]>} */
  const byPlace = new Map();
  for (const row of seat.rows) {
    const key = placeOf(row.name).join();
    const rows = byPlace.get(key);
    if (rows === undefined) byPlace.set(key, [row]);
    else rows.push(row);
  }
  const cells = [];
  for (let row = 0; row < 13; row += 1)
    for (let column = 0; column < 13; column += 1) {
      const rows = byPlace.get([row, column].join()) ?? [];
      const combos = combosOf(row, column, dead);
      const reach = rows.reduce((sum, each) => sum + each.reach, 0);
      cells.push({
        name: cellName(row, column),
        row,
        column,
        rows,
        combos,
        reach,
        height: combos ? reach / combos : 0,
        weight: rows.reduce((sum, each) => sum + each.weight, 0),
        strategy: seat.actions.map((_, action) => mean(rows, "reach", (each) => each.strategy[action])),
        ev: mean(rows, "weight", (each) => each.ev),
        equity: mean(rows, "weight", (each) => each.equity),
      });
    }
  const highest = Math.max(...cells.map((cell) => cell.height), 1e-300);
  for (const cell of cells) cell.height /= highest;
  return cells;
}

/**
 * @param {Row[]} rows
 * @param {"reach" | "weight"} by
 * @param {(row: Row) => number} value
 */
function mean(rows, by, value) {
  let total = 0;
  let sum = 0;
  for (const row of rows) {
    const each = value(row);
    if (Number.isNaN(each)) continue;
    total += row[by];
    sum += row[by] * each;
  }
  return total > 0 ? sum / total : NaN;
}
