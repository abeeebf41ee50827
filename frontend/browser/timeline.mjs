// The timeline: what dragging, keys and the strip show, and what is said of a span under the pointer.
import { look, settledBox } from "./open.mjs";

await look(async (page, url, [screenshot]) => {
  await page.goto(url);
  const canvas = page.locator("#timeline canvas").first();
  await canvas.scrollIntoViewIfNeeded();
  const note = () => page.locator("#timeline .zoom-note").textContent();
  const sums = () =>
    page.locator("#timeline tbody tr").evaluateAll((rows) => rows.map((row) => [...row.cells].map((cell) => cell.textContent)));
  const all = page.locator("#timeline button.more");
  if (await all.count()) await all.click();
  const seen = { sums: await sums(), whole: await note(), caption: await page.locator("#timeline .caption").textContent() };
  const [labels, box] = [112, await settledBox(canvas)];
  const at = (part) => box.x + labels + (box.width - labels) * part;
  const middle = box.y + box.height - 24 - 8 - 17 - 2 * 42;
  await page.mouse.move(at(0.02), middle);
  await page.mouse.down();
  await page.mouse.move(at(0.1), middle, { steps: 4 });
  await page.mouse.up();
  seen.dragged = await note();
  seen.sumsDragged = await sums();
  await page.mouse.move(at(0.75), middle);
  await page.mouse.move(at(0.76), middle);
  seen.tip = await page.locator("#timeline .tip").textContent();
  if (screenshot) await page.screenshot({ path: screenshot });
  await canvas.focus();
  await canvas.press("S");
  seen.zoomedOut = await note();
  await canvas.press("0");
  seen.all = await note();
  const now = await settledBox(canvas);
  await page.mouse.move(at(0.04), now.y + 8);
  await page.mouse.move(at(0.05), now.y + 8);
  seen.module = await page.locator("#timeline .tip").textContent();
  return seen;
});
