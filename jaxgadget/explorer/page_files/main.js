// The page: its state, the link to it, and what the keyboard and clicks do.

import { childrenOf, findLine, lineOf, moveTo, pathTo, readHeader } from "./data.js";
import { drawChanges, findChanges } from "./changes.js";
import { actionColor } from "./colors.js";
import { element, handText, percent, swatch } from "./dom.js";
import { download, drawPicture, nodeCsv } from "./export.js";
import { drawGrid, drawOutcomes, drawTable, spanOf } from "./grid.js";
import { drawCrumbs, drawPath } from "./line.js";
import { cellOfHand, cellsOf, infoOf } from "./model.js";
import { drawNode, drawRange, drawSelection, drawTakers } from "./numbers.js";
import { drawReport } from "./report.js";
import { drawResults } from "./results.js";
import { findMatches } from "./search.js";
import { drawSubgames } from "./subgames.js";

const LAYERS = [["strategy", "Strategy"], ["ev", "EV"], ["reach", "Range"], ["equity", "Equity"]];
const HELP = [
  ["↑ ↓", "select a move"], ["→ or Enter", "play it"], ["← or Backspace", "one move back"], ["Home", "to the start"],
  ["1 … 9", "play the move of this number"], ["/", "search for a private state, an infostate or a line"],
  ["v", "next layer: strategy, EV, range, equity"], ["p", "the other player's range"], ["c", "compare, or stop comparing"],
  ["d", "side by side, or the difference"], ["t", "light or dark"], ["?", "this help"],
];

/**
 * @typedef {{view: number, lane: number, other: number, node: number, player: number, layer: string,
 *   difference: boolean, action: number, selected: string, tab: string, marked: number,
 *   changesBy: "weighted" | "amount", order: {column: number, down: boolean},
 *   subgameOrder: {column: string, down: boolean}, refined: number, subgame: number, takers: {column: string, down: boolean}}} State
 */

/** @type {import("./data.js").Header} */
let header;
/** @type {number[][]} */
let children = [];
/** @type {State} */
const state = {
  view: 0, lane: 0, other: -1, node: 0, player: -1, layer: "strategy", difference: false, action: -1, selected: "",
  tab: "hand", marked: -1, changesBy: "weighted", order: { column: -1, down: true },
  subgameOrder: { column: "gain", down: true }, refined: 0, subgame: -1,
  takers: { column: "share", down: true },
};
/** @type {Map<string, Promise<import("./changes.js").Change[]>>} */
const changes = new Map();
let drawing = 0;
let written = "";
const framed = window.parent !== window;

function view() {
  return header.views[state.view];
}

/** @param {string} id */
function part(id) {
  return /** @type {HTMLElement} */ (document.getElementById(id));
}

/**
 * Changes the state and draws the page.
 * @param {Partial<State>} change
 */
function set(change) {
  if (change.view !== undefined && change.view !== state.view) {
    Object.assign(state, { node: 0, lane: 0, other: -1, selected: "", player: -1, action: -1, subgame: -1, refined: 0 });
    changes.clear();
  }
  Object.assign(state, change);
  if (change.view !== undefined) {
    children = childrenOf(view());
    comparePair();
  }
  if (change.node !== undefined) Object.assign(state, { marked: -1, ...(change.player === undefined ? { player: -1 } : {}), action: -1 });
  if (state.other === state.lane) state.other = -1;
  if (state.other < 0) state.difference = false;
  writeLink();
  void draw();
}

/** @param {number} node */
function go(node) {
  if (node >= 0) set({ node });
}

function writeLink() {
  if (framed) return;
  const parts = new Map([["line", lineOf(view(), state.node)]]);
  if (state.view) parts.set("view", String(state.view));
  if (state.lane || state.other < 0) parts.set("policy", String(state.lane));
  if (state.other >= 0) parts.set("with", String(state.other));
  if (state.layer !== "strategy") parts.set("layer", state.layer);
  if (state.difference) parts.set("difference", "1");
  if (state.selected) parts.set("select", state.selected);
  if (state.tab !== "hand") parts.set("tab", state.tab);
  if (state.tab === "subgames" && state.refined) parts.set("of", String(state.refined));
  if (state.tab === "subgames" && state.subgame >= 0) parts.set("subgame", String(state.subgame));
  const link = [...parts].map(([name, value]) => `${name}=${encodeURIComponent(value).replaceAll("%20", "+").replaceAll("%2C", ",")}`).join("&");
  if (link === written) return;
  const moved = written.split("&")[0] !== link.split("&")[0];
  written = link;
  if (moved) location.hash = link; // a step back leads to the node before
  else history.replaceState(null, "", `#${link}`);
}

