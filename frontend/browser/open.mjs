import { readFile } from "node:fs/promises";
import { fileURLToPath } from "node:url";
import { chromium } from "playwright-core";

export const PHONE = { width: 390, height: 844 };

/**
 * Opens the page that the command line names in the browser at its port, with the network off, calls `look` with it and
 * prints as JSON what that returns, with everything that the page complained of or asked the network for.
 */
export async function look(work, options = {}) {
  const [port, url, ...rest] = process.argv.slice(2);
  const browser = await chromium.connectOverCDP(`http://127.0.0.1:${port}`);
  try {
    // Without motion the page scrolls at once, so that what is measured stays where it is.
    const still = { viewport: { width: 1440, height: 900 }, offline: true, reducedMotion: "reduce" };
    const context = await browser.newContext({ ...still, ...options });
    const page = await context.newPage();
    const complaints = [];
    const requests = [];
    page.on("console", (message) => ["error", "warning"].includes(message.type()) && complaints.push(message.text()));
    page.on("pageerror", (error) => complaints.push(String(error)));
    page.on("request", (request) => requests.push(request.url()));
    const found = await work(page, url, rest);
    const foreign = requests.filter(
      (one) => ![url, ...rest].includes(one.split("#")[0]) && !one.startsWith("data:") && !one.startsWith("blob:"),
    );
    console.log(JSON.stringify({ ...found, complaints, foreign }));
  } finally {
    await browser.close();
  }
}

/** The place of an element once it stays: parts of the page are drawn as they come into view, which moves others. */
export async function settledBox(element) {
  let box = await element.boundingBox();
  for (;;) {
    await element.page().waitForTimeout(150);
    const next = await element.boundingBox();
    if (JSON.stringify(next) === JSON.stringify(box)) return box;
    box = next;
  }
}

/** What axe-core finds, of every impact, by these rules or all: the rule and the first elements. The page must be opened with `bypassCSP`. */
export async function violations(page, rules) {
  await page.evaluate(await readFile(fileURLToPath(import.meta.resolve("axe-core/axe.min.js")), "utf-8"));
  const options = { resultTypes: ["violations"], ...(rules && { runOnly: { type: "rule", values: rules } }) };
  const result = await page.evaluate((options) => globalThis.axe.run(document, options), options);
  return result.violations.map((one) => `${one.id}: ${one.nodes[0].html}`);
}

/** By how many pixels the page, or the widest of its tables, is wider than a phone. The page stays as on a phone. */
export async function phoneOverflow(page) {
  await page.setViewportSize(PHONE);
  return page.evaluate(async () => {
    for (let frame = 0; frame < 4; frame++) await new Promise(requestAnimationFrame);
    return Math.max(...[...document.querySelectorAll("html, .scroll-x")].map((one) => one.scrollWidth - one.clientWidth));
  });
}

/** The text of each cell of the rows in view: heading of the column to text. */
export const readRows = (page) =>
  page.evaluate(() => {
    const heads = [...document.querySelectorAll(".grid-head [role=columnheader]")].map((cell) =>
      cell.textContent.replace(/[↑↓]/g, "").trim(),
    );
    return [...document.querySelectorAll(".grid-body .grid-row")].map((row) =>
      Object.fromEntries([...row.querySelectorAll("[role=gridcell]")].map((cell, index) => [heads[index], cell.textContent.trim()])),
    );
  });
