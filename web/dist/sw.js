// src/sw.ts
var e = globalThis, t = "doublet-7e38ba237f72";
e.addEventListener("install", (n) => {
	n.waitUntil(caches.open(t).then((e) => e.addAll([
		"/",
		"/mail-frame",
		"/assets/atkinson-hyperlegible-next-latin-ext-wght-normal-C6vrW8VD.woff2",
		"/assets/atkinson-hyperlegible-next-latin-wght-normal-BcXVPD7q.woff2",
		"/assets/de-CzvK9zoT.js",
		"/assets/de-Zh6TXvND.js",
		"/assets/index-Dd786e93.js",
		"/assets/jsxRuntime-BH81JrjT.js",
		"/assets/settings-BV3_Zfab.js",
		"/assets/style-C6VzoLNU.css",
		"/assets/writer-Brh7H7kz.js",
		"/assets/zh-Bx6IS9yZ.js",
		"/assets/zh-aNGZDiRQ.js",
		"/icon.svg",
		"/manifest.webmanifest"
	])).then(() => e.skipWaiting()));
}), e.addEventListener("activate", (n) => {
	n.waitUntil(caches.keys().then((e) => Promise.all(e.filter((e) => e !== t).slice(0, -1).map((e) => caches.delete(e)))).then(() => e.clients.claim()));
}), e.addEventListener("fetch", (e) => {
	let t = new URL(e.request.url);
	e.request.method === "GET" && t.origin === location.origin && (e.request.mode === "navigate" && t.pathname === "/" ? e.respondWith(fetch(e.request).catch(async () => await caches.match("/") ?? Response.error())) : (t.pathname === "/mail-frame" || t.pathname.startsWith("/assets/") || [
		"/assets/atkinson-hyperlegible-next-latin-ext-wght-normal-C6vrW8VD.woff2",
		"/assets/atkinson-hyperlegible-next-latin-wght-normal-BcXVPD7q.woff2",
		"/assets/de-CzvK9zoT.js",
		"/assets/de-Zh6TXvND.js",
		"/assets/index-Dd786e93.js",
		"/assets/jsxRuntime-BH81JrjT.js",
		"/assets/settings-BV3_Zfab.js",
		"/assets/style-C6VzoLNU.css",
		"/assets/writer-Brh7H7kz.js",
		"/assets/zh-Bx6IS9yZ.js",
		"/assets/zh-aNGZDiRQ.js",
		"/icon.svg",
		"/manifest.webmanifest"
	].includes(t.pathname)) && e.respondWith(caches.match(t.pathname === "/mail-frame" && !t.search ? "/mail-frame" : e.request).then((t) => t ?? fetch(e.request))));
});
