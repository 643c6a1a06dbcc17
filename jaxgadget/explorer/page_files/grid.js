// The middle of the page: the 13 × 13 grid of hold'em, or a table of private states.

import { actionColor, differenceColor, heatColor } from "./colors.js";
import { moveTo } from "./data.js";
import { element, handText, percent, valueText } from "./dom.js";
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
 * The text and colour of a cell or row in a layer other than the strategy.
 * @param {Drawn} drawn
 * @param {{ev: number, equity: number, strategy: number[], weight: number, height?: number, reach: number}} row
 * @param {{ev: number, equity: number, strategy: number[], weight: number, height?: number, reach: number} | null} other
 * @returns {{text: string, color: string, ink: string} | null}
 */
export function heatOf(drawn, row, other) {
  const { view, layer, difference, action } = drawn;
  const [low, high] = drawn.span;
  if (difference && other !== null) {
    if (layer === "strategy") {
      if (action >= 0) return shaded(other.strategy[action] - row.strategy[action], 1, signedPercent);
      return shaded(rowChange(row, other), 1, percent);
    }
    const value = layer === "ev" ? other.ev - row.ev : layer === "equity" ? other.equity - row.equity : NaN;
    if (layer !== "reach") {
      const write = layer === "ev" ? (/** @type {number} */ x) => valueText(x, view.value_unit, true) : signedPercent;
      return shaded(value, Math.max(Math.abs(low), Math.abs(high)), write);
    }
    return shaded(other.weight - row.weight, high, signedPercent);
  }
  if (layer === "ev") return heat(row.ev, low, high, (value) => valueText(value, view.value_unit));
  if (layer === "equity") return heat(row.equity, 0, 1, percent);
  return heat(row.weight, 0, high, percent);
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
 * @param {{strategy: number[]}} first
 * @param {{strategy: number[]}} second
 */
function rowChange(first, second) {
  return change(/** @type {any} */ (first), /** @type {any} */ (second));
}

/**
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
 * @param {Drawn} drawn
 * @returns {HTMLElement}
 */
export function drawTable(drawn) {
  const { view, seat, other, layer, action, selected, select } = drawn;
  const unit = view.value_unit;
  const compared = other !== null;
  const equity = seat.rows.some((row) => !Number.isNaN(row.equity));
  const head = element("tr", {}, [
    element("th", { text: "private state", scope: "col" }),
    element("th", { text: "range", scope: "col", class: "number", title: "share of the states at this node" }),
    element("th", { text: "EV", scope: "col", class: "number", title: `in ${view.unit}` }),
    equity && element("th", { text: "equity", scope: "col", class: "number" }),
    seat.actions.length > 0 && element("th", { text: compared ? "strategies" : "strategy", scope: "col", class: "bar" }),
    ...seat.actions.map((each, index) =>
      element("th", { text: each.name, scope: "col", class: `number${index === action ? " chosen" : ""}` }),
    ),
    compared && seat.actions.length > 0 && element("th", { text: "change", scope: "col", class: "number" }),
  ]);
  const body = seat.rows.map((row, index) => {
    const second = other === null ? null : other.rows[index];
    const line = element("tr", {
      class: `state${selected === row.name ? " selected" : ""}${row.weight > 0 ? "" : " out"}`,
      tabindex: 0,
      "data-state": row.name,
      title: row.infostate ?? row.name,
      onclick: () => select(row.name),
      onkeydown: (/** @type {KeyboardEvent} */ event) => {
        if (event.key === " ") select(row.name);
      },
    });
    line.append(
      element("th", { scope: "row", text: row.name }),
      ...[
        (/** @type {import("./model.js").Row} */ each) => percent(each.weight),
        (/** @type {import("./model.js").Row} */ each) => valueText(each.ev, unit),
        equity && ((/** @type {import("./model.js").Row} */ each) => percent(each.equity)),
      ].filter((write) => write !== false).map((write) =>
        element("td", { class: "number" }, [
          element("div", { text: write(row) }),
          second !== null && element("div", { class: "second", text: write(second) }),
        ])),
    );
    if (seat.actions.length) {
      const bars = [row, ...(second === null ? [] : [second])].map((each) => {
        const bar = element("span", { class: "strip" });
        bar.style.background = stripes(seat.actions, each.strategy, action);
        return bar;
      });
      line.append(element("td", { class: "bar" }, bars));
    }
    seat.actions.forEach((_, chosen) => {
      const cell = element("td", { class: "number", "data-action": chosen });
      const texts = [row, ...(second === null ? [] : [second])].map((each) => {
        if (layer === "ev") return valueText(each.actionEv[chosen], unit);
        if (layer === "reach") return percent(each.strategy[chosen] * each.weight);
        return percent(each.strategy[chosen]);
      });
      texts.forEach((text, place) => cell.append(element("div", { class: place ? "second" : "", text })));
      line.append(cell);
    });
    if (second !== null && seat.actions.length) {
      const amount = change(row, second);
      const cell = element("td", { class: "number", text: percent(amount) });
      cell.style.background = `color-mix(in srgb, var(--mark) ${(70 * amount).toFixed(1)}%, transparent)`;
      line.append(cell);
    }
    return line;
  });
  return element("div", { class: "scroll" }, [
    element("table", { class: "states" }, [element("thead", {}, [head]), element("tbody", {}, body)]),
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
    const numbers = (/** @type {string[]} */ texts) =>
      element("td", { class: "number" }, texts.map((text, place) => element("div", { class: place ? "second" : "", text })));
    const seats = infos.map((info) => info.seats.find((each) => each?.actions.length) ?? null);
    const strips = seats.map((seat) => {
      const strip = element("span", { class: "strip" });
      if (seat) strip.style.background = stripes(seat.actions, seat.frequency, -1);
      return strip;
    });
    const picks = (seats[0]?.actions ?? []).map((action, place) => {
      const swatch = element("span", { class: "swatch" });
      swatch.style.background = actionColor(action);
      const text = seats.map((seat) => percent(seat?.frequency[place] ?? NaN)).join(" → ");
      return element("span", { class: "pick", title: action.name }, [swatch, element("span", { text })]);
    });
    const name = moveTo(view, node);
    return element("tr", { class: "state", tabindex: 0, "data-outcome": node, onclick: () => go(node) }, [
      element("th", { scope: "row" }, view.board === null ? [element("span", { text: name })] : handText(name)),
      numbers(policies.map((each) => percent(each.to[index] ?? NaN))),
      ...[0, 1].map((player) => numbers(infos.map((info) => valueText(info.seats[player]?.meanEv ?? NaN, view.value_unit)))),
      element("td", { class: "bar follows" }, [...strips, element("div", { class: "picks" }, picks)]),
    ]);
  });
  const heads = [["outcome", ""], ["share", "number"], ...view.players.map((name) => [`EV of ${name}`, "number"]), ["what follows", ""]];
  return element("table", { class: "states" }, [
    element("thead", {}, [element("tr", {}, heads.map(([text, kind]) => element("th", { text, class: kind })))]),
    element("tbody", {}, rows),
  ]);
}
