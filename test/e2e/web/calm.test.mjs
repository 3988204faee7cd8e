// What annoys in half an hour of use: each test is one such thing.

import assert from "node:assert/strict";
import { createServer, request } from "node:http";
import { after, test } from "node:test";
import { base, boxOf, browser, controlled, deliver, keptIn, open, row, signIn, until } from "./world.mjs";

after(() => browser.close());

/** A way to the server that breaks off the first answers with a style sheet behind their heads, and keeps what was asked for. */
async function lossy(breaks) {
  const asked = [];
  const way = createServer((ask, answer) => {
    const passed = request(base + ask.url, { method: ask.method, headers: { ...ask.headers, connection: "close" } }, (from) => {
      answer.writeHead(from.statusCode, from.headers);
      if (!ask.url.endsWith(".css") || asked.push(ask.url) > breaks) return from.pipe(answer);
      from.resume();
      answer.flushHeaders();
      return setImmediate(() => answer.destroy());
    });
    passed.on("error", () => answer.destroy());
    answer.on("close", () => passed.destroy());
    ask.pipe(passed);
  });
  await new Promise((done) => way.listen(0, "127.0.0.1", done));
  return { asked, at: `http://127.0.0.1:${way.address().port}`, end: () => { way.close(); way.closeAllConnections(); } };
}

test("a style sheet that was lost on the way is loaded again", async () => {
  const way = await lossy(2);
  const page = await open({ worker: false, at: way.at }); // the service worker would give the sheet from its store
  await page.goto(way.at);
  await page.waitForFunction(() => getComputedStyle(document.documentElement).getPropertyValue("--paper") !== "");
  assert.equal(way.asked.length, 3, `asked for ${way.asked}`);
  assert.equal(new Set(way.asked).size, 1);
  await signIn(page, "bob", "demo", way.at);
  await page.waitForFunction(() => getComputedStyle(document.querySelector(".row .marks")).display === "flex");
  await page.context().close();
  way.end();
});

const mail = (to, subject, date = "Sat, 21 Nov 2026 10:00:00 +0000") => deliver("mallory@elsewhere.example", to, `From: Mallory <mallory@elsewhere.example>\nTo: ${to}\nSubject: ${subject}\nMessage-ID: <${subject.replace(/\W/g, "")}@calm.example>\nDate: ${date}\n\nWords.\n`);
const box = (page, what) => boxOf(page.locator(what).first());
const apart = (a, b) => a.x + a.width <= b.x || b.x + b.width <= a.x || a.y + a.height <= b.y || b.y + b.height <= a.y;

test("what is shown next after a message was archived is marked read", async () => {
  for (const n of ["one", "two"]) await mail("bob@example.com", `Advance ${n}`);
  const page = await open();
  await signIn(page, "bob");
  await row(page, "Advance two").click();
  await page.waitForSelector(".reader h1:text-is('Advance two')");
  await page.keyboard.press("e");
  await page.waitForSelector(".reader h1:text-is('Advance one')");
  await page.waitForSelector(".mail .body :text('Words.')");
  await page.waitForFunction(() => ![...document.querySelectorAll(".row.unread .subject")].some((s) => s.textContent === "Advance one"));
  assert.deepEqual(page.wrong, []);
});

test("what was archived without a network stays out of its folder", async () => {
  for (const subject of ["Stays offline", "Away offline"]) await mail("bob@example.com", subject);
  const page = await open();
  await signIn(page, "bob");
  await controlled(page);
  await row(page, "Away offline").waitFor();
  await until(async () => Object.values(await keptIn(page, "bob", "rows")).some((r) => r.subject === "Away offline")); // the list is kept for offline work
  await page.context().setOffline(true);
  await row(page, "Away offline").click();
  await page.keyboard.press("e");
  await page.waitForFunction(() => ![...document.querySelectorAll(".row .subject")].some((s) => s.textContent === "Away offline"));
  await page.click(".side .folder[title=Sent]");
  await page.waitForSelector(".list h2:text-is('Sent')");
  await page.click(".side .folder[title=Inbox]");
  await page.waitForSelector(".list h2:text-is('Inbox')");
  await row(page, "Stays offline").waitFor();
  assert.equal(await page.locator(".row", { hasText: "Away offline" }).count(), 0);
  await page.context().setOffline(false);
});

for (const width of [1440, 1024]) test(`several writers lie beside each other, and what is said lies over no Send, ${width} wide`, async () => {
  const page = await open({ width });
  await signIn(page, "bob");
  for (let i = 1; i <= 2; i++) {
    await page.click(".side .compose");
    await page.waitForFunction((n) => document.querySelectorAll(".writer .ProseMirror").length === n, i);
  }
  const writers = page.locator(".writer");
  const [first, second] = [await boxOf(writers.nth(0)), await boxOf(writers.nth(1))];
  assert.ok(Math.abs(first.x - second.x) > 100, JSON.stringify([first, second]));
  assert.ok(second.x >= 0);
  for (const n of [0, 1]) {
    const w = await boxOf(writers.nth(n));
    await page.mouse.click(n === 0 ? w.x + w.width - 150 : w.x + 60, w.y + 20); // what is seen of it brings it to the front
    await writers.nth(n).locator("footer .primary").click();
    await page.waitForSelector(".toast:has-text('recipient')");
    const toast = await boxOf(page.locator(".toast").last());
    for (const k of [0, 1]) assert.ok(apart(toast, await boxOf(writers.nth(k).locator("footer .primary"))));
  }
  assert.deepEqual(page.wrong, []);
});

