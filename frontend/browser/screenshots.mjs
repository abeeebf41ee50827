// The pictures of the README: node browser/screenshots.mjs CHROMIUM PAGE FOLDER
import { chromium } from "playwright-core";

const [executablePath, url, folder] = process.argv.slice(2);
const PICTURES = [
  { name: "report", colorScheme: "light" },
  { name: "report-layers", colorScheme: "dark", at: "#layers", press: ".grid-body .grid-row >> nth=7" },
  { name: "report-units", colorScheme: "light", at: "#settings" },
];

const browser = await chromium.launch({ executablePath, args: ["--no-sandbox", "--disable-gpu"] });
for (const { name, colorScheme, at, press } of PICTURES) {
  const page = await browser.newPage({ viewport: { width: 1280, height: 800 }, colorScheme });
  await page.goto(url);
  if (press) await page.locator(press).click();
  // The click brings the middle of a wide row into view.
  await page.evaluate(() => document.querySelector(".grid-scroll")?.scrollTo({ left: 0, behavior: "instant" }));
  await page.mouse.move(5, 5);
  // Twice: what lies above takes its size when it first comes into view.
  for (let time = 0; at && time < 2; time++) {
    await page.evaluate((place) => document.querySelector(place).scrollIntoView({ behavior: "instant" }), at);
    await page.waitForTimeout(500);
  }
  await page.screenshot({ path: `${folder}/${name}.png` });
}
await browser.close();
