// The page of results of sweeps: its figures, what sorting, filtering and pinning do, axe-core, and a phone.
import { look, phoneOverflow, violations } from "./open.mjs";

await look(
  async (page, url) => {
    await page.goto(url);
    const texts = (selector) => page.locator(selector).allTextContents();
    const latencies = () =>
      page.locator(".results tbody").evaluate((body) => {
        const heads = [...body.parentElement.querySelectorAll("thead > tr > *")];
        const at = heads.findIndex((head) => head.title.startsWith("estimated_s"));
        return [...body.rows].map((row) => (row.cells[at].dataset.value === undefined ? null : Number(row.cells[at].dataset.value)));
      });
    const heading = page.locator(".results th[title^=estimated_s] button");
    const seen = { title: await page.title(), rows: await latencies(), headings: await texts(".results thead .heading"), violations: {} };
    await heading.click();
    seen.descending = await latencies();
    await heading.click();
    await page.locator(".results .pin").first().click();
    seen.pinned = await texts(".results tr:nth-child(2) td.number div.faint");
    await page.locator(".filters input").fill("iphone");
    seen.filtered = await latencies();
    seen.status = await texts(".filters [role=status]");
    await page.locator("search.filters button").click();
    seen.cleared = (await latencies()).length;
    seen.points = await texts("#pareto circle title");
    seen.best = await texts("#pareto circle.point-best title");
    await page.locator("#pareto button", { hasText: "is better" }).click();
    seen.turned = await texts("#pareto circle.point-best title");
    for (const colorScheme of ["light", "dark"]) {
      await page.emulateMedia({ colorScheme });
      seen.violations[colorScheme] = await violations(page);
    }
    seen.phoneOverflow = await phoneOverflow(page);
    seen.phoneRow = await page.locator("#leaderboard tbody tr").first().innerText();
    return seen;
  },
  { bypassCSP: true },
);