function readLink() {
  const parts = new URLSearchParams(location.hash.slice(1));
  const number = (/** @type {string} */ name, /** @type {number} */ otherwise, /** @type {number} */ limit) => {
    const value = Number(parts.get(name) ?? otherwise);
    return Number.isInteger(value) && value >= -1 && value < limit ? value : otherwise;
  };
  const shown = Math.max(number("view", 0, header.views.length), 0);
  if (shown !== state.view) Object.assign(state, { view: shown, selected: "" });
  children = childrenOf(view());
  const lanes = view().lanes.length;
  const node = findLine(view(), children, parts.get("line") ?? "");
  if (node !== state.node) Object.assign(state, { player: -1, action: -1, marked: -1 });
  const layer = parts.get("layer") ?? "strategy";
  Object.assign(state, {
    node,
    lane: Math.max(number("policy", parts.has("with") ? 0 : state.lane, lanes), 0),
    other: number("with", parts.has("policy") ? -1 : state.other, lanes),
    layer: LAYERS.some(([name]) => name === layer) ? layer : "strategy",
    difference: parts.get("difference") === "1",
    selected: parts.get("select") ?? "",
    tab: parts.get("tab") ?? "hand",
    refined: Math.max(number("of", 0, view().refined.length), 0),
    subgame: number("subgame", -1, Infinity),
  });
}

/** The public cards at the node. */
function publicCards() {
  const board = (view().board ?? "").match(/[2-9TJQKA][cdhs]/g) ?? [];
  const dealt = pathTo(view(), state.node).slice(1).filter((node) => view().tree.actor[view().tree.parent[node]] === "chance");
  return [...board, ...dealt.map((node) => moveTo(view(), node))];
}

/** @param {number} lane */
function laneText(lane) {
  const { label, group } = view().lanes[lane];
  return view().lanes.length > 1 && group !== "policy" ? `${group}: ${label}` : label;
}

/**
 * @param {string} name
 * @param {number} chosen
 * @param {boolean} optional
 * @param {(lane: number) => void} choose
 */
function laneSelect(name, chosen, optional, choose) {
  const options = view().lanes.map((_, lane) => element("option", { value: lane, text: laneText(lane), selected: lane === chosen }));
  if (optional) options.unshift(element("option", { value: -1, text: "nothing", selected: chosen < 0 }));
  return element("select", { "aria-label": name, id: optional ? "other" : "lane", onchange: (/** @type {any} */ event) => choose(Number(event.target.value)) }, options);
}

/** Selects a result and what it is compared with, if there is one. */
function comparePair() {
  const other = view().lanes.findIndex((lane) => lane.base >= 0);
  if (other >= 0) Object.assign(state, { lane: view().lanes[other].base, other });
}

/** @param {number} lane */
function showLane(lane) {
  const { base } = view().lanes[lane];
  set({ lane: state.other >= 0 && base >= 0 ? base : lane, other: state.other >= 0 && base >= 0 ? lane : state.other });
}

function toggleCompare() {
  if (state.other >= 0) return set({ other: -1, lane: state.other });
  const lanes = view().lanes;
  const { base } = lanes[state.lane];
  if (base >= 0) return set({ lane: base, other: state.lane, tab: "changes" });
  const derived = lanes.findIndex((lane) => lane.base === state.lane);
  const other = derived >= 0 ? derived : lanes.length > 1 ? (state.lane + 1) % lanes.length : -1;
  if (other >= 0) set({ other, tab: "changes" });
}

function toggleTheme() {
  const dark = matchMedia("(prefers-color-scheme: dark)").matches;
  const root = document.documentElement;
  root.dataset.theme = (root.dataset.theme ?? (dark ? "dark" : "light")) === "dark" ? "light" : "dark";
}

