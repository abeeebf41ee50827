// The figures of the first screen of each page that the command line names.
import { look } from "./open.mjs";

await look(async (page, first, others) => {
  const pages = [];
  for (const url of [first, ...others]) {
    await page.goto(url);
    pages.push(await page.evaluate(read));
  }
  return { pages };
});

/** Runs in the page. */
function read() {
  const texts = (selector, within = document) => [...within.querySelectorAll(selector)].map((one) => one.textContent.trim());
  const titles = (selector, within = document) => [...within.querySelectorAll(selector)].map((one) => one.title);
  const rows = (selector, take) => [...document.querySelectorAll(selector)].map(take);
  return {
    verdict: texts(".verdict-line"),
    latency: [...texts(".latency-main .latency-value"), ...texts(".latency-main .latency-text")],
    devices: rows(".devices li", (one) => ({
      device: texts("button", one)[0],
      interval: titles(".range", one)[0],
      value: texts("b.number", one)[0],
      units: titles(".unit-bar", one)[0],
      best: one.lastElementChild.textContent,
    })),
    shares: texts(".card-where span.unit-count").map((one) => one.replace(/\s+/g, " ")),
    reasons: texts(".card-where .answer-list li:not(.faint)"),
    parts: rows(".card-time .spending li", (one) => [one.firstElementChild.textContent.trim(), texts(".spending-time .faint", one)[0]]),
    settings: texts(".setting-chips button").map((one) => one.replace(/\s+/g, " ")),
    changes: rows(".changes li", (one) => [
      texts(".change-text", one)[0],
      texts(".change-facts b", one)[0] ?? "",
      texts(".change-facts .faint", one)[0] ?? "",
      ...texts("code", one),
    ]),
  };
}
