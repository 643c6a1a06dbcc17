// The left and right of the page: the line of play with actions and frequencies, and numbers of the selection.

import { actionColor } from "./colors.js";
import { chunk, lineOf, moveTo, pathTo } from "./data.js";
import { cellText, element, percent, shortText, valueText } from "./dom.js";
import { stripes } from "./grid.js";
import { cellsOf, change, infoOf } from "./model.js";
import { drawScatter } from "./report.js";

const MANY = 12;
const WIDE = 5; // columns beside the name that fit the panel

/**
 * @typedef {import("./data.js").View} View
 * @typedef {import("./model.js").Info} Info
 */

/**
 * Who acts at a node.
 * @param {View} view
 * @param {number} node
 */
export function actorText(view, node) {
  const actor = view.tree.actor[node];
  if (actor === "0" || actor === "1") return view.players[Number(actor)];
  return actor === "both" ? "both players" : actor === "chance" ? "chance" : "the end";
}

/**
 * The clickable moves of the line so far.
 * @param {View} view
 * @param {number} node
 * @param {(node: number) => void} go
 */
export function drawCrumbs(view, node, go) {
  const inner = pathTo(view, node).map((each, index, path) =>
    element("button", {
      class: `crumb${index === path.length - 1 ? " here" : ""}`,
      text: index ? moveTo(view, each) : "Start",
      "data-node": each,
      "aria-current": index === path.length - 1 ? "step" : undefined,
      onclick: () => go(each),
    }),
  );
  return element("nav", { class: "crumbs", "aria-label": "line so far" }, inner);
}

/**
 * The nodes on the path, each with its moves, their frequencies and bars.
 * @param {View} view
 * @param {number[][]} children
 * @param {Info[]} path numbers of the nodes on the path
 * @param {Info[] | null} others the same for the policy compared with
 * @param {number} marked child that the keyboard selects
 * @param {(node: number) => void} go
 */
export function drawPath(view, children, path, others, marked, go) {
  const last = path[path.length - 1].node;
  const blocks = path.map((info, index) => {
    const { node } = info;
    const below = children[node];
    const taken = index + 1 < path.length ? path[index + 1].node : -1;
    const head = element("button", { class: "who", onclick: () => go(node) }, [
      element("span", { text: actorText(view, node) }),
      element("span", { class: "reach", text: percent(info.reach), title: "probability of getting here" }),
    ]);
    const many = below.length > MANY;
    const omitted = view.tree.omitted[node];
    const moves = below.map((child, place) => {
      const share = info.to[place] ?? NaN;
      const second = others === null ? NaN : (others[index]?.to[place] ?? NaN);
      const action = actionTo(info, child);
      const bar = element("span", { class: "bar" });
      bar.style.width = `${(100 * (Number.isNaN(share) ? 0 : share)).toFixed(2)}%`;
      bar.style.background = action === null ? "var(--accent)" : actionColor(action);
      const inner = [
        element("span", { class: "move", text: moveTo(view, child) }),
        element("span", { class: "share", text: percent(share) }),
        !Number.isNaN(second) && element("span", { class: "share second", text: percent(second) }),
        !many && bar,
      ];
      const classes = ["child", child === taken && "taken", node === last && child === marked && "marked"];
      return element(
        "button",
        { class: classes.filter(Boolean).join(" "), "data-child": child, onclick: () => go(child) },
        inner,
      );
    });
    const left = 1 - info.to.reduce((/** @type {number} */ sum, share) => sum + (share ?? NaN), 0);
    const ended = left > 0.0005 ? `${percent(left)} of play ends here` : "";
    const note = omitted ? `${omitted} more not in this page` : below.length ? ended : "play ends here";
    return element("section", { class: `block${node === last ? " here" : ""}`, "data-block": node }, [
      head,
      element("div", { class: many ? "chips" : "moves" }, moves),
      note ? element("p", { class: "note", text: note }) : null,
    ]);
  });
  return element("div", { class: "path" }, blocks);
}

/**
 * @param {Info} info
 * @param {number} child
 */
function actionTo(info, child) {
  for (const seat of info.seats)
    for (const action of seat?.actions ?? []) if (action.child === child) return action;
  return null;
}