function drawBar() {
  const several = header.views.length > 1;
  const select = element("select", { "aria-label": "result", id: "view", onchange: (/** @type {any} */ event) => set({ view: Number(event.target.value) }) },
    header.views.map((each, index) => element("option", { value: index, text: each.title, selected: index === state.view })));
  const lanes = view().lanes.length > 1;
  const board = view().board === null ? null : element("span", { class: "board" }, handText(publicCards().join("")));
  part("bar").replaceChildren(
    element("div", { class: "title" }, [
      element("strong", { text: header.title, title: header.title }),
      ...[several && select, board].filter((each) => each instanceof Node),
    ]),
    element("div", { class: "lanes" }, lanes ? [
      element("label", {}, [element("span", { text: "Policy" }), laneSelect("policy", state.lane, false, (lane) => set({ lane }))]),
      element("label", {}, [element("span", { text: "compared with" }), laneSelect("compared with", state.other, true, (other) => set({ other, tab: other >= 0 ? "changes" : "hand" }))]),
    ] : [element("span", { class: "note", text: laneText(0) })]),
    element("div", { class: "tools" }, [
      element("input", { id: "search", type: "search", placeholder: "Search  /", "aria-label": "search for a private state, an infostate or a line", autocomplete: "off", oninput: () => void search(), onkeydown: searchKey }),
      element("button", { id: "csv", text: "CSV", title: "numbers of this node", onclick: () => void saveCsv() }),
      element("button", { id: "png", text: "PNG", title: "picture of this node", onclick: () => void savePng() }),
      element("button", { id: "print", text: "Print", onclick: () => window.print() }),
      element("button", { id: "theme", text: "◐", title: "light or dark (t)", "aria-label": "light or dark", onclick: toggleTheme }),
      element("button", { id: "help", text: "?", title: "keys (?)", "aria-label": "keys", onclick: showHelp }),
    ]),
    element("div", { id: "found", class: "found", hidden: true }),
  );
}

async function draw() {
  const turn = ++drawing;
  delete document.documentElement.dataset.ready;
  const now = { ...state };
  const shown = view();
  const load = (/** @type {number} */ lane) => Promise.all(pathTo(shown, now.node).map((node) => infoOf(shown, lane, node)));
  const [path, others] = await Promise.all([load(now.lane), now.other < 0 ? null : load(now.other)]);
  if (turn !== drawing) return;
  const active = document.activeElement?.id;
  drawBar();
  const info = path[path.length - 1];
  const other = others === null ? null : others[others.length - 1];
  part("crumbs").replaceChildren(drawCrumbs(shown, now.node, go));
  part("left").replaceChildren(drawPath(shown, children, path, others, children[now.node][now.marked] ?? -1, go));
  await drawMiddle(info, other, turn);
  if (turn !== drawing) return;
  await drawRight(info, other, turn);
  if (active) document.getElementById(active)?.focus();
  if (turn !== drawing) return;
  reveal(part("left"), ".block.here", 0);
  document.documentElement.dataset.ready = "1";
}

/**
 * Scrolls a panel to its first element of a kind. Unlike scrollIntoView it leaves the window around a frame alone.
 * @param {HTMLElement} panel
 * @param {string} selector
 * @param {number} head height of what covers the top of the panel
 */
function reveal(panel, selector, head) {
  const shown = panel.querySelector(selector);
  if (shown === null) return;
  const [frame, box] = [panel.getBoundingClientRect(), shown.getBoundingClientRect()];
  const above = box.top - frame.top - head;
  const below = box.bottom + 12 - frame.bottom;
  if (above < 0) panel.scrollTop += above;
  else if (below > 0) panel.scrollTop += Math.min(below, above);
}

/** @param {import("./model.js").Info} info */
function shownPlayer(info) {
  if (state.player >= 0 && info.seats[state.player]) return state.player;
  const acting = view().tree.actor[state.node];
  return acting === "1" || (acting !== "0" && !info.seats[0]) ? 1 : 0;
}

/**
 * What is drawn in the middle for one of the policies.
 * @param {import("./model.js").Info} info
 * @param {import("./model.js").Info | null} other
 * @param {import("./model.js").Seat} seat
 * @returns {import("./grid.js").Drawn}
 */
