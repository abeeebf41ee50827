// The graph: how soon it is drawn, unfolded and found in, whether the page waits meanwhile, and what its keys do.
import { look } from "./open.mjs";

await look(async (page, url, [searched]) => {
  const boxes = () => page.evaluate(() => document.querySelectorAll("#graph .node").length);
  const words = () => page.locator(".graph-words").textContent();
  const note = () => page.locator("#graph .section-note > span").last().textContent();
  /** Seconds until the graph is drawn after `act`, and the longest time between two frames meanwhile. */
  const timed = async (act, part) => {
    await page.evaluate(() => {
      globalThis.paints = [performance.now()];
      const step = (now) => {
        if (!globalThis.paints) return;
        globalThis.paints.push(now);
        requestAnimationFrame(step);
      };
      requestAnimationFrame(step);
    });
    const begin = performance.now();
    await act();
    await page.waitForFunction((shown) => {
      const graph = document.querySelector("#graph .graph");
      return (
        graph &&
        !graph.classList.contains("graph-busy") &&
        (!shown || document.querySelector("#graph .section-note").textContent.includes(shown))
      );
    }, part);
    const seconds = (performance.now() - begin) / 1000;
    const longestFrameMs = await page.evaluate(() => {
      const gaps = globalThis.paints.slice(1).map((now, index) => now - globalThis.paints[index]);
      globalThis.paints = null;
      return Math.max(0, ...gaps);
    });
    return { seconds, longestFrameMs };
  };
  await page.addInitScript(() => {
    globalThis.since = {};
    new MutationObserver(() => {
      for (const [name, selector] of [
        ["page", "main section"],
        ["graph", "#graph .graph"],
      ]) {
        if (!globalThis.since[name] && document.querySelector(selector)) globalThis.since[name] = performance.now();
      }
    }).observe(document, { childList: true, subtree: true });
  });
  await page.goto(url);
  await page.locator("#graph .graph").waitFor();
  const seen = {};
  // From the first section of the page to its graph.
  seen.drawnSeconds = await page.evaluate(() => (globalThis.since.graph - globalThis.since.page) / 1000);
  seen.workers = page.workers().length;
  seen.opened = await note();
  seen.fit = await page.evaluate(() => {
    const [frame, shown] = [document.querySelector("#graph svg"), document.querySelector("#graph svg > g")].map((one) =>
      one.getBoundingClientRect(),
    );
    return { over: Math.max(frame.left - shown.left, shown.right - frame.right, frame.top - shown.top, shown.bottom - frame.bottom) };
  });
  seen.boxes = await boxes();
  seen.shapes = await page.locator("#graph .edge-shape").allTextContents();
  const operations = Number(/(\d+) operation/.exec(seen.opened)?.[1]);
  const unfold = page.getByRole("button", { name: "Unfold all" });
  if ((await unfold.count()) && (await unfold.isEnabled())) seen.unfolded = await timed(() => unfold.click(), `${operations} parts shown`);
  seen.far = await page.locator("#graph .far").count();
  const field = page.getByLabel("Find an operation in the graph");
  await field.fill(searched);
  seen.searched = await timed(() => field.press("Enter"));
  await page.locator("#graph .node-selected").waitFor();
  seen.foundWords = await words();
  const graph = page.locator("#graph svg[role=group]");
  await graph.focus();
  await graph.press("ArrowDown");
  seen.below = await words();
  await graph.press("ArrowUp");
  seen.back = await words();
  await graph.press("Backspace");
  await page.waitForTimeout(300);
  seen.folded = await note();
  const path = page.getByRole("button", { name: "Critical path" });
  if (await path.count()) {
    await path.click();
    seen.path = await page.locator("#graph .caption").first().textContent();
    seen.critical = await page.locator("#graph .edge-critical").count();
  }
  const next = page.getByRole("button", { name: "Next operation that reads from another unit" });
  if (await next.count()) {
    await next.click();
    await page.waitForTimeout(300);
    seen.change = await words();
    seen.switches = await page.locator("#graph .edge-switch").count();
  }
  return seen;
});
