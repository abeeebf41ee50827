// Moves and resizes columns of the layer table.
import { look } from "./open.mjs";

await look(async (page, url) => {
  await page.goto(url);
  const titles = () =>
    page.locator(".grid-head [role=columnheader]").evaluateAll((cells) => cells.map((cell) => cell.textContent.replace(/[↑↓]/g, "")));
  const type = page.locator(".grid-head [role=columnheader]", { hasText: "Type" });
  const width = async () => (await type.boundingBox()).width;
  const seen = { usual: await titles() };
  await page.locator(".column-menu summary").click();
  await page.getByRole("button", { name: "Move CPU to the right" }).click();
  seen.moved = await titles();
  await page.locator(".column-menu summary").click();
  await page.locator(".grid-head [role=columnheader]").last().dragTo(page.locator(".grid-head [role=columnheader]").nth(1));
  seen.dragged = await titles();
  await page.locator(".grid-scroll").evaluate((grid) => grid.scrollTo(0, 0));
  seen.width = await width();
  const edge = await type.locator(".column-edge").boundingBox();
  await page.mouse.move(edge.x + 4, edge.y + 8);
  await page.mouse.down();
  await page.mouse.move(edge.x + 34, edge.y + 8);
  await page.mouse.move(edge.x + 64, edge.y + 8);
  await page.mouse.up();
  seen.wider = await width();
  await type.locator(".column-edge").press("ArrowRight");
  seen.byKey = await width();
  await page.reload();
  seen.reloaded = [await titles(), await width()];
  await page.locator(".column-menu summary").click();
  await page.getByRole("button", { name: "Restore" }).click();
  seen.restored = await titles();
  return seen;
});
