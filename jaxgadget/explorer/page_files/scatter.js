// A scatter of refined against blueprint exploitability.

import { otherColor } from "./colors.js";
import { element, shortText, swatch, words } from "./dom.js";

const SVG = "http://www.w3.org/2000/svg";
const AXES = ["blueprint_exploitability", "refined_exploitability"];

/** @typedef {Pick<import("./data.js").Table, "columns" | "rows">} Table */

/**
 * @param {string} tag
 * @param {Record<string, any>} attributes
 * @param {Element[]} [inner]
 */
function svg(tag, attributes, inner = []) {
  const made = document.createElementNS(SVG, tag);
  for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, String(value));
  made.append(...inner);
  return made;
}

/**
 * What colours distinguish: the gadget and its prior.
 * @param {Table} table
 * @param {any[]} row
 */
function kindOf(table, row) {
  const parts = ["gadget", "prior"].map((name) => row[table.columns.indexOf(name)]);
  return parts.filter((part) => part !== undefined && part !== null).join(", ") || "all";
}

/**
 * A scatter of refined against blueprint exploitability, on logarithmic axes; null without these columns.
 * @param {Table} table
 * @param {number[]} rows the rows to draw
 * @param {number} chosen
 * @param {(row: number) => void} choose
 * @param {number} size width and height, in the unit of its texts
 */
export function drawScatter(table, rows, chosen, choose, size) {
  const [first, second] = AXES.map((name) => table.columns.indexOf(name));
  if (first < 0 || second < 0) return null;
  const points = rows.filter((row) => table.rows[row][first] !== null && table.rows[row][second] !== null);
  if (!points.length) return null;
  const values = points.flatMap((row) => [table.rows[row][first], table.rows[row][second]]);
  const positive = values.filter((value) => value > 0);
  const high = positive.length ? Math.max(...positive) : 1;
  const low = Math.max(positive.length ? Math.min(...positive) : 0.1, high * 1e-6);
  const [begin, end] = [Math.floor(Math.log10(low)), Math.ceil(Math.log10(high) + 1e-9)];
  const [left, bottom] = [54, 40];
  const place = (/** @type {number} */ value) => (Math.log10(Math.max(value, 10 ** begin)) - begin) / Math.max(end - begin, 1);
  const x = (/** @type {number} */ value) => left + place(value) * (size - left - 12);
  const y = (/** @type {number} */ value) => size - bottom - place(value) * (size - bottom - 12);
  /** @type {Element[]} */
  const inner = [];
  for (let power = begin; power <= end; power += 1) {
    const value = 10 ** power;
    const text = Math.abs(power) > 3 ? `1e${power}` : String(Number(value.toPrecision(1)));
    inner.push(svg("line", { class: "axis", x1: x(value), x2: x(value), y1: 12, y2: size - bottom }));
    inner.push(svg("line", { class: "axis", x1: left, x2: size - 12, y1: y(value), y2: y(value) }));
    for (const [px, py, anchor] of [[x(value), size - bottom + 15, "middle"], [left - 6, y(value) + 4, "end"]]) {
      const label = svg("text", { x: px, y: py, "text-anchor": anchor });
      label.textContent = text;
      inner.push(label);
    }
  }
  inner.push(svg("line", { class: "same", x1: x(10 ** begin), y1: y(10 ** begin), x2: x(10 ** end), y2: y(10 ** end) }));
  const title = svg("text", { x: (left + size) / 2, y: size - 6, "text-anchor": "middle" });
  title.textContent = words(AXES[0]);
  const side = svg("text", { x: 13, y: (size - bottom) / 2, "text-anchor": "middle", transform: `rotate(-90 13 ${(size - bottom) / 2})` });
  side.textContent = words(AXES[1]);
  inner.push(title, side);
  const kinds = [...new Set(table.rows.map((row) => kindOf(table, row)))];
  const hover = element("p", { class: "hover", text: "Below the dashed line a refinement is less exploitable than its blueprint." });
  points.sort((one, two) => Number(one === chosen) - Number(two === chosen)); // the chosen one lies on top
  for (const row of points) {
    const cells = table.rows[row];
    const dot = svg("circle", { cx: x(cells[first]), cy: y(cells[second]), r: row === chosen ? 6 : 4, class: row === chosen ? "on" : "", "data-point": row });
    dot.setAttribute("fill", otherColor(kinds.indexOf(kindOf(table, cells))));
    dot.addEventListener("click", () => choose(row));
    dot.addEventListener("mouseenter", () => { hover.textContent = describe(table, row); });
    inner.push(dot);
  }
  const legend = element("div", { class: "legend" }, kinds.map((kind, index) => {
    return element("span", {}, [swatch(otherColor(index)), element("span", { text: kind })]);
  }));
  return element("div", {}, [svg("svg", { class: "scatter", viewBox: `0 0 ${size} ${size}`, role: "img" }, inner), hover, legend]);
}

/**
 * A row in words.
 * @param {Table} table
 * @param {number} row
 */
function describe(table, row) {
  const cells = table.rows[row];
  const parts = ["game", "cut", "blueprint", "gadget", "prior"].map((name) => cells[table.columns.indexOf(name)]).filter((part) => part !== undefined && part !== null);
  const numbers = AXES.map((name) => `${words(name)} ${shortText(cells[table.columns.indexOf(name)])}`);
  return [...parts, ...numbers].join(", ");
}
