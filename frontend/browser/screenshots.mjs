// The pictures of the documentation: node browser/screenshots.mjs CHROMIUM FOLDER_OF_PAGES FOLDER
// Each page of the first folder (`compare.html`) becomes a picture of its first view (`compare.webp`).
import { readdir, writeFile } from "node:fs/promises";
import { resolve } from "node:path";
import { pathToFileURL } from "node:url";
import { chromium } from "playwright-core";

const [executablePath, pages, folder] = process.argv.slice(2);
/** What the picture shows of a page, where that is not its beginning. */
const PARTS = {
  units: "#settings",
  graph: "#graph",
  timeline: "#timeline",
  layers: "#layers",
  tokens: "#generation",
  sweep: "#pareto",
  onnxruntime: "#onnxruntime",
};
const HEIGHTS = { report: 800, check: 560, recording: 720, timeline: 420, layers: 560, tokens: 330 };

const browser = await chromium.launch({ executablePath, args: ["--no-sandbox", "--disable-gpu"] });
for (const file of (await readdir(pages)).filter((name) => name.endsWith(".html"))) {
  const name = file.replace(/\.html$/, "");
  const viewport = { width: 1280, height: HEIGHTS[name] ?? 640 };
  const page = await browser.newPage({ viewport, colorScheme: "light", reducedMotion: "reduce" });
  await page.goto(pathToFileURL(resolve(pages, file)).href);
  // Twice: what lies above takes its size when it first comes into view.
  for (let time = 0; time < 2; time++) {
    await page.evaluate((part) => part && document.querySelector(part).scrollIntoView({ behavior: "instant" }), PARTS[name]);
    await page.waitForTimeout(1500);
  }
  const session = await page.context().newCDPSession(page);
  // The first screen is also what others show of the site, and not all of them read WebP.
  const format = name === "report" ? "png" : "webp";
  const { data } = await session.send("Page.captureScreenshot", format === "webp" ? { format, quality: 82 } : { format });
  await writeFile(`${folder}/${name}.${format}`, Buffer.from(data, "base64"));
  await page.close();
}
await browser.close();
