// Messages out of all measure: what of them is shown comes at once, and what is not shown yet is said and can be reached.

import assert from "node:assert/strict";
import { after, test } from "node:test";
import { barriers, browser, counts, deliver, open, row, signIn } from "./world.mjs";

after(() => browser.close());

const run = Date.now().toString(36);
const head = (subject) => `From: Mallory <mallory@elsewhere.example>\nTo: carol@example.com\nSubject: ${subject}\nMessage-ID: <${subject.replace(/\W/g, "")}@elsewhere.example>\n`;

/** A text of so many bytes as they travel, and its last line. */
function report(bytes) {
  const lines = [];
  for (let n = 0; n < bytes; n += Buffer.byteLength(lines.at(-1)) + 2) lines.push(`Line ${lines.length} of a report – see https://elsewhere.example/${lines.length} for more.`);
  return { text: lines.join("\n"), last: lines.at(-1) };
}

async function opened(subject, text) {
  const page = await open();
  await signIn(page, "carol");
  await deliver("mallory@elsewhere.example", "carol@example.com", `${head(subject)}${text}`);
  await row(page, subject).click({ timeout: 60_000 });
  return page;
}

const plain = "MIME-Version: 1.0\nContent-Type: text/plain; charset=utf-8\nContent-Transfer-Encoding: 8bit\n\n";
const nodes = (page) => page.evaluate(() => document.querySelectorAll("*").length);
const shown = (page) => page.locator(".mail .body").evaluate((e) => [...e.querySelectorAll(".plain")].map((p) => p.textContent).join(""));

for (const [name, bytes] of [["6 MB", 6e6], ["50 MB", 49.9e6]]) {
  test(`a text of ${name} shows its beginning at once, and all of it when asked`, async () => {
    const { text, last } = report(bytes);
    const page = await opened(`Report of ${name} ${run}`, plain + text);
    const bar = page.locator(".mail .notice.left");
    await bar.first().waitFor({ timeout: 60_000 });
    await counts(bar, 2);
    assert.match(await page.locator(".mail .plain").first().textContent(), /^Line 0 of a report – see /);
    assert.equal(await page.locator(".mail .plain a").first().getAttribute("href"), "https://elsewhere.example/0");
    assert.ok((await nodes(page)) < 3000, `${await nodes(page)} elements`);
    assert.match(await bar.first().textContent(), bytes < 1e7 ? / of (5\.9|6) MB/ : / of (49|50)(\.\d)? MB/);
    if (bytes < 1e7) {
      // Its source, too.
      await page.click(".read .bar [aria-label=More]");
      await page.click("text=Message source");
      await page.waitForSelector(".source .notice.left");
      assert.match(await page.locator(".source .plain").first().textContent(), /^(Return-Path|Received|From|Delivered-To)/);
      assert.deepEqual(await barriers(page), []);
      await page.locator(".source .notice.left").first().locator("text=Show all").click();
      await page.locator(".source .notice.left").first().waitFor({ state: "detached" });
      assert.ok((await page.locator(".source .plain").last().textContent()).trimEnd().endsWith(last));
      assert.equal(await page.locator(".source a").count(), 0);
      await page.keyboard.press("Escape");
      await page.waitForSelector(".source", { state: "detached" });
      // Who scrolls is shown more.
      const before = await page.locator(".mail .plain").count();
      await bar.last().scrollIntoViewIfNeeded();
      await page.waitForFunction((n) => document.querySelectorAll(".mail .plain").length > n, before);
      assert.ok((await nodes(page)) < 9000);
    }
    await bar.first().locator("text=Show all").click();
    await bar.first().waitFor({ state: "detached", timeout: 120_000 });
    await page.locator(".mail .plain").last().evaluate((p) => p.scrollIntoView(false));
    assert.ok((await page.locator(".mail .plain").last().textContent()).trimEnd().endsWith(last));
    if (bytes < 1e7) {
      const all = (await shown(page)).trimEnd();
      const at = [...text].findIndex((c, i) => c !== all[i]);
      assert.ok(all === text, `${all.length} of ${text.length} characters, other from ${at}: ${all.slice(at, at + 90)}`);
    }
    assert.deepEqual([...page.wrong, ...page.foreign], []);
    await page.context().close();
  });
}

