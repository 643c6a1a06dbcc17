// Elements and numbers as text. All text is set as text, never as markup.

/**
 * @param {string} tag
 * @param {Record<string, any>} [properties] `class`, `text`, `title`, `on…` listeners, `data-…`, or attributes
 * @param {(Node | null | undefined | false)[]} [inner]
 * @returns {any}
 */
export function element(tag, properties = {}, inner = []) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(properties)) {
    if (value === undefined || value === null || value === false) continue;
    if (name === "class") made.className = value;
    else if (name === "text") made.textContent = String(value);
    else if (name.startsWith("on")) made.addEventListener(name.slice(2), value);
    else if (name === "style") for (const [key, each] of Object.entries(value)) made.style.setProperty(key, String(each));
    else made.setAttribute(name, value === true ? "" : String(value));
  }
  made.append(...inner.filter((each) => each instanceof Node));
  return made;
}

/** @param {number} share */
export function percent(share) {
  if (Number.isNaN(share)) return "–";
  const value = 100 * share;
  if (value === 0) return "0 %";
  if (value > 0 && value < 0.05) return value < 0.005 ? "<0.01 %" : `${value.toFixed(2)} %`;
  return `${value.toFixed(value === 100 ? 0 : 1)} %`;
}

/**
 * A number with three significant digits.
 * @param {number | null} x
 */
export function shortText(x) {
  if (x === null) return "–";
  if (x === 0) return "0";
  const text = Math.abs(x) < 1e-3 ? x.toExponential(1) : x.toPrecision(3);
  return text.replaceAll("-", "−");
}

/**
 * A value in steps of its unit.
 * @param {number} value
 * @param {number} unit
 * @param {boolean} [signed]
 */
export function valueText(value, unit, signed = false) {
  if (Number.isNaN(value)) return "–";
  const digits = Math.max(0, -Math.floor(Math.log10(unit) + 1e-9));
  const text = (Math.round(value / unit) * unit).toFixed(Math.min(digits, 12)).replace("-", "−");
  const zero = /^−?0(\.0*)?$/.test(text);
  if (zero) return text.replace("−", "");
  return signed && value > 0 ? `+${text}` : text;
}

/**
 * @param {any} value
 * @returns {string}
 */
export function cellText(value) {
  if (value === null || value === undefined) return "–";
  if (typeof value !== "number") return Array.isArray(value) ? value.map(cellText).join(", ") : String(value);
  if (Number.isInteger(value)) return String(value).replace("-", "−");
  const size = Math.abs(value);
  const text = size < 1e-3 || size >= 1e6 ? value.toExponential(2) : String(Number(value.toPrecision(4)));
  return text.replaceAll("-", "−");
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
 * The head of a column, a button that sorts by it.
 * @param {string} text
 * @param {boolean} on true if rows are sorted by this column
 * @param {boolean} down true if the largest come first
 * @param {() => void} sort
 * @param {Record<string, any>} [properties] further properties of the button
 */
export function sortButton(text, on, down, sort, properties = {}) {
  return element("button", { ...properties, class: on ? `sort on ${down ? "down" : "up"}` : "sort", text, onclick: sort });
}

/**
 * A patch of a colour.
 * @param {string} color
 * @param {string} [title]
 */
export function swatch(color, title) {
  return element("span", { class: "swatch", title, style: { background: color } });
}

/**
 * A bar whose length is a share.
 * @param {number} share
 * @param {string} [color]
 */
export function bar(share, color) {
  return element("span", { class: "bar", style: { width: `${(100 * (share || 0)).toFixed(2)}%`, ...(color ? { background: color } : {}) } });
}

/**
 * A cell of a table with a number of one policy, or of two.
 * @param {string[]} texts
 * @param {Record<string, any>} [properties]
 */
export function numberCell(texts, properties = {}) {
  return element("td", { class: "number", ...properties }, texts.map((text, place) => element("div", { class: place ? "second" : "", text })));
}

/**
 * A column's name in words.
 * @param {string} name
 */
export function words(name) {
  return name.replaceAll("_", " ");
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