test("an address that is typed on after another was taken out stays whole", async () => {
  const page = await open();
  await signIn(page, "bob");
  await page.keyboard.press("c");
  await page.waitForSelector(".writer .ProseMirror");
  await page.keyboard.type("carol@example.com,");
  await page.keyboard.type("dora@exam");
  await page.click(".token button");
  await page.waitForTimeout(300); // longer than the field waits before it takes what was typed
  await page.keyboard.type("ple.org,");
  assert.deepEqual(await page.locator(".token").evaluateAll((l) => l.map((e) => e.title)), ["dora@example.org"]);
});

test("a folder name that is refused can be mended, and a label is shown as it was typed", async () => {
  await mail("bob@example.com", "To be labelled");
  const page = await open();
  await signIn(page, "bob");
  await page.click("[aria-label='New folder']");
  await page.fill("dialog input", "INBOX");
  await page.click("dialog button.primary");
  await page.waitForSelector("dialog .said");
  assert.equal(await page.inputValue("dialog input"), "INBOX");
  await page.fill("dialog input", "Calm names");
  await page.click("dialog button.primary");
  await page.waitForSelector(".side .folder[title='Calm names']");
  await page.waitForSelector("dialog", { state: "detached" });
  await row(page, "To be labelled").click();
  await page.waitForSelector(".reader h1:text-is('To be labelled')");
  await page.click(".read .bar [aria-label='More']");
  await page.click(".menu >> text=Label");
  await page.fill("dialog input", "标签 (alt)");
  await page.click("dialog [role=option]:has-text('New label')");
  await page.waitForSelector(".reader .label:has-text('标签 (alt)')");
  assert.deepEqual(page.wrong, []);
});

test("dates of other years and the names of sessions are shown whole", async () => {
  await mail("bob@example.com", "Years ago", "Wed, 23 Nov 2022 10:00:00 +0000");
  for (const [language, width] of [["en-US", 1440], ["de-DE", 1024], ["zh-CN", 390]]) {
    const page = await open({ language, width });
    await signIn(page, "bob");
    await row(page, "Years ago").waitFor();
    const cut = await page.locator(".row .date").evaluateAll((l) => l.filter((e) => {
      const cell = e.parentElement.getBoundingClientRect(), date = e.getBoundingClientRect(), list = e.closest(".list").getBoundingClientRect();
      return date.left < cell.left - 0.5 || date.right > list.right;
    }).map((e) => e.textContent));
    assert.deepEqual(cut, []);
    await page.click(".top .tool >> nth=-1");
    await page.locator(".menu button").first().click();
    const name = page.locator(".device .name").first();
    await name.waitFor();
    assert.ok(await name.evaluate((e) => e.getBoundingClientRect().width > 80 && e.scrollWidth <= e.clientWidth + 1));
    await page.context().close();
  }
});

test("a list that is read while a message is deleted does not bring it back", async () => {
  for (const n of ["one", "two"]) await mail("bob@example.com", `Meanwhile ${n}`);
  const page = await open({ worker: false });
  await signIn(page, "bob");
  await row(page, "Meanwhile two").waitFor();
  // The next answer with the list is held until the server has carried out the deletion.
  let free;
  const held = new Promise((resolve) => (free = resolve));
  let asked;
  const asks = new Promise((resolve) => (asked = resolve));
  let first = true;
  await page.route("**/jmap/api", async (route) => {
    const body = route.request().postData() ?? "";
    if (!first || !body.includes('"Email/query"')) return route.continue();
    first = false;
    const answer = await route.fetch();
    asked();
    await held;
    await route.fulfill({ response: answer });
  });
  await mail("bob@example.com", "Meanwhile three"); // makes the client read its list
  await asks;
  await row(page, "Meanwhile two").click();
  const done = page.waitForResponse((r) => r.request().postData()?.includes('"Email/set"') && r.request().postData().includes("mailboxIds"));
  await page.keyboard.press("#");
  await done;
  await page.evaluate(() => {
    globalThis.seen = [];
    new MutationObserver(() => {
      if ([...document.querySelectorAll(".row .subject")].some((x) => x.textContent === "Meanwhile two")) globalThis.seen.push("it came back");
    }).observe(document.body, { childList: true, subtree: true, characterData: true });
  });
  free();
  await row(page, "Meanwhile three").waitFor();
  assert.deepEqual(await page.evaluate(() => globalThis.seen), []);
});
