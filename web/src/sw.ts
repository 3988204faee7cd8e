// The service worker keeps the client itself, so that it starts without a network. Mail is kept by the client
// (state/db.ts), never here: what the worker keeps holds nobody's data.

declare const BUILD: string;
declare const FILES: string[];

const worker = globalThis as unknown as ServiceWorkerGlobalScope;
const cache = `doublet-${BUILD}`;

worker.addEventListener("install", (e) => {
  e.waitUntil(caches.open(cache).then((c) => Promise.all(["/", "/mail-frame", ...FILES].map((f) => keep(c, f)))).catch(async (e) => {
    await caches.delete(cache); // a part of a client must not take the place of a whole one
    throw e;
  }).then(() => worker.skipWaiting()));
});

/** Keeps a file. A network that changes breaks requests off: one failure must not leave the page without a worker until it is loaded again. */
async function keep(c: Cache, file: string): Promise<void> {
  for (let tries = 1; ; tries++) {
    try {
      return await c.add(file);
    } catch (e) {
      if (tries === 5) throw e;
      await new Promise((done) => setTimeout(done, tries * 500));
    }
  }
}

// Pages of the client before this one may still be open: its files stay until the next.
worker.addEventListener("activate", (e) => {
  e.waitUntil(
    caches.keys()
      .then((all) => Promise.all(all.filter((k) => k !== cache).slice(0, -1).map((k) => caches.delete(k))))
      .then(() => worker.clients.claim()),
  );
});

worker.addEventListener("message", (e) => {
  if (e.data === "claim") e.waitUntil(worker.clients.claim());
});

worker.addEventListener("fetch", (e) => {
  const url = new URL(e.request.url);
  if (e.request.method !== "GET" || url.origin !== location.origin) return;
  if (e.request.mode === "navigate" && (url.pathname === "/" || /^\/(?:mail|calendar|contacts)\//u.test(url.pathname))) {
    // The newest client when the server answers, the kept one when it does not.
    e.respondWith(fetch(e.request).catch(async () => (await caches.match("/")) ?? Response.error()));
    return;
  }
  if (url.pathname === "/mail-frame" || url.pathname.startsWith("/assets/") || FILES.includes(url.pathname)) {
    e.respondWith(caches.match(url.pathname === "/mail-frame" && !url.search ? "/mail-frame" : e.request).then((found) => found ?? fetch(e.request)));
  }
});

export {};
