// Where two policies differ.

import { lineOf } from "./data.js";
import { element, percent, sortButton } from "./dom.js";
import { change, infoOf } from "./model.js";

/**
 * @typedef {import("./data.js").View} View
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
        sortButton(name === "amount" ? "change" : "× reach", by === name, true, () => sortBy(name), {
          title: name === "amount" ? "share of play that differs" : "the change times the probability of getting there",
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
