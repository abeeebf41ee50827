// Sorts, searches, filters (by the type that is named) and folds the layer table; changes the setting.
import { look, readRows } from "./open.mjs";

await look(async (page, url, [type]) => {
  await page.goto(url);
  const seen = { opening: await readRows(page) };
  await page.locator("#layers").getByRole("button", { name: "Program order" }).click();
  seen.rows = await readRows(page);
  const heading = (name) => page.locator(".grid-head").getByRole("button", { name, exact: true });

  await heading("Measured").click();
  seen.once = await readRows(page);
  await page.locator("#layers").getByRole("button", { name: "Every row" }).click();
  seen.slowestFirst = await readRows(page);
  seen.sorted = await page.locator("[aria-sort=descending]").textContent();
  await heading("Measured").click();
  await heading("Measured").click();
  seen.backInOrder = await readRows(page);

  await page.locator(".filters input[type=search]").fill("conv");
  seen.searched = await readRows(page);
  await page.locator(".filters input[type=search]").fill("");
  await page.locator(".filters label.menu", { hasText: "Type" }).locator("select").selectOption(type);
  seen.ofOneType = await readRows(page);
  await page.locator("#layers").getByRole("button", { name: "Clear" }).click();
  await page.getByRole("group", { name: "Filter by unit" }).getByRole("button", { name: /^NE/ }).click();
  seen.onNeuralEngine = await page.locator(".layers-foot p").first().textContent();
  await page.locator("#layers").getByRole("button", { name: "Clear" }).click();

  if (await page.locator("#layers").getByRole("button", { name: "Fold all" }).count()) {
    await page.locator("#layers").getByRole("button", { name: "Fold all" }).click();
    seen.folded = await readRows(page);
    await page.locator(".fold").first().click();
    seen.unfolded = await readRows(page);
  }

  await page.locator(".grid-body .grid-row").first().click();
  seen.detail = await page.locator(".detail").textContent();
  await page.locator(".grid-scroll").press("ArrowDown");
  seen.next = await page.locator(".detail h3").textContent();
  seen.address = page.url();
  const linked = await page.context().newPage();
  await linked.goto(seen.address);
  seen.linked = await linked.locator(".detail h3").textContent();
  await linked.close();
  await page.locator(".grid-scroll").press("Escape");
  seen.isClosed = (await page.locator(".detail").count()) === 0;

  await page.locator(".context select").last().selectOption("cpu_only");
  seen.onCpu = await readRows(page);
  return seen;
});
