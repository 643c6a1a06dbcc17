// The numbers at the right of the page: those of the node, of what is selected, and who plays an action.

import { actionColor } from "./colors.js";
import { bar, element, handText, percent, sortButton, swatch, valueText } from "./dom.js";
import { strip } from "./grid.js";
import { cellsOf, change } from "./model.js";

const MANY_STATES = 12; // private states that the range of a player lists

/**
 * @typedef {import("./data.js").View} View
 * @typedef {import("./model.js").Info} Info
 * @typedef {import("./model.js").Seat} Seat
 */

/**
 * Numbers of the node.
 * @param {View} view
 * @param {Info} info
 * @param {Info | null} other the same of the policy compared with
 * @param {string[] | null} heads names of both policies, null if only one is shown
 */
export function drawNode(view, info, other, heads) {
  const infos = [info, ...(other === null ? [] : [other])];
  /** @type {[string, string[]][]} */
  const rows = [["reached", infos.map((each) => percent(each.reach))]];
  for (const player of [0, 1]) {
    if (!info.seats[player]) continue;
    const name = view.players[player];
    rows.push([`EV of ${name}`, infos.map((each) => valueText(each.seats[player]?.meanEv ?? NaN, view.value_unit))]);
  }
  const parts = [facts(rows, heads)];
  for (const player of [0, 1]) {
    const seat = info.seats[player];
    if (!seat?.actions.length) continue;
    const name = view.tree.actor[info.node] === "both" ? `${view.players[player]} plays` : "Played in total";
    parts.push(element("h3", { text: name }), actionRows(view, seat.actions, infos.map((each) => each.seats[player]?.frequency ?? []), null));
  }
  return element("div", { class: "numbers" }, parts);
}

/**
 * A table of names and their values.
 * @param {[string, string[]][]} rows
 * @param {string[] | null} heads names of the columns of values
 */
export function facts(rows, heads) {
  const lines = rows.map(([name, values]) =>
    element("tr", {}, [
      element("th", { scope: "row", text: name }),
      ...values.map((text) => element("td", { class: "number", text })),
    ]),
  );
  const head = heads === null ? null : element("tr", {}, [element("td"), ...heads.map((text) => element("th", { text, class: "number" }))]);
  return element("table", { class: "facts" }, [head, ...lines]);
}

/**
 * Actions with bars: probabilities, and values beside them.
 * @param {View} view
 * @param {import("./data.js").Action[]} actions
 * @param {number[][]} shares
 * @param {number[][] | null} values
 */
function actionRows(view, actions, shares, values) {
  const lines = actions.map((action, index) => {
    const color = actionColor(action);
    const bars = shares.map((each) => element("span", { class: "track" }, [bar(each[index], color)]));
    return element("tr", {}, [
      element("th", { scope: "row" }, [swatch(color), element("span", { text: action.name })]),
      element("td", { class: "tracks" }, bars),
      ...shares.map((each) => element("td", { class: "number share", text: percent(each[index] ?? NaN) })),
      ...(values ?? []).map((each) => element("td", { class: "number value", text: valueText(each[index], view.value_unit), title: "EV of the action" })),
    ]);
  });
  return element("table", { class: "actions" }, lines);
}

/**
 * Numbers of a selected cell of the grid or private state.
 * @param {View} view
 * @param {Seat} seat
 * @param {Seat | null} other
 * @param {string} selected
 * @param {string[]} cards public cards
 * @param {string[] | null} heads names of both policies, null if only one is shown
 */
export function drawSelection(view, seat, other, selected, cards, heads) {
  if (!selected) {
    const what = view.board === null ? "a private state" : "a hand";
    const actions = seat.actions.length ? ", or an action above to see who plays it" : "";
    return element("p", { class: "note", text: `Select ${what} to see its numbers${actions}.` });
  }
  return view.board === null ? drawState(view, seat, other, selected, heads) : drawCell(view, seat, other, selected, cards, heads);
}

/**
 * Numbers of a private state.
 * @param {View} view
 * @param {Seat} seat
 * @param {Seat | null} other
 * @param {string} selected
 * @param {string[] | null} heads
 */
function drawState(view, seat, other, selected, heads) {
  const row = seat.rows.find((each) => each.name === selected);
  if (row === undefined) return element("p", { class: "note", text: `${selected} is not possible here.` });
  const both = [row, ...(other === null ? [] : [other.rows[row.index]])];
  return element("div", { class: "numbers" }, [
    element("h3", { text: row.name }),
    row.infostate && row.infostate !== row.name ? element("p", { class: "infostate", text: row.infostate }) : null,
    rowFacts(view, both, heads),
    seat.actions.length
      ? actionRows(view, seat.actions, both.map((each) => each.strategy), both.map((each) => each.actionEv))
      : null,
  ]);
}

/**
 * Numbers of a cell of the grid of hold'em, and of its hands.
 * @param {View} view
 * @param {Seat} seat
 * @param {Seat | null} other
 * @param {string} selected
 * @param {string[]} cards public cards
 * @param {string[] | null} heads
 */
