// The graph: how soon it is drawn, unfolded and found in, whether the page waits meanwhile, and what its keys do.
import { look } from "./open.mjs";

await look(async (page, url, [searched]) => {
  const boxes = () => page.evaluate(() => document.querySelectorAll("#graph .node").length);
  const words = () => page.locator(".graph-words").textContent();
  const note = () => page.locator("#graph .section-note > span").last().textContent();
  /** Selects an area around everything. */
  const selectAll = async () => {
    const button = (name) => page.locator("#graph .graph-foot").getByRole("button", { name, exact: true });
    await button("All").click();
    await button("Select").click();
    await page.locator("#graph .graph").evaluate((graph) => graph.scrollIntoView());
    const frame = await page.locator("#graph svg[role=group]").boundingBox();
    await page.mouse.move(frame.x + 6, frame.y + frame.height - 6);
    await page.mouse.down();
    await page.mouse.move(frame.x + 60, frame.y + 60);
    await page.mouse.move(frame.x + frame.width - 6, frame.y + 6);
    await page.mouse.up();
    await button("Select").click();
  };
  /** Seconds until the graph is drawn after `act`, and the longest time between two frames meanwhile. */
  const timed = async (act) => {
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
    await page.waitForFunction(() => document.querySelector("#graph .graph:not(.graph-busy)"));
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
  seen.sizes = await page.evaluate(() =>
    [...document.querySelectorAll("#graph .graph text")].map(
      (one) => Number.parseFloat(getComputedStyle(one).fontSize) * one.getScreenCTM().a,
    ),
  );
  seen.boxes = await boxes();
  seen.nodes = await page
    .locator("#graph .node")
    .evaluateAll((all) => all.map((one) => [...one.querySelectorAll("text")].map((text) => text.textContent)));
  seen.frames = await page.locator("#graph .frame-title").allTextContents();
  seen.breaks = await page.locator("#graph .break").allTextContents();
  seen.changes = await page.locator("#graph [aria-label='Changes of unit'] .link").allTextContents();
  seen.slowest = await page.locator("#graph [aria-label='The slowest parts'] li").allTextContents();
  const unfold = page.getByRole("button", { name: "Unfold all" });
  if ((await unfold.count()) && (await unfold.isEnabled())) seen.unfolded = await timed(() => unfold.click());
  seen.far = await page.locator("#graph .far").count();
  await selectAll();
  seen.selected = await words();
  const field = page.getByLabel("Find an operation in the graph");
  await field.fill(searched);
  seen.searched = await timed(() => field.press("Enter"));
  await page.locator("#graph .node-selected").waitFor();
  const graph = page.locator("#graph svg[role=group]");
  await graph.focus();
  await graph.press("Escape");
  seen.foundWords = await words();
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
  if (seen.changes.length) {
    await graph.focus();
    await graph.press("n");
    await page.waitForTimeout(300);
    seen.change = await words();
    seen.switches = await page.locator("#graph .edge-switch").count();
  }
  return seen;
});
