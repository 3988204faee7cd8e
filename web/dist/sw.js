// src/sw.ts
var e = globalThis, t = "doublet-4c7def30dda0";
e.addEventListener("install", (n) => {
	n.waitUntil(caches.open(t).then((e) => e.addAll([
		"/",
		"/mail-frame",
		.../* @__PURE__ */ "/assets/atkinson-hyperlegible-next-latin-ext-wght-normal-C6vrW8VD.woff2,/assets/atkinson-hyperlegible-next-latin-wght-normal-BcXVPD7q.woff2,/assets/db-CHwPWa1j.js,/assets/de-CcqBoxw4.js,/assets/de-Zh6TXvND.js,/assets/fit-BRC0mYI9.js,/assets/foreign-tFWDybDn.js,/assets/html-DA973uc4.js,/assets/icons-C3jINzs8.js,/assets/index-C_hYYzLl.js,/assets/invitation-BqAIHwMZ.js,/assets/jsxRuntime-DN6v47Ck.js,/assets/keptsearch-CjNs4y5A.js,/assets/later-o2AikPJ6.js,/assets/mail-Dk545gRm.js,/assets/marks-Da0rN56O.js,/assets/palette-DL6U0rHW.js,/assets/recent-BJ748Bkp.js,/assets/screen-CEZUU69H.js,/assets/search-C2GRtsgw.js,/assets/settings-CP4CUlNX.js,/assets/style-C3223aAG.css,/assets/suggest-Bb_UllKT.js,/assets/terms-DYu5G8Oy.js,/assets/writer-CP_pwUVl.js,/assets/zh-Bm6HtpfB.js,/assets/zh-Bx6IS9yZ.js,/icon.svg,/manifest.webmanifest".split(",")
	])).then(() => e.skipWaiting()));
}), e.addEventListener("activate", (n) => {
	n.waitUntil(caches.keys().then((e) => Promise.all(e.filter((e) => e !== t).slice(0, -1).map((e) => caches.delete(e)))).then(() => e.clients.claim()));
}), e.addEventListener("fetch", (e) => {
	let t = new URL(e.request.url);
	e.request.method === "GET" && t.origin === location.origin && (e.request.mode === "navigate" && (t.pathname === "/" || t.pathname.startsWith("/mail/")) ? e.respondWith(fetch(e.request).catch(async () => await caches.match("/") ?? Response.error())) : (t.pathname === "/mail-frame" || t.pathname.startsWith("/assets/") || (/* @__PURE__ */ "/assets/atkinson-hyperlegible-next-latin-ext-wght-normal-C6vrW8VD.woff2,/assets/atkinson-hyperlegible-next-latin-wght-normal-BcXVPD7q.woff2,/assets/db-CHwPWa1j.js,/assets/de-CcqBoxw4.js,/assets/de-Zh6TXvND.js,/assets/fit-BRC0mYI9.js,/assets/foreign-tFWDybDn.js,/assets/html-DA973uc4.js,/assets/icons-C3jINzs8.js,/assets/index-C_hYYzLl.js,/assets/invitation-BqAIHwMZ.js,/assets/jsxRuntime-DN6v47Ck.js,/assets/keptsearch-CjNs4y5A.js,/assets/later-o2AikPJ6.js,/assets/mail-Dk545gRm.js,/assets/marks-Da0rN56O.js,/assets/palette-DL6U0rHW.js,/assets/recent-BJ748Bkp.js,/assets/screen-CEZUU69H.js,/assets/search-C2GRtsgw.js,/assets/settings-CP4CUlNX.js,/assets/style-C3223aAG.css,/assets/suggest-Bb_UllKT.js,/assets/terms-DYu5G8Oy.js,/assets/writer-CP_pwUVl.js,/assets/zh-Bm6HtpfB.js,/assets/zh-Bx6IS9yZ.js,/icon.svg,/manifest.webmanifest".split(",")).includes(t.pathname)) && e.respondWith(caches.match(t.pathname === "/mail-frame" && !t.search ? "/mail-frame" : e.request).then((t) => t ?? fetch(e.request))));
});
