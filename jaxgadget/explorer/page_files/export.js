// The node shown as a CSV file or a PNG picture.

import { actionColor } from "./colors.js";
import { element, percent, valueText } from "./dom.js";
import { heatOf } from "./grid.js";
import { cellsOf } from "./model.js";

const CELL = 54; // width of a cell of the grid in a picture, in pixels

/**
 * @param {Blob} blob
 * @param {string} name
 */
export function download(blob, name) {
  const url = URL.createObjectURL(blob);
  element("a", { href: url, download: name }).click();
  setTimeout(() => URL.revokeObjectURL(url), 10_000);
}

/**
 * Rows as CSV. Texts that a spreadsheet would take for formulas begin with an apostrophe.
 * @param {any[][]} rows
 */
export function toCsv(rows) {
  const cell = (/** @type {any} */ value) => {
    if (value === null || value === undefined || (typeof value === "number" && Number.isNaN(value))) return "";
    const text = typeof value === "string" && /^[=+\-@\t\r]/.test(value) ? `'${value}` : String(value);
    return /[",\n\r]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
  };
  return rows.map((row) => `${row.map(cell).join(",")}\r\n`).join("");
}

/**
 * All numbers of a node.
 * @param {import("./data.js").View} view
 * @param {import("./model.js").Info[]} infos one for each policy
 */
export function nodeCsv(view, infos) {
  /** @type {any[][]} */
  const rows = [["policy", "player", "private_state", "infostate", "reach", "weight", "ev", "equity", "action", "probability", "action_ev"]];
  const round = (/** @type {number} */ x) => (Number.isNaN(x) ? NaN : Number(x.toPrecision(6)));
  for (const info of infos)
    for (const seat of info.seats)
      for (const row of seat?.rows ?? []) {
        const shared = [view.lanes[info.lane].label, view.players[seat?.player ?? 0], row.name, row.infostate, ...[row.reach, row.weight, row.ev, row.equity].map(round)];
        if (!seat?.actions.length) rows.push([...shared, "", "", ""]);
        seat?.actions.forEach((action, index) => rows.push([...shared, action.name, round(row.strategy[index]), round(row.actionEv[index])]));
      }
  return toCsv(rows);
}

/**
 * @typedef {{paper: string, ink: string, empty: string}} Theme colours of the background, of texts and of empty cells
 */

/**
 * Draws a grid or a table on a canvas.
 * @param {import("./grid.js").Drawn} drawn
 * @param {string} title
 * @param {Theme} theme
 * @returns {HTMLCanvasElement}
 */
export function drawPicture(drawn, title, theme) {
  const { seat } = drawn;
  const isGrid = drawn.view.board !== null;
  const [width, height] = isGrid ? [13 * CELL + 40, 13 * CELL + 120] : [760, 120 + 30 * seat.rows.length];
  const canvas = document.createElement("canvas");
  canvas.width = 2 * width;
  canvas.height = 2 * height;
  const context = /** @type {CanvasRenderingContext2D} */ (canvas.getContext("2d"));
  context.scale(2, 2);
  context.fillStyle = theme.paper;
  context.fillRect(0, 0, width, height);
  context.fillStyle = theme.ink;
  context.textBaseline = "middle";
  context.font = "600 15px system-ui, sans-serif";
  context.fillText(title, 20, 26, width - 40);
  context.font = "13px system-ui, sans-serif";
  let left = 20;
  seat.actions.forEach((action, index) => {
    context.fillStyle = actionColor(action);
    context.fillRect(left, 46, 14, 14);
    context.fillStyle = theme.ink;
    const text = `${action.name} ${percent(seat.frequency[index] ?? NaN)}`;
    context.fillText(text, left + 20, 54);
    left += 40 + context.measureText(text).width;
  });
  if (isGrid) paintGrid(context, drawn, theme);
  else paintTable(context, drawn, theme);
  return canvas;
}

/**
 * Shares of actions from left to right.
 * @param {CanvasRenderingContext2D} context
 * @param {import("./data.js").Action[]} actions
 * @param {number[]} strategy
 * @param {[number, number, number, number]} place left, top, width and height
 */
function paintStrip(context, actions, strategy, [left, top, width, height]) {
  let begin = left;
  actions.forEach((action, index) => {
    const part = (strategy[index] || 0) * width;
    context.fillStyle = actionColor(action);
    context.fillRect(begin, top, part, height);
    begin += part;
  });
}

/**
 * @param {CanvasRenderingContext2D} context
 * @param {import("./grid.js").Drawn} drawn
 * @param {Theme} theme
 */
function paintGrid(context, drawn, theme) {
  const { seat, other } = drawn;
  const size = CELL - 2;
  const others = other === null ? null : cellsOf(other, drawn.cards);
  cellsOf(seat, drawn.cards).forEach((cell, index) => {
    const [x, y] = [20 + cell.column * CELL, 80 + cell.row * CELL];
    context.fillStyle = theme.empty;
    context.fillRect(x, y, size, size);
    let ink = theme.ink;
    if (cell.weight > 0 && drawn.layer === "strategy" && seat.actions.length && !drawn.difference) {
      const height = size * Math.max(cell.height, 0.06);
      paintStrip(context, seat.actions, cell.strategy, [x, y + size - height, size, height]);
      if (cell.height > 0.7) ink = "#fff";
    } else if (cell.weight > 0) {
      const shown = heatOf(drawn, cell, others === null ? null : others[index]);
      if (shown !== null) {
        context.fillStyle = shown.color;
        context.fillRect(x, y, size, size);
        ink = shown.ink || theme.ink;
        context.fillStyle = ink;
        context.font = "11px system-ui, sans-serif";
        context.fillText(shown.text, x + 4, y + CELL - 14, size - 6);
      }
    }
    context.fillStyle = ink;
    context.font = "600 12px system-ui, sans-serif";
    context.fillText(cell.name, x + 4, y + 11);
  });
}

/**
 * @param {CanvasRenderingContext2D} context
 * @param {import("./grid.js").Drawn} drawn
 * @param {Theme} theme
 */
function paintTable(context, drawn, theme) {
  const { view, seat, other } = drawn;
  seat.rows.forEach((row, index) => {
    const y = 84 + 30 * index;
    context.fillStyle = theme.ink;
    context.fillText(row.name, 20, y + 11, 180);
    context.fillText(`${percent(row.weight)}   EV ${valueText(row.ev, view.value_unit)}`, 210, y + 11, 160);
    const second = other?.rows[index];
    paintStrip(context, seat.actions, row.strategy, [380, y, 350, second ? 10 : 22]);
    if (second) paintStrip(context, seat.actions, second.strategy, [380, y + 12, 350, 10]);
  });
}
