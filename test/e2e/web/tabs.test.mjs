// Many pages of one browser, and one that is open for long: what they share, and what they keep.

import assert from "node:assert/strict";
import { after, test } from "node:test";
import { hour } from "./day.mjs";
import { arrives, atOnce, base, begin, browser, controlled, deliver, heap, open, row, signIn } from "./world.mjs";

after(() => browser.close());

const run = Date.now().toString(36);
const letter = (to, subject, text) => `From: Tim <tim@elsewhere.example>\nTo: ${to}\nSubject: ${subject}\nMessage-ID: <${subject.replace(/\W/g, "")}@elsewhere.example>\nDate: Sat, 21 Nov 2026 10:00:00 +0000\nMIME-Version: 1.0\nContent-Type: text/html; charset=utf-8\n\n${text}\n`;
const send = (to, subject, text = "<p>words</p>") => deliver("tim@elsewhere.example", to, letter(to, subject, text));

test("ten tabs show the same, and send what waits once", { timeout: 180_000 }, async () => {
  const first = await open();
  const context = first.context();
  let cut = false;
  const told = [];
  await context.route("**/jmap/api", async (route) => {
    if (!(route.request().postData() ?? "").includes('"EmailSubmission/set"')) return route.fallback();
    if (cut) return route.abort();
    told.push(route.request().url());
    await new Promise((done) => setTimeout(done, 1000)); // time for the others to ask for it
    return route.fallback();
  });
  await context.addInitScript(() => localStorage.setItem("doublet:preferences", JSON.stringify({ undoSeconds: 0 })));
  await signIn(first);
  const tabs = [first];
  while (tabs.length < 10) {
    const tab = await context.newPage();
    await tab.goto(base);
    await tab.waitForSelector(".row .subject");
    tabs.push(tab);
  }
  await send("alice@example.com", `Of ten ${run}`);
  for (const tab of tabs) await row(tab, `Of ten ${run}`).waitFor();
  await row(tabs[3], `Of ten ${run}`).click();
  await tabs[3].locator(".reader h1", { hasText: `Of ten ${run}` }).waitFor();
  await tabs[3].keyboard.press("e");
  for (const tab of tabs) await row(tab, `Of ten ${run}`).waitFor({ state: "detached" });
  cut = true;
  await begin(tabs[7], "bob@example.com", `From ten ${run}`, "words");
  await tabs[7].keyboard.press("Control+Enter");
  await tabs[7].waitForSelector(".writer", { state: "detached" });
  cut = false;
  await Promise.all(tabs.map((tab) => tab.evaluate(() => void dispatchEvent(new Event("online")))));
  await arrives(`From ten ${run}`);
  assert.equal(told.length, 1);
  await context.close();
});

/** The numbers of entries in stores of the browser, once they are what is expected. */
const counts = (page, user) => page.evaluate((user) => new Promise((resolve) => {
  const opening = indexedDB.open(`doublet:${user}`);
  opening.onsuccess = () => {
    const tx = opening.result.transaction(["rows", "messages"]);
    const out = {};
    for (const name of ["rows", "messages"]) tx.objectStore(name).count().onsuccess = (e) => (out[name] = e.target.result);
    tx.oncomplete = () => { opening.result.close(); resolve(out); };
  };
}), user);

test("what the browser keeps of mail is bounded, however much was read", async () => {
  const page = await open();
  await signIn(page, "carol");
  await row(page, "").waitFor();
  const put = await page.evaluate(() => new Promise((resolve) => {
    const opening = indexedDB.open("doublet:carol@example.com");
    opening.onsuccess = () => {
      const tx = opening.result.transaction(["rows", "messages"], "readwrite");
      for (let i = 0; i < 6000; i++) for (const name of ["rows", "messages"]) tx.objectStore(name).put({ id: `0old${i}` }, `0old${i}`);
      const counting = tx.objectStore("messages").count(); // here, because the page may remove them at once
      tx.oncomplete = () => { opening.result.close(); resolve(counting.result); };
    };
  }));
  assert.ok(put >= 6000);
  await page.reload();
  await row(page, "").waitFor();
  let kept;
  for (let i = 0; i < 200; i++) { // until the list has been kept
    kept = await counts(page, "carol@example.com");
    if (kept.messages <= 500 + 200 && kept.rows <= 2000 + 200) break;
    await page.waitForTimeout(100);
  }
  assert.ok(kept.messages <= 700 && kept.rows <= 2200, JSON.stringify(kept));
  assert.ok(kept.rows > 0 && kept.messages > 0, "what is in the list is kept");
  await controlled(page);
  await page.context().setOffline(true); // and is there
  await page.reload();
  await row(page, "").waitFor();
});