/**
 * Numbers of the node for both policies.
 * @param {View} view
 * @param {Info} info
 * @param {Info | null} other
 */
export function drawNode(view, info, other) {
  const infos = [info, ...(other === null ? [] : [other])];
  /** @type {[string, string[]][]} */
  const rows = [["reached", infos.map((each) => percent(each.reach))]];
  for (const player of [0, 1]) {
    if (!info.seats[player]) continue;
    const name = view.players[player];
    rows.push([`EV of ${name}`, infos.map((each) => valueText(each.seats[player]?.meanEv ?? NaN, view.value_unit))]);
  }
  const parts = [facts(rows, other === null ? null : ["first", "second"])];
  for (const player of [0, 1]) {
    const seat = info.seats[player];
    if (!seat?.actions.length) continue;
    const name = view.tree.actor[info.node] === "both" ? `${view.players[player]} plays` : "Played in total";
    parts.push(element("h3", { text: name }), actionRows(view, seat.actions, infos.map((each) => each.seats[player]?.frequency ?? []), null));
  }
  return element("div", { class: "numbers" }, parts);
}

/**
 * @param {[string, string[]][]} rows
 * @param {string[] | null} heads
 */
function facts(rows, heads) {
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
    const swatch = element("span", { class: "swatch" });
    swatch.style.background = actionColor(action);
    const bars = shares.map((each) => {
      const bar = element("span", { class: "bar" });
      bar.style.width = `${(100 * (each[index] || 0)).toFixed(2)}%`;
      bar.style.background = actionColor(action);
      return element("span", { class: "track" }, [bar]);
    });
    return element("tr", {}, [
      element("th", { scope: "row" }, [swatch, element("span", { text: action.name })]),
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
 * @param {import("./model.js").Seat} seat
 * @param {import("./model.js").Seat | null} other
 * @param {string} selected
 * @param {string[]} cards
 */
export function drawSelection(view, seat, other, selected, cards) {
  if (!selected) {
    const what = view.board === null ? "a private state" : "a cell";
    return element("p", { class: "note", text: `Select ${what} to see its numbers.` });
  }
  const compared = other !== null;
  if (view.board === null) {
    const row = seat.rows.find((each) => each.name === selected);
    if (row === undefined) return element("p", { class: "note", text: `${selected} is not possible here.` });
    const second = other?.rows[row.index] ?? null;
    return element("div", { class: "numbers" }, [
      element("h3", { text: row.name }),
      row.infostate && row.infostate !== row.name ? element("p", { class: "infostate", text: row.infostate }) : null,
      rowFacts(view, row, second),
      seat.actions.length
        ? actionRows(view, seat.actions, [row.strategy, ...(second ? [second.strategy] : [])], [row.actionEv, ...(second ? [second.actionEv] : [])])
        : null,
    ]);
  }
  const cell = cellsOf(seat, cards).find((each) => each.name === selected);
  if (cell === undefined) return element("p", { class: "note", text: "" });
  const second = other === null ? null : (cellsOf(other, cards).find((each) => each.name === selected) ?? null);
  const hands = cell.rows.map((row) => {
    const both = [row, ...(compared ? [other.rows[row.index]] : [])];
    const value = (/** @type {(each: import("./model.js").Row) => string} */ text) => both.map(text).join(" → ");
    const strips = both.map((each) => {
      const strip = element("span", { class: "strip" });
      strip.style.background = stripes(seat.actions, each.strategy, -1);
      return strip;
    });
    const shares = seat.actions.map((action, index) => {
      const swatch = element("span", { class: "swatch", title: action.name });
      swatch.style.background = actionColor(action);
      const text = value((each) => percent(each.strategy[index]));
      return element("span", { class: "pick", title: action.name }, [swatch, element("span", { "data-action": index, text })]);
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
        ["of the range", [percent(cell.weight), ...(second ? [percent(second.weight)] : [])]],
        ["EV", [valueText(cell.ev, view.value_unit), ...(second ? [valueText(second.ev, view.value_unit)] : [])]],
        ["equity", [percent(cell.equity), ...(second ? [percent(second.equity)] : [])]],
      ],
      second ? ["first", "second"] : null,
    ),
    seat.actions.length ? actionRows(view, seat.actions, [cell.strategy, ...(second ? [second.strategy] : [])], null) : null,
    element("div", { class: "hands" }, hands),
  ]);
}

/**
 * The hands that take an action: their shares of it, so that bluffs are those with little equity.
 * @param {View} view
 * @param {import("./model.js").Seat} seat
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
  const columns = /** @type {const} */ (["share", "taken", ...(takers.some((each) => !Number.isNaN(each.equity)) ? /** @type {const} */ (["equity"]) : []), "EV"]);
  const key = columns.find((name) => name === order.column) ?? "share";
  takers.sort((one, two) => (order.down ? -1 : 1) * (one[key] - two[key] || 0));
  const head = element("tr", {}, [
    element("th", { text: "state" }),
    ...columns.map((name) => element("th", { class: "number" }, [element("button", { class: `sort${name === key ? " on" : ""}`, "data-takers": name, text: name, onclick: () => sortBy(name) })])),
  ]);
  const rows = takers.map(({ row, ...numbers }) =>
    element("tr", { "data-taker": row.name }, [
      element("td", {}, view.board === null ? [element("span", { text: row.name })] : handText(row.name)),
      ...columns.map((name) => element("td", { class: "number", text: name === "EV" ? valueText(numbers.EV, view.value_unit) : percent(numbers[name]) })),
    ]),
  );
  return element("div", {}, [
    element("h3", { text: `Who plays ${seat.actions[action].name}` }),
    element("p", { class: "note", text: "Share: of all that play it. Taken: how often this one does. EV: of the action." }),
    element("table", { class: "list" }, [head, ...rows]),
  ]);
}

/**
 * The outcomes of a chance node: values, and what the next player does.
 * @param {View} view
 * @param {number[]} nodes
 * @param {(number | null)[]} shares
 * @param {Info[]} infos
 * @param {(node: number) => void} go
 */
export function drawOutcomes(view, nodes, shares, infos, go) {
  const rows = nodes.map((node, index) => {
    const info = infos[index];
    const seat = info.seats.find((each) => each?.actions.length) ?? null;
    const strip = element("span", { class: "strip" });
    if (seat) strip.style.background = stripes(seat.actions, seat.frequency, -1);
    const picks = (seat?.actions ?? []).map((action, place) => {
      const swatch = element("span", { class: "swatch" });
      swatch.style.background = actionColor(action);
      return element("span", { class: "pick", title: action.name }, [swatch, element("span", { text: percent(seat?.frequency[place] ?? NaN) })]);
    });
    const name = moveTo(view, node);
    return element("tr", { class: "state", tabindex: 0, "data-outcome": node, onclick: () => go(node) }, [
      element("th", { scope: "row" }, view.board === null ? [element("span", { text: name })] : handText(name)),
      element("td", { class: "number", text: percent(shares[index] ?? NaN) }),
      ...[0, 1].map((player) => element("td", { class: "number", text: valueText(info.seats[player]?.meanEv ?? NaN, view.value_unit) })),
      element("td", { class: "bar" }, [strip]),
      element("td", {}, [element("div", { class: "picks" }, picks)]),
    ]);
  });
  const heads = [["outcome", ""], ["share", "number"], ...view.players.map((name) => [`EV of ${name}`, "number"]), ["what follows", ""], ["", ""]];
  return element("table", { class: "states" }, [
    element("thead", {}, [element("tr", {}, heads.map(([text, kind]) => element("th", { text, class: kind })))]),
    element("tbody", {}, rows),
  ]);
}

/**
 * A small picture of a player's range.
 * @param {View} view
 * @param {import("./model.js").Seat} seat
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
  const rows = seat.rows.slice().sort((one, two) => two.weight - one.weight).slice(0, MANY).map((row) => {
    const bar = element("span", { class: "bar" });
    bar.style.width = `${((100 * row.weight) / largest).toFixed(1)}%`;
    return element("tr", {}, [
      element("th", { scope: "row", text: row.name }),
      element("td", { class: "tracks" }, [element("span", { class: "track" }, [bar])]),
      element("td", { class: "number", text: percent(row.weight) }),
    ]);
  });
  const more = seat.rows.length - rows.length;
  return element("div", {}, [head, element("table", { class: "actions ranges" }, rows), more > 0 ? element("p", { class: "note", text: `and ${more} more` }) : null]);
}

/**
 * A hand with its suits as symbols.
 * @param {string} hand
 */
export function handText(hand) {
  const parts = hand.match(/[2-9TJQKA][cdhs]/g) ?? [];
  if (!parts.length || parts.join("") !== hand) return [element("span", { text: hand })];
  const symbols = { c: "♣", d: "♦", h: "♥", s: "♠" };
  return parts.map((card) =>
    element("span", { class: `card ${card[1]}`, text: card[0] + symbols[/** @type {"c"} */ (card[1])] }),
  );
}

/**
 * @param {View} view
 * @param {import("./model.js").Row} row
 * @param {import("./model.js").Row | null} second
 */
function rowFacts(view, row, second) {
  const both = [row, ...(second ? [second] : [])];
  /** @type {[string, string[]][]} */
  const rows = [
    ["own reach", both.map((each) => percent(each.reach))],
    ["of the states here", both.map((each) => percent(each.weight))],
    ["EV", both.map((each) => valueText(each.ev, view.value_unit))],
  ];
  if (!Number.isNaN(row.equity)) rows.push(["equity", both.map((each) => percent(each.equity))]);
  if (second) rows.push(["change", [percent(change(row, second)), ""]]);
  return facts(rows, second ? ["first", "second"] : null);
}

/**
 * @typedef {{node: number, player: number, name: string, amount: number, weighted: number}} Change
 */

/**
 * Differences of two policies: of private states or, in hold'em, of nodes, with the hand that differs most.
 * @param {View} view
 * @param {number} first
 * @param {number} second
 * @param {(done: number) => void} report
 * @returns {Promise<Change[]>}
 */
export async function findChanges(view, first, second, report) {
  /** @type {Change[]} */
  const found = [];
  const acting = view.tree.actor.flatMap((actor, node) => (actor === "end" || actor === "chance" ? [] : [node]));
  for (const [index, node] of acting.entries()) {
    if (index % 200 === 0) report(index / acting.length);
    const [before, after] = await Promise.all([infoOf(view, first, node), infoOf(view, second, node)]);
    for (const player of [0, 1]) {
      const [seat, later] = [before.seats[player], after.seats[player]];
      if (!seat?.actions.length || !later) continue;
      const rows = seat.rows.map((row, place) => {
        const amount = change(row, later.rows[place]);
        const share = Math.max(before.reach * row.weight, after.reach * later.rows[place].weight) || 0;
        return { node, player, name: row.name, amount, weighted: amount * share };
      });
      if (view.board === null) found.push(...rows.filter((row) => row.amount > 0.0005));
      else {
        const weighted = rows.reduce((sum, row) => sum + row.weighted, 0);
        const most = rows.reduce((best, row) => (row.weighted > best.weighted ? row : best), rows[0]);
        const amount = seat.rows.reduce((sum, row, place) => sum + row.weight * rows[place].amount, 0);
        if (amount > 0.0005) found.push({ ...most, amount, weighted });
      }
    }
  }
  return found;
}

/**
 * @param {View} view
 * @param {Change[]} changes
 * @param {"weighted" | "amount"} by
 * @param {(by: "weighted" | "amount") => void} sortBy
 * @param {(change: Change) => void} go
 */
export function drawChanges(view, changes, by, sortBy, go) {
  const sorted = changes.slice().sort((one, two) => two[by] - one[by] || two.amount - one.amount).slice(0, 200);
  const head = element("tr", {}, [
    element("th", { text: view.board === null ? "private state" : "line" }),
    .../** @type {const} */ (["amount", "weighted"]).map((name) =>
      element("th", { class: "number" }, [
        element("button", {
          class: `sort${by === name ? " on" : ""}`,
          text: name === "amount" ? "change" : "× reach",
          title: name === "amount" ? "share of play that differs" : "the change times the probability of getting there",
          onclick: () => sortBy(name),
        }),
      ]),
    ),
  ]);
  const rows = sorted.map((each) => {
    const line = lineOf(view, each.node) || "start";
    return element("tr", { class: "go", tabindex: 0, "data-node": each.node, "data-name": each.name, onclick: () => go(each) }, [
      element("td", {}, [
        element("div", { text: view.board === null ? each.name : line }),
        element("div", { class: "sub", text: view.board === null ? `${view.players[each.player]}: ${line}` : `${view.players[each.player]}, most with ${each.name}` }),
      ]),
      element("td", { class: "number", text: percent(each.amount) }),
      element("td", { class: "number", text: percent(each.weighted) }),
    ]);
  });
  const note = changes.length ? "" : "Both policies are equal at all nodes of this page, to three digits.";
  return element("div", {}, [
    element("p", { class: "note", text: note || `${changes.length} differences, the largest first. Change: the share of play that differs.` }),
    element("table", { class: "list changes" }, [head, ...rows]),
  ]);
}

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
      facts(varying.map(({ name, column }) => [name.replaceAll("_", " "), [cellText(table.rows[0][column])]]), null),
    ]);
  const rows = table.rows.map((row, index) => ({ row, lane: table.lanes[index] }));
  if (order.column >= 0) rows.sort((one, two) => (order.down ? -1 : 1) * compareCells(one.row[order.column], two.row[order.column]));
  const head = element("tr", {}, varying.map(({ name, column }) =>
    element("th", { class: "number" }, [
      element("button", { class: `sort${order.column === column ? " on" : ""}`, text: name.replaceAll("_", " "), onclick: () => sortBy(column) }),
    ]),
  ));
  const body = rows.map((each) =>
    element("tr", { class: `go${each.lane === lane ? " selected" : ""}`, tabindex: 0, "data-lane": each.lane, onclick: () => go(each.lane) }, varying.map(({ column }) =>
      element("td", { class: typeof each.row[column] === "number" ? "number" : "", text: cellText(each.row[column]) }),
    )),
  );
  const same = fixed.filter(({ column }) => table.rows[0][column] !== null).map(({ name, column }) => `${name.replaceAll("_", " ")} ${cellText(table.rows[0][column])}`);
  return element("div", {}, [
    drawScatter(table, table.rows.map((_, index) => index), table.lanes.indexOf(lane), (row) => go(table.lanes[row])),
    element("p", { class: "note", text: [view.message, same.join(", ")].filter(Boolean).join(". ") }),
    element("div", { class: "scroll" }, [element("table", { class: "list results" }, [head, ...body])]),
  ]);
}

