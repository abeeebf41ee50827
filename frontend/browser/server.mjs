// The page of `coremlscope serve`: search, tags, names, comparison, deletion, devices, and jobs as they change.
import { look, violations } from "./open.mjs";

/** A picture of 4 × 3 red pixels. */
const PICTURE = "iVBORw0KGgoAAAANSUhEUgAAAAQAAAADCAIAAAA7ljmRAAAAFElEQVR4nGM8ISfHAANMDEgAhQMAJtoBCkAAOw8AAAAASUVORK5CYII=";

await look(
  async (page, url, [upload, model, screenshot]) => {
    await page.goto(url);
    const rows = page.locator(".history tbody tr");
    const row = (id) => page.locator(".history tbody tr", { has: page.locator(`a[title="${id}.json"]`) });
    const names = () => page.locator(".history tbody th a").evaluateAll((links) => links.map((link) => link.title));
    const seen = { title: await page.title(), listed: await names(), violations: {} };

    await row("first").getByRole("button", { name: "Tags" }).click();
    await page.getByLabel("Tags, separated by commas").fill("slow, before the fix");
    await page.getByRole("button", { name: "Save", exact: true }).click();
    await row("first").locator(".tag").first().waitFor();
    seen.tags = await row("first").locator(".tag").allTextContents();

    await page.locator(".filters input[type=search]").fill("before the");
    seen.found = await names();
    await page.locator(".filters input[type=search]").fill("");

    await row("second").getByRole("button", { name: "Rename" }).click();
    await page.getByLabel("New name").fill("first");
    await page.getByRole("button", { name: "Save", exact: true }).click();
    seen.refused = await page.getByRole("alert").textContent();
    await row("second").getByRole("button", { name: "Rename" }).click();
    await page.getByLabel("New name").fill("renamed");
    await page.getByRole("button", { name: "Save", exact: true }).click();
    await row("renamed").waitFor();
    seen.renamed = await names();

    const devices = page.getByLabel("Devices");
    await devices.fill("iPhone 15 Pro");
    await devices.press("Enter");
    await devices.fill("m1,");
    seen.devices = await page.locator(".upload .tag").allTextContents();
    seen.suggestions = await page.locator("#known-devices option").count();

    for (const colorScheme of ["light", "dark"]) {
      await page.emulateMedia({ colorScheme });
      seen.violations[colorScheme] = await violations(page);
      if (screenshot) await page.screenshot({ path: `${screenshot}-${colorScheme}.png`, fullPage: true });
    }

    seen.extensible = await page.getByRole("button", { name: "Add devices" }).count();
    await page.locator(".folder input").setInputFiles(model);
    await page.locator(".upload .start").click();
    await page.getByText("Open the report").waitFor({ timeout: 60_000 });
    await page.getByRole("button", { name: "Add devices" }).click();
    await page.getByLabel("Devices, separated by commas").fill("m3");
    await page.getByRole("button", { name: "Save", exact: true }).click();
    await page.waitForFunction(() => document.querySelectorAll(".job-done").length === 2);
    await page.locator(".history", { hasText: "small.mlpackage" }).locator("tbody th a").click();
    seen.planned = await page.locator(".settings .group-head").allTextContents();
    await page.locator("select[name=device]").selectOption("m4");
    await page.getByRole("button", { name: "Plan and estimate it here" }).click();
    await page.waitForURL(/device=/, { timeout: 60_000 });
    seen.onDemand = await page.locator("select[name=device] option:checked").textContent();
    const photo = { name: "photo.png", mimeType: "image/png", buffer: Buffer.from(PICTURE, "base64") };
    await page.locator("#preview .drop input").setInputFiles(photo);
    await page.locator(".preview-result").waitFor({ timeout: 60_000 });
    seen.previewed = {
      time: await page.locator(".preview-time").textContent(),
      classes: await page.locator(".preview-classes li").count(),
      pictures: await page.locator("#preview .stage img").count(),
      violations: await violations(page),
    };
    await page.locator("#preview .drop input").setInputFiles({ ...photo, name: "photo.txt" });
    seen.previewed.refused = await page.locator("#preview .banner").textContent();
    await page.goBack();
    await page.locator(".history", { hasText: "small.mlpackage" }).getByRole("button", { name: "Delete" }).click();
    await page.getByRole("button", { name: "Delete", exact: true }).first().click();
    await page.locator(".history", { hasText: "small.mlpackage" }).waitFor({ state: "detached" });

    await page.locator(".drop input").setInputFiles(upload);
    await page.locator(".upload .start").click();
    await page.waitForFunction((before) => document.querySelectorAll(".history tbody tr").length > before, seen.listed.length);

    await row("first").getByRole("button", { name: "Delete" }).click();
    await page.getByRole("button", { name: "Delete", exact: true }).first().waitFor();
    await row("first").getByRole("button", { name: "Delete", exact: true }).click();
    await row("first").waitFor({ state: "detached" });
    seen.left = await rows.count();

    for (const box of await page.locator(".history tbody input").all()) await box.check();
    await page.getByText("Compare 2 profiles").click();
    seen.compared = await page.locator("h1").textContent();
    return seen;
  },
  { offline: false },
);
