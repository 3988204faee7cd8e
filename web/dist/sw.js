// src/sw.ts
var e = globalThis, t = "doublet-20f7bb66c2b7";
e.addEventListener("install", (n) => {
	n.waitUntil(caches.open(t).then((e) => e.addAll([
		"/",
		"/mail-frame",
		"/assets/atkinson-hyperlegible-next-latin-ext-wght-normal-C6vrW8VD.woff2",
		"/assets/atkinson-hyperlegible-next-latin-wght-normal-BcXVPD7q.woff2",
		"/assets/de-C5iULVOE.js",
		"/assets/de-C9fJa-je.js",
		"/assets/index-DdiBFItM.js",
		"/assets/screen-Dx_Yeloy.js",
		"/assets/settings-C8X_BIZb.js",
		"/assets/style-DdUMtEbN.css",
		"/assets/writer-D_DcsCTP.js",
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
		"/assets/index-DdiBFItM.js",
		"/assets/screen-Dx_Yeloy.js",
		"/assets/settings-C8X_BIZb.js",
		"/assets/style-DdUMtEbN.css",
		"/assets/writer-D_DcsCTP.js",
		"/assets/zh-B9OJ7oy-.js",
		"/assets/zh-DZnN4rRX.js",
		"/icon.svg",
		"/manifest.webmanifest"
	].includes(t.pathname)) && e.respondWith(caches.match(t.pathname === "/mail-frame" && !t.search ? "/mail-frame" : e.request).then((t) => t ?? fetch(e.request))));
});