/**
 * Order of numbers, then texts; missing values last.
 * @param {any} one
 * @param {any} two
 */
export function compareCells(one, two) {
  if (one === null || two === null) return (one === null ? 1 : 0) - (two === null ? 1 : 0);
  if (typeof one === "number" && typeof two === "number") return one - two;
  return String(one).localeCompare(String(two), undefined, { numeric: true });
}

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
    ["subgame", "number in the order of the cut"],
    ["margin", "smallest improvement over the promise, of the opponent's private states"],
    ["gain", "improvement against an opponent that enters as its blueprint does and then best-responds"],
    ["gap", "NashConv of the gadget game"],
    ["value", "value guaranteed in the gadget game"],
  ]);
  const head = element("tr", {}, columns.map(([name, text]) =>
    element("th", { class: "number", title: text }, [
      element("button", { class: `sort${order.column === name ? " on" : ""}`, text: name, onclick: () => sortBy(name) }),
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
  const note = `Subgames below ${refined.cut}, in ${view.players[refined.player]}'s ${view.unit}; a click shows one.`;
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
        element("th", { text: "state", title: `${other}'s private state` }),
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
  const apart = [...table(`How ${other} enters:`, entry), ...table(`${own}'s value there:`, worth)];
  const together = table(`How ${other} enters, and ${own}'s value there:`, [...entry, ...worth]);
  return element("div", { class: "roots" }, entry.length + worth.length > WIDE ? apart : together);
}
