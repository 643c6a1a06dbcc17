// The left of the page: the line of play, with the actions at each node and how often they are taken.

import { actionColor } from "./colors.js";
import { moveTo, pathTo } from "./data.js";
import { bar, element, percent } from "./dom.js";

const MANY_MOVES = 12; // moves from which a node shows them as chips without bars

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
    const many = below.length > MANY_MOVES;
    const omitted = view.tree.omitted[node];
    const moves = below.map((child, place) => {
      const share = info.to[place] ?? NaN;
      const second = others === null ? NaN : (others[index]?.to[place] ?? NaN);
      const action = actionTo(info, child);
      const inner = [
        element("span", { class: "move", text: moveTo(view, child) }),
        element("span", { class: "share", text: percent(share) }),
        !Number.isNaN(second) && element("span", { class: "share second", text: percent(second) }),
        !many && bar(share, action === null ? "var(--accent)" : actionColor(action)),
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