function drawnOf(info, other, seat) {
  const compared = other?.seats[seat.player] ?? null;
  const layer = state.layer === "strategy" && !seat.actions.length ? "reach" : state.layer;
  const cards = publicCards();
  const boxes = view().board === null ? seat.rows : cellsOf(seat, cards);
  const more = compared === null ? [] : view().board === null ? compared.rows : cellsOf(compared, cards);
  const value = (/** @type {any} */ row) => (layer === "ev" ? row.ev : layer === "equity" ? row.equity : row.weight);
  let numbers = [...boxes, ...more].map(value);
  if (state.difference && more.length) numbers = boxes.map((row, index) => Math.abs(value(more[index]) - value(row)));
  return {
    view: view(), seat, other: compared, layer, difference: state.difference, action: state.action, cards,
    selected: state.selected, span: spanOf(numbers),
    select: (name) => set({ selected: state.selected === name ? "" : name, tab: "hand" }),
  };
}

/**
 * @param {import("./model.js").Info} info
 * @param {import("./model.js").Info | null} other
 * @param {number} turn
 */
async function drawMiddle(info, other, turn) {
  const seat = info.seats[shownPlayer(info)];
  if (!seat) return drawAfter(info, other, turn);
  const drawn = drawnOf(info, other, seat);
  const parts = [drawSwitches(info, drawn), drawLegend(seat)];
  if (!(info.reach > 0))
    parts.push(element("p", { class: "note", text: "Play never gets here; ranges are those before the last move that is never made." }));
  if (view().board === null) {
    if (other !== null) {
      parts.push(element("p", { class: "note pairs" }, [
        element("span", { text: `above: ${laneText(state.lane)}` }),
        element("span", { class: "second", text: `below: ${laneText(state.other)}` }),
      ]));
    }
    parts.push(drawTable(drawn));
  } else if (other !== null && drawn.other !== null && !state.difference) {
    const second = { ...drawnOf(other, null, drawn.other), span: drawn.span };
    parts.push(element("div", { class: "pair" }, [
      figure(state.lane, { ...drawn, other: null }),
      figure(state.other, second),
    ]));
  } else parts.push(drawGrid(drawn));
  part("middle").replaceChildren(...parts);
}

/**
 * The grid of a policy, with its name above it.
 * @param {number} lane
 * @param {import("./grid.js").Drawn} drawn
 */
function figure(lane, drawn) {
  return element("figure", {}, [element("figcaption", { text: laneText(lane), title: laneText(lane) }), drawGrid(drawn)]);
}

/**
 * The middle of a node without private states: the outcomes of chance, or the end.
 * @param {import("./model.js").Info} info
 * @param {import("./model.js").Info | null} other
 * @param {number} turn
 */
async function drawAfter(info, other, turn) {
  const target = part("middle");
  const say = (/** @type {string} */ text) => target.replaceChildren(element("p", { class: "note big", text }));
  const below = children[info.node];
  const actors = view().tree.actor;
  if (actors[info.node] === "end") return say("The game is over here.");
  if (!below.length) return say("What follows is not in this page.");
  if (below.some((node) => actors[node] === "end")) return say("Chance moves here; choose an outcome on the left.");
  say("Reading what follows…");
  const both = [info, ...(other === null ? [] : [other])];
  const policies = await Promise.all(both.map(async ({ lane, to }) =>
    ({ to, infos: await Promise.all(below.map((node) => infoOf(view(), lane, node))) })));
  if (turn === drawing) target.replaceChildren(drawOutcomes(view(), below, policies, go));
}

/**
 * The switches of player, layer and comparison.
 * @param {import("./model.js").Info} info
 * @param {import("./grid.js").Drawn} drawn
 */
function drawSwitches(info, drawn) {
  const { rows, player, actions } = drawn.seat;
  /** @type {Record<string, boolean>} */
  const present = {
    strategy: actions.length > 0,
    ev: rows.some((row) => !Number.isNaN(row.ev)),
    reach: true,
    equity: rows.some((row) => !Number.isNaN(row.equity)),
  };
  const players = [0, 1].filter((each) => info.seats[each]).map((each) =>
    element("button", { class: each === player ? "on" : "", "data-player": each, text: view().players[each], title: info.seats[each]?.actions.length ? "acts here" : "does not act here", onclick: () => set({ player: each }) }));
  const layers = LAYERS.filter(([name]) => present[name]).map(([name, text]) =>
    element("button", { class: name === drawn.layer ? "on" : "", "data-layer": name, text, onclick: () => set({ layer: name }) }));
  const ways = [["", "Side by side"], ["1", "Difference"]].map(([value, text]) =>
    element("button", { class: Boolean(value) === state.difference ? "on" : "", "data-difference": value, text, onclick: () => set({ difference: Boolean(value) }) }));
  return element("div", { class: "switches" }, [
    element("div", { class: "segments", role: "group", "aria-label": "player" }, players),
    element("div", { class: "segments", role: "group", "aria-label": "layer" }, layers),
    state.other >= 0 && view().board !== null && element("div", { class: "segments", role: "group", "aria-label": "comparison" }, ways),
  ]);
}

