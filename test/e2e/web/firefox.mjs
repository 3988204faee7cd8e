// The main ways through the client in Firefox.

import assert from "node:assert/strict";
import { after, test } from "node:test";
import { arrives, atOnce, base, begin, browser, deliver, open, row, signIn } from "./world.mjs";

after(() => browser.close());

const run = Date.now().toString(36);
const html = (subject, text) => `From: Mallory <mallory@elsewhere.example>\nTo: alice@example.com\nSubject: ${subject}\nMessage-ID: <${subject.replace(/\W/g, "")}@elsewhere.example>\nDate: Sat, 21 Nov 2026 10:00:00 +0000\nMIME-Version: 1.0\nContent-Type: text/html; charset=utf-8\n\n${text}\n`;
const send = (subject, text) => deliver("mallory@elsewhere.example", "alice@example.com", html(subject, text));

async function enter() {
  const page = await open();
  await atOnce(page);
  await signIn(page);
  return page;
}

test("one signs in and reads mail that comes by itself", async () => {
  const page = await enter();
  assert.match(await page.evaluate(() => navigator.userAgent), /Firefox/);
  await send(`Comes ${run}`, `<table width="400"><tr><td bgcolor="#003049" style="padding:20px"><b style="color:white">formatted</b></td></tr></table>`);
  await row(page, `Comes ${run}`).click();
  const text = page.frameLocator(".mail iframe").getByText("formatted");
  await text.waitFor();
  assert.equal(await text.evaluate((e) => getComputedStyle(e).color), "rgb(255, 255, 255)");
  assert.equal(await page.evaluate(() => document.querySelector(".mail iframe").contentDocument.querySelector("table").offsetWidth), 400);
  await page.waitForFunction(() => { const f = document.querySelector(".mail iframe"); return Math.abs(f.clientHeight - f.contentDocument.documentElement.getBoundingClientRect().height) <= 2; });
  assert.deepEqual(page.wrong, []);
});

test("a message is written with formatting, and arrives", async () => {
  const page = await enter();
  await begin(page, "bob@example.com", `From Firefox ${run}`, "plain and ");
  await page.keyboard.press("Control+b");
  await page.keyboard.type("bold");
  await page.locator(".writer .ProseMirror strong", { hasText: "bold" }).waitFor();
  await page.waitForSelector(".writer >> text=Draft saved");
  await page.keyboard.press("Control+Enter");
  await page.waitForSelector(".writer", { state: "detached" });
  await arrives(`From Firefox ${run}`);
  assert.deepEqual(page.wrong, []);
});

test("a search finds, marks what it found, and keys lead on", async () => {
  const page = await enter();
  await send(`Sought ${run}`, `<p>the word quincunx${run} stands here</p>`);
  await row(page, `Sought ${run}`).waitFor();
  await page.keyboard.press("/");
  await page.keyboard.type(`quincunx${run}`);
  await page.keyboard.press("Enter");
  await page.waitForFunction((s) => { const rows = document.querySelectorAll(".row .subject"); return rows.length === 1 && rows[0].textContent.includes(s); }, `Sought ${run}`);
  await row(page, `Sought ${run}`).click();
  await page.frameLocator(".mail iframe").getByText(`quincunx${run}`).click();
  await page.keyboard.press("s"); // pressed in the frame
  await page.locator(".tool[aria-pressed=true]").first().waitFor();
  await page.keyboard.press("?");
  await page.locator("dialog.sheet .keys").first().waitFor();
  await page.keyboard.press("Escape");
  await page.keyboard.press("e");
  await page.waitForSelector(".toast");
  await page.keyboard.press("Control+k");
  await page.locator("dialog[open] input").waitFor();
  await page.keyboard.press("Escape");
  assert.deepEqual(page.wrong, []);
});

test("the calendar and the settings open, by address too", async () => {
  const page = await enter();
  await page.goto(`${base}/calendar/week/2026-11-26`);
  await page.locator(".shelves li").first().waitFor(); // the page listens to keys
  await page.keyboard.press("m");
  await page.waitForURL(/\/calendar\/month\//);
  await page.goBack();
  await page.waitForURL(/\/calendar\/week\//);
  await page.goto(`${base}/mail/inbox?open=settings`);
  await page.locator("dialog.sheet[open]").waitFor();
  await page.keyboard.press("Escape");
  await page.locator("dialog.sheet[open]").waitFor({ state: "detached" });
  assert.deepEqual(page.wrong, []);
});

test("a hostile letter runs nothing, loads nothing and leaves its frame alone", async () => {
  const page = await enter();
  const x = `<img src=x onerror=top.hacked=1>`;
  await send(`Hostile ${run}`, `<p>begin</p><script>top.hacked=1</script>${x}<svg><style><img src=x title="</style>${x}"></style></svg><style>@import "https://evil.example/i.css";p{background:url(https://evil.example/1);position:fixed;inset:0}</style><img src="https://evil.example/2"><iframe src="https://evil.example/3"></iframe><a href="javascript:top.hacked=1">link</a><video poster="https://evil.example/4"></video><p style="position:fixed;-moz-binding:url(https://evil.example/5);background:u\\72l(https://evil.example/6)">end</p><form><math><mtext></form><form><mglyph><style></math>${x}`);
  await row(page, `Hostile ${run}`).click();
  const body = page.frameLocator(".mail iframe").locator("body");
  await body.getByText("end").waitFor();
  await page.waitForTimeout(300);
  assert.equal(await page.evaluate(() => window.hacked), undefined);
  assert.deepEqual(page.foreign, []);
  const shown = await body.evaluate((b) => ({ html: b.innerHTML, places: [...new Set(Array.from(b.querySelectorAll("*"), (e) => getComputedStyle(e).position))] }));
  assert.doesNotMatch(shown.html, /<(?:script|style|svg|math|iframe|form|video)|\son\w+=|javascript:|url\(/i);
  assert.deepEqual(shown.places, ["static"]);
});
