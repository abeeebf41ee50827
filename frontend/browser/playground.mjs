// The playground that opens dropped models: an example, a dropped folder, a file that is no model, a comparison, a stop, and
// all of it without a network. Arguments: a folder that is a model, and a file that is none.
import { chromium } from "playwright-core";
import { violations } from "./open.mjs";

const [executablePath, url, model, other] = process.argv.slice(2);
const browser = await chromium.launch({ executablePath, args: ["--no-sandbox", "--disable-gpu", "--disable-background-networking"] });
const LONG = 240_000;
const seen = {};
try {
  seen.violations = await checkPages();
  const context = await browser.newContext({ viewport: { width: 1440, height: 900 }, reducedMotion: "reduce" });
  const page = await context.newPage();
  page.setDefaultTimeout(LONG);
  const requests = [];
  seen.complaints = [];
  page.on("console", (message) => ["error", "warning"].includes(message.type()) && seen.complaints.push(message.text()));
  page.on("pageerror", (error) => seen.complaints.push(String(error)));
  context.on("request", (request) => request.url().startsWith("http") && requests.push(request.url()));

  await page.goto(url);
  await page.waitForFunction(() => document.querySelectorAll("meta[http-equiv]").length === 2);
  const loaded = requests.length;
  seen.foreign = requests.filter((one) => !one.startsWith(url));

  await openExample(page, "An image classifier");
  const options = page.locator("select[name=device] option");
  seen.example = { title: await page.title(), first: await chosenDevice(page), devices: await options.count() };
  await page.locator(".open-progress").waitFor({ state: "detached" });
  seen.every = { devices: await options.count(), device: await chosenDevice(page) };

  await page.goBack();
  seen.back = await page.locator("h1").textContent();
  await page.setInputFiles("input[type=file]:not([webkitdirectory])", other);
  seen.refused = await page.getByRole("alert").textContent();
  await drop(page, model);
  await page.locator(".report-head h1").waitFor();
  seen.dropped = await page.locator(".report-head h1").textContent();
  await page.getByRole("button", { name: "Stop" }).click();
  await page.locator(".open-progress").waitFor({ state: "detached" });
  seen.stopped = await options.count();
  await page.goBack();
  await openExample(page, "Before and after a change");
  seen.compared = await page.title();
  seen.requests = requests.slice(loaded);

  const before = seen.complaints.length;
  seen.sent = await page.evaluate(trySending);
  seen.complaints.length = before;

  // The address names a device that only the answer for every chip has, and a setting; a mistake is one click from its fix.
  await page.goto(`${url}?device=${encodeURIComponent("M2, macOS 27")}&units=cpu_only&op=main%2F1`);
  await openExample(page, "A text encoder");
  await page.locator(".open-progress").waitFor({ state: "detached" });
  seen.shared = { device: await chosenDevice(page), address: new URL(page.url()).search };
  await page.getByRole("button", { name: "See it mended" }).click();
  await page.waitForFunction(() => document.title.includes("TextEncoderMended"));
  seen.mended = await page.title();

  // A report that is loaded again is gone, and going back leads to the start page as before.
  await context.setOffline(true);
  await page.reload();
  await openExample(page, "A text encoder");
  seen.offline = await page.title();
  await page.goBack();
  seen.again = await page.locator("h1").textContent();
} finally {
  await browser.close();
}
console.log(JSON.stringify(seen));

async function openExample(page, title) {
  await page.getByRole("button", { name: title }).click();
  await page.locator(".topbar").waitFor();
}

/** Drops a file or a folder on the page, wherever. */
async function drop(page, path) {
  const session = await page.context().newCDPSession(page);
  const data = { items: [], files: [path], dragOperationsMask: 1 };
  for (const type of ["dragEnter", "dragOver", "drop"]) await session.send("Input.dispatchDragEvent", { type, x: 400, y: 20, data });
}

function chosenDevice(page) {
  return page.locator("select[name=device] option:checked").textContent();
}

/** What axe-core finds on the start page and on a report in both themes, and by how much the first is too wide for a phone. */
async function checkPages() {
  const page = await (await browser.newContext({ bypassCSP: true })).newPage();
  const found = {};
  for (const colorScheme of ["light", "dark"]) {
    await page.emulateMedia({ colorScheme });
    await page.goto(url);
    await page.locator(".start-drop").waitFor();
    found[colorScheme] = await violations(page);
  }
  await page.setViewportSize({ width: 390, height: 844 });
  found.excess = await page.evaluate(() => document.documentElement.scrollWidth - document.documentElement.clientWidth);
  await page.setViewportSize({ width: 1440, height: 900 });
  page.setDefaultTimeout(LONG);
  await openExample(page, "A text encoder");
  for (const colorScheme of ["light", "dark"]) {
    await page.emulateMedia({ colorScheme });
    found[colorScheme].push(...(await violations(page)));
  }
  await page.close();
  return found;
}

/** Tries to send from the page and from a worker; runs in the page. */
async function trySending() {
  const send = "fetch('/').then(() => 'sent', () => 'refused')";
  const worker = new Worker(URL.createObjectURL(new Blob([`${send.replace("/", location.href)}.then(postMessage)`])));
  const inWorker = new Promise((resolve) => {
    worker.onmessage = ({ data }) => resolve(data);
  });
  const image = new Image();
  const shown = new Promise((resolve) => {
    image.onload = () => resolve("sent");
    image.onerror = () => resolve("refused");
  });
  image.src = "playground.css?secret";
  return [
    await fetch("/").then(
      () => "sent",
      () => "refused",
    ),
    await inWorker,
    await shown,
  ];
}
