// The trend of results of sweeps: its series and changes, axe-core, and a phone.
import { look, phoneOverflow, violations } from "./open.mjs";

await look(
  async (page, url) => {
    await page.goto(url);
    const texts = (selector) => page.locator(selector).allTextContents();
    const seen = { points: await texts("#trend circle title"), changes: await texts("#trend td div"), violations: {} };
    seen.lines = await page.locator(".trend-change").count();
    for (const colorScheme of ["light", "dark"]) {
      await page.emulateMedia({ colorScheme });
      seen.violations[colorScheme] = await violations(page);
    }
    seen.phoneOverflow = await phoneOverflow(page);
    return seen;
  },
  { bypassCSP: true },
);
