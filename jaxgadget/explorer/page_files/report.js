// The report of a sweep: a table that is sorted and filtered, and a scatter of exploitabilities.

import { otherColor } from "./colors.js";
import { cellText, element, shortText } from "./dom.js";
import { compareCells } from "./panels.js";

const SVG = "http://www.w3.org/2000/svg";
const SHOWN = 400;
const FEW = 12;
const AXES = ["blueprint_exploitability", "refined_exploitability"];

/**
 * @typedef {{columns: string[], rows: any[][], lanes: number[]}} Table
 */

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

/** @param {string} name */
function words(name) {
  return name.replaceAll("_", " ");
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
 */
export function drawScatter(table, rows, chosen, choose) {
  const [first, second] = AXES.map((name) => table.columns.indexOf(name));
  if (first < 0 || second < 0) return null;
  const points = rows.filter((row) => table.rows[row][first] !== null && table.rows[row][second] !== null);
  if (!points.length) return null;
  const values = points.flatMap((row) => [table.rows[row][first], table.rows[row][second]]);
  const positive = values.filter((value) => value > 0);
  const high = positive.length ? Math.max(...positive) : 1;
  const low = Math.max(positive.length ? Math.min(...positive) : 0.1, high * 1e-6);
  const [begin, end] = [Math.floor(Math.log10(low)), Math.ceil(Math.log10(high) + 1e-9)];
  const [size, left, bottom] = [440, 54, 40];
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
  for (const row of points) {
    const cells = table.rows[row];
    const dot = svg("circle", { cx: x(cells[first]), cy: y(cells[second]), r: row === chosen ? 6 : 4, class: row === chosen ? "on" : "", "data-point": row });
    dot.setAttribute("fill", otherColor(kinds.indexOf(kindOf(table, cells))));
    dot.addEventListener("click", () => choose(row));
    dot.addEventListener("mouseenter", () => { hover.textContent = describe(table, row); });
    inner.push(dot);
  }
  const legend = element("div", { class: "legend" }, kinds.map((kind, index) => {
    const swatch = element("span", { class: "swatch" });
    swatch.style.background = otherColor(index);
    return element("span", {}, [swatch, element("span", { text: kind })]);
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

/**
 * The command that re-solves a row and writes its page.
 * @param {Table} table
 * @param {any[]} row
 */
function commandOf(table, row) {
  const cell = (/** @type {string} */ name) => row[table.columns.indexOf(name)] ?? null;
  const quote = (/** @type {any} */ text) => (/^[\w.:+-]+$/.test(String(text)) ? String(text) : `'${String(text).replaceAll("'", "'\\''")}'`);
  const parts = ["jaxgadget refine", quote(cell("game"))];
  for (const name of ["form", "cut", "player", "blueprint", "gadget", "prior", "epsilon", "model", "p", "alternative", "algorithm", "iterations", "dtype"]) {
    const value = cell(name);
    const usual = { form: "histories", prior: "none", alternative: "best-response" }[name];
    if (value === null || value === usual || (name === "p" && cell("model") === null) || (name === "epsilon" && [null, "none"].includes(cell("prior")))) continue;
    if (name === "iterations" && cell("algorithm") === "lp") continue;
    parts.push(`--${name} ${quote(value)}`);
  }
  return `${parts.join(" ")} --explore page.html`;
}

/**
 * @param {HTMLElement} app
 * @param {import("./data.js").Header} header
 */
export function drawReport(app, header) {
  /** @type {Table} */
  const table = header.sweep;
  const state = { column: -1, down: false, chosen: -1, text: "", /** @type {Map<number, string>} */ picked: new Map() };
  const distinct = table.columns.map((_, column) => [...new Set(table.rows.map((row) => JSON.stringify(row[column])))]);
  const varying = table.columns.flatMap((_, column) => (distinct[column].length > 1 ? [column] : []));
  const fixed = table.columns.flatMap((name, column) => (distinct[column].length === 1 && table.rows.length && table.rows[0][column] !== null ? [`${words(name)} ${cellText(table.rows[0][column])}`] : []));
  const chosenColumns = varying.filter((column) => distinct[column].length <= FEW && table.rows.every((row) => row[column] === null || typeof row[column] !== "number" || Number.isInteger(row[column])));
  const texts = table.rows.map((row) => row.map(cellText).join(" ").toLowerCase());
  const filters = element("div", { class: "filters" }, [
    element("label", {}, [element("span", { text: "contains" }), element("input", { id: "filter", type: "search", oninput: (/** @type {any} */ event) => { state.text = event.target.value.toLowerCase(); draw(); } })]),
    ...chosenColumns.map((column) => {
      const values = distinct[column].slice().sort((one, two) => compareCells(JSON.parse(one), JSON.parse(two)));
      const options = [element("option", { value: "", text: "all" }), ...values.map((value) => element("option", { value, text: cellText(JSON.parse(value)) }))];
      const change = (/** @type {any} */ event) => {
        if (event.target.value) state.picked.set(column, event.target.value);
        else state.picked.delete(column);
        draw();
      };
      return element("label", {}, [element("span", { text: words(table.columns[column]) }), element("select", { "data-filter": table.columns[column], onchange: change }, options)]);
    }),
  ]);
  const list = element("div");
  const side = element("aside");
  const choose = (/** @type {number} */ row) => {
    state.chosen = state.chosen === row ? -1 : row;
    draw();
  };
  function draw() {
    const rows = table.rows.flatMap((row, index) => {
      const picked = [...state.picked].every(([column, value]) => JSON.stringify(row[column]) === value);
      return picked && state.text.split(/\s+/).every((word) => texts[index].includes(word)) ? [index] : [];
    });
    const { column } = state;
    if (column >= 0) rows.sort((one, two) => (state.down ? -1 : 1) * compareCells(table.rows[one][column], table.rows[two][column]));
    const head = element("tr", {}, varying.map((each) => element("th", { class: typeof table.rows[0]?.[each] === "number" ? "number" : "" }, [
      element("button", { class: `sort${each === column ? " on" : ""}`, "data-sort": table.columns[each], text: words(table.columns[each]), onclick: () => { state.down = each === column ? !state.down : false; state.column = each; draw(); } }),
    ])));
    const shown = rows.slice(0, SHOWN);
    if (rows.includes(state.chosen) && !shown.includes(state.chosen)) shown.unshift(state.chosen);
    const body = shown.map((row) => element("tr", { class: `go${row === state.chosen ? " selected" : ""}`, tabindex: 0, "data-row": row, onclick: () => choose(row) }, varying.map((each) => {
      const value = table.rows[row][each];
      return element("td", { class: typeof value === "number" ? "number" : "", text: cellText(value) });
    })));
    const count = rows.length > shown.length ? `${rows.length} of ${table.rows.length} rows, the first ${SHOWN} of them below` : `${rows.length} of ${table.rows.length} rows`;
    list.replaceChildren(
      element("p", { class: "note", text: `${count}.` }),
      element("table", { class: "list results" }, [element("thead", {}, [head]), element("tbody", {}, body)]),
    );
    const chosen = table.rows[state.chosen];
    const parts = [drawScatter(table, rows, state.chosen, choose)];
    if (chosen) {
      parts.push(element("h3", { text: "Selected" }));
      if (table.columns.includes("game") && table.columns.includes("gadget"))
        parts.push(element("p", { class: "note", text: "A sweep keeps numbers. This command re-solves the row and writes a page with its subgames:" }), element("div", { class: "command", text: commandOf(table, chosen) }));
      parts.push(element("table", { class: "facts" }, table.columns.flatMap((name, index) => (chosen[index] === null ? [] : [element("tr", {}, [element("th", { text: words(name) }), element("td", { class: "number", text: cellText(chosen[index]) })])]))));
    }
    side.replaceChildren(...parts.filter((part) => part instanceof Node));
  }
  app.replaceChildren(element("main", { class: "report" }, [
    element("section", {}, [element("h1", { text: header.title }), element("p", { class: "note", text: fixed.join(", ") }), filters, list]),
    side,
  ]));
  draw();
  document.documentElement.dataset.ready = "1";
}
