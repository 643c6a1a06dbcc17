// Reads the records of the page: a header and compressed chunks. schema.json documents them.

/**
 * @typedef {{unit: number, n: (number | null)[]}} Scaled Integers times a unit.
 * @typedef {{unit: number, n: (number | null)[][]}} ScaledRows One list for each action.
 * @typedef {{name: string, kind: string, id: number, child: number, size?: number}} Action
 * @typedef {{states: number[], actions?: Action[], infostates?: (string | null)[]}} SeatFrame
 * @typedef {{seats: (SeatFrame | null)[]}} Frame
 * @typedef {{reach: Scaled, weight: Scaled, ev?: Scaled, mean_ev?: number | null, equity?: Scaled,
 *   strategy?: ScaledRows, frequency?: number[], action_ev?: ScaledRows}} SeatValues
 * @typedef {{reach: number, to?: (number | null)[], seats?: (SeatValues | null)[]}} NodeValues
 * @typedef {{label: string, group: string, base: number}} Lane
 * @typedef {{columns: string[], rows: any[][], lanes: number[]}} Table
 * @typedef {{name: string, reach: number, response: number | null, entered: number | null, mass: number,
 *   promised: number | null, blueprint: number | null, refined: number | null, margin: number | null}} RootRow
 * @typedef {{subgame: number, node: number, value: number | null, gap: number | null, margin: number | null,
 *   gain: number | null, decision: boolean}} SubgameRow
 * @typedef {{player: number, cut: string, chunks: Record<string, number>}} Refined
 * @typedef {{title: string, game: string, players: string[], unit: string, value_unit: number,
 *   board: string | null, pot: number | null, message: string, num_omitted: number, states: string[][],
 *   tree: {parent: number[], actor: string[], move: number[], moves: string[], chunk: number[],
 *   omitted: number[]}, lanes: Lane[], table: Table | null, frames: number[], values: number[][],
 *   refined: Refined[]}} View
 * @typedef {{columns: string[], rows: any[][], pages: string[], links: ([number, number, number] | null)[]}} Sweep
 * @typedef {{format: string, version: number, written_by: string, title: string, views: View[],
 *   sweep?: Sweep}} Header
 */

/** @type {Map<number, Promise<any>>} */
const chunks = new Map();

/**
 * The record of a compressed chunk.
 * @param {string} id
 * @returns {Promise<any>}
 */
async function unpack(id) {
  const element = document.getElementById(id);
  if (element === null) throw new Error(`the page has no part ${id}`);
  const bytes = Uint8Array.from(atob(element.textContent ?? ""), (letter) => letter.charCodeAt(0));
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
  return new Response(stream).json();
}

/**
 * The record of a chunk; each is unpacked once.
 * @param {number} number
 * @returns {Promise<any>}
 */
export function chunk(number) {
  let record = chunks.get(number);
  if (record === undefined) {
    record = unpack(`chunk-${number}`);
    chunks.set(number, record);
  }
  return record;
}

/** @returns {Promise<Header>} */
export function readHeader() {
  return unpack("header");
}

/**
 * @param {View} view
 * @param {number} node
 * @returns {Promise<Frame | null>}
 */
export async function frameOf(view, node) {
  const number = view.tree.chunk[node];
  return number < 0 ? null : ((await chunk(view.frames[number]))[node] ?? null);
}

/**
 * @param {View} view
 * @param {number} lane
 * @param {number} node
 * @returns {Promise<NodeValues | null>}
 */
export async function valuesOf(view, lane, node) {
  const number = view.tree.chunk[node];
  return number < 0 ? null : ((await chunk(view.values[lane][number]))[node] ?? null);
}

/**
 * Numbers of a list; NaN for null.
 * @param {Scaled | undefined} list
 * @param {number} index
 */
export function at(list, index) {
  const whole = list?.n[index];
  return list === undefined || whole === null || whole === undefined ? NaN : whole * list.unit;
}

/**
 * @param {ScaledRows | undefined} rows
 * @param {number} action
 * @param {number} index
 */
export function atAction(rows, action, index) {
  const whole = rows?.n[action]?.[index];
  return rows === undefined || whole === null || whole === undefined ? NaN : whole * rows.unit;
}

/**
 * Children of every node, in order.
 * @param {View} view
 * @returns {number[][]}
 */
export function childrenOf(view) {
  /** @type {number[][]} */
  const lists = view.tree.parent.map(() => []);
  view.tree.parent.forEach((parent, node) => {
    if (parent >= 0) lists[parent].push(node);
  });
  return lists;
}

/**
 * The moves that lead to a node.
 * @param {View} view
 * @param {number} node
 * @returns {number[]} the nodes on the way, the root first
 */
export function pathTo(view, node) {
  const path = [node];
  while (view.tree.parent[path[0]] >= 0) path.unshift(view.tree.parent[path[0]]);
  return path;
}

/**
 * @param {View} view
 * @param {number} node
 */
export function moveTo(view, node) {
  return view.tree.moves[view.tree.move[node]];
}

/**
 * A line such as "check, bet 50".
 * @param {View} view
 * @param {number} node
 */
export function lineOf(view, node) {
  return pathTo(view, node).slice(1).map((each) => moveTo(view, each)).join(", ");
}

/**
 * The last node that a line leads to.
 * @param {View} view
 * @param {number[][]} children
 * @param {string} line
 */
export function findLine(view, children, line) {
  const spaced = (/** @type {string} */ text) => text.replace(/,\s*/g, ", ").trim();
  let node = 0;
  let left = spaced(line);
  while (left) {
    const next = children[node]
      .filter((child) => `${left}, `.startsWith(`${spaced(moveTo(view, child))}, `))
      .sort((first, second) => moveTo(view, second).length - moveTo(view, first).length)[0];
    if (next === undefined) return node;
    left = left.slice(spaced(moveTo(view, next)).length).replace(/^,\s*/, "");
    node = next;
  }
  return node;
}

/**
 * True for a column of numbers, some of which may be missing.
 * @param {{rows: any[][]}} table
 * @param {number} column
 */
export function isNumeric(table, column) {
  return table.rows.some((row) => typeof row[column] === "number");
}
