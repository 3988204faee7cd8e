// src/sw.ts
var e = globalThis, t = "doublet-d6ecdae32b75";
e.addEventListener("install", (n) => {
	n.waitUntil(caches.open(t).then((e) => e.addAll([
		"/",
		"/mail-frame",
		.../* @__PURE__ */ "/assets/atkinson-hyperlegible-next-latin-ext-wght-normal-C6vrW8VD.woff2,/assets/atkinson-hyperlegible-next-latin-wght-normal-BcXVPD7q.woff2,/assets/db-CHwPWa1j.js,/assets/de-B7cUmnr0.js,/assets/de-Zh6TXvND.js,/assets/fit-BRC0mYI9.js,/assets/foreign-DPA9Rd-P.js,/assets/html-polkrvkE.js,/assets/icons-X8uIBqQL.js,/assets/index-B38xrN2P.js,/assets/invitation-Cd5LmCO-.js,/assets/jsxRuntime-DeZZM1Df.js,/assets/keptsearch-C7bSFcp5.js,/assets/later-DE-pPjX2.js,/assets/mail-DCgXXnda.js,/assets/marks-qBJgXnzu.js,/assets/palette-B_t81m7c.js,/assets/recent-BJ748Bkp.js,/assets/screen-Dkju-DAm.js,/assets/search-wANT1EcY.js,/assets/settings-DUN7e1hf.js,/assets/style-C3223aAG.css,/assets/suggest-Bx-ADdAu.js,/assets/terms-D1FJf0YL.js,/assets/writer-DkpHD6Rd.js,/assets/zh-Bx6IS9yZ.js,/assets/zh-CwiNjzHP.js,/icon.svg,/manifest.webmanifest".split(",")
	])).then(() => e.skipWaiting()));
}), e.addEventListener("activate", (n) => {
	n.waitUntil(caches.keys().then((e) => Promise.all(e.filter((e) => e !== t).slice(0, -1).map((e) => caches.delete(e)))).then(() => e.clients.claim()));
}), e.addEventListener("fetch", (e) => {
	let t = new URL(e.request.url);
	e.request.method === "GET" && t.origin === location.origin && (e.request.mode === "navigate" && (t.pathname === "/" || t.pathname.startsWith("/mail/")) ? e.respondWith(fetch(e.request).catch(async () => await caches.match("/") ?? Response.error())) : (t.pathname === "/mail-frame" || t.pathname.startsWith("/assets/") || (/* @__PURE__ */ "/assets/atkinson-hyperlegible-next-latin-ext-wght-normal-C6vrW8VD.woff2,/assets/atkinson-hyperlegible-next-latin-wght-normal-BcXVPD7q.woff2,/assets/db-CHwPWa1j.js,/assets/de-B7cUmnr0.js,/assets/de-Zh6TXvND.js,/assets/fit-BRC0mYI9.js,/assets/foreign-DPA9Rd-P.js,/assets/html-polkrvkE.js,/assets/icons-X8uIBqQL.js,/assets/index-B38xrN2P.js,/assets/invitation-Cd5LmCO-.js,/assets/jsxRuntime-DeZZM1Df.js,/assets/keptsearch-C7bSFcp5.js,/assets/later-DE-pPjX2.js,/assets/mail-DCgXXnda.js,/assets/marks-qBJgXnzu.js,/assets/palette-B_t81m7c.js,/assets/recent-BJ748Bkp.js,/assets/screen-Dkju-DAm.js,/assets/search-wANT1EcY.js,/assets/settings-DUN7e1hf.js,/assets/style-C3223aAG.css,/assets/suggest-Bx-ADdAu.js,/assets/terms-D1FJf0YL.js,/assets/writer-DkpHD6Rd.js,/assets/zh-Bx6IS9yZ.js,/assets/zh-CwiNjzHP.js,/icon.svg,/manifest.webmanifest".split(",")).includes(t.pathname)) && e.respondWith(caches.match(t.pathname === "/mail-frame" && !t.search ? "/mail-frame" : e.request).then((t) => t ?? fetch(e.request))));
});