/**
 * The actions with their colours; a click shows who plays one.
 * @param {import("./model.js").Seat} seat
 */
function drawLegend(seat) {
  return element("div", { class: "legend" }, seat.actions.map((action, index) => {
    const text = `${action.name} ${percent(seat.frequency[index] ?? NaN)}`;
    const chosen = state.action === index;
    return element("button", { class: chosen ? "on" : "", title: "who plays it", "data-legend": index, onclick: () => set({ action: chosen ? -1 : index, tab: "hand" }) }, [swatch(actionColor(action)), element("span", { text })]);
  }));
}

/**
 * @param {import("./model.js").Info} info
 * @param {import("./model.js").Info | null} other
 * @param {number} turn
 */
async function drawRight(info, other, turn) {
  const tabs = [["hand", "Numbers"]];
  if (state.other >= 0) tabs.push(["changes", "Changes"]);
  if (view().refined.length) tabs.push(["subgames", "Subgames"]);
  if (view().table !== null) tabs.push(["results", "Results"]);
  const tab = tabs.some(([name]) => name === state.tab) ? state.tab : "hand";
  const head = element("div", { class: "tabs", role: "tablist" }, tabs.map(([name, text]) =>
    element("button", { role: "tab", "aria-selected": name === tab, class: name === tab ? "on" : "", "data-tab": name, text, onclick: () => set({ tab: name }) })));
  const body = element("div", { class: "tab" });
  const right = part("right");
  const top = right.dataset.tab === tab ? right.scrollTop : 0;
  const show = (/** @type {(Node | null)[]} */ ...parts) => body.replaceChildren(...parts.filter((each) => each instanceof Node));
  right.replaceChildren(head, body);
  right.dataset.tab = tab;
  if (tab === "results") show(resultsOf());
  else if (tab === "subgames") {
    const parts = await subgamesOf();
    if (turn === drawing) show(...parts);
  } else if (tab === "changes") {
    const note = element("p", { class: "note", text: "Comparing…" });
    show(note);
    const list = await changesOf((done) => { note.textContent = `Comparing… ${percent(done)}`; });
    if (turn === drawing) show(list);
  } else show(...numbersOf(info, other));
  if (turn !== drawing) return;
  right.scrollTop = top; // a click in a list leaves it where it is
  reveal(right, ".subgames .selected tr", head.offsetHeight);
}

/** The policy whose results and subgames are shown. */
function resultLane() {
  return state.other >= 0 ? state.other : state.lane;
}

function resultsOf() {
  const sortBy = (/** @type {number} */ column) => set({ order: { column, down: state.order.column === column ? !state.order.down : true } });
  return drawResults(view(), resultLane(), state.order, sortBy, showLane);
}

async function subgamesOf() {
  const { refined, lanes, players } = view();
  const shown = refined[state.refined] ?? refined[0];
  const lane = shown.chunks[resultLane()] === undefined ? Number(Object.keys(shown.chunks)[0]) : resultLane();
  const several = refined.length > 1 && element("div", { class: "segments" }, refined.map((each, index) =>
    element("button", { class: index === state.refined ? "on" : "", text: players[each.player], onclick: () => set({ refined: index, subgame: -1 }) })));
  const note = lane !== resultLane() && element("p", { class: "note", text: `Shown for ${laneText(lane)}.` });
  const sortBy = (/** @type {string} */ column) => set({ subgameOrder: { column, down: state.subgameOrder.column === column ? !state.subgameOrder.down : column !== "subgame" } });
  const list = await drawSubgames(view(), shown, lane, state.subgame, state.subgameOrder, sortBy, (row) => {
    const { base } = lanes[lane];
    set({ node: row.node >= 0 ? row.node : state.node, subgame: row.subgame, lane: base >= 0 ? base : lane, other: base >= 0 ? lane : -1 });
  });
  return [several, note, list].filter((each) => each instanceof Node);
}

