// The rows of numbers of a result: one for each of its policies.

import { isNumeric } from "./data.js";
import { cellText, compareCells, element, sortButton, words } from "./dom.js";
import { facts } from "./numbers.js";
import { drawScatter } from "./scatter.js";

/** @typedef {import("./data.js").View} View */

/**
 * Rows of numbers of the lanes; a click shows the lane.
 * @param {View} view
 * @param {number} lane
 * @param {{column: number, down: boolean}} order
 * @param {(column: number) => void} sortBy
 * @param {(lane: number) => void} go
 */
export function drawResults(view, lane, order, sortBy, go) {
  const { table } = view;
  if (table === null) return element("p", { class: "note", text: "No numbers beside the strategies." });
  const varying = table.columns
    .map((name, column) => ({ name, column }))
    .filter(({ column }) => table.rows.length === 1 || new Set(table.rows.map((row) => JSON.stringify(row[column]))).size > 1);
  const fixed = table.columns.map((name, column) => ({ name, column })).filter((each) => !varying.some((other) => other.column === each.column));
  if (table.rows.length === 1)
    return element("div", {}, [
      element("p", { class: "note", text: view.message }),
      facts(varying.map(({ name, column }) => [words(name), [cellText(table.rows[0][column])]]), null),
    ]);
  const rows = table.rows.map((row, index) => ({ row, lane: table.lanes[index] }));
  if (order.column >= 0) rows.sort((one, two) => (order.down ? -1 : 1) * compareCells(one.row[order.column], two.row[order.column]));
  const head = element("tr", {}, varying.map(({ name, column }) =>
    element("th", { class: isNumeric(table, column) ? "number" : "" }, [
      sortButton(words(name), order.column === column, order.down, () => sortBy(column)),
    ]),
  ));
  const body = rows.map((each) =>
    element("tr", { class: `go${each.lane === lane ? " selected" : ""}`, tabindex: 0, "data-lane": each.lane, onclick: () => go(each.lane) }, varying.map(({ column }) =>
      element("td", { class: typeof each.row[column] === "number" ? "number" : "", text: cellText(each.row[column]) }),
    )),
  );
  const same = fixed.filter(({ column }) => table.rows[0][column] !== null).map(({ name, column }) => `${words(name)} ${cellText(table.rows[0][column])}`);
  return element("div", {}, [
    drawScatter(table, table.rows.map((_, index) => index), table.lanes.indexOf(lane), (row) => go(table.lanes[row]), 320),
    element("p", { class: "note", text: [view.message, same.join(", ")].filter(Boolean).join(". ") }),
    element("div", { class: "scroll" }, [element("table", { class: "list results" }, [head, ...body])]),
  ]);
}
