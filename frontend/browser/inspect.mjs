// The page of `coremlscope inspect`: its sections, the orders of the layers, and the commands that it offers.
import { look } from "./open.mjs";

await look(async (page, url) => {
  await page.goto(url);
  return {
    sections: await page.locator(".section").evaluateAll((sections) => sections.map((section) => section.id)),
    orders: await page.getByRole("group", { name: "Order of the rows" }).getByRole("button").allTextContents(),
    commands: await page.locator(".steps code").allTextContents(),
  };
});