test("a draft of 2.5 MB is gone on with whole", async () => {
  const page = await open();
  await signIn(page, "carol");
  await page.evaluate(async (subject) => {
    const session = await (await fetch("/.well-known/jmap")).json();
    const { csrf } = await (await fetch("/auth/session", { headers: { Accept: "application/json" } })).json();
    const accountId = Object.values(session.primaryAccounts)[0];
    const call = async (...methodCalls) => (await (await fetch(session.apiUrl, {
      method: "POST", headers: { "Content-Type": "application/json", "X-CSRF-Token": csrf },
      body: JSON.stringify({ using: ["urn:ietf:params:jmap:core", "urn:ietf:params:jmap:mail"], methodCalls }),
    })).json()).methodResponses;
    const drafts = (await call(["Mailbox/query", { accountId, filter: { role: "drafts" } }, "q"]))[0][1].ids[0];
    const value = `${`${"Words of a long draft. ".repeat(2000)}\n`.repeat(54)}The very end é`;
    const made = await call(["Email/set", { accountId, create: { d: { mailboxIds: { [drafts]: true }, keywords: { $draft: true, $seen: true }, subject, from: [{ email: "carol@example.com" }],
      textBody: [{ partId: "t", type: "text/plain" }], bodyValues: { t: { value } } } } }, "s"]);
    if (!made[0][1].created?.d) throw new Error(JSON.stringify(made));
  }, `Long draft ${run}`);
  await page.click(".folder:has-text('Drafts')");
  await row(page, `Long draft ${run}`).click();
  await page.locator(".writer .ProseMirror", { hasText: "Words" }).waitFor();
  const got = await page.locator(".writer .ProseMirror").textContent();
  assert.ok(got.endsWith("The very end é"), `${got.length}: …${got.slice(-40)}`);
  assert.deepEqual([...page.wrong, ...page.foreign], []);
});

test("a text of one line without blanks, and one of quotations, are shown whole too", async () => {
  // Many more pieces than the few that come each time when the end is in sight: what is left is still said when all is asked for.
  const lines = 60_000;
  const page = await opened(`Line ${run}`, `${plain}${"😀x".repeat(25_000)}\n\n${"> said before\n".repeat(lines)}`);
  await page.locator(".mail .notice.left").first().locator("text=Show all").click();
  await page.locator(".mail .notice.left").first().waitFor({ state: "detached" });
  assert.equal((await shown(page)).trimEnd(), "😀x".repeat(25_000));
  await page.locator(".mail .chip").click();
  await page.locator(".mail .quoted .notice.left").last().locator("text=Show more").click();
  await page.waitForFunction(() => document.querySelectorAll(".mail .quoted .plain").length > 4);
  await page.locator(".mail .quoted .notice.left").first().locator("text=Show all").click();
  await page.locator(".mail .notice.left").first().waitFor({ state: "detached" });
  assert.equal((await page.locator(".mail .quoted").textContent()).match(/> said before/g).length, lines);
  assert.deepEqual([...page.wrong, ...page.foreign], []);
});

test("of formatted text of 3 MB the rest is said and comes when asked; an answer and a forward say what they leave out", async () => {
  const page = await opened(`Formatted ${run}`, `MIME-Version: 1.0\nContent-Type: text/html; charset=utf-8\n\n${`<p>${"A long newsletter that goes on and on.\n".repeat(2500)}</p>\n`.repeat(31)}<p>The very end</p>\n`);
  await page.locator(".mail iframe").waitFor();
  await page.locator(".mail .notice.left").waitFor();
  await page.locator(".mail .notice.left >> text=Show all").click();
  await page.locator(".mail .notice.left").waitFor({ state: "detached" });
  await page.frameLocator(".mail iframe").locator("text=The very end").waitFor({ timeout: 60_000 });
  await page.click(".answer-bar .button >> nth=2");
  await page.locator(".writer .ProseMirror >> text=[…]").waitFor({ timeout: 60_000 });
  await counts(page.locator(".writer >> text=message.eml"), 1);
  assert.deepEqual(page.foreign, []);
});

test("a message with 500 attachments shows each of them", async () => {
  const files = Array.from({ length: 500 }, (_, i) => `--b\nContent-Type: application/octet-stream\nContent-Disposition: attachment; filename=file${i}.bin\n\ncontent ${i}\n`).join("");
  const page = await opened(`Many ${run}`, `MIME-Version: 1.0\nContent-Type: multipart/mixed; boundary=b\n\n--b\nContent-Type: text/plain\n\nFiles of the year\n${files}--b--\n`);
  await page.waitForSelector(".mail .plain >> text=Files of the year");
  await counts(page.locator(".mail .files .file"), 500);
  await page.locator(".mail .files .file >> text=file499.bin").scrollIntoViewIfNeeded();
  assert.deepEqual([...page.wrong, ...page.foreign], []);
});

