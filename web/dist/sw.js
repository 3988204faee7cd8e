// src/sw.ts
var e = globalThis, t = "doublet-409190cb4a18";
e.addEventListener("install", (n) => {
	n.waitUntil(caches.open(t).then((e) => e.addAll([
		"/",
		"/mail-frame",
		.../* @__PURE__ */ "/assets/atkinson-hyperlegible-next-latin-ext-wght-normal-C6vrW8VD.woff2,/assets/atkinson-hyperlegible-next-latin-wght-normal-BcXVPD7q.woff2,/assets/db-CHwPWa1j.js,/assets/de-CcqBoxw4.js,/assets/de-Zh6TXvND.js,/assets/fit-BRC0mYI9.js,/assets/foreign-Ddw7JiWx.js,/assets/html-BdSNhuKe.js,/assets/icons-C3jINzs8.js,/assets/index-C-mHafIo.js,/assets/invitation-B1Imgaaa.js,/assets/jsxRuntime-DN6v47Ck.js,/assets/keptsearch-8vRvgupA.js,/assets/later-DMr7HGfI.js,/assets/mail-CLe-UOnP.js,/assets/marks-B49Wj_fc.js,/assets/palette-CSdcO-ia.js,/assets/recent-BJ748Bkp.js,/assets/screen-CEZUU69H.js,/assets/search-kAt_F1-8.js,/assets/settings-BufBRAVj.js,/assets/style-C3223aAG.css,/assets/suggest-4OrkFEFn.js,/assets/terms-DVKU0yXr.js,/assets/writer-ftO3oI--.js,/assets/zh-Bm6HtpfB.js,/assets/zh-Bx6IS9yZ.js,/icon.svg,/manifest.webmanifest".split(",")
	])).then(() => e.skipWaiting()));
}), e.addEventListener("activate", (n) => {
	n.waitUntil(caches.keys().then((e) => Promise.all(e.filter((e) => e !== t).slice(0, -1).map((e) => caches.delete(e)))).then(() => e.clients.claim()));
}), e.addEventListener("fetch", (e) => {
	let t = new URL(e.request.url);
	e.request.method === "GET" && t.origin === location.origin && (e.request.mode === "navigate" && (t.pathname === "/" || t.pathname.startsWith("/mail/")) ? e.respondWith(fetch(e.request).catch(async () => await caches.match("/") ?? Response.error())) : (t.pathname === "/mail-frame" || t.pathname.startsWith("/assets/") || (/* @__PURE__ */ "/assets/atkinson-hyperlegible-next-latin-ext-wght-normal-C6vrW8VD.woff2,/assets/atkinson-hyperlegible-next-latin-wght-normal-BcXVPD7q.woff2,/assets/db-CHwPWa1j.js,/assets/de-CcqBoxw4.js,/assets/de-Zh6TXvND.js,/assets/fit-BRC0mYI9.js,/assets/foreign-Ddw7JiWx.js,/assets/html-BdSNhuKe.js,/assets/icons-C3jINzs8.js,/assets/index-C-mHafIo.js,/assets/invitation-B1Imgaaa.js,/assets/jsxRuntime-DN6v47Ck.js,/assets/keptsearch-8vRvgupA.js,/assets/later-DMr7HGfI.js,/assets/mail-CLe-UOnP.js,/assets/marks-B49Wj_fc.js,/assets/palette-CSdcO-ia.js,/assets/recent-BJ748Bkp.js,/assets/screen-CEZUU69H.js,/assets/search-kAt_F1-8.js,/assets/settings-BufBRAVj.js,/assets/style-C3223aAG.css,/assets/suggest-4OrkFEFn.js,/assets/terms-DVKU0yXr.js,/assets/writer-ftO3oI--.js,/assets/zh-Bm6HtpfB.js,/assets/zh-Bx6IS9yZ.js,/icon.svg,/manifest.webmanifest".split(",")).includes(t.pathname)) && e.respondWith(caches.match(t.pathname === "/mail-frame" && !t.search ? "/mail-frame" : e.request).then((t) => t ?? fetch(e.request))));
});
