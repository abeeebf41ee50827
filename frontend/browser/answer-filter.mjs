// What each part of the time leaves of the layer table, and the answers that are pinned.
import { look, readRows } from "./open.mjs";

await look(async (page, url) => {
  await page.goto(url);
  const shown = {};
  const parts = page.locator(".time-parts button[title]");
  for (let place = 0; place < (await parts.count()); place++) {
    const part = parts.nth(place);
    await part.click();
    shown[await part.textContent()] = (await readRows(page)).map((row) => Object.values(row)[0]);
  }
  // Every count of operations leads to so many rows.
  const counts = [];
  await page.evaluate(() => {
    for (const one of document.querySelectorAll("details")) one.open = true;
  });
  for (const link of await page.locator(".ops-count, .card-why .answer-list li .link:not(:last-child)").all()) {
    const text = await link.textContent();
    await link.click();
    counts.push([text, await page.locator(".layers-foot p").first().textContent()]);
  }
  const pins = page.locator(".devices .setting .pin");
  const pressed = [];
  for (let place = 0; place < 3; place++) {
    await pins.nth(place).click();
    pressed.push(await page.locator(".devices .setting th button").nth(place).textContent());
  }
  const pinned = (await page.locator(".pinned h3").allTextContents()).map((one) =>
    one
      .replace(/ Unpin$/, "")
      .split(", ")
      .at(-1),
  );
  return { shown, counts, pressed, pinned };
});
