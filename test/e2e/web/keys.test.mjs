// An hour of mail without the mouse, for hands that know Gmail; what the mouse does to rows; swiping on a telephone.

import assert from "node:assert/strict";
import { after, test } from "node:test";
import { barriers, boxOf, browser, deliver, kept, open, row, signIn, until } from "./world.mjs";

after(() => browser.close());

const send = (subject) => deliver("mallory@elsewhere.example", "bob@example.com", `From: Mallory <mallory@elsewhere.example>\nTo: bob@example.com\nSubject: ${subject}\nMessage-ID: <${subject.replace(/\W/g, "")}@keys.example>\nDate: Sat, 21 Nov 2026 10:00:00 +0000\n\nText of ${subject}.\n`);
const title = (page, text) => page.waitForSelector(`.list .bar h2:has-text('${text}')`);
const press = async (page, ...keys) => {
  for (const k of keys) await page.keyboard.press(k);
};
/** Waits until a page has asked nothing for a second. */
async function quiet(page) {
  let last = Date.now();
  const heard = () => (last = Date.now());
  for (const event of ["request", "requestfinished", "requestfailed"]) page.on(event, heard);
  await until(() => Date.now() - last > 1000);
  for (const event of ["request", "requestfinished", "requestfailed"]) page.off(event, heard);
}
const gone = (page, subject) => page.waitForFunction((s) => ![...document.querySelectorAll(".row .subject")].some((x) => x.textContent === s), subject);

test("Gmail's keys lead through an hour of mail", async () => {
  for (const n of ["three", "two", "one"]) await send(`Keys ${n}`);
  const page = await open();
  await signIn(page, "bob");
  await row(page, "Keys one").waitFor();
  await press(page, "Home", "o");
  await page.waitForSelector(".reader h1:has-text('Keys one')");
  await press(page, "j");
  await page.waitForSelector(".reader h1:has-text('Keys two')");
  await page.waitForFunction(() => !document.querySelector(".row.unread.at"));
  await press(page, "U");
  await page.waitForSelector(".row.unread:has-text('Keys two')");
  await press(page, "I");
  await page.waitForFunction(() => ![...document.querySelectorAll(".row.unread")].some((r) => r.textContent.includes("Keys two")));
  await press(page, "x", "s");
  await row(page, "Keys two").locator(".flag").waitFor();
  await press(page, "*", "n");
  await press(page, "*", "s");
  await page.waitForFunction(() => [...document.querySelectorAll(".row[aria-selected=true]")].some((r) => r.textContent.includes("Keys two")));
  await press(page, "*", "n", "g", "s");
  await page.waitForSelector(".terms .term");
  await row(page, "Keys two").waitFor();
  await press(page, "g", "t");
  await title(page, "Sent");
  await press(page, "g", "d");
  await title(page, "Drafts");
  await press(page, "g", "i");
  await title(page, "Inbox");
  // To a folder, by its name; from there back.
  await press(page, "g", "l");
  await page.waitForSelector("dialog[open] [role=combobox]");
  await page.keyboard.type("arch");
  await press(page, "Enter");
  await title(page, "Archive");
  await press(page, "g", "i");
  await title(page, "Inbox");
  await row(page, "Keys two").waitFor();
  await press(page, "Home");
  await page.waitForFunction(() => document.querySelector(".row.at")?.textContent.includes("Keys one"));
  await press(page, "v");
  await page.waitForSelector("dialog[open] [role=option]:has-text('Archive')");
  await page.keyboard.type("arch");
  await press(page, "Enter");
  await gone(page, "Keys one");
  await page.waitForSelector(".toast:has-text('moved to Archive')");
  await press(page, "z");
  await row(page, "Keys one").waitFor();
  await press(page, "Home", "Enter");
  await page.waitForSelector(".reader h1:has-text('Keys one')");
  await press(page, "]");
  await page.waitForSelector(".reader h1:has-text('Keys two')");
  await press(page, "r");
  await page.waitForSelector(".writer .ProseMirror");
  await page.waitForFunction(() => document.activeElement?.closest(".writer"));
  await page.keyboard.type("Answered without a mouse.");
  await press(page, "Control+Enter");
  await page.waitForFunction(() => !document.querySelector(".writer"));
  assert.deepEqual(page.wrong, []);
});

