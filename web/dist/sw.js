// src/sw.ts
var e = globalThis, t = "doublet-72d18673718f";
e.addEventListener("install", (n) => {
	n.waitUntil(caches.open(t).then((e) => e.addAll([
		"/",
		"/mail-frame",
		.../* @__PURE__ */ "/assets/atkinson-hyperlegible-next-latin-ext-wght-normal-C6vrW8VD.woff2,/assets/atkinson-hyperlegible-next-latin-wght-normal-BcXVPD7q.woff2,/assets/db-CHwPWa1j.js,/assets/de-B7cUmnr0.js,/assets/de-Zh6TXvND.js,/assets/fit-BRC0mYI9.js,/assets/foreign-CSEY4GSc.js,/assets/html-BlTKFhGl.js,/assets/icons-CDmHs5Fg.js,/assets/index-C6dabik3.js,/assets/jsxRuntime-CIOOxVFM.js,/assets/keptsearch-_45lfRst.js,/assets/mail-3M5qTal9.js,/assets/marks-DTi93J-D.js,/assets/palette-Bm7LFlDV.js,/assets/recent-BJ748Bkp.js,/assets/screen-DbfATnhn.js,/assets/search-DosREgTy.js,/assets/settings-Bio8lyQk.js,/assets/style-CO3PNcpG.css,/assets/suggest-CL38dNLw.js,/assets/terms-FoKrX7n9.js,/assets/writer-6hN29Yos.js,/assets/zh-Bx6IS9yZ.js,/assets/zh-CwiNjzHP.js,/icon.svg,/manifest.webmanifest".split(",")
	])).then(() => e.skipWaiting()));
}), e.addEventListener("activate", (n) => {
	n.waitUntil(caches.keys().then((e) => Promise.all(e.filter((e) => e !== t).slice(0, -1).map((e) => caches.delete(e)))).then(() => e.clients.claim()));
}), e.addEventListener("fetch", (e) => {
	let t = new URL(e.request.url);
	e.request.method === "GET" && t.origin === location.origin && (e.request.mode === "navigate" && (t.pathname === "/" || t.pathname.startsWith("/mail/")) ? e.respondWith(fetch(e.request).catch(async () => await caches.match("/") ?? Response.error())) : (t.pathname === "/mail-frame" || t.pathname.startsWith("/assets/") || (/* @__PURE__ */ "/assets/atkinson-hyperlegible-next-latin-ext-wght-normal-C6vrW8VD.woff2,/assets/atkinson-hyperlegible-next-latin-wght-normal-BcXVPD7q.woff2,/assets/db-CHwPWa1j.js,/assets/de-B7cUmnr0.js,/assets/de-Zh6TXvND.js,/assets/fit-BRC0mYI9.js,/assets/foreign-CSEY4GSc.js,/assets/html-BlTKFhGl.js,/assets/icons-CDmHs5Fg.js,/assets/index-C6dabik3.js,/assets/jsxRuntime-CIOOxVFM.js,/assets/keptsearch-_45lfRst.js,/assets/mail-3M5qTal9.js,/assets/marks-DTi93J-D.js,/assets/palette-Bm7LFlDV.js,/assets/recent-BJ748Bkp.js,/assets/screen-DbfATnhn.js,/assets/search-DosREgTy.js,/assets/settings-Bio8lyQk.js,/assets/style-CO3PNcpG.css,/assets/suggest-CL38dNLw.js,/assets/terms-FoKrX7n9.js,/assets/writer-6hN29Yos.js,/assets/zh-Bx6IS9yZ.js,/assets/zh-CwiNjzHP.js,/icon.svg,/manifest.webmanifest".split(",")).includes(t.pathname)) && e.respondWith(caches.match(t.pathname === "/mail-frame" && !t.search ? "/mail-frame" : e.request).then((t) => t ?? fetch(e.request))));
});
