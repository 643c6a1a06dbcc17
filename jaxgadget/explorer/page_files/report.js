// The report of a sweep: a table that is sorted and filtered, and a scatter of exploitabilities.

/**
 * @param {HTMLElement} app
 * @param {import("./data.js").Header} header
 */
export function drawReport(app, header) {
  app.textContent = header.title;
}
