// src/sw.ts
var e = globalThis, t = "doublet-2366792d0ff1";
e.addEventListener("install", (n) => {
	n.waitUntil(caches.open(t).then((e) => e.addAll([
		"/",
		"/mail-frame",
		.../* @__PURE__ */ "/assets/atkinson-hyperlegible-next-latin-ext-wght-normal-C6vrW8VD.woff2,/assets/atkinson-hyperlegible-next-latin-wght-normal-BcXVPD7q.woff2,/assets/db-CHwPWa1j.js,/assets/de-CcqBoxw4.js,/assets/de-Zh6TXvND.js,/assets/fit-BRC0mYI9.js,/assets/foreign-bUHbERH6.js,/assets/html-DWx09R6v.js,/assets/icons-C3jINzs8.js,/assets/index-r761GNA1.js,/assets/invitation-DTnx9BW1.js,/assets/jsxRuntime-DN6v47Ck.js,/assets/keptsearch-D9HdJS9G.js,/assets/later-kVI3DgVb.js,/assets/mail-gfttFQ7c.js,/assets/marks-BSxR2ife.js,/assets/palette-B5QMkpMd.js,/assets/recent-BJ748Bkp.js,/assets/screen-CEZUU69H.js,/assets/search-CjfZWYWf.js,/assets/settings-Bxd-967I.js,/assets/style-C3223aAG.css,/assets/suggest-fmBYak7y.js,/assets/terms-CbjMB241.js,/assets/writer-DH-exDeD.js,/assets/zh-Bm6HtpfB.js,/assets/zh-Bx6IS9yZ.js,/icon.svg,/manifest.webmanifest".split(",")
	])).then(() => e.skipWaiting()));
}), e.addEventListener("activate", (n) => {
	n.waitUntil(caches.keys().then((e) => Promise.all(e.filter((e) => e !== t).slice(0, -1).map((e) => caches.delete(e)))).then(() => e.clients.claim()));
}), e.addEventListener("fetch", (e) => {
	let t = new URL(e.request.url);
	e.request.method === "GET" && t.origin === location.origin && (e.request.mode === "navigate" && (t.pathname === "/" || t.pathname.startsWith("/mail/")) ? e.respondWith(fetch(e.request).catch(async () => await caches.match("/") ?? Response.error())) : (t.pathname === "/mail-frame" || t.pathname.startsWith("/assets/") || (/* @__PURE__ */ "/assets/atkinson-hyperlegible-next-latin-ext-wght-normal-C6vrW8VD.woff2,/assets/atkinson-hyperlegible-next-latin-wght-normal-BcXVPD7q.woff2,/assets/db-CHwPWa1j.js,/assets/de-CcqBoxw4.js,/assets/de-Zh6TXvND.js,/assets/fit-BRC0mYI9.js,/assets/foreign-bUHbERH6.js,/assets/html-DWx09R6v.js,/assets/icons-C3jINzs8.js,/assets/index-r761GNA1.js,/assets/invitation-DTnx9BW1.js,/assets/jsxRuntime-DN6v47Ck.js,/assets/keptsearch-D9HdJS9G.js,/assets/later-kVI3DgVb.js,/assets/mail-gfttFQ7c.js,/assets/marks-BSxR2ife.js,/assets/palette-B5QMkpMd.js,/assets/recent-BJ748Bkp.js,/assets/screen-CEZUU69H.js,/assets/search-CjfZWYWf.js,/assets/settings-Bxd-967I.js,/assets/style-C3223aAG.css,/assets/suggest-fmBYak7y.js,/assets/terms-CbjMB241.js,/assets/writer-DH-exDeD.js,/assets/zh-Bm6HtpfB.js,/assets/zh-Bx6IS9yZ.js,/icon.svg,/manifest.webmanifest".split(",")).includes(t.pathname)) && e.respondWith(caches.match(t.pathname === "/mail-frame" && !t.search ? "/mail-frame" : e.request).then((t) => t ?? fetch(e.request))));
});
