/** The part of Node that tests use: they read files of the page. */
declare module "node:fs" {
  export function readFileSync(path: URL, encoding: "utf8"): string;
}
