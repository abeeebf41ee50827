import type { LoadedFile, Manifest } from "./manifest";

/** What the page may still do once everything is loaded: nothing that sends. Workers from blobs inherit it. */
const CLOSED = [
  "default-src 'none'",
  "script-src blob: 'wasm-unsafe-eval'",
  "worker-src blob:",
  "style-src 'self'",
  "img-src data: blob:",
  "connect-src 'none'",
].join("; ");

/**
 * Fetches every file, or takes those that are kept from an earlier visit, and then forbids all further requests.
 *
 * @param progress Called with the bytes so far and those of all files.
 */
export async function loadFiles(manifest: Manifest, progress: (bytes: number, total: number) => void): Promise<Map<string, Blob>> {
  const total = manifest.files.reduce((sum, file) => sum + file.bytes, 0);
  let loaded = 0;
  const store = await openStore(manifest);
  const count = (bytes: number) => {
    loaded += bytes;
    progress(loaded, total);
  };
  const found = await Promise.all(manifest.files.map(async (file) => [file.name, await loadFile(file, store, count)] as const));
  forbidRequests();
  return new Map(found);
}

/** Has effect from the moment it is inserted, and cannot be removed. */
function forbidRequests(): void {
  const policy = document.createElement("meta");
  policy.httpEquiv = "Content-Security-Policy";
  policy.content = CLOSED;
  document.head.append(policy);
}

async function loadFile(file: LoadedFile, store: Cache | null, count: (bytes: number) => void): Promise<Blob> {
  const kept = await store?.match(file.url);
  const response = kept ?? (await fetch(file.url, { integrity: file.integrity }));
  if (!response.ok) throw new Error(`${file.name} could not be loaded (${response.status})`);
  if (!kept) await store?.put(file.url, response.clone());
  const blob = await response.blob();
  count(file.bytes);
  return blob;
}

/** What is kept of this version, and of no other; null where the browser keeps nothing. */
async function openStore(manifest: Manifest): Promise<Cache | null> {
  if (!globalThis.caches) return null;
  try {
    const name = `coremlscope-${manifest.version}`;
    for (const other of await caches.keys()) if (other.startsWith("coremlscope-") && other !== name) await caches.delete(other);
    const store = await caches.open(name);
    await navigator.serviceWorker?.register("offline.js");
    const own = document.querySelectorAll<HTMLScriptElement | HTMLLinkElement>("script[src], link[rel=stylesheet]");
    const addresses = [...own].map((one) => ("src" in one ? one.src : one.href));
    if (!(await store.match(addresses[0] ?? ""))) await store.addAll([location.pathname, ...addresses]);
    return store;
  } catch {
    return null; // as in private windows
  }
}
