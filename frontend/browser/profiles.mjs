// A list of profiles: its table, sorted by a column, and the report that a row opens.
import { look, phoneOverflow, violations } from "./open.mjs";

await look(
  async (page, url) => {
    await page.goto(url);
    const read = () =>
      page.evaluate(() =>
        [...document.querySelectorAll(".overview tbody tr")].map((row) => [...row.children].map((cell) => cell.textContent.trim())),
      );
    const seen = {
      title: await page.title(),
      heading: await page.locator("h1").textContent(),
      columns: await page.locator(".overview thead th").allTextContents(),
      rows: await read(),
      violations: {},
    };
    for (const colorScheme of ["light", "dark"]) {
      await page.emulateMedia({ colorScheme });
      seen.violations[colorScheme] = await violations(page);
    }
    const heading = page.locator(".overview .heading").first();
    await heading.click();
    seen.slowestFirst = await read();
    await heading.click();
    seen.fastestFirst = await read();
    await heading.click();
    seen.backInOrder = await read();

    seen.opened = [];
    for (let index = 0; index < seen.rows.length; index++) {
      await page.locator(".overview tbody a").nth(index).click();
      await page.locator(".back").waitFor();
      seen.opened.push({
        heading: await page.locator("h1").textContent(),
        latencies: await page.locator(".latency-value").allTextContents(),
      });
      await page.locator(".topbar nav a").first().click();
      seen.isStillOpen = (await page.locator(".back").count()) === 1;
      await page.locator(".back").click();
      await page.locator(".overview").waitFor();
    }
    seen.phoneOverflow = await phoneOverflow(page);
    return seen;
  },
  { bypassCSP: true },
);