/** @param {(done: number) => void} report */
async function changesOf(report) {
  const shown = view();
  const key = `${state.lane} ${state.other}`;
  let found = changes.get(key);
  if (found === undefined) {
    found = findChanges(shown, state.lane, state.other, report);
    changes.set(key, found);
  }
  return drawChanges(shown, await found, state.changesBy, (changesBy) => set({ changesBy }), (each) =>
    set({ node: each.node, player: each.player, selected: shown.board === null ? each.name : cellOfHand(each.name) }));
}

/**
 * Numbers of the node and of what is selected, or who plays the chosen action.
 * @param {import("./model.js").Info} info
 * @param {import("./model.js").Info | null} other
 */
function numbersOf(info, other) {
  const shown = view();
  const heads = other === null ? null : pairNames();
  const player = shownPlayer(info);
  const seat = info.seats[player];
  const opposite = info.seats[1 - player];
  const takers = seat !== null && seat.actions[state.action] !== undefined;
  const sortBy = (/** @type {string} */ column) => set({ takers: { column, down: state.takers.column === column ? !state.takers.down : column === "share" } });
  return [
    drawNode(shown, info, other, heads),
    takers ? drawTakers(shown, seat, state.action, state.takers, sortBy) : null,
    seat && (!takers || state.selected) ? drawSelection(shown, seat, other?.seats[player] ?? null, state.selected, publicCards(), heads) : null,
    opposite && !takers ? drawRange(shown, opposite, publicCards(), () => set({ player: 1 - player })) : null,
    shown.message ? element("p", { class: "note", text: shown.message }) : null,
    element("p", { class: "note small", text: precisionText() }),
  ];
}

/** Names of the two policies for heads of columns. */
function pairNames() {
  const groups = [state.lane, state.other].map((lane) => view().lanes[lane].group);
  return groups[0] === groups[1] ? ["first", "second"] : groups;
}

function precisionText() {
  const { num_omitted: omitted, unit, value_unit: step } = view();
  const left = omitted ? ` ${omitted} nodes of the game are not in this page.` : "";
  return `Probabilities are stored in thousandths, reaches in thousandths of the largest at a node, values in steps of ${step} (${unit}).${left} Game: ${view().game}. ${header.written_by}.`;
}

async function saveCsv() {
  const lanes = [state.lane, ...(state.other >= 0 ? [state.other] : [])];
  const infos = await Promise.all(lanes.map((lane) => infoOf(view(), lane, state.node)));
  download(new Blob([nodeCsv(view(), infos)], { type: "text/csv" }), `${fileName()}.csv`);
}

async function savePng() {
  const info = await infoOf(view(), state.lane, state.node);
  const other = state.other < 0 ? null : await infoOf(view(), state.other, state.node);
  const seat = info.seats[shownPlayer(info)];
  if (!seat) return;
  const style = getComputedStyle(document.documentElement);
  const theme = { paper: style.getPropertyValue("--paper"), ink: style.getPropertyValue("--ink"), empty: style.getPropertyValue("--empty") };
  const title = `${view().title} · ${lineOf(view(), state.node) || "start"} · ${view().players[seat.player]}`;
  drawPicture(drawnOf(info, other, seat), title, theme).toBlob((blob) => {
    if (blob) download(blob, `${fileName()}.png`);
  });
}

function fileName() {
  return `${view().title} ${lineOf(view(), state.node)}`.replace(/[^\p{L}\p{N}]+/gu, "-").replace(/^-|-$/g, "").slice(0, 80) || "node";
}

function showHelp() {
  const dialog = /** @type {HTMLDialogElement} */ (part("keys"));
  if (dialog.open) dialog.close();
  else dialog.showModal();
}

/** Lists what the text of the search field is part of. */
async function search() {
  const input = /** @type {HTMLInputElement} */ (part("search"));
  const target = part("found");
  const text = input.value.trim().toLowerCase();
  target.hidden = !text;
  if (!text) return;
  const found = await findMatches(view(), text);
  if (input.value.trim().toLowerCase() !== text) return;
  const show = (/** @type {import("./search.js").Match} */ match) => {
    input.value = "";
    target.hidden = true;
    set({ ...match.place, ...(match.place.selected === undefined ? {} : { tab: "hand" }) });
    input.blur();
  };
  target.replaceChildren(...found.map((match) =>
    element("button", { onclick: () => show(match) }, [
      element("span", { text: match.name }), element("span", { class: "sub", text: match.where }),
    ])));
  if (!found.length) target.replaceChildren(element("p", { class: "note", text: "Nothing found." }));
}

