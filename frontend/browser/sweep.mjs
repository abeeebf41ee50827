// The page of a sweep that runs, as `coremlscope serve` shows it: the list, new rows, a pinned row, and a report.
import { look, phoneOverflow, violations } from "./open.mjs";

await look(
  async (page, url) => {
    await page.goto(url);
    const texts = (selector) => page.locator(selector).allTextContents();
    const seen = { listed: [], violations: {} };
    const [name, rows, , state] = await texts("#sweeps tbody tr > *");
    seen.listed = [name, rows, state];
    await page.locator("#sweeps a").click();
    seen.before = await texts(".results .pin");
    await page.locator(".results .pin").first().click();
    const baseline = page.locator(".results tr.pinned th");
    seen.baseline = await baseline.textContent();
    await page.request.patch(`${url}profiles/saved`, { data: { tags: ["seen"] } });
    await page.getByRole("heading", { name: "3 results" }).waitFor({ timeout: 30_000 });
    seen.after = await page.locator("h1").textContent();
    seen.baselineLater = await baseline.textContent();
    seen.reports = await page.locator(".results tbody th a").evaluateAll((links) => links.map((link) => link.getAttribute("href")));
    for (const colorScheme of ["light", "dark"]) {
      await page.emulateMedia({ colorScheme });
      seen.violations[colorScheme] = await violations(page);
    }
    seen.phoneOverflow = await phoneOverflow(page);
    await page.setViewportSize({ width: 1280, height: 800 });
    await page.locator(".results tbody th a").first().click();
    await page.waitForURL("**/profiles/**");
    seen.opened = page.url();
    return seen;
  },
  { bypassCSP: true, offline: false },
);