test("messages of a conversation are stepped through, folded and unfolded by keys", async () => {
  await send("Long talk");
  for (const who of ["Anna", "Bert"]) {
    await deliver("mallory@elsewhere.example", "bob@example.com", `From: ${who} <${who}@elsewhere.example>\nTo: bob@example.com\nSubject: Re: Long talk\nMessage-ID: <${who}@keys.example>\nIn-Reply-To: <Longtalk@keys.example>\nReferences: <Longtalk@keys.example>\n\n${who} says.\n`);
  }
  const page = await open();
  await signIn(page, "bob");
  await row(page, "Long talk").waitFor();
  await press(page, "Home", "Enter");
  await page.waitForFunction(() => document.querySelectorAll(".reader .mail").length === 3);
  await press(page, ":");
  await page.waitForFunction(() => document.querySelectorAll(".reader .mail.closed").length === 3);
  await press(page, ";");
  await page.waitForFunction(() => document.querySelectorAll(".reader .mail.closed").length === 0);
  await press(page, "n");
  assert.equal(await page.evaluate(() => [...document.querySelectorAll(".reader .mail")].findIndex((m) => m.contains(document.activeElement))), 0);
  await press(page, "n", "n", "n");
  assert.equal(await page.evaluate(() => [...document.querySelectorAll(".reader .mail")].findIndex((m) => m.contains(document.activeElement))), 2);
  await press(page, "p", "_");
  await page.waitForFunction(() => !document.querySelector(".reader .mail"));
  await page.waitForSelector(".row.unread:has-text('Long talk')");
  assert.deepEqual(page.wrong, []);
});

test("the palette finds commands, folders and searches; the list of keys is the same table", async () => {
  const page = await open();
  await signIn(page, "bob");
  await press(page, "Control+k");
  await page.waitForSelector("dialog[open] [role=option]");
  assert.deepEqual(await barriers(page), []);
  await page.keyboard.type("go dra");
  await page.waitForSelector("[role=option][aria-selected=true]:has-text('Go to Drafts')");
  await press(page, "Enter");
  await title(page, "Drafts");
  await press(page, "Control+k");
  await page.waitForSelector("dialog[open] [role=option]");
  await page.keyboard.type("zzz nothing");
  await page.waitForFunction(() => document.querySelectorAll("[role=option]").length === 1);
  await press(page, "Enter");
  await page.waitForSelector(".empty:has-text('Nothing found')");
  await press(page, "g", "i");
  await title(page, "Inbox");
  await press(page, "Shift+?");
  await page.waitForSelector("dialog[open] .keys");
  for (const words of ["Archive", "Go to a folder", "Send (in the writer)", "All commands"]) await page.waitForSelector(`dialog[open] .keys:has-text('${words}')`);
  assert.deepEqual(await barriers(page), []);
  await press(page, "Escape");
  await page.waitForFunction(() => !document.querySelector("dialog[open]"));
  assert.deepEqual(page.wrong, []);
});

test("buttons lie over the row below the pointer, and a menu opens with the other button", async () => {
  for (const n of ["hovered", "menued"]) await send(`Row ${n}`);
  const page = await open();
  await signIn(page, "bob");
  await row(page, "Row hovered").hover();
  await row(page, "Row hovered").locator(".deeds [title='Archive (e)']").click();
  await gone(page, "Row hovered");
  assert.equal(await page.locator(".reader h1").count(), 0, "the row's own click opened it");
  await row(page, "Row menued").click({ button: "right" });
  await page.click("[role=menuitem]:has-text('Mark as read')");
  await page.waitForFunction(() => ![...document.querySelectorAll(".row.unread")].some((r) => r.textContent.includes("Row menued")));
  await row(page, "Row menued").click({ button: "right" });
  await page.click("[role=menuitem]:has-text('Delete')");
  await gone(page, "Row menued");
  assert.deepEqual(page.wrong, []);
});

