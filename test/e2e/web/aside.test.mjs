// What is put aside: snoozed, pinned and muted mail; filters, order and days of a list; labels with colours, saved searches, folders.

import assert from "node:assert/strict";
import { after, test } from "node:test";
import { barriers, browser, counts, deliver, open, row, signIn } from "./world.mjs";

after(() => browser.close());
const run = Date.now();

const send = (subject, fields = "", text = "Words") => deliver("mallory@elsewhere.example", "bob@example.com", `From: Mallory <mallory@elsewhere.example>\nTo: bob@example.com\nSubject: ${subject}\nMessage-ID: <${subject.replace(/\W/g, "")}.${run}@aside.example>\n${fields}\n${text}\n`);
const gone = (page, subject) => page.waitForFunction((s) => ![...document.querySelectorAll(".row .subject")].some((x) => x.textContent === s), subject);

async function enter(options) {
  const page = await open(options);
  await signIn(page, "bob");
  return page;
}

const menuOf = async (page, subject, item) => {
  await row(page, subject).click({ button: "right" });
  await page.click(`[role=menuitem]:has-text('${item}')`);
};

test("a message is snoozed by a key, waits with its time, is brought back, and comes back unread by itself", async () => {
  await send("Snooze me");
  const page = await enter();
  await row(page, "Snooze me").waitFor();
  await row(page, "Snooze me").click({ modifiers: ["Control"] });
  await page.keyboard.press("b");
  for (const text of ["Tomorrow,", "Next week,", "Choose a time"]) await page.waitForSelector(`[role=menuitem]:has-text('${text}')`);
  await page.click("[role=menuitem]:has-text('Tomorrow,')");
  await page.waitForSelector(".toast:has-text('Snoozed until')");
  await gone(page, "Snooze me");
  await page.click(".folder[title='Snoozed']");
  await row(page, "Snooze me").click();
  await page.waitForSelector(".reader .notice:has-text('comes back to the inbox on')");
  assert.deepEqual(await barriers(page), []);
  await page.click(".reader .notice button:has-text('Bring it back now')");
  await page.waitForSelector(".toast:has-text('in the inbox again')");
  await page.click(".folder[title='Inbox']");
  await row(page, "Snooze me").waitFor();
  // By itself: the task of the server looks every 15 s.
  await menuOf(page, "Snooze me", "Snooze");
  await page.click("[role=menuitem]:has-text('Choose a time')");
  await page.fill("dialog[open] input", "2020-01-01T10:00");
  await page.click("dialog[open] .button.primary");
  await page.waitForSelector("dialog[open] [role=alert]:has-text('in the future')");
  const soon = await page.evaluate(() => {
    const d = new Date(Date.now() + 10_000); // when it is chosen it is still to come
    if (d.getSeconds() === 0) d.setSeconds(1); // a field has no value that ends in :00
    return new Date(d.getTime() - d.getTimezoneOffset() * 60_000).toISOString().slice(0, 19);
  });
  await page.evaluate(() => document.querySelector("dialog[open] input").setAttribute("step", "1"));
  await page.fill("dialog[open] input", soon);
  await page.click("dialog[open] .button.primary");
  await gone(page, "Snooze me");
  await page.waitForSelector(".row.unread:has-text('Snooze me')", { timeout: 40_000 });
  await page.waitForFunction(() => document.querySelector(".row .subject")?.textContent === "Snooze me");
  assert.deepEqual(page.wrong, []);
});

