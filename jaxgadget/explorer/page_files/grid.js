// The middle of the page: the 13 × 13 grid of hold'em, or a table of private states.

import { actionColor, differenceColor, heatColor } from "./colors.js";
import { moveTo } from "./data.js";
import { element, handText, numberCell, percent, swatch, valueText } from "./dom.js";
import { cellsOf, change } from "./model.js";

/**
 * @typedef {{view: import("./data.js").View, seat: import("./model.js").Seat,
 *   other: import("./model.js").Seat | null, layer: string, difference: boolean, action: number,
 *   cards: string[], selected: string, span: [number, number], select: (name: string) => void}} Drawn
 */

/**
 * Smallest and largest finite value; a little apart.
 * @param {number[]} values
 * @returns {[number, number]}
 */
export function spanOf(values) {
  const finite = values.filter((value) => Number.isFinite(value));
  if (!finite.length) return [0, 1];
  const low = Math.min(...finite);
  const high = Math.max(...finite);
  return high - low > 1e-9 ? [low, high] : [low - 0.5, high + 0.5];
}

/**
 * Background of shares of actions from left to right.
 * @param {import("./data.js").Action[]} actions
 * @param {number[]} strategy
 * @param {number} chosen the action that is not dimmed, -1 for all
 */
export function stripes(actions, strategy, chosen) {
  /** @type {string[]} */
  const stops = [];
  let left = 0;
  actions.forEach((action, index) => {
    const share = strategy[index];
    if (!(share > 0)) return;
    const color = actionColor(action);
    const shown = chosen < 0 || chosen === index ? color : `color-mix(in srgb, ${color} 18%, var(--empty))`;
    stops.push(`${shown} ${(100 * left).toFixed(2)}% ${(100 * (left + share)).toFixed(2)}%`);
    left += share;
  });
  return stops.length ? `linear-gradient(to right, ${stops.join(", ")})` : "none";
}

/**
 * A bar with the shares of actions.
 * @param {import("./data.js").Action[]} actions
 * @param {number[]} strategy
 * @param {number} [chosen] the action that is not dimmed, -1 for all
 */
export function strip(actions, strategy, chosen = -1) {
  return element("span", { class: "strip", style: { background: stripes(actions, strategy, chosen) } });
}

/**
 * The text and colour of a cell of the grid in a layer other than the strategy.
 * @param {Drawn} drawn
 * @param {import("./model.js").Cell} cell
 * @param {import("./model.js").Cell | null} other
 * @returns {{text: string, color: string, ink: string} | null}
 */
export function heatOf(drawn, cell, other) {
  const { view, layer, difference, action } = drawn;
  const [low, high] = drawn.span;
  if (difference && other !== null) {
    if (layer === "strategy") {
      if (action >= 0) return shaded(other.strategy[action] - cell.strategy[action], 1, signedPercent);
      return shaded(change(cell, other), 1, percent);
    }
    const value = layer === "ev" ? other.ev - cell.ev : layer === "equity" ? other.equity - cell.equity : NaN;
    if (layer !== "reach") {
      const write = layer === "ev" ? (/** @type {number} */ x) => valueText(x, view.value_unit, true) : signedPercent;
      return shaded(value, Math.max(Math.abs(low), Math.abs(high)), write);
    }
    return shaded(other.weight - cell.weight, high, signedPercent);
  }
  if (layer === "ev") return heat(cell.ev, low, high, (value) => valueText(value, view.value_unit));
  if (layer === "equity") return heat(cell.equity, 0, 1, percent);
  return heat(cell.weight, 0, high, percent);
}

/** @param {number} share */
function signedPercent(share) {
  return (share > 0 ? "+" : "") + percent(share).replace("-", "−");
}

/**
 * @param {number} value
 * @param {number} low
 * @param {number} high
 * @param {(value: number) => string} write
 */
function heat(value, low, high, write) {
  if (Number.isNaN(value)) return null;
  const { color, text } = heatColor(high > low ? (value - low) / (high - low) : 0);
  return { text: write(value), color, ink: text };
}

/**
 * @param {number} value
 * @param {number} largest
 * @param {(value: number) => string} write
 */
function shaded(value, largest, write) {
  if (Number.isNaN(value)) return null;
  const { color, text } = differenceColor(largest > 0 ? value / largest : 0);
  return { text: write(value), color, ink: text };
}

/**
 * The grid of hold'em.
 * @param {Drawn} drawn
 * @returns {HTMLElement}
 */
export function drawGrid(drawn) {
  const { seat, layer, action, selected, select } = drawn;
  const cells = cellsOf(seat, drawn.cards);
  const others = drawn.other === null ? null : cellsOf(drawn.other, drawn.cards);
  const inner = cells.map((cell, index) => {
    const has = cell.rows.length > 0 && cell.weight > 0;
    const box = element("button", {
      class: `cell${has ? "" : " out"}${selected === cell.name ? " selected" : ""}`,
      "data-cell": cell.name,
      title: has ? undefined : cell.rows.length ? `${cell.name}: under a thousandth of the largest share` : `${cell.name}: not in the range`,
      onclick: () => select(cell.name),
    });
    box.append(element("span", { class: "name", text: cell.name }));
    if (!has) return box;
    if (layer === "strategy" && seat.actions.length && !drawn.difference) {
      const fill = element("span", { class: "fill" });
      fill.style.height = `${(100 * Math.max(cell.height, 0.06)).toFixed(1)}%`;
      fill.style.background = stripes(seat.actions, cell.strategy, action);
      box.prepend(fill);
    } else {
      const shown = heatOf(drawn, cell, others === null ? null : others[index]);
      if (shown !== null) {
        box.style.backgroundImage = `linear-gradient(${shown.color}, ${shown.color})`;
        box.style.color = shown.ink;
        box.classList.add("heat");
        box.append(element("span", { class: "number", text: shown.text.replace(" %", "") }));
      }
    }
    return box;
  });
  const dim = action >= 0 && layer === "strategy" && !drawn.difference;
  return element("div", { class: `grid${dim ? " dim" : ""}`, role: "group", "aria-label": "hands" }, inner);
}

