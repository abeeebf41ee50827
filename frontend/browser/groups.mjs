// The layers as a tree and as an icicle: totals of groups, enlarging, searching, selecting.
import { look } from "./open.mjs";

await look(async (page, url) => {
  const seen = {};
  for (const by of ["module", "type"]) {
    await page.goto(`${url}?layers=tree&by=${by}`);
    seen[by] = await page.locator("#layers").evaluate(readTree);
  }
  await page.goto(`${url}?layers=icicle&width=measured`);
  const canvas = page.locator(".flame canvas");
  seen.icicle = await canvas.getAttribute("aria-label");
  await canvas.scrollIntoViewIfNeeded();
  await canvas.focus();
  for (const key of ["ArrowDown", "ArrowDown", "Enter"]) await canvas.press(key);
  seen.enlarged = await page.locator(".flame-path").textContent();
  seen.address = page.url();
  await page.locator(".flame-path button").first().click();
  await canvas.focus();
  for (const key of ["ArrowDown", "ArrowDown", "Enter"]) await canvas.press(key);
  seen.linked = await page.locator(".flame-path").textContent();
  for (const key of ["ArrowDown", "ArrowDown", "Enter"]) await canvas.press(key);
  seen.panel = await page.locator(".detail h3").textContent();
  await page.locator(".filters input[type=search]").fill("block.7");
  seen.found = await page.locator(".flame-path .dim").last().textContent();
  return seen;
});

function readTree(section) {
  const heads = [...section.querySelectorAll("[role=columnheader]")].map((cell) => cell.textContent);
  const rows = [...section.querySelectorAll(".grid-body [role=row]")].map((row) => {
    const cells = [...row.querySelectorAll("[role=gridcell]")];
    return [
      cells[0].querySelector(".ellipsis").textContent,
      Object.fromEntries(cells.map((cell, index) => [heads[index], cell.textContent.trim()])),
    ];
  });
  return Object.fromEntries(rows);
}
