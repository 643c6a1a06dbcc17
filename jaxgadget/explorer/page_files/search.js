// What a text is part of: lines, private states and infostates.

import { chunk, lineOf } from "./data.js";
import { actorText } from "./line.js";
import { RANKS, cellName, cellOfHand } from "./model.js";

const [MANY_LINES, MANY_NAMES, MANY_MATCHES] = [8, 16, 40];

/**
 * @typedef {{node?: number, player?: number, selected?: string}} Place what to show
 * @typedef {{name: string, where: string, place: Place}} Match
 */

/**
 * Lines, private states and infostates with a text, of each at most a few.
 * @param {import("./data.js").View} view
 * @param {string} text in small letters
 * @returns {Promise<Match[]>}
 */
export async function findMatches(view, text) {
  /** @type {Match[]} */
  const lines = [];
  for (let node = 1; node < view.tree.parent.length && lines.length < MANY_LINES; node += 1) {
    const line = lineOf(view, node);
    if (line.toLowerCase().includes(text)) lines.push({ name: line, where: actorText(view, node), place: { node } });
  }
  if (view.board !== null) return [...lines, ...matchingCells(text)];
  const names = [0, 1].flatMap((player) => view.states[player]
    .filter((name) => name.toLowerCase() === text)
    .map((name) => ({ name, where: `${view.players[player]}, here`, place: { player, selected: name } })));
  const infostates = await matchingInfostates(view, text, MANY_MATCHES - lines.length - names.length);
  return [...infostates.filter((each) => each.name.toLowerCase() === text), ...lines, ...names, ...infostates.filter((each) => each.name.toLowerCase() !== text)];
}

/**
 * Cells of the grid of hold'em: those of a hand such as AhKd, or whose names begin with a text such as AK.
 * @param {string} text
 * @returns {Match[]}
 */
function matchingCells(text) {
  const hand = /^([2-9tjqka][cdhs]){2}$/.test(text) ? cellOfHand(text[0].toUpperCase() + text[1] + text[2].toUpperCase() + text[3]) : null;
  const names = [];
  for (let row = 0; row < RANKS.length; row += 1) for (let column = 0; column < RANKS.length; column += 1) names.push(cellName(row, column));
  const found = hand === null ? names.filter((name) => name.toLowerCase().startsWith(text)) : [hand];
  return found.slice(0, MANY_NAMES).map((name) => ({ name, where: "in the grid", place: { selected: name } }));
}

/**
 * @param {import("./data.js").View} view
 * @param {string} text
 * @param {number} limit
 * @returns {Promise<Match[]>}
 */
async function matchingInfostates(view, text, limit) {
  /** @type {Match[]} */
  const found = [];
  for (const number of view.frames)
    for (const [node, frame] of Object.entries(await chunk(number)))
      for (const [player, seat] of frame.seats.entries())
        for (const [index, infostate] of (seat?.infostates ?? []).entries()) {
          if (found.length >= limit) return found;
          if (!infostate?.toLowerCase().includes(text)) continue;
          const place = { node: Number(node), player, selected: view.states[player][seat.states[index]] };
          found.push({ name: infostate, where: `${view.players[player]}: ${lineOf(view, Number(node)) || "start"}`, place });
        }
  return found;
}