/** @param {KeyboardEvent} event */
function searchKey(event) {
  if (event.key === "Escape") {
    /** @type {HTMLInputElement} */ (event.target).value = "";
    part("found").hidden = true;
    /** @type {HTMLInputElement} */ (event.target).blur();
  } else if (event.key === "Enter") /** @type {HTMLElement | null} */ (part("found").querySelector("button"))?.click();
  event.stopPropagation();
}

/** @param {KeyboardEvent} event */
function onKey(event) {
  const target = /** @type {HTMLElement} */ (event.target);
  if (event.ctrlKey || event.metaKey || event.altKey || target.matches?.("input, select, textarea")) return;
  const below = children[state.node];
  const marked = state.marked;
  const clickable = target.matches?.("button, [tabindex]") && target !== document.body;
  /** @type {Record<string, () => void>} */
  const actions = {
    ArrowDown: () => below.length && set({ marked: (marked + 1) % below.length }),
    ArrowUp: () => below.length && set({ marked: (marked + below.length - (marked < 0 ? 0 : 1)) % below.length }),
    ArrowRight: () => go(below[Math.max(marked, 0)] ?? -1),
    ArrowLeft: () => go(view().tree.parent[state.node]),
    Backspace: () => go(view().tree.parent[state.node]),
    Home: () => go(0),
    "/": () => part("search").focus(),
    v: () => nextLayer(),
    p: () => nextPlayer(),
    c: () => toggleCompare(),
    d: () => state.other >= 0 && set({ difference: !state.difference }),
    t: () => toggleTheme(),
    "?": () => showHelp(),
    Escape: () => set({ selected: "", action: -1 }),
  };
  if (event.key === "Enter") {
    if (clickable) {
      if (target.tagName !== "BUTTON") target.click();
      return;
    }
    actions.ArrowRight();
  } else if (/^[1-9]$/.test(event.key)) go(below[Number(event.key) - 1] ?? -1);
  else if (actions[event.key]) actions[event.key]();
  else return;
  event.preventDefault();
}

function nextLayer() {
  const buttons = [...part("middle").querySelectorAll("[data-layer]")];
  const index = buttons.findIndex((button) => button.classList.contains("on"));
  /** @type {HTMLElement | undefined} */ (buttons[(index + 1) % buttons.length])?.click();
}

function nextPlayer() {
  const buttons = [...part("middle").querySelectorAll("[data-player]")];
  const index = buttons.findIndex((button) => button.classList.contains("on"));
  /** @type {HTMLElement | undefined} */ (buttons[(index + 1) % buttons.length])?.click();
}

async function start() {
  const app = part("app");
  try {
    header = await readHeader();
  } catch (error) {
    app.replaceChildren(element("p", { class: "note big", text: `The page cannot be read: ${error}` }));
    return;
  }
  document.title = header.title;
  document.documentElement.classList.toggle("framed", framed);
  if (header.sweep) return drawReport(app, header.title, header.sweep);
  app.replaceChildren(
    element("header", { id: "bar" }),
    element("div", { id: "crumbs" }),
    element("main", {}, [element("aside", { id: "left", "aria-label": "line of play" }), element("section", { id: "middle", "aria-label": "hands and actions" }), element("aside", { id: "right", "aria-label": "numbers" })]),
    element("dialog", { id: "keys" }, [
      element("h2", { text: "Keys" }),
      element("table", { class: "facts" }, HELP.map(([key, text]) => element("tr", {}, [element("th", {}, [element("kbd", { text: key })]), element("td", { text })]))),
      element("form", { method: "dialog" }, [element("button", { text: "Close" })]),
    ]),
  );
  part("keys").addEventListener("submit", (event) => { event.preventDefault(); showHelp(); });
  document.addEventListener("keydown", onKey);
  window.addEventListener("hashchange", () => {
    if (location.hash.slice(1) === written) return;
    readLink();
    written = location.hash.slice(1);
    void draw();
  });
  children = childrenOf(view());
  comparePair();
  if (location.hash && !framed) readLink();
  written = location.hash.slice(1);
  await draw();
}

void start();
