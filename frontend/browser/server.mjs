// The page of `coremlscope serve`: a model is opened, run, given a picture, and compared; work can be stopped.
import { look, phoneOverflow, violations } from "./open.mjs";

/** A picture of 4 × 3 red pixels. */
const PICTURE = "iVBORw0KGgoAAAANSUhEUgAAAAQAAAADCAIAAAA7ljmRAAAAFElEQVR4nGM8ISfHAANMDEgAhQMAJtoBCkAAOw8AAAAASUVORK5CYII=";

await look(
  async (page, url, [model, archive, other, screenshot]) => {
    page.setDefaultTimeout(60_000);
    await page.goto(url);
    const seen = { violations: {} };
    const shoot = (name) => screenshot && page.screenshot({ path: `${screenshot}-${name}.png` });
    const check = async (name) => {
      for (const colorScheme of ["light", "dark"]) {
        await page.emulateMedia({ colorScheme });
        seen.violations[`${name}-${colorScheme}`] = await violations(page);
        await shoot(`${name}-${colorScheme}`);
      }
    };
    await check("start");
    await page.setInputFiles("input[type=file]:not([webkitdirectory])", other);
    seen.refused = await page.getByRole("alert").textContent();

    await page.getByRole("button", { name: "iPhone 13" }).click();
    await page.setInputFiles("input[webkitdirectory]", model);
    await page.locator(".report-head h1").waitFor();
    seen.opened = await page.locator(".report-head h1").textContent();
    await page.locator(".open-progress").waitFor({ state: "detached" });
    seen.devices = await page.locator("select[name=device] > option").allTextContents();
    seen.first = await page.locator("select[name=device] > option:checked").textContent();
    seen.times = await page.locator("#times").count();
    await page.getByRole("button", { name: "Run it here" }).click();
    await page.locator("#times").waitFor();
    await page.locator(".open-progress").waitFor({ state: "detached" });
    await check("report");
    const photo = { name: "photo.png", mimeType: "image/png", buffer: Buffer.from(PICTURE, "base64") };
    await page.locator("#preview .drop input").setInputFiles(photo);
    await page.locator(".preview-result").waitFor();
    seen.previewed = {
      time: await page.locator(".preview-time").textContent(),
      classes: await page.locator(".preview-classes li").count(),
      pictures: await page.locator("#preview .stage img").count(),
    };
    await page.locator("#preview .drop input").setInputFiles({ ...photo, name: "photo.txt" });
    seen.previewed.refused = await page.locator("#preview .banner p").allTextContents();
    await page.getByRole("button", { name: "Camera", exact: true }).click();
    await page.locator(".camera video").evaluate((video) => video.videoWidth || new Promise((done) => (video.onloadeddata = done)));
    await page.getByLabel("Repeat every frame").check();
    // Answers change with the frames of the camera.
    const frames = new Set();
    while (frames.size < 2) {
      await page.waitForTimeout(50);
      const frame = page.locator("#preview .stage img").first();
      if (await frame.count()) frames.add(await frame.getAttribute("src"));
    }
    seen.frames = frames.size;
    await check("camera");
    await page.getByLabel("Repeat every frame").uncheck();
    await page.getByRole("button", { name: "Close the camera" }).click();
    seen.isFilming = await page.locator(".camera").count();

    await page.getByRole("button", { name: "Run it here" }).click();
    await page.getByRole("button", { name: "Stop" }).click();
    await page.locator(".open-progress").waitFor({ state: "detached" });
    await page.getByRole("button", { name: "Open another" }).click();
    seen.back = await page.locator("h1").textContent();
    await page.setInputFiles("input[type=file]:not([webkitdirectory])", [archive, archive.replace(/[^/]+$/, "second.zip")]);
    await page.locator(".topbar").waitFor();
    seen.compared = await page.title();
    await page.getByRole("button", { name: "Open another" }).click();
    seen.phoneOverflow = await phoneOverflow(page);
    return seen;
  },
  { offline: false, bypassCSP: true },
);
