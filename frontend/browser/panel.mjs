// What the panel says of operations that the command line names, and whether it opens in place.
import { look } from "./open.mjs";

await look(async (page, url, ids) => {
  const panels = [];
  for (const id of ids) {
    await page.goto(`${url}?op=${encodeURIComponent(id)}`);
    panels.push(await page.locator(".detail").evaluate(read));
  }
  await page.goto(url);
  await page.locator("#roofline").scrollIntoViewIfNeeded();
  const point = page.locator("#roofline .point").first();
  await point.scrollIntoViewIfNeeded();
  const top = () => page.locator("#roofline-title").evaluate((one) => one.getBoundingClientRect().top);
  const before = await top();
  await point.click({ force: true });
  const panel = (await page.locator(".detail h3").textContent()) ?? "";
  return { panels, inPlace: { panel, moved: (await top()) - before } };
});

function read(panel) {
  const texts = (selector) => [...panel.querySelectorAll(selector)].map((one) => one.textContent.trim());
  const part = (title) => {
    const heads = [...panel.querySelectorAll("h4")];
    const head = heads.find((one) => one.textContent.startsWith(title));
    const found = [];
    for (let next = head?.nextElementSibling; next && next.tagName !== "H4"; next = next.nextElementSibling) found.push(next);
    return found;
  };
  const textOf = (title) =>
    part(title)
      .map((one) => one.textContent)
      .join(" ");
  return {
    title: panel.querySelector("h3").textContent,
    text: panel.textContent,
    costs: [...panel.querySelectorAll(".costs tr")].map(
      (row) => `${row.querySelector("th").textContent} ${row.querySelector(".number").textContent}`,
    ),
    attributes: part("Attributes").flatMap((list) =>
      [...list.children].map((one) => [...one.children].map((cell) => cell.textContent).join(" ")),
    ),
    inputs: textOf("Inputs"),
    outputs: textOf("Output"),
    weights: textOf("Weights"),
    bars: panel.querySelectorAll(".weight-histogram rect").length,
    sources: texts(".reason-source"),
    mil: panel.querySelector(".mil")?.textContent ?? "",
  };
}
