import type { Example } from "../src/opening";

/** What the page loads, written into it by its build. */
export interface Manifest {
  version: string;
  /** The files that loading fetches, all of them before anything is opened. */
  files: readonly LoadedFile[];
  /** Files of Pyodide: its loader, and the module that holds Python. */
  loader: string;
  module: string;
  /** Archives that are unpacked for Python, in this order. */
  packages: readonly string[];
  examples: readonly Example[];
  /** The address of the documentation; empty for none. */
  docs: string;
}

export interface LoadedFile {
  name: string;
  /** Where it is, next to the page. */
  url: string;
  bytes: number;
  /** As in the attribute `integrity`. */
  integrity: string;
}

export function readManifest(): Manifest {
  const element = document.getElementById("manifest");
  if (!element?.textContent) throw new Error("this page does not say what it loads");
  return JSON.parse(element.textContent) as Manifest;
}
