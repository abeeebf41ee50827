// The page of a recorded program: totals of the whole and of a selection, what axe-core finds, whether a phone shows it.
import { look, phoneOverflow, violations } from "./open.mjs";

await look(
  async (page, url, [mode]) => {
    const began = Date.now();
    await page.goto(url);
    await page.waitForSelector("#totals tbody tr", { timeout: 60000 });
    const seen = { opened: (Date.now() - began) / 1000, violations: {} };
    const totals = () =>
      page.evaluate(() =>
        [...document.querySelectorAll("#totals tbody tr")].map((row) => [...row.children].map((cell) => cell.textContent.trim())),
      );
    seen.totals = await totals();
    seen.mistakes = await page.locator("#mistakes .finding").count();
    seen.heap = await page.evaluate(() => performance.memory?.usedJSHeapSize ?? 0);
    if (mode === "speed") return seen;
    seen.flag = await page.evaluate(() => globalThis.hostile ?? null);
    const canvas = page.locator("#lanes canvas");
    await canvas.scrollIntoViewIfNeeded();
    const box = await canvas.boundingBox();
    await page.mouse.move(box.x + 195, box.y + 12);
    await page.mouse.down();
    await page.mouse.move(box.x + 195 + (box.width - 195) / 2, box.y + 12, { steps: 5 });
    await page.mouse.up();
    seen.selected = await totals();
    seen.note = await page.locator("#totals .section-note").textContent();
    await canvas.focus();
    await page.keyboard.press("Escape");
    seen.cleared = await totals();
    for (const colorScheme of ["light", "dark"]) {
      await page.emulateMedia({ colorScheme });
      seen.violations[colorScheme] = await violations(page);
    }
    seen.phoneOverflow = await phoneOverflow(page);
    return seen;
  },
  { bypassCSP: true },
);
