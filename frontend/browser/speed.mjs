// How soon a page can be used and how smoothly its layer table scrolls: seconds, and frames a second.
import { look } from "./open.mjs";

await look(async (page, url) => {
  const begin = performance.now();
  await page.goto(url);
  await page.locator(".grid-body .grid-row").first().click();
  await page.locator(".detail").waitFor();
  const seconds = (performance.now() - begin) / 1000;
  await page.locator(".grid-scroll").press("Escape");
  await page.locator(".grid-scroll").scrollIntoViewIfNeeded();
  const scrolled = await page.evaluate(async () => {
    const grid = document.querySelector(".grid-scroll");
    const frames = [];
    const start = performance.now();
    let most = 0;
    await new Promise((done) => {
      const step = (now) => {
        frames.push(now);
        most = Math.max(most, grid.querySelectorAll(".grid-row").length);
        grid.scrollTop += 120;
        if (now - start < 2000) requestAnimationFrame(step);
        else done();
      };
      requestAnimationFrame(step);
    });
    const gaps = frames
      .slice(1)
      .map((now, index) => now - frames[index])
      .sort((a, b) => a - b);
    return {
      fps: ((frames.length - 1) / (frames.at(-1) - frames[0])) * 1000,
      slowestFrameMs: gaps.at(-1),
      rowsInPage: most,
      scrolledTo: grid.scrollTop,
      blank: document
        .elementsFromPoint(grid.getBoundingClientRect().left + 60, Math.min(grid.getBoundingClientRect().top + 90, innerHeight - 5))
        .every((one) => !one.closest(".grid-row")),
    };
  });
  const sortBegin = performance.now();
  await page.locator(".grid-head").getByRole("button", { name: "Measured", exact: true }).click();
  await page.locator("[aria-sort=descending]").waitFor();
  return { seconds, ...scrolled, sortSeconds: (performance.now() - sortBegin) / 1000 };
});