test("of a conversation of 80 formatted messages those near what is shown alone have frames; each is shown, found and printed", { timeout: 300_000 }, async () => {
  const page = await open();
  await page.addInitScript(() => {
    // What a print shows: the words of all frames at that moment.
    window.print = () => (window.printed = [...document.querySelectorAll(".letter iframe")].map((f) => f.contentDocument.body.textContent));
  });
  await signIn(page, "carol");
  const id = (n) => `<answer${n}.${run}@elsewhere.example>`;
  for (let n = 0; n < 80; n++) {
    const lines = Array.from({ length: 3 + (n % 7) * 4 }, (_, i) => `<p>Line ${i} of answer ${n}.</p>`).join("\n");
    const references = n === 0 ? "" : `In-Reply-To: ${id(n - 1)}\nReferences: ${id(0)} ${id(n - 1)}\n`;
    await deliver("mallory@elsewhere.example", "carol@example.com", `From: Mallory <mallory@elsewhere.example>\nTo: carol@example.com\nSubject: ${n ? "Re: " : ""}Eighty answers ${run}\nMessage-ID: ${id(n)}\n${references}MIME-Version: 1.0\nContent-Type: text/html\n\n${lines}\n<p>The end of answer ${n}!</p>\n`);
  }
  await row(page, `Eighty answers ${run}`).click();
  await page.waitForFunction(() => document.querySelectorAll(".mail").length === 80);
  await page.keyboard.press(";"); // expand all
  await page.waitForFunction(() => document.querySelectorAll(".mail:not(.closed) .letter").length === 80, undefined, { timeout: 60_000 });
  const frames = page.locator(".letter iframe");
  const most = 30;
  let seen = 0;
  for (let n = 0; n < 80; n++) {
    const mail = page.locator(".mail").nth(n);
    await mail.evaluate((e) => e.scrollIntoView());
    await mail.frameLocator("iframe").locator(`text=The end of answer ${n}!`).waitFor();
    seen = Math.max(seen, await frames.count());
  }
  assert.ok(seen <= most, `${seen} frames`);
  // A frame that is given up keeps its height: what is shown does not move.
  const high = () => page.locator(".reader").evaluate((e) => e.scrollHeight);
  const before = await high();
  await page.locator(".mail").nth(40).evaluate((e) => e.scrollIntoView());
  await page.locator(".mail").nth(40).frameLocator("iframe").locator("text=The end of answer 40!").waitFor();
  assert.equal(await page.locator(".mail").first().locator("iframe").count(), 0);
  assert.ok(Math.abs((await high()) - before) < 3, `${before} and ${await high()} pixels`);
  // A frame with selected words, or with the focus, stays.
  await page.locator(".mail").nth(40).frameLocator("iframe").locator("p").first().selectText();
  await page.locator(".mail").first().evaluate((e) => e.scrollIntoView());
  await page.locator(".mail").first().frameLocator("iframe").locator("text=The end of answer 0!").waitFor();
  assert.equal(await page.locator(".mail").nth(40).frameLocator("iframe").locator("body").evaluate((b) => b.ownerDocument.getSelection().toString()), "Line 0 of answer 40.");
  await page.locator(".mail").nth(40).frameLocator("iframe").locator("body").evaluate((b) => b.ownerDocument.getSelection().removeAllRanges());
  // The browser's own search looks through all of them.
  await page.locator(".reader").focus();
  await page.keyboard.press("Control+f");
  await page.waitForFunction(() => document.querySelectorAll(".letter iframe").length === 80);
  await page.keyboard.press("Escape");
  await page.waitForFunction((n) => document.querySelectorAll(".letter iframe").length <= n, most);
  if (await page.locator(".mail").count() === 0) await row(page, `Eighty answers ${run}`).click();
  // All are printed, by the client's command and by the browser's keys.
  const ends = (list) => list.map((text) => Number(/The end of answer (\d+)!/.exec(text)?.[1])).sort((a, b) => a - b);
  const all = Array.from({ length: 80 }, (_, n) => n);
  for (const print of [async () => { await page.click(".read .bar [aria-label=More]"); await page.click(".menu >> text=Print"); }, () => page.keyboard.press("Control+p")]) {
    await page.evaluate(() => delete window.printed);
    await print();
    await page.waitForFunction(() => window.printed, undefined, { timeout: 60_000 });
    assert.deepEqual(ends(await page.evaluate(() => window.printed)), all);
    await page.waitForFunction((n) => document.querySelectorAll(".letter iframe").length <= n, most);
  }
  // The browser's menu waits for nothing: words stand in for the frames that are not there.
  await page.evaluate(() => void dispatchEvent(new Event("beforeprint")));
  const shownThen = await page.locator(".letter").evaluateAll((list) => list.map((e) => e.querySelector("iframe")?.contentDocument.body.textContent ?? e.querySelector(".in-print").textContent));
  assert.deepEqual(ends(shownThen), all);
  await page.evaluate(() => void dispatchEvent(new Event("afterprint")));
  assert.equal(await page.locator(".in-print").count(), 0);
  assert.deepEqual([...page.wrong, ...page.foreign], []);
});
