// The scripts of the first load: those that the page asks for until the inbox is drawn. Bytes are no times: they are the same on any machine.

import assert from "node:assert/strict";
import { after, test } from "node:test";
import { base, browser, open, signIn } from "./world.mjs";

after(() => browser.close());

/** The most bytes of compressed script until the inbox is drawn, in any language. */
const most = 60_000;

/** The scripts of a page that begins with an empty cache, until its first row is drawn; by name, in bytes as they were transferred. */
async function scriptsOf(language, cookies) {
  const context = await browser.newContext({ viewport: { width: 1440, height: 900 }, locale: language, serviceWorkers: "block", storageState: { cookies, origins: [] } });
  const page = await context.newPage();
  await page.addInitScript(() => {
    new MutationObserver((_, watch) => {
      if (!document.querySelector(".row .subject")) return;
      globalThis.drawn = performance.now();
      watch.disconnect();
    }).observe(document, { subtree: true, childList: true });
  });
  await page.goto(base);
  await page.waitForFunction(() => globalThis.drawn);
  // All of them have ended when what is loaded behind the list is there.
  await page.waitForFunction(() => performance.getEntriesByType("resource").some((e) => /\/alarms-/.test(e.name)));
  const list = await page.evaluate(() => performance.getEntriesByType("resource").filter((e) => e.name.endsWith(".js") && e.startTime < globalThis.drawn).map((e) => [e.name.replace(/.*\//u, ""), e.encodedBodySize, e.decodedBodySize]));
  await context.close();
  return list;
}

test("the scripts until the inbox is drawn are few, in every language", async () => {
  const page = await open();
  await signIn(page);
  const { cookies } = await page.context().storageState();
  for (const language of ["en-US", "de-DE", "zh-CN"]) {
    const list = await scriptsOf(language, cookies);
    const sum = list.reduce((n, [, bytes]) => n + bytes, 0);
    if (process.env.SIZES) console.log(language, sum, list.map((x) => x.join(" ")).join("\n"));
    assert.ok(list.length > 3 && list.every(([, bytes, whole]) => bytes > 0 && whole > 0), `${language}: ${JSON.stringify(list)}`);
    assert.ok(list.some(([, bytes, whole]) => bytes < whole), `${language}: the server compresses nothing`);
    assert.ok(sum <= most, `${language}: ${sum} bytes: ${JSON.stringify(list)}`);
  }
});
