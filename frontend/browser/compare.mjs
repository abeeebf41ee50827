// The page of a comparison: its tables, what axe-core finds in both themes, and whether a phone shows it.
import { look, phoneOverflow, violations } from "./open.mjs";

await look(
  async (page, url) => {
    await page.goto(url);
    const text = (selector) => page.locator(selector).allTextContents();
    const seen = {
      title: await page.title(),
      answer: await text(".strip-text"),
      sections: await text("main h2"),
      facts: await text(".report-head tbody th"),
      verdicts: await text("[aria-label=Phases] .verdict"),
      before: await text("[aria-label=Phases] tbody td.number:nth-of-type(1)"),
      names: await text("[aria-label='Operations whose time changed'] tbody td:nth-of-type(1)"),
      plans: await text(".compare-part h3"),
      tags: await text(".section-note .origin"),
      flag: await page.evaluate(() => globalThis.hostile ?? null),
      violations: {},
    };
    const more = page.locator("button.more").first();
    const rows = page.locator("[aria-label^='Operations whose plan changed'] tbody tr");
    seen.folded = await rows.count();
    await page.evaluate(() => {
      for (const details of document.querySelectorAll("details")) details.open = true;
    });
    seen.costs = await text("[aria-label^='Operations whose plan changed'] tbody td.number");
    await more.click();
    seen.unfolded = await rows.count();
    for (const colorScheme of ["light", "dark"]) {
      await page.emulateMedia({ colorScheme });
      seen.violations[colorScheme] = await violations(page);
    }
    seen.phoneOverflow = await phoneOverflow(page);
    return seen;
  },
  { bypassCSP: true },
);
