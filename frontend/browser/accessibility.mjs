// axe-core's verdict in both themes, with the details of a layer open, and as on a phone.
import { look, PHONE, violations } from "./open.mjs";

await look(
  async (page, url) => {
    const found = {};
    for (const colorScheme of ["light", "dark"]) {
      await page.emulateMedia({ colorScheme });
      await page.goto(url);
      const rows = page.locator(".grid-body .grid-row");
      if (await rows.count()) await rows.first().click();
      found[colorScheme] = await violations(page);
      for (const view of (await rows.count()) ? ["Tree", "Icicle"] : []) {
        await page.locator("#layers").getByRole("button", { name: view, exact: true }).click();
        found[colorScheme].push(...(await violations(page)));
      }
      const { width, height } = page.viewportSize();
      await page.setViewportSize(PHONE);
      found[colorScheme].push(...(await violations(page)));
      await page.setViewportSize({ width, height });
    }
    return found;
  },
  { bypassCSP: true },
);
