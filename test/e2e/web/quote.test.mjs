// What is answered or forwarded keeps its tables and colours, and harms nobody on the way.

import assert from "node:assert/strict";
import { after, test } from "node:test";
import { atOnce, barriers, browser, counts, deliver, open, row, signIn } from "./world.mjs";

after(() => browser.close());

const run = Date.now().toString(36);

const rich = `<div style="background:#fde"><p>Dear <b>all</b>,</p>
<table bgcolor="#ffeecc" border="1" cellpadding="4"><tr dir="rtl"><th align="left" colspan="1">Item</th><th>Price</th></tr><tr><td style="color:#b00">Cake</td><td style="text-align:right">3.50</td></tr></table>
<img src="https://evil.example/pixel.gif" alt="logo"><img src="cid:pic@x"></div>
<script>top.hacked=1</script><img src=x onerror="top.hacked=2"><div data-kept="<img src=y onerror=top.hacked=3>">left over</div>
<table><tr><td><a href="javascript:top.hacked=4">press</a><form action="https://evil.example"><input name=password></form><div style="position:fixed;inset:0;background:url(https://evil.example/d.png)">cover</div></td></tr></table>`;
const message = (subject) => `From: Mallory <mallory@elsewhere.example>\nTo: alice@example.com\nSubject: ${subject}\nMessage-ID: <${subject.replace(/\W/g, "")}@elsewhere.example>\nDate: Sat, 21 Nov 2026 10:00:00 +0000\nMIME-Version: 1.0\nContent-Type: multipart/related; boundary=b\n\n--b\nContent-Type: text/html; charset=utf-8\n\n${rich}\n--b\nContent-Type: image/png\nContent-ID: <pic@x>\nContent-Transfer-Encoding: base64\nContent-Disposition: inline; filename=pic.png\n\niVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==\n--b--\n`;

/** What went wrong; that the policy stops a style while markup is made harmless is what it is for. */
const wrong = (page) => page.wrong.filter((w) => !/violates the following Content Security Policy/.test(w));

/** What of a message is sent on: its markup and its text. */
async function received(user, subject) {
  const page = await open();
  await signIn(page, user);
  await row(page, subject).click();
  const table = page.frameLocator(".mail iframe").first().locator("table").first();
  await table.waitFor();
  const got = await page.evaluate(async (subject) => {
    const session = await (await fetch("/.well-known/jmap")).json();
    const { csrf } = await (await fetch("/auth/session", { headers: { Accept: "application/json" } })).json();
    const account = Object.values(session.primaryAccounts)[0];
    const response = await fetch(session.apiUrl, {
      method: "POST", headers: { "Content-Type": "application/json", "X-CSRF-Token": csrf },
      body: JSON.stringify({ using: ["urn:ietf:params:jmap:core", "urn:ietf:params:jmap:mail"], methodCalls: [
        ["Email/query", { accountId: account, filter: { subject }, limit: 1 }, "q"],
        ["Email/get", { accountId: account, "#ids": { resultOf: "q", name: "Email/query", path: "/ids" }, properties: ["htmlBody", "textBody", "bodyValues", "attachments"], fetchAllBodyValues: true }, "g"]] }),
    });
    const m = (await response.json()).methodResponses[1][1].list[0];
    return { html: m.bodyValues[m.htmlBody[0].partId].value, text: m.bodyValues[m.textBody[0].partId].value, cids: m.attachments.map((a) => a.cid) };
  }, subject);
  const shown = await table.evaluate((t) => ({ cells: t.querySelectorAll("td,th").length, color: getComputedStyle(t.querySelector("td")).color }));
  assert.deepEqual([...wrong(page), ...page.foreign], []);
  await page.context().close();
  return { ...got, shown };
}

function harmless({ html }) {
  assert.doesNotMatch(html, /hacked|javascript:|<script|<form|<input|onerror|position\s*:|d\.png|data-kept|data-remote/i);
}