test("a row is swiped away on a telephone", async () => {
  for (const n of ["right", "left", "little"]) await send(`Swipe ${n}`);
  const page = await open({ width: 390, height: 844 });
  await signIn(page, "bob");
  const swipe = async (subject, by) => {
    const r = row(page, subject);
    await r.waitFor();
    await r.evaluate((e, by) => {
      const at = (x) => new Touch({ identifier: 1, target: e, clientX: x, clientY: 200 });
      const fire = (type, x, list = [at(x)]) => e.dispatchEvent(new TouchEvent(type, { touches: list, changedTouches: [at(x)], bubbles: true, cancelable: true }));
      fire("touchstart", 200);
      for (let i = 1; i <= 10; i++) fire("touchmove", 200 + (by * i) / 10);
      fire("touchend", 200 + by, []);
    }, by);
  };
  await swipe("Swipe little", 50);
  await swipe("Swipe right", 120);
  await page.waitForSelector(".toast:has-text('archived')");
  await gone(page, "Swipe right");
  await swipe("Swipe left", -120);
  await page.waitForSelector(".toast:has-text('moved to Trash')");
  await gone(page, "Swipe left");
  await row(page, "Swipe little").waitFor();
});

test("a message is dragged to a folder", async () => {
  await send("Dragged away");
  const page = await open();
  await signIn(page, "bob");
  await row(page, "Dragged away").dragTo(page.locator(".folder", { hasText: "Archive" }));
  await page.waitForSelector(".toast:has-text('moved to Archive')");
  await gone(page, "Dragged away");
  assert.deepEqual(page.wrong, []);
});

test("buttons say their keys; beside a list in 1024 pixels folders have names, and those in others are there", async () => {
  await send("Row named");
  const page = await open({ width: 1024, height: 768 });
  await signIn(page, "bob");
  await row(page, "Row named").click();
  await page.waitForSelector(".reader h1:text-is('Row named')");
  for (const title of ["Reply (r)", "Archive (e)", "Delete (#)", "Report as junk (!)", "Flag (s)"]) await page.waitForSelector(`.read .bar [title='${title}']`);
  await page.click(".read .bar [title='Flag (s)']");
  await page.waitForSelector(".read .bar [aria-pressed=true][title='Remove flag (s)']");
  await row(page, "Row named").click({ button: "right" });
  await page.waitForSelector("[role=menuitem]:has-text('Remove flag') kbd:text-is('s')");
  await press(page, "Escape");
  // Folders, one of them in another.
  const made = await page.evaluate(async () => {
    const s = await (await fetch("/.well-known/jmap")).json();
    const { csrf } = await (await fetch("/auth/session", { headers: { Accept: "application/json" } })).json();
    const answer = await fetch(s.apiUrl, {
      method: "POST", headers: { "Content-Type": "application/json", "X-CSRF-Token": csrf },
      body: JSON.stringify({ using: ["urn:ietf:params:jmap:core", "urn:ietf:params:jmap:mail"], methodCalls: [["Mailbox/set", { accountId: Object.values(s.primaryAccounts)[0], create: { a: { name: "Outer box", parentId: null }, b: { name: "Inner box", parentId: "#a" } } }, "0"]] }),
    });
    return Object.keys((await answer.json()).methodResponses[0][1].created ?? {}).length;
  });
  assert.equal(made, 2);
  for (const name of ["Inbox", "Outer box", "Inner box"]) {
    const box = await boxOf(page.locator(`.side .folder[title='${name}'] .name`));
    assert.ok(box && box.width > 20 && box.height > 8, `${name} has no name to read`);
  }
  await page.click(".side .folder[title='Inner box']");
  await title(page, "Inner box");
  assert.deepEqual(await barriers(page), []);
  assert.deepEqual(page.wrong, []);
});

test("one flag costs one request, and the change is not fetched again", async () => {
  await send("Costs little");
  const page = await open();
  const alarms = page.waitForResponse((r) => (r.request().postData() ?? "").includes('"Task/query"')); // the last of what is read behind the list
  await signIn(page, "bob");
  await row(page, "Costs little").waitFor();
  await Promise.all([kept(page), alarms]);
  await quiet(page);
  const asked = [];
  page.on("requestfinished", (r) => {
    const body = r.postData() ?? "";
    if (body.includes('"methodCalls"')) asked.push(r.sizes().then((n) => ({ names: JSON.parse(body).methodCalls.map(([name]) => name).join(), bytes: n.requestBodySize + n.responseBodySize })));
  });
  await press(page, "Home", "s");
  await row(page, "Costs little").locator(".flag").waitFor();
  await page.waitForTimeout(1000);
  const all = await Promise.all(asked);
  assert.deepEqual(all.map((a) => a.names), ["Email/set,Mailbox/changes,Mailbox/get,Mailbox/get,Email/changes"]);
  assert.ok(all[0].bytes < 3000, `${all[0].bytes} bytes`);
  assert.deepEqual(page.wrong, []);
});

