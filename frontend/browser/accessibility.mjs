// axe-core's verdict in both themes, with the details of a layer open.
import { readFile } from "node:fs/promises";
import { fileURLToPath } from "node:url";
import { look } from "./open.mjs";

const axe = await readFile(fileURLToPath(import.meta.resolve("axe-core/axe.min.js")), "utf-8");

await look(
  async (page, url) => {
    const found = {};
    for (const colorScheme of ["light", "dark"]) {
      await page.emulateMedia({ colorScheme });
      await page.goto(url);
      const rows = page.locator(".grid-body .grid-row");
      if (await rows.count()) await rows.first().click();
      await page.evaluate(axe);
      const result = await page.evaluate(() => globalThis.axe.run(document, { resultTypes: ["violations"] }));
      found[colorScheme] = result.violations
        .filter((one) => ["serious", "critical"].includes(one.impact))
        .map(
          (one) =>
            `${one.id}: ${one.nodes
              .slice(0, 3)
              .map((node) => `${node.html} ${node.any[0]?.message ?? ""}`)
              .join(" | ")}`,
        );
    }
    return found;
  },
  { bypassCSP: true },
);
