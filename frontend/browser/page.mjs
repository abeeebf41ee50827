// What the page says as a whole, its themes, and the data that it hands out; and further pages of the command line, likewise.
import { readFile } from "node:fs/promises";
import { look, phoneOverflow } from "./open.mjs";

await look(async (page, url, others) => {
  const seen = await see(page, url);
  seen.others = [];
  for (const other of others) seen.others.push(await see(page, other));
  return seen;
});

async function see(page, url) {
  await page.emulateMedia({ colorScheme: "light" });
  await page.setViewportSize({ width: 1440, height: 900 });
  await page.goto(url);
  const text = (selector) => page.locator(selector).allTextContents();
  const ground = () => page.evaluate(() => getComputedStyle(document.body).backgroundColor);
  const seen = {
    title: await page.title(),
    heading: await page.locator("h1").textContent(),
    latencies: await text(".latency-value"),
    latencyTexts: await text(".latency-text"),
    origins: await text(".latency .origin"),
    parts: await page.locator(".card-time .time-bar span").evaluateAll((parts) => parts.map((one) => one.title)),
    bySetting: await text(".devices .setting .col-latency"),
    facts: await text(".fact"),
    lead: await text(".lead"),
    menus: await text(".context select > option"),
    sections: await text("main h2"),
    deadLinks: await page.evaluate(() =>
      [...document.querySelectorAll(".topbar a")].map((link) => link.hash).filter((hash) => !document.querySelector(hash)),
    ),
    findings: await text(".finding"),
    // Every text of the first screen and of the tables.
    numbers: await page.evaluate(() =>
      [".answers", "#settings", "#times table", "#estimate", "#types", "#weights"].flatMap((selector) => {
        const part = document.querySelector(selector);
        const walker = part && document.createTreeWalker(part, NodeFilter.SHOW_TEXT);
        const found = [];
        while (walker?.nextNode()) found.push([selector, walker.currentNode.data]);
        return found;
      }),
    ),
    times: await text("#times tbody tr"),
    settings: await text("#settings tbody tr"),
    weights: await text("#weights tbody tr"),
    markup: await page.evaluate(() => ({
      foreign: document.querySelectorAll("img, iframe, script[src], link[rel=stylesheet], object, embed, b[data-hostile]").length,
      flag: globalThis.hostile ?? null,
    })),
    light: await ground(),
  };
  const others = page.locator(".context optgroup option");
  if (await others.count()) {
    const chip = await others.first().getAttribute("value");
    await page.locator("select[name=device]").selectOption(chip);
    seen.otherDevice = {
      chip,
      text: await page.locator(".other-device").textContent(),
      shown: await page.locator("select[name=device]").inputValue(),
    };
    await page.locator(".other-device button", { hasText: "Close" }).click();
  }
  await page.locator(".theme-switch").click();
  await page.locator(".theme-switch").click();
  await page.waitForSelector("html[data-theme=dark]");
  seen.dark = await ground();
  await page.locator(".theme-switch").click();
  await page.waitForSelector("html:not([data-theme])");
  await page.emulateMedia({ colorScheme: "dark" });
  seen.darkOfSystem = await ground();
  seen.phoneOverflow = await phoneOverflow(page);
  const waiting = page.waitForEvent("download");
  await page.getByRole("button", { name: "Save the data (JSON)" }).click();
  seen.data = JSON.parse(await readFile(await (await waiting).path(), "utf-8"));
  return seen;
}