test("an answer that is older than a flag does not take it away", async () => {
  await send("Flagged meanwhile");
  const page = await open();
  await signIn(page, "bob");
  await row(page, "Flagged meanwhile").waitFor();
  await kept(page); // it is listed while the answer is on its way
  // The next answer with rows was given before the flag was set, and comes after the server has confirmed the flag.
  let release;
  const held = new Promise((done) => (release = done));
  let asked;
  const isAsked = new Promise((done) => (asked = done));
  await page.route("**/jmap/**", async (route) => {
    if (!(route.request().postData() ?? "").includes('"Email/query"')) return route.continue();
    const response = await route.fetch();
    asked();
    await held;
    return route.fulfill({ response });
  });
  await press(page, "g", "i");
  await isAsked;
  await press(page, "Home");
  const confirmed = page.waitForResponse((r) => (r.request().postData() ?? "").includes("$flagged"));
  await press(page, "s");
  await confirmed;
  await page.waitForTimeout(300);
  await page.evaluate(() => {
    globalThis.lost = 0;
    new MutationObserver(() => { if (!document.querySelector(".row .flag")) globalThis.lost++; }).observe(document.querySelector(".list"), { subtree: true, childList: true });
  });
  release();
  await page.waitForTimeout(500);
  await row(page, "Flagged meanwhile").locator(".flag").waitFor();
  assert.equal(await page.evaluate(() => globalThis.lost), 0);
  assert.deepEqual(page.wrong, []);
});

test("a message that comes while the list is on its way is listed, and stays", async () => {
  const page = await open({ worker: false });
  await signIn(page, "bob");
  await kept(page);
  let release, asked = false, answered = false;
  const held = new Promise((done) => (release = done));
  await page.route("**/jmap/**", async (route) => {
    if (!(route.request().postData() ?? "").includes('"Email/query"') || asked) return route.continue();
    asked = true;
    const response = await route.fetch();
    answered = true;
    await held;
    return route.fulfill({ response });
  });
  await press(page, "g", "i");
  await until(() => answered);
  await send("Came meanwhile");
  await row(page, "Came meanwhile").waitFor();
  await page.evaluate(() => {
    globalThis.lost = 0;
    new MutationObserver(() => { if (!document.querySelector(".list").textContent.includes("Came meanwhile")) globalThis.lost++; }).observe(document.querySelector(".list"), { subtree: true, childList: true, characterData: true });
  });
  const late = page.waitForResponse((r) => (r.request().postData() ?? "").includes('"Email/query"'));
  release();
  await (await late).finished();
  await send("Came behind it");
  await row(page, "Came behind it").waitFor();
  assert.equal(await page.evaluate(() => globalThis.lost), 0);
  assert.deepEqual(page.wrong, []);
});

test("what is typed while the palette is loaded for the first time counts, Enter too", async () => {
  const page = await open({ worker: false });
  let held;
  await page.route("**/assets/palette-*.js", (route) => { held = route; });
  await signIn(page, "bob");
  await press(page, "Control+k");
  await until(() => held);
  await page.keyboard.type("settx");
  await press(page, "Backspace");
  await held.continue();
  await page.waitForFunction(() => document.querySelector("dialog[open] [role=combobox]")?.value === "sett");
  await page.keyboard.type("ings");
  await press(page, "Enter");
  await page.waitForSelector("dialog[open] h2:has-text('Settings')");
  await press(page, "Escape");
  const other = await open({ worker: false });
  held = undefined;
  await other.route("**/assets/palette-*.js", (route) => { held = route; });
  await signIn(other, "bob");
  await press(other, "Control+k");
  await until(() => held);
  await other.keyboard.type("settings");
  await press(other, "Enter");
  await held.continue();
  await other.waitForSelector("dialog[open] h2:has-text('Settings')");
  assert.deepEqual([...page.wrong, ...other.wrong], []);
});