test("a pinned message stays on top; mail to a muted conversation is archived as read", async () => {
  await send("Pin me");
  const page = await enter();
  await row(page, "Pin me").waitFor();
  await send("Later than the pin");
  await row(page, "Later than the pin").waitFor();
  await menuOf(page, "Pin me", "Pin, or unpin");
  await page.waitForFunction(() => document.querySelector(".row .subject")?.textContent === "Pin me");
  await page.waitForSelector(".row .day:has-text('pinned')");
  await page.reload();
  await page.waitForFunction(() => document.querySelector(".row .subject")?.textContent === "Pin me");
  await menuOf(page, "Pin me", "Pin, or unpin");
  await page.waitForFunction(() => document.querySelector(".row .subject")?.textContent !== "Pin me");
  await send("Mute me");
  await row(page, "Mute me").click({ modifiers: ["Control"] });
  const muted = page.waitForResponse((r) => r.request().postData()?.includes('"keywords/$muted":true'));
  await page.keyboard.press("m");
  await muted; // mail that comes from now on is archived
  await page.waitForSelector(".toast:has-text('Conversation muted')");
  await gone(page, "Mute me");
  await send("Re: Mute me", `In-Reply-To: <Muteme.${run}@aside.example>\nReferences: <Muteme.${run}@aside.example>\n`);
  await page.click(".folder[title='Archive']");
  await row(page, "Re: Mute me").waitFor();
  await counts(page.locator(".row.unread:has-text('Mute me')"), 0);
  await page.click(".folder[title='Inbox']");
  await row(page, "Later than the pin").waitFor();
  await gone(page, "Mute me");
  await gone(page, "Re: Mute me");
  assert.deepEqual(page.wrong, []);
});

test("a reminder is set in the writer and in a message, shown with it, and taken away", async () => {
  const page = await enter();
  const write = async (subject) => {
    await page.keyboard.press("c");
    await page.waitForSelector(".writer .ProseMirror");
    await page.keyboard.type("alice@example.com,");
    await page.fill(".writer .subject input", subject);
  };
  const send = async () => {
    await page.click(".writer footer .primary");
    await page.waitForSelector(".writer", { state: "detached" });
  };
  await write("Do you come?");
  await page.click(".writer [aria-label='Send later']");
  await page.click("[role=menuitem]:has-text('Remind me')");
  await page.click("[role=menuitem]:has-text('In 4 days')");
  await page.waitForSelector(".writer .reminder:has-text('after 4 days')");
  assert.deepEqual(await barriers(page), []);
  await send();
  await write("No hurry");
  await send();
  await page.keyboard.press("g");
  await page.keyboard.press("t");
  await row(page, "Do you come?").click();
  await page.waitForSelector(".read .notice:has-text('You get a reminder on')");
  await page.click(".read .notice .button:has-text('No reminder')");
  await page.waitForFunction(() => !document.querySelector(".read .notice"));
  await row(page, "No hurry").click();
  await page.waitForSelector(".read h1:has-text('No hurry')");
  await page.click(".read .bar .tool[aria-label='More']");
  await page.click("[role=menuitem]:has-text('Remind me')");
  await page.click("[role=menuitem]:has-text('In a week')");
  await page.waitForSelector(".read .notice:has-text('You get a reminder on')");
  assert.deepEqual(page.wrong, []);
});

test("tabs and an order narrow a list, survive a reload and go by Back; days head their rows", async () => {
  await send("Tab unread");
  await send("Tab file", "MIME-Version: 1.0\nContent-Type: multipart/mixed; boundary=x\n", "--x\n\nA\n--x\nContent-Type: text/plain; name=a.txt\nContent-Disposition: attachment; filename=a.txt\n\nB\n--x--");
  const page = await enter();
  // The server learns late that the message was read: the list of unread ones leaves it out all the same.
  let release;
  const held = new Promise((done) => (release = done));
  const late = async (route) => {
    if ((route.request().postData() ?? "").includes("Email/set")) await held;
    await route.continue();
  };
  await page.route("**/jmap/**", late);
  await row(page, "Tab file").click();
  await page.waitForFunction(() => !document.querySelector(".row.unread.at"));
  await page.waitForSelector(".row .day:has-text('Today')");
  await page.click(".tab:has-text('Unread')");
  await row(page, "Tab unread").waitFor();
  await gone(page, "Tab file");
  release();
  await page.click(".tab:has-text('Attachments')");
  await row(page, "Tab file").waitFor();
  await gone(page, "Tab unread");
  assert.match(page.url(), /[?&]view=files/);
  await page.reload();
  await row(page, "Tab file").waitFor();
  assert.equal(await row(page, "Tab unread").count(), 0);
  assert.deepEqual(await barriers(page), []);
  await page.click(".tab:text-is('All')");
  await row(page, "Tab unread").waitFor();
  await page.click(".tab.sort");
  await page.click("[role=menuitem]:has-text('Oldest first')");
  await page.waitForFunction(() => !["Tab file", "Tab unread"].includes(document.querySelector(".row .subject")?.textContent));
  await page.goBack();
  await page.waitForFunction(() => document.querySelector(".tab.sort")?.textContent === "");
  await page.waitForFunction(() => ["Tab file", "Tab unread", "Snooze me"].includes(document.querySelector(".row .subject")?.textContent));
  assert.deepEqual(page.wrong, []);
});

