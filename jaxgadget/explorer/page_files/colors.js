// Colours of actions and heat maps. They differ in lightness as well, for readers who see fewer hues.

const BETS = [[244, 200, 80], [230, 140, 50], [200, 75, 55], [150, 45, 85]];
const OTHERS = ["#4E79A7", "#F0A43C", "#59A390", "#B65A9C", "#8C6D3F", "#7FB5D6", "#D1605E", "#9C9C9C"];
const HEAT = [[20, 40, 90], [70, 85, 115], [125, 125, 120], [185, 170, 95], [250, 225, 85]];
const [LESS, MORE] = ["60 130 205", "226 125 35"];

/**
 * @param {number[][]} stops
 * @param {number} share 0 to 1
 */
function between(stops, share) {
  const place = Math.min(Math.max(share, 0), 1) * (stops.length - 1);
  const low = Math.min(Math.floor(place), stops.length - 2);
  return stops[low].map((part, index) => Math.round(part + (place - low) * (stops[low + 1][index] - part)));
}

/** @param {number[]} rgb */
function css(rgb) {
  return `rgb(${rgb.join(" ")})`;
}

/**
 * The colour of an action, the same at all nodes.
 * @param {import("./data.js").Action} action
 */
export function actionColor(action) {
  if (action.kind === "fold") return "#7FA9D1";
  if (action.kind === "passive") return "#3A9276";
  if (action.kind === "all-in") return "#8A3A70";
  if (action.kind === "bet") return css(between(BETS, action.size ?? 0.5));
  return otherColor(action.id);
}

/** @param {number} index */
export function otherColor(index) {
  return OTHERS[index % OTHERS.length];
}

/**
 * Colour and text colour of a number between 0 and 1.
 * @param {number} share
 * @returns {{color: string, text: string}}
 */
export function heatColor(share) {
  const rgb = between(HEAT, share);
  return { color: css(rgb), text: readable(rgb) };
}

/**
 * Colour of a difference between −1 and 1, to lay over the ground; the text keeps its colour.
 * @param {number} difference
 * @returns {{color: string, text: string}}
 */
export function differenceColor(difference) {
  const strength = Math.min(Math.abs(difference), 1) ** 0.7;
  return { color: `rgb(${difference < 0 ? LESS : MORE} / ${(0.85 * strength).toFixed(3)})`, text: "" };
}

/** @param {number[]} rgb */
function readable(rgb) {
  return 0.3 * rgb[0] + 0.59 * rgb[1] + 0.11 * rgb[2] > 140 ? "#111" : "#fff";
}