function drawCell(view, seat, other, selected, cards, heads) {
  const boxes = [seat, ...(other === null ? [] : [other])].flatMap((each) => cellsOf(each, cards).filter((box) => box.name === selected));
  const cell = boxes[0];
  if (cell === undefined) return element("p", { class: "note", text: `${selected} is no hand.` });
  const hands = cell.rows.map((row) => {
    const both = [row, ...(other === null ? [] : [other.rows[row.index]])];
    const value = (/** @type {(each: import("./model.js").Row) => string} */ text) => both.map(text).join(" → ");
    const strips = both.map((each) => strip(seat.actions, each.strategy));
    const shares = seat.actions.map((action, index) => {
      const text = value((each) => percent(each.strategy[index]));
      return element("span", { class: "pick", title: action.name }, [swatch(actionColor(action), action.name), element("span", { "data-action": index, text })]);
    });
    return element("div", { class: "hand", "data-hand": row.name }, [
      element("div", { class: "top" }, [
        element("span", {}, handText(row.name)),
        element("span", { title: "weight in the range × own probability of the line", text: `reach ${value((each) => percent(each.reach))}` }),
        element("span", { text: `EV ${value((each) => valueText(each.ev, view.value_unit))}` }),
        element("span", { text: `equity ${value((each) => percent(each.equity))}` }),
      ]),
      ...(seat.actions.length ? [...strips, element("div", { class: "picks" }, shares)] : []),
    ]);
  });
  return element("div", { class: "numbers" }, [
    element("h3", { text: `${cell.name}: ${cell.rows.length} of ${cell.combos} hands` }),
    facts(
      [
        ["of the range", boxes.map((each) => percent(each.weight))],
        ["EV", boxes.map((each) => valueText(each.ev, view.value_unit))],
        ["equity", boxes.map((each) => percent(each.equity))],
      ],
      heads,
    ),
    seat.actions.length ? actionRows(view, seat.actions, boxes.map((each) => each.strategy), null) : null,
    element("div", { class: "hands" }, hands),
  ]);
}

/**
 * @param {View} view
 * @param {import("./model.js").Row[]} both a private state, by one policy or two
 * @param {string[] | null} heads
 */
function rowFacts(view, both, heads) {
  /** @type {[string, string[]][]} */
  const rows = [
    ["own reach", both.map((each) => percent(each.reach))],
    ["of the states here", both.map((each) => percent(each.weight))],
    ["EV", both.map((each) => valueText(each.ev, view.value_unit))],
  ];
  if (both.length > 1) rows.push(["change", ["", percent(change(both[0], both[1]))]]);
  return facts(rows, heads);
}

/**
 * The hands that take an action: their shares of it, so that bluffs are those with little equity.
 * @param {View} view
 * @param {Seat} seat
 * @param {number} action
 * @param {{column: string, down: boolean}} order
 * @param {(column: string) => void} sortBy
 */
export function drawTakers(view, seat, action, order, sortBy) {
  const total = seat.rows.reduce((sum, row) => sum + row.weight * (row.strategy[action] || 0), 0) || 1;
  const takers = seat.rows
    .filter((row) => row.weight > 0 && row.strategy[action] > 0)
    .map((row) => ({ row, share: (row.weight * row.strategy[action]) / total, taken: row.strategy[action], equity: row.equity, EV: row.actionEv[action] }))
    .filter((each) => each.share >= 5e-4);
  const equities = takers.some((each) => !Number.isNaN(each.equity));
  const columns = /** @type {const} */ (["share", "taken", ...(equities ? /** @type {const} */ (["equity"]) : []), "EV"]);
  const key = columns.find((name) => name === order.column) ?? "share";
  takers.sort((one, two) => (order.down ? -1 : 1) * (one[key] - two[key] || 0));
  const head = element("tr", {}, [
    element("th", { text: view.board === null ? "private state" : "hand" }),
    ...columns.map((name) => element("th", { class: "number" }, [sortButton(name, name === key, order.down, () => sortBy(name), { "data-takers": name })])),
  ]);
  const rows = takers.map(({ row, ...numbers }) =>
    element("tr", { "data-taker": row.name }, [
      element("td", {}, view.board === null ? [element("span", { text: row.name })] : handText(row.name)),
      ...columns.map((name) => element("td", { class: "number", text: name === "EV" ? valueText(numbers.EV, view.value_unit) : percent(numbers[name]) })),
    ]),
  );
  const note = "Share: of all that play it. Taken: how often this one does. EV: of the action.";
  return element("div", {}, [
    element("h3", { text: `Who plays ${seat.actions[action].name}` }),
    element("p", { class: "note", text: equities ? `${note} Sorted by equity, a bet's bluffs come first.` : note }),
    element("table", { class: "list" }, [head, ...rows]),
  ]);
}

/**
 * A small picture of a player's range.
 * @param {View} view
 * @param {Seat} seat
 * @param {string[]} cards
 * @param {() => void} show
 */
export function drawRange(view, seat, cards, show) {
  const head = element("h3", { text: `Range of ${view.players[seat.player]}` });
  if (view.board !== null) {
    const boxes = cellsOf(seat, cards).map((cell) => {
      const box = element("span", { title: `${cell.name} ${percent(cell.weight)}` });
      box.style.opacity = cell.weight > 0 ? String(0.15 + 0.85 * cell.height) : "0.07";
      return box;
    });
    return element("div", {}, [head, element("button", { class: "mini", title: "show this player (p)", onclick: show }, boxes)]);
  }
  const largest = Math.max(...seat.rows.map((row) => row.weight), 1e-300);
  const rows = seat.rows.slice().sort((one, two) => two.weight - one.weight).slice(0, MANY_STATES).map((row) => {
    return element("tr", {}, [
      element("th", { scope: "row", text: row.name }),
      element("td", { class: "tracks" }, [element("span", { class: "track" }, [bar(row.weight / largest)])]),
      element("td", { class: "number", text: percent(row.weight) }),
    ]);
  });
  const more = seat.rows.length - rows.length;
  return element("div", {}, [head, element("table", { class: "actions ranges" }, rows), more > 0 ? element("p", { class: "note", text: `and ${more} more` }) : null]);
}