test("a label is typed, made, coloured and searched for; a search is saved; both are in another browser", async () => {
  await send("Label me");
  const page = await enter();
  await row(page, "Label me").click();
  await page.waitForSelector(".reader h1:text-is('Label me')");
  await page.keyboard.press("l");
  await page.waitForSelector("dialog[open] [role=combobox]");
  await page.keyboard.type("Büro Später");
  await page.waitForSelector("dialog[open] [role=option]:has-text('New label “Büro Später”')");
  assert.deepEqual(await barriers(page), []);
  await page.keyboard.press("Enter");
  await page.waitForSelector(".reader .label:has-text('Büro Später')");
  await page.waitForSelector(".row .label:has-text('Büro Später')");
  await page.click(".own-labels .folder", { button: "right" });
  await page.click("[role=menuitem]:has-text('Colour')");
  await page.click("[role=menuitem]:has-text('Violet')");
  await page.waitForSelector(".row .label.hued");
  await page.click(".own-labels .folder");
  await page.waitForSelector(".list .bar h2:has-text('1')");
  await row(page, "Label me").waitFor();
  await page.click(".list .bar [aria-label='Save this search']");
  await page.fill("dialog[open] input", "My office");
  const saved = page.waitForResponse((r) => r.request().postData()?.includes("My office"));
  await page.click("dialog[open] .button.primary");
  await saved;
  await page.waitForSelector(".own-searches .folder[title='My office']");
  const other = await enter({ dark: true });
  await other.waitForSelector(".row .label.hued:has-text('Büro Später')");
  await other.click(".own-searches .folder[title='My office']");
  await row(other, "Label me").waitFor();
  await other.click(".own-searches .folder[title='My office']", { button: "right" });
  await other.click("[role=menuitem]:has-text('Remove')");
  await other.waitForSelector(".own-searches", { state: "detached" });
  assert.deepEqual([...page.wrong, ...other.wrong], []);
});

test("a folder is coloured, and moved into another and back by dragging it", async () => {
  const page = await enter();
  for (const name of ["Aside one", "Aside two"]) {
    await page.click("[aria-label='New folder']");
    await page.fill("dialog[open] input", name);
    await page.click("dialog[open] .button.primary");
    await page.waitForSelector(`.folder[title='${name}']`);
  }
  await page.click(".folder[title='Aside one']", { button: "right" });
  await page.click("[role=menuitem]:has-text('Colour')");
  await page.click("[role=menuitem]:has-text('Red')");
  await page.waitForSelector(".folder[title='Aside one'] .icon.hued");
  await page.dragAndDrop(".folder[title='Aside two']", ".folder[title='Aside one']");
  await page.waitForSelector(".folder[title='Aside two'][data-depth='1']");
  await page.dragAndDrop(".folder[title='Aside two']", ".side-title:has-text('Folders')");
  await page.waitForSelector(".folder[title='Aside two'][data-depth='0']");
  assert.deepEqual(page.wrong, []);
});
