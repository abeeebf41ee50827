// What the playground's Python answers about files on this disk, without its page: one answer for each path, as text, since
// JavaScript does not tell 1.0 from 1.
import { chromium } from "playwright-core";

const [executablePath, url, ...paths] = process.argv.slice(2);
const browser = await chromium.launch({ executablePath, args: ["--no-sandbox", "--disable-gpu"] });
try {
  const page = await (await browser.newContext()).newPage();
  // A document of the playground that forbids nothing.
  await page.goto(`${url}offline.js`);
  await page.evaluate(startPython);
  const answers = [];
  for (const path of paths) {
    await page.evaluate(() => {
      document.body.innerHTML = "<input type=file multiple><input type=file webkitdirectory>";
    });
    const isFolder = await import("node:fs").then(({ statSync }) => statSync(path).isDirectory());
    await page.setInputFiles(isFolder ? "input[webkitdirectory]" : "input[multiple]", path);
    answers.push(await page.evaluate(ask));
  }
  console.log(JSON.stringify(answers));
} finally {
  await browser.close();
}

/** Starts the playground's worker, as its page does; runs in the page. */
async function startPython() {
  const text = await (await fetch("index.html")).text();
  const manifest = JSON.parse(new DOMParser().parseFromString(text, "text/html").getElementById("manifest").textContent);
  const fetched = manifest.files.map(async ({ name, url }) => [name, await (await fetch(url)).blob()]);
  const files = Object.fromEntries(await Promise.all(fetched));
  const script = new Blob([files["python-worker.js"]], { type: "text/javascript" });
  const worker = new Worker(URL.createObjectURL(script), { type: "module" });
  const { loader, module, packages } = manifest;
  Object.assign(globalThis, { worker, drop: 0 });
  await new Promise((resolve, reject) => {
    worker.onmessage = ({ data }) => (data.failed ? reject(new Error(data.failed)) : data.ready && resolve());
    worker.onerror = (event) => reject(new Error(event.message));
    worker.postMessage({ start: { loader, module, packages, files } });
  });
}

/** Asks about what the inputs of the page hold; runs in the page. */
function ask() {
  const chosen = [...document.querySelectorAll("input")].flatMap((input) => [...input.files]);
  const files = chosen.map((file) => ({ path: file.webkitRelativePath || file.name, file }));
  const paths = [...new Set(files.map(({ path }) => path.split("/", 1)[0]))];
  const { worker } = globalThis;
  const id = ++globalThis.drop;
  return new Promise((resolve, reject) => {
    worker.onmessage = ({ data }) => {
      if (data.failed) reject(new Error(data.failed));
      if (data.id === id) resolve({ answer: data.answer, heapBytes: data.heapBytes });
    };
    worker.postMessage({ ask: { id, drop: id, files, paths, chips: "first" } });
  });
}
