// The service worker: answers with what the page has kept, so that it opens without a network.

const KEPT = "coremlscope-";

self.addEventListener("install", () => self.skipWaiting());
self.addEventListener("activate", (event) => event.waitUntil(self.clients.claim()));
self.addEventListener("fetch", (event) => {
  const { request } = event;
  if (request.method !== "GET" || new URL(request.url).origin !== location.origin) return;
  event.respondWith(request.mode === "navigate" ? newest(request) : kept(request).then((found) => found ?? fetch(request)));
});

/** A page from the network, so that a new version is seen; without a network the kept one. */
async function newest(request) {
  try {
    return await fetch(request);
  } catch (error) {
    const found = await kept(request);
    if (found) return found;
    throw error;
  }
}

async function kept(request) {
  for (const name of await caches.keys()) {
    if (!name.startsWith(KEPT)) continue;
    const found = await (await caches.open(name)).match(request, { ignoreSearch: request.mode === "navigate" });
    if (found) return found;
  }
  return undefined;
}