/**
 * The table of private states.
 * @param {Drawn} drawn
 * @returns {HTMLElement}
 */
export function drawTable(drawn) {
  const { view, seat, other, action } = drawn;
  const acts = seat.actions.length > 0;
  const head = element("tr", {}, [
    element("th", { text: "private state", scope: "col" }),
    element("th", { text: "range", scope: "col", class: "number", title: "share of the states at this node" }),
    element("th", { text: "EV", scope: "col", class: "number", title: `in ${view.unit}` }),
    acts && element("th", { text: other === null ? "strategy" : "strategies", scope: "col", class: "bar" }),
    ...seat.actions.map((each, index) =>
      element("th", { text: each.name, scope: "col", class: `number${index === action ? " chosen" : ""}` }),
    ),
    acts && other !== null && element("th", { text: "change", scope: "col", class: "number" }),
  ]);
  const body = seat.rows.map((row) => stateRow(drawn, [row, ...(other === null ? [] : [other.rows[row.index]])]));
  return element("div", { class: "scroll" }, [
    element("table", { class: "states" }, [element("thead", {}, [head]), element("tbody", {}, body)]),
  ]);
}

/**
 * The row of a private state.
 * @param {Drawn} drawn
 * @param {import("./model.js").Row[]} both its numbers, by one policy or two
 */
function stateRow(drawn, both) {
  const { seat, layer, action, selected, select } = drawn;
  const unit = drawn.view.value_unit;
  const [row, second] = both;
  const amount = second === undefined ? 0 : change(row, second);
  const numbers = seat.actions.map((_, index) => numberCell(both.map((each) => {
    if (layer === "ev") return valueText(each.actionEv[index], unit);
    return percent(layer === "reach" ? each.strategy[index] * each.weight : each.strategy[index]);
  }), { "data-action": index }));
  const changed = { background: `color-mix(in srgb, var(--mark) ${(70 * amount).toFixed(1)}%, transparent)` };
  return element("tr", {
    class: `state${selected === row.name ? " selected" : ""}${row.weight > 0 ? "" : " out"}`,
    tabindex: 0,
    "data-state": row.name,
    title: row.infostate ?? row.name,
    onclick: () => select(row.name),
    onkeydown: (/** @type {KeyboardEvent} */ event) => {
      if (event.key === " ") select(row.name);
    },
  }, [
    element("th", { scope: "row", text: row.name }),
    numberCell(both.map((each) => percent(each.weight))),
    numberCell(both.map((each) => valueText(each.ev, unit))),
    numbers.length > 0 && element("td", { class: "bar" }, both.map((each) => strip(seat.actions, each.strategy, action))),
    ...numbers,
    numbers.length > 0 && second !== undefined && element("td", { class: "number", text: percent(amount), style: changed }),
  ]);
}

/**
 * The outcomes of a chance node: values, and what the next player does.
 * @param {import("./data.js").View} view
 * @param {number[]} nodes
 * @param {{to: (number | null)[], infos: import("./model.js").Info[]}[]} policies for one or two policies the
 *   probability of each outcome, and the numbers after it
 * @param {(node: number) => void} go
 */
export function drawOutcomes(view, nodes, policies, go) {
  const rows = nodes.map((node, index) => {
    const infos = policies.map((each) => each.infos[index]);
    const seats = infos.map((info) => info.seats.find((each) => each?.actions.length) ?? null);
    const strips = seats.map((seat) => strip(seat?.actions ?? [], seat?.frequency ?? []));
    const picks = (seats[0]?.actions ?? []).map((action, place) => {
      const text = seats.map((seat) => percent(seat?.frequency[place] ?? NaN)).join(" → ");
      return element("span", { class: "pick", title: action.name }, [swatch(actionColor(action)), element("span", { text })]);
    });
    const name = moveTo(view, node);
    return element("tr", { class: "state", tabindex: 0, "data-outcome": node, onclick: () => go(node) }, [
      element("th", { scope: "row" }, view.board === null ? [element("span", { text: name })] : handText(name)),
      numberCell(policies.map((each) => percent(each.to[index] ?? NaN))),
      ...[0, 1].map((player) => numberCell(infos.map((info) => valueText(info.seats[player]?.meanEv ?? NaN, view.value_unit)))),
      element("td", { class: "bar follows" }, [...strips, element("div", { class: "picks" }, picks)]),
    ]);
  });
  const heads = [["outcome", ""], ["share", "number"], ...view.players.map((name) => [`EV of ${name}`, "number"]), ["what follows", ""]];
  return element("table", { class: "states" }, [
    element("thead", {}, [element("tr", {}, heads.map(([text, kind]) => element("th", { text, class: kind })))]),
    element("tbody", {}, rows),
  ]);
}
