// axe-core's verdict with the details of a layer open, on each view of the layers, and as on a phone; and of the colours of
// the dark theme. The command line may name further pages.
import { look, PHONE, violations } from "./open.mjs";

await look(
  async (page, first, others) => {
    const found = { light: [], dark: [] };
    for (const url of [first, ...others]) {
      await page.emulateMedia({ colorScheme: "light" });
      await page.goto(url);
      const rows = page.locator(".grid-body .grid-row");
      if (await rows.count()) await rows.first().click();
      found.light.push(...(await violations(page)));
      for (const view of (await rows.count()) ? ["Tree", "Icicle"] : []) {
        await page.locator("#layers").getByRole("button", { name: view, exact: true }).click();
        found.light.push(...(await violations(page)));
      }
      const { width, height } = page.viewportSize();
      await page.setViewportSize(PHONE);
      found.light.push(...(await violations(page)));
      await page.setViewportSize({ width, height });
      await page.emulateMedia({ colorScheme: "dark" });
      found.dark.push(...(await violations(page, ["color-contrast"])));
    }
    return found;
  },
  { bypassCSP: true },
);
