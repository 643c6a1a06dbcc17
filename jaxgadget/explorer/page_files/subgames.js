// The subgames of a refinement: how the opponent enters, what it is promised, and what was gained.

import { chunk, lineOf } from "./data.js";
import { compareCells, element, percent, shortText, sortButton } from "./dom.js";

const WIDE = 5; // columns beside the name that fit the panel

/** @typedef {import("./data.js").View} View */

/**
 * The subgames of a refinement.
 * @param {View} view
 * @param {import("./data.js").Refined} refined
 * @param {number} lane
 * @param {number} shown subgame whose roots are listed, -1 for none
 * @param {{column: string, down: boolean}} order
 * @param {(column: string) => void} sortBy
 * @param {(row: import("./data.js").SubgameRow) => void} go
 */
export async function drawSubgames(view, refined, lane, shown, order, sortBy, go) {
  const number = refined.chunks[lane];
  if (number === undefined)
    return element("p", { class: "note", text: "This policy is no refinement; select one of the refined ones." });
  const record = await chunk(number);
  /** @type {import("./data.js").SubgameRow[]} */
  const rows = record.subgames.slice();
  const key = /** @type {keyof import("./data.js").SubgameRow} */ (order.column);
  rows.sort((one, two) => (order.down ? -1 : 1) * compareCells(one[key], two[key]));
  const columns = /** @type {const} */ ([
    ["subgame", "number of the subgame, in the order of the cut"],
    ["margin", "smallest improvement over the promise, of the opponent's private states"],
    ["gain", "improvement against an opponent that enters as its blueprint does and then best-responds"],
    ["gap", "NashConv of the gadget game"],
    ["value", "value guaranteed in the gadget game"],
  ]);
  const head = element("tr", {}, columns.map(([name, text]) =>
    element("th", { class: "number", title: text }, [
      sortButton(name === "subgame" ? "#" : name, order.column === name, order.down, () => sortBy(name)),
    ]),
  ));
  const body = rows.map((row) => {
    const numbers = element("tr", {}, [
      element("td", { text: String(row.subgame) }),
      ...columns.slice(1).map(([name]) => element("td", { class: "number", text: row.decision ? shortText(row[name]) : "–" })),
    ]);
    const line = element("tr", {}, [element("td", { colspan: columns.length, class: "sub", text: row.node >= 0 ? lineOf(view, row.node) : "" })]);
    const chosen = row.subgame === shown ? "selected" : "";
    return element("tbody", { class: chosen, tabindex: 0, "data-subgame": row.subgame, onclick: () => go(row) }, [
      numbers,
      line,
      row.subgame === shown && element("tr", {}, [element("td", { colspan: columns.length }, [drawRoots(view, refined, record.roots[shown] ?? [])])]),
    ]);
  });
  const note = `Subgames below ${refined.cut}; values are those of ${view.players[refined.player]}, in ${view.unit}. A click shows one.`;
  return element("div", {}, [
    element("p", { class: "note", text: note }),
    element("table", { class: "list subgames" }, [element("thead", {}, [head]), ...body]),
  ]);
}

/**
 * The opponent's entry into a subgame, and what it is promised.
 * @param {View} view
 * @param {import("./data.js").Refined} refined
 * @param {import("./data.js").RootRow[]} roots
 */
function drawRoots(view, refined, roots) {
  const [own, other] = [view.players[refined.player], view.players[1 - refined.player]];
  const differs = roots.some((root) => root.blueprint !== null && shortText(root.blueprint) !== shortText(root.promised));
  /** @typedef {[string, keyof import("./data.js").RootRow, string]} Column */
  /** @type {Column[]} */
  const ways = [
    ["enters", "reach", "its own probability of playing here by the blueprint"],
    ["best", "response", "the same by its best response to the refined policy"],
    ["gadget", "entered", "its entry in the solved gadget game: the probability of following (resolving; otherwise it leaves), of picking this state (max-margin), or of playing here (a copy of the game above)"],
  ];
  /** @type {Column[]} */
  const values = [
    ["promised", "promised", `${own}'s value that the gadget offers ${other} outside the subgame`],
    ["before", "blueprint", `${own}'s value against a best response to the blueprint`],
    ["now", "refined", "the same against the refined strategy"],
    ["margin", "margin", "now, minus what was promised; minus before if nothing was"],
  ];
  const present = (/** @type {Column} */ [, key]) => (key === "blueprint" ? differs : roots.some((root) => root[key] !== null));
  const text = (/** @type {Column} */ [, key], /** @type {number | null} */ value) => (ways.some((way) => way[1] === key) ? percent(value ?? NaN) : shortText(value));
  const table = (/** @type {string} */ title, /** @type {Column[]} */ columns) => [
    element("p", { class: "note", text: title }),
    element("table", { class: "list" }, [
      element("tr", {}, [
        element("th", { text: view.board === null ? "state" : "hand", title: `${other}'s private state` }),
        ...columns.map(([name, , hint]) => element("th", { text: name, title: hint, class: "number" })),
      ]),
      ...roots.map((root) =>
        element("tr", { class: "root" }, [
          element("td", { text: root.name }),
          ...columns.map((column) => {
            const value = /** @type {number | null} */ (root[column[1]]);
            return element("td", { class: "number", "data-root": column[1], text: text(column, value) });
          }),
        ]),
      ),
    ]),
  ];
  const [entry, worth] = [ways.filter(present), values.filter(present)];
  const apart = [...table(`How ${other} enters:`, entry), ...table(`Values of ${own} there:`, worth)];
  const together = table(`How ${other} enters, and values of ${own} there:`, [...entry, ...worth]);
  return element("div", { class: "roots" }, entry.length + worth.length > WIDE ? apart : together);
}
