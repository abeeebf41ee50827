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
    verdict: texts(".strip-text"),
    tone: [document.querySelector(".strip")?.classList[1] ?? "", ...titles(".strip .copy")],
    latency: [...texts(".strip .latency-value"), ...texts(".strip .latency-text")],
    devices: rows(".devices .device", (one) => ({
      device: texts("button", one)[0],
      interval: titles(".range", one)[0],
      value: texts(".col-latency b", one)[0],
      units: titles(".unit-bar", one)[0],
      best: texts(".col-best", one)[0],
    })),
    settings: rows(".devices .setting", (one) => [...texts("th button", one), ...texts(".col-latency", one)]),
    reasons: titles(".card-why .answer-list li:not(.faint)"),
    parts: titles(".card-time .time-bar span").map((one) => one.split(/: [^:]*, /)),
    changes: rows(".changes li", (one) => [
      texts(".change-text", one)[0],
      titles(".change-gain", one)[0],
      texts(".change-facts", one)[0],
      ...titles(".change-copies .copy", one),
    ]),
    trust: texts(".trust.sentence, .trust > *"),
  };
}