test("a tab that opens 500 messages has no more documents and nodes than after 40", { timeout: 300_000 }, async () => {
  const page = await open({ worker: false });
  const cdp = await page.context().newCDPSession(page);
  await cdp.send("Performance.enable");
  for (let i = 0; i < 20; i++) await send("carol@example.com", `Long ${run} ${i}.`, `<table>${"<tr><td style=\"color:#333\">cell</td><td>cell</td></tr>".repeat(30)}</table>`);
  await signIn(page, "carol");
  await row(page, `Long ${run} 19.`).click();
  const openMany = async (n) => {
    await page.evaluate(async ([n, run]) => {
      for (let i = 0, at = 19, step = -1; i < n; i++) {
        if (at + step < 0 || at + step > 19) step = -step;
        at += step;
        document.body.dispatchEvent(new KeyboardEvent("keydown", { key: step < 0 ? "j" : "k", bubbles: true, cancelable: true }));
        const there = () => document.querySelector(".reader h1")?.textContent === `Long ${run} ${at}.` && document.querySelector(".mail iframe")?.contentDocument?.querySelector("td");
        for (let frames = 0; !there(); frames++) {
          if (frames > 1500) throw new Error(`message ${at} is not shown`);
          await new Promise(requestAnimationFrame);
        }
        if (i === n - 1 && at !== 19) n++; // ends where it began
      }
    }, [n, run]);
    await cdp.send("HeapProfiler.collectGarbage");
    await page.waitForTimeout(200);
    await cdp.send("HeapProfiler.collectGarbage");
    const { metrics } = await cdp.send("Performance.getMetrics");
    return Object.fromEntries(metrics.map((m) => [m.name, m.value]));
  };
  const early = await openMany(40), late = await openMany(500);
  const said = JSON.stringify([early, late].map(({ Documents, Nodes, JSEventListeners, JSHeapUsedSize }) => ({ Documents, Nodes, JSEventListeners, JSHeapUsedSize })));
  assert.ok(late.Documents <= early.Documents + 4, said);
  assert.ok(late.Nodes <= early.Nodes + 2000, said);
  assert.ok(late.JSEventListeners <= early.JSEventListeners + 100, said);
  assert.ok(late.JSHeapUsedSize <= early.JSHeapUsedSize + 8_000_000, said);
});

test("a tab that is open for hours holds as many nodes after twelve as after two", { timeout: 180_000 }, async () => {
  // Harry has no appointments, whose alerts would be shown for a minute. His list is longer than the page from the start.
  for (let i = 0; i < 60; i++) await deliver("mallory@elsewhere.example", "harry@example.com", `From: Mallory <mallory@elsewhere.example>\nTo: harry@example.com\nSubject: Before ${i}\n\nBefore the day.`);
  const page = await open();
  await atOnce(page);
  await signIn(page, "harry");
  let early;
  for (let at = 1; at <= 12; at++) {
    await hour(page, `${run} ${at}`, 2, "harry");
    if (at === 2) early = await heap(page);
  }
  const late = await heap(page);
  const said = JSON.stringify([early, late]);
  assert.ok(late.nodes <= early.nodes + 80, said); // of ten writers, or of twenty messages, there are more
  assert.ok(late.documents <= early.documents + 2, said);
  assert.deepEqual(page.wrong, []);
});
