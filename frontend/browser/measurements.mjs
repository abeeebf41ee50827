// Several measurements: what the page says of the first, and after each of the others is chosen.
import { look, readRows } from "./open.mjs";

await look(async (page, url) => {
  await page.goto(url);
  const text = (selector) => page.locator(selector).allTextContents();
  const read = async () => ({
    latencies: await text(".latency-value"),
    tags: await text(".latency .origin"),
    places: await text(".latency-place"),
    times: await text("#times .section-note"),
    shown: await text(".measurements .shown th"),
    columns: (await page.locator(".grid-head [role=columnheader]").allTextContents()).map((cell) => cell.replace(/[↑↓]/g, "").trim()),
    rows: await readRows(page),
  });
  const menu = page.locator(".context select").first();
  const seen = { names: await menu.locator("option").allTextContents(), chosen: [await read()] };
  for (let index = 1; index < seen.names.length; index++) {
    await menu.selectOption(String(index));
    seen.chosen.push(await read());
  }
  await page.locator(".measurements button").first().click();
  seen.first = await read();
  return seen;
});
