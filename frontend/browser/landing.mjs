// Where the first click on each link of the bar lands, or else each address with a fragment: pixels from where it should, by section.
import { look, PHONE } from "./open.mjs";

/** Waits until the page has not scrolled for a while: with motion, links scroll smoothly. */
async function settled(page) {
  for (let last = -1, still = 0; still < 2; ) {
    await page.waitForTimeout(100);
    const now = await page.evaluate(() => scrollY);
    still = now === last ? still + 1 : 0;
    last = now;
  }
}

await look(
  async (page, url, [size, way]) => {
    const off = async (id) => {
      await settled(page);
      return page.evaluate((id) => {
        const wanted = Number.parseFloat(getComputedStyle(document.documentElement).scrollPaddingTop) || 0;
        const { top } = document.getElementById(id).getBoundingClientRect();
        const isAtEnd = scrollY + innerHeight >= document.documentElement.scrollHeight - 1;
        return isAtEnd && top > wanted ? 0 : Math.round(top - wanted);
      }, id);
    };
    if (size === "phone") await page.setViewportSize(PHONE);
    await page.goto(url);
    const ids = await page.locator(".topbar nav a").evaluateAll((links) => links.map((one) => one.hash.slice(1)));
    const found = {};
    for (const id of ids) {
      await page.goto("about:blank");
      await page.goto(way === "clicked" ? url : `${url}#${id}`);
      if (way === "clicked") await page.locator(`.topbar nav a[href='#${id}']`).click();
      found[id] = await off(id);
    }
    return found;
  },
  { reducedMotion: "no-preference" },
);
