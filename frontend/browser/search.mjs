// What the search of the documentation finds, the pages of the first results of each query of the command line, and what
// axe-core finds on its home.
import { look, violations } from "./open.mjs";

await look(
  async (page, url, queries) => {
    const found = {};
    for (const query of queries) {
      await page.goto(`${url}search/?q=${encodeURIComponent(query)}`);
      await page.waitForFunction(() => document.querySelector("ul.search > li"));
      // The others follow one after the other, the best first.
      await page.waitForTimeout(200);
      found[query] = await page
        .locator("ul.search > li > a")
        .evaluateAll((links) => links.slice(0, 3).map((one) => one.getAttribute("href")));
    }
    await page.goto(url);
    const light = await violations(page);
    await page.emulateMedia({ colorScheme: "dark" });
    return { found, violations: [...light, ...(await violations(page, ["color-contrast"]))] };
  },
  { offline: false, bypassCSP: true },
);
