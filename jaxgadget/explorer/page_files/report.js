// The report of a sweep: a table that is sorted and filtered, and a scatter of exploitabilities.

import { isNumeric } from "./data.js";
import { cellText, compareCells, element, sortButton, words } from "./dom.js";
import { drawScatter } from "./scatter.js";

const SHOWN = 400; // rows listed at a time
const FEW = 12; // values of a column up to which they can be chosen from a list
const PAGE = /^\w[\w-]*\.html$/; // names of pages in the folder of this one, and of nothing else

/**
 * @typedef {Pick<import("./data.js").Table, "columns" | "rows">} Table
 */

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
 * The address of a row's subgames, in a page beside this one; null if it has none.
 * @param {import("./data.js").Sweep} sweep
 * @param {number} row
 */
function linkOf(sweep, row) {
  const [page, lane, base] = sweep.links[row] ?? [-1, -1, -1];
  const name = sweep.pages[page] ?? "";
  return PAGE.test(name) ? `${name}#policy=${base}&with=${lane}&tab=subgames` : null;
}

/**
 * How to get to the strategies of a row: a link to its page, or the command that writes one.
 * @param {import("./data.js").Sweep} sweep
 * @param {number} row
 */
function drawWay(sweep, row) {
  const link = linkOf(sweep, row);
  if (link !== null) return [element("p", {}, [element("a", { href: link, "data-link": row, text: "Its subgames and strategies" })])];
  if (!sweep.columns.includes("game") || !sweep.columns.includes("gadget")) return [];
  return [
    element("p", { class: "note", text: "A sweep keeps numbers. This command solves the row again and writes a page with its subgames; `jaxgadget sweep` with --pages writes such pages for all rows:" }),
    element("div", { class: "command", text: commandOf(sweep, sweep.rows[row]) }),
  ];
}

/**
 * @typedef {{column: number, down: boolean, chosen: number, text: string, picked: Map<number, string>}} Filter what
 *   rows are sorted by, the row that is chosen, and what rows have to contain: a text, and values of columns as JSON
 */

/**
 * The values that occur in each column, as JSON.
 * @param {Table} table
 */
function valuesOfColumns(table) {
  return table.columns.map((_, column) => [...new Set(table.rows.map((row) => JSON.stringify(row[column])))]);
}

/**
 * The rows that pass the filter, in order.
 * @param {Table} table
 * @param {string[]} texts of each row, in small letters
 * @param {Filter} filter
 */
function rowsOf(table, texts, filter) {
  const required = filter.text.split(/\s+/);
  const rows = table.rows.flatMap((row, index) => {
    const picked = [...filter.picked].every(([column, value]) => JSON.stringify(row[column]) === value);
    return picked && required.every((text) => texts[index].includes(text)) ? [index] : [];
  });
  const { column, down } = filter;
  if (column >= 0) rows.sort((one, two) => (down ? -1 : 1) * compareCells(table.rows[one][column], table.rows[two][column]));
  return rows;
}

/**
 * A field for text, and a choice for each column with few values.
 * @param {Table} table
 * @param {string[][]} values of each column, as JSON
 * @param {Filter} filter
 * @param {() => void} draw
 */
function drawFilters(table, values, filter, draw) {
  const isWhole = (/** @type {any} */ cell) => typeof cell !== "number" || Number.isInteger(cell);
  const choices = table.columns.map((name, column) => {
    if (values[column].length < 2 || values[column].length > FEW || !table.rows.every((row) => isWhole(row[column]))) return null;
    const sorted = values[column].slice().sort((one, two) => compareCells(JSON.parse(one), JSON.parse(two)));
    const options = [element("option", { value: "", text: "all" }), ...sorted.map((value) => element("option", { value, text: cellText(JSON.parse(value)) }))];
    const pick = (/** @type {any} */ event) => {
      if (event.target.value) filter.picked.set(column, event.target.value);
      else filter.picked.delete(column);
      draw();
    };
    return element("label", {}, [element("span", { text: words(name) }), element("select", { "data-filter": name, onchange: pick }, options)]);
  });
  const type = (/** @type {any} */ event) => {
    filter.text = event.target.value.toLowerCase();
    draw();
  };
  return element("div", { class: "filters" }, [
    element("label", {}, [element("span", { text: "contains" }), element("input", { id: "filter", type: "search", oninput: type })]),
    ...choices,
  ]);
}

