// What the buttons of sections save: charts as PNG, tables as CSV; and the summary in Markdown.
import { readFile } from "node:fs/promises";
import { look } from "./open.mjs";

await look(async (page, url) => {
  await page.addInitScript(() => {
    const writeText = async (text) => {
      globalThis.copied = text;
    };
    Object.defineProperty(navigator, "clipboard", { value: { writeText } });
  });
  await page.goto(url);
  const save = async (section, button) => {
    const area = page.locator(`#${section}`);
    await area.scrollIntoViewIfNeeded();
    const waiting = page.waitForEvent("download");
    await area.getByRole("button", { name: button, exact: true }).click();
    return readFile(await (await waiting).path());
  };
  const seen = { pictures: {} };
  for (const name of ["roofline", "timeline", "graph"]) {
    const picture = await save(name, "PNG");
    const isPicture = picture.subarray(1, 4).toString() === "PNG";
    seen.pictures[name] = { isPicture, colours: await page.evaluate(colours, `data:image/png;base64,${picture.toString("base64")}`) };
  }
  seen.layers = (await save("layers", "CSV")).toString();
  seen.weights = (await save("weights", "CSV")).toString();
  await page.locator("#layers").getByRole("button", { name: "Tree", exact: true }).click();
  seen.tree = (await save("layers", "CSV")).toString();
  await page.getByRole("button", { name: "Copy summary as Markdown" }).click();
  await page.waitForFunction(() => globalThis.copied);
  seen.summary = await page.evaluate(() => globalThis.copied);
  return seen;
});

/** The number of colours in a picture. */
async function colours(address) {
  const image = new Image();
  image.src = address;
  await image.decode();
  const canvas = document.createElement("canvas");
  [canvas.width, canvas.height] = [image.width, image.height];
  const context = canvas.getContext("2d");
  context.drawImage(image, 0, 0);
  return new Set(new Uint32Array(context.getImageData(0, 0, image.width, image.height).data.buffer)).size;
}
