// src/sw.ts
var e = globalThis, t = "doublet-dab86db4ce5c";
e.addEventListener("install", (n) => {
	n.waitUntil(caches.open(t).then((e) => e.addAll([
		"/",
		"/mail-frame",
		"/assets/atkinson-hyperlegible-next-latin-ext-wght-normal-C6vrW8VD.woff2",
		"/assets/atkinson-hyperlegible-next-latin-wght-normal-BcXVPD7q.woff2",
		"/assets/de-C5iULVOE.js",
		"/assets/de-C9fJa-je.js",
		"/assets/index-D2ZPY3Ya.js",
		"/assets/screen-Dx_Yeloy.js",
		"/assets/settings-BLSqH1bK.js",
		"/assets/style-DdUMtEbN.css",
		"/assets/writer-BRn5LD_S.js",
		"/assets/zh-B9OJ7oy-.js",
		"/assets/zh-DZnN4rRX.js",
		"/icon.svg",
		"/manifest.webmanifest"
	])).then(() => e.skipWaiting()));
}), e.addEventListener("activate", (n) => {
	n.waitUntil(caches.keys().then((e) => Promise.all(e.filter((e) => e !== t).map((e) => caches.delete(e)))).then(() => e.clients.claim()));
}), e.addEventListener("fetch", (e) => {
	let t = new URL(e.request.url);
	e.request.method === "GET" && t.origin === location.origin && (e.request.mode === "navigate" && t.pathname === "/" ? e.respondWith(fetch(e.request).catch(async () => await caches.match("/") ?? Response.error())) : (t.pathname === "/mail-frame" || [
		"/assets/atkinson-hyperlegible-next-latin-ext-wght-normal-C6vrW8VD.woff2",
		"/assets/atkinson-hyperlegible-next-latin-wght-normal-BcXVPD7q.woff2",
		"/assets/de-C5iULVOE.js",
		"/assets/de-C9fJa-je.js",
		"/assets/index-D2ZPY3Ya.js",
		"/assets/screen-Dx_Yeloy.js",
		"/assets/settings-BLSqH1bK.js",
		"/assets/style-DdUMtEbN.css",
		"/assets/writer-BRn5LD_S.js",
		"/assets/zh-B9OJ7oy-.js",
		"/assets/zh-DZnN4rRX.js",
		"/icon.svg",
		"/manifest.webmanifest"
	].includes(t.pathname)) && e.respondWith(caches.match(t.pathname === "/mail-frame" && !t.search ? "/mail-frame" : e.request).then((t) => t ?? fetch(e.request))));
});