/**
 * A list of rows, cut to a length; the chosen row is always in it.
 * @param {Table} table
 * @param {number[]} columns
 * @param {number[]} rows
 * @param {Filter} filter
 * @param {(row: number) => void} choose
 * @param {() => void} draw
 */
function drawRows(table, columns, rows, filter, choose, draw) {
  const shown = rows.slice(0, SHOWN);
  if (rows.includes(filter.chosen) && !shown.includes(filter.chosen)) shown.unshift(filter.chosen);
  const sortBy = (/** @type {number} */ column) => {
    Object.assign(filter, { column, down: column === filter.column ? !filter.down : false });
    draw();
  };
  const head = element("tr", {}, columns.map((column) => element("th", { class: isNumeric(table, column) ? "number" : "" }, [
    sortButton(words(table.columns[column]), column === filter.column, filter.down, () => sortBy(column), { "data-sort": table.columns[column] }),
  ])));
  const body = shown.map((row) => element("tr", { class: `go${row === filter.chosen ? " selected" : ""}`, tabindex: 0, "data-row": row, onclick: () => choose(row) }, columns.map((column) => {
    const value = table.rows[row][column];
    return element("td", { class: typeof value === "number" ? "number" : "", text: cellText(value) });
  })));
  const count = `${rows.length} of ${table.rows.length} rows${rows.length > shown.length ? `, the first ${SHOWN} of them below` : ""}.`;
  return [
    element("p", { class: "note", text: count }),
    element("table", { class: "list results" }, [element("thead", {}, [head]), element("tbody", {}, body)]),
  ];
}

/**
 * @param {HTMLElement} app
 * @param {string} title
 * @param {import("./data.js").Sweep} table
 */
export function drawReport(app, title, table) {
  /** @type {Filter} */
  const filter = { column: -1, down: false, chosen: -1, text: "", picked: new Map() };
  const values = valuesOfColumns(table);
  const texts = table.rows.map((row) => row.map(cellText).join(" ").toLowerCase());
  const columns = values.flatMap((each, column) => (each.length > 1 ? [column] : []));
  const fixed = table.columns.flatMap((name, column) => {
    const cell = table.rows[0]?.[column] ?? null;
    return values[column].length === 1 && cell !== null ? [`${words(name)} ${cellText(cell)}`] : [];
  });
  const list = element("div");
  const side = element("aside");
  const choose = (/** @type {number} */ row) => {
    filter.chosen = filter.chosen === row ? -1 : row;
    draw();
    list.querySelector("tr.selected")?.scrollIntoView({ block: "nearest" });
  };
  function draw() {
    const rows = rowsOf(table, texts, filter);
    list.replaceChildren(...drawRows(table, columns, rows, filter, choose, draw));
    const parts = [drawScatter(table, rows, filter.chosen, choose, 440)];
    const chosen = table.rows[filter.chosen];
    if (chosen) {
      const facts = table.columns.flatMap((name, column) => (chosen[column] === null ? [] : [element("tr", {}, [element("th", { text: words(name) }), element("td", { class: "number", text: cellText(chosen[column]) })])]));
      parts.push(element("h3", { text: "Selected" }), ...drawWay(table, filter.chosen), element("table", { class: "facts" }, facts));
    }
    side.replaceChildren(...parts.filter((each) => each instanceof Node));
  }
  app.replaceChildren(element("main", { class: "report" }, [
    element("section", {}, [element("h1", { text: title }), element("p", { class: "note", text: fixed.join(", ") }), drawFilters(table, values, filter, draw), list]),
    side,
  ]));
  draw();
  document.documentElement.dataset.ready = "1";
}
