// src/sw.ts
var e = globalThis, t = "doublet-671fdfbf29c0";
e.addEventListener("install", (n) => {
	n.waitUntil(caches.open(t).then((e) => e.addAll([
		"/",
		"/mail-frame",
		.../* @__PURE__ */ "/assets/atkinson-hyperlegible-next-latin-ext-wght-normal-C6vrW8VD.woff2,/assets/atkinson-hyperlegible-next-latin-wght-normal-BcXVPD7q.woff2,/assets/db-CHwPWa1j.js,/assets/de-B7cUmnr0.js,/assets/de-Zh6TXvND.js,/assets/fit-BRC0mYI9.js,/assets/foreign-CQLyIxvB.js,/assets/html-BqML1fmX.js,/assets/icons-DtakDuiL.js,/assets/index-B5jWsH9J.js,/assets/invitation-Bete9FT4.js,/assets/jsxRuntime-CNyKP1Y2.js,/assets/keptsearch-DeppbAxj.js,/assets/later-lEHdHBGt.js,/assets/mail-DP_h0C0-.js,/assets/marks-DahPgtvV.js,/assets/palette-iwzEptan.js,/assets/recent-BJ748Bkp.js,/assets/screen-CEZUU69H.js,/assets/search-Cj32SNHX.js,/assets/settings-Bgid7wFH.js,/assets/style-C3223aAG.css,/assets/suggest-DSdrAms8.js,/assets/terms-BYEQAS2Y.js,/assets/writer-x7v3CRHK.js,/assets/zh-Bx6IS9yZ.js,/assets/zh-CwiNjzHP.js,/icon.svg,/manifest.webmanifest".split(",")
	])).then(() => e.skipWaiting()));
}), e.addEventListener("activate", (n) => {
	n.waitUntil(caches.keys().then((e) => Promise.all(e.filter((e) => e !== t).slice(0, -1).map((e) => caches.delete(e)))).then(() => e.clients.claim()));
}), e.addEventListener("fetch", (e) => {
	let t = new URL(e.request.url);
	e.request.method === "GET" && t.origin === location.origin && (e.request.mode === "navigate" && (t.pathname === "/" || t.pathname.startsWith("/mail/")) ? e.respondWith(fetch(e.request).catch(async () => await caches.match("/") ?? Response.error())) : (t.pathname === "/mail-frame" || t.pathname.startsWith("/assets/") || (/* @__PURE__ */ "/assets/atkinson-hyperlegible-next-latin-ext-wght-normal-C6vrW8VD.woff2,/assets/atkinson-hyperlegible-next-latin-wght-normal-BcXVPD7q.woff2,/assets/db-CHwPWa1j.js,/assets/de-B7cUmnr0.js,/assets/de-Zh6TXvND.js,/assets/fit-BRC0mYI9.js,/assets/foreign-CQLyIxvB.js,/assets/html-BqML1fmX.js,/assets/icons-DtakDuiL.js,/assets/index-B5jWsH9J.js,/assets/invitation-Bete9FT4.js,/assets/jsxRuntime-CNyKP1Y2.js,/assets/keptsearch-DeppbAxj.js,/assets/later-lEHdHBGt.js,/assets/mail-DP_h0C0-.js,/assets/marks-DahPgtvV.js,/assets/palette-iwzEptan.js,/assets/recent-BJ748Bkp.js,/assets/screen-CEZUU69H.js,/assets/search-Cj32SNHX.js,/assets/settings-Bgid7wFH.js,/assets/style-C3223aAG.css,/assets/suggest-DSdrAms8.js,/assets/terms-BYEQAS2Y.js,/assets/writer-x7v3CRHK.js,/assets/zh-Bx6IS9yZ.js,/assets/zh-CwiNjzHP.js,/icon.svg,/manifest.webmanifest".split(",")).includes(t.pathname)) && e.respondWith(caches.match(t.pathname === "/mail-frame" && !t.search ? "/mail-frame" : e.request).then((t) => t ?? fetch(e.request))));
});
