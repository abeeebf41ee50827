// One browser for many scripts, which connect to the port that the command line names; it ends with its standard input.
import { chromium } from "playwright-core";

const [executablePath, port] = process.argv.slice(2);
const FLAGS = [
  `--remote-debugging-port=${port}`,
  "--no-sandbox",
  "--disable-gpu",
  "--disable-quic",
  "--no-first-run",
  "--disable-background-networking",
  "--disable-component-update",
  "--disable-sync",
  // A camera that draws its frames, and is permitted.
  "--use-fake-device-for-media-stream",
  "--use-fake-ui-for-media-stream",
];

const browser = await chromium.launch({ executablePath, args: FLAGS });
console.log("ready");
for await (const _ of process.stdin);
await browser.close();