test("an answer quotes tables, colours and pictures as they were; as text it has them too", async () => {
  const page = await open();
  await atOnce(page);
  await signIn(page);
  await deliver("mallory@elsewhere.example", "alice@example.com", message(`Price list ${run}`));
  await row(page, `Price list ${run}`).click();
  await page.waitForSelector(".mail iframe");
  const table = page.frameLocator(".mail iframe").first().locator("table").first(); // it is read with them, too
  assert.deepEqual(await table.evaluate((e) => [e.getAttribute("bgcolor"), e.querySelector("th").colSpan, getComputedStyle(e.querySelector("tr")).direction]), ["#ffeecc", 1, "rtl"]);
  await page.click(".answer-bar .primary");
  const quoted = page.frameLocator(".writer .kept iframe").first();
  await quoted.locator("td:has-text('3.50')").waitFor();
  assert.equal(await quoted.locator("td:has-text('Cake')").evaluate((e) => getComputedStyle(e).color), "rgb(187, 0, 0)");
  await page.click(".writer .ProseMirror > p >> nth=0");
  await page.keyboard.type("My answer above it.");
  await page.waitForSelector(".writer >> text=Draft saved");
  assert.deepEqual(await barriers(page), []);
  // Kept as a draft and opened again it is as it was.
  await page.click(".writer [aria-label='Close']");
  await page.waitForSelector(".writer", { state: "detached" });
  await page.click(".folder:has-text('Drafts')");
  await row(page, `Re: Price list ${run}`).click();
  await page.frameLocator(".writer .kept iframe").first().locator("td:has-text('3.50')").waitFor();
  await page.locator(".writer header ~ * input, .writer input").first().waitFor();
  await page.fill(".writer .fields input >> nth=0", "carol@example.com,");
  await page.keyboard.press("Control+Enter");
  await page.waitForSelector(".writer", { state: "detached" });
  assert.equal(await page.evaluate(() => window.hacked), undefined);
  assert.deepEqual([...wrong(page), ...page.foreign], []);
  const got = await received("carol", `Re: Price list ${run}`);
  harmless(got);
  assert.match(got.html, /My answer above it\./);
  assert.match(got.html, /<blockquote>(?:(?!<div><div>).)*<table bgcolor="#ffeecc" border="1" cellpadding="4">/s);
  assert.match(got.html, /src="https:\/\/evil\.example\/pixel\.gif"/); // whoever gets it is asked first, as Alice was
  assert.match(got.html, /src="cid:pic@x"/);
  assert.ok(got.cids.includes("pic@x"));
  assert.deepEqual(got.shown, { cells: 4, color: "rgb(187, 0, 0)" });
  assert.match(got.text, /^> Dear all,$/m);
  assert.match(got.text, /^> Cake 3\.50$/m);
});

test("what is forwarded goes on as it looks; what is quoted becomes text to write into, or goes", async () => {
  const page = await open();
  await atOnce(page);
  await signIn(page);
  await deliver("mallory@elsewhere.example", "alice@example.com", message(`Offer ${run}`));
  await row(page, `Offer ${run}`).click();
  await page.waitForSelector(".mail iframe");
  await page.click(".answer-bar .button >> nth=2");
  const kept = page.locator(".writer .kept");
  await kept.first().waitFor();
  const n = await kept.count();
  await kept.last().locator("button >> nth=1").click(); // removed
  await counts(kept, n - 1);
  await page.keyboard.press("Control+z");
  await counts(kept, n);
  await kept.last().locator("button >> nth=0").click(); // made text
  await counts(kept, n - 1);
  await page.waitForSelector(".writer .ProseMirror >> text=cover");
  await page.fill(".writer .fields input >> nth=0", "carol@example.com,");
  await page.keyboard.press("Control+Enter");
  await page.waitForSelector(".writer", { state: "detached" });
  assert.equal(await page.evaluate(() => window.hacked), undefined);
  assert.deepEqual([...wrong(page), ...page.foreign], []);
  const got = await received("carol", `Fwd: Offer ${run}`);
  harmless(got);
  assert.deepEqual(got.shown, { cells: 4, color: "rgb(187, 0, 0)" });
});
