// Deleting folders: nothing is lost until it is deleted inside Trash.

import assert from "node:assert/strict";
import { after, test } from "node:test";
import { jmap } from "./objects.mjs";
import { browser, counts, deliver, inChromium, open, row, settled, signIn } from "./world.mjs";

after(() => browser.close());

const mail = (subject) => `From: Mallory <mallory@elsewhere.example>\nTo: bob@example.com\nSubject: ${subject}\nMessage-ID: <${subject.replace(/\W/g, "")}@elsewhere.example>\nDate: Sat, 21 Nov 2026 10:00:00 +0000\n\nText of ${subject}`;

const folder = (page, name, at = "") => page.locator(`.folder${at}`, { hasText: name }).first();
const top = "[data-depth='0']";
const depth = (page, name) => folder(page, name).getAttribute("data-depth");

async function make(page, name) {
  await page.click("[aria-label='New folder']");
  await page.fill("dialog input", name);
  await page.click("dialog .primary");
  await folder(page, name).waitFor();
}

/** Chooses from the menu of a folder. */
async function choose(page, name, what, at) {
  await folder(page, name, at).click({ button: "right" });
  await page.click(`.menu >> text="${what}"`);
}

/** Delivers a message and moves it into a folder. */
async function fill(page, name, subject) {
  await deliver("mallory@elsewhere.example", "bob@example.com", mail(subject));
  await row(page, subject).click({ modifiers: ["Control"] });
  await page.click(".list .bar [aria-label='Move']");
  await page.locator(".menu button", { hasText: name }).first().click();
  await page.waitForSelector(".toast:has-text('moved to')");
  await row(page, subject).waitFor({ state: "detached" });
}

test("a folder that is deleted is in Trash with its mail, comes back by undo, and ends only there, after a question", async () => {
  const page = await open();
  await signIn(page, "bob");
  await make(page, "Deleted plans");
  await fill(page, "Deleted plans", "Kept in its folder");
  await folder(page, "Deleted plans").click();
  await row(page, "Kept in its folder").waitFor();

  await choose(page, "Deleted plans", "Delete folder");
  await page.waitForSelector(".toast:has-text('moved to Trash')");
  assert.equal(await page.locator("dialog").count(), 0);
  await page.waitForSelector(".bar h2:has-text('Inbox')"); // the folder that was shown is left
  assert.equal(await depth(page, "Deleted plans"), "1");
  await page.click(".toast:has-text('Folder “Deleted plans”') >> text=Undo");
  await page.waitForSelector(".folder[data-depth='0']:has-text('Deleted plans')");
  await settled(page);
  await page.reload();
  await page.waitForSelector(".folder[data-depth='0']:has-text('Deleted plans')");
  await folder(page, "Deleted plans").click();
  await row(page, "Kept in its folder").waitFor();

  // Twice the same name in Trash, and out of it again.
  await choose(page, "Deleted plans", "Delete folder");
  await page.waitForSelector(".folder[data-depth='1']:has-text('Deleted plans')");
  await settled(page);
  await make(page, "Deleted plans");
  await page.waitForSelector(".folder[data-depth='0']:has-text('Deleted plans')");
  await choose(page, "Deleted plans", "Delete folder", top);
  await page.waitForSelector(".folder[data-depth='1']:has-text('Deleted plans (2)')");
  await settled(page);
  await choose(page, "Deleted plans", "Move out of Trash");
  await page.waitForSelector(".folder[data-depth='0']:has-text('Deleted plans')");
  await settled(page);
  await folder(page, "Deleted plans", top).click();
  await row(page, "Kept in its folder").waitFor();

  // Mail in Trash is not found by a search; it is destroyed there alone, and the question says so.
  await choose(page, "Deleted plans", "Delete folder", top);
  await page.waitForSelector(".folder[data-depth='1']:has-text('Deleted plans') >> nth=1");
  await settled(page);
  await page.fill("#search", 'subject:"Kept in its folder"');
  await page.waitForSelector("text=Nothing found");
  await page.fill("#search", "");
  await page.waitForSelector(".bar h2:has-text('Inbox')");
  await choose(page, "Deleted plans (2)", "Delete for good");
  await page.waitForSelector("dialog >> text=for good? This cannot be undone.");
  await page.click("dialog >> text=Cancel");
  await counts(page.locator(".folder:has-text('Deleted plans')"), 2);
  await choose(page, "Deleted plans (2)", "Delete for good");
  await page.click("dialog .danger");
  await page.waitForSelector(".toast:has-text('deleted for good')");
  await counts(page.locator(".folder:has-text('Deleted plans')"), 1);
  await folder(page, "Deleted plans").click();
  await row(page, "Kept in its folder").waitFor();

  // Emptying Trash takes the folders in it along.
  await page.click(".folder:has-text('Trash')");
  await page.click(".list .bar >> text=Empty");
  await page.waitForSelector("dialog >> text=messages and folders");
  await page.click("dialog .danger");
  await folder(page, "Deleted plans").waitFor({ state: "detached" });
  await settled(page);
  await page.reload();
  await page.waitForSelector(".list .bar h2:has-text('Trash')");
  await counts(page.locator(".folder:has-text('Deleted plans')"), 0);

  // A message that was emptied is restored. Its folder is gone, so it comes to the inbox.
  await page.click(".list .recover >> text=Recover deleted messages");
  await page.click("dialog li:has-text('Kept in its folder') >> text=Restore");
  await page.waitForSelector(".toast:has-text('Restored to Inbox')");
  await page.waitForSelector("dialog li:has-text('Kept in its folder')", { state: "detached" });
  await page.keyboard.press("Escape");
  await page.click(".folder:has-text('Inbox')");
  await row(page, "Kept in its folder").waitFor();
  assert.deepEqual(page.wrong, []);
});

test("a folder is deleted, and brought back, without a network too", inChromium("offline"), async () => {
  const page = await open();
  await signIn(page, "bob");
  await make(page, "Offline away");
  await make(page, "Offline back");
  await fill(page, "Offline away", "Goes along offline");
  await page.context().setOffline(true);
  await page.waitForSelector(".banner");
  await choose(page, "Offline away", "Delete folder");
  await page.waitForSelector(".folder[data-depth='1']:has-text('Offline away')");
  await choose(page, "Offline back", "Delete folder");
  await page.click(".toast:has-text('Offline back') >> text=Undo");
  await page.waitForSelector(".folder[data-depth='0']:has-text('Offline back')");
  await page.context().setOffline(false);
  await settled(page);
  await page.reload();
  await page.waitForSelector(".folder[data-depth='1']:has-text('Offline away')");
  await page.waitForSelector(".folder[data-depth='0']:has-text('Offline back')");
  await folder(page, "Offline away").click();
  await row(page, "Goes along offline").waitFor();
  assert.deepEqual(page.wrong, []);
});

test("a folder that was deleted is in Trash, too, when the page goes while the browser still keeps the folders", async () => {
  const page = await open();
  await page.addInitScript(() => {
    const transaction = IDBDatabase.prototype.transaction;
    IDBDatabase.prototype.transaction = function (names, mode) {
      const tx = transaction.call(this, names, mode);
      const hears = (fn) => { if (!window.holding) tx.addEventListener("complete", fn); };
      if (mode === "readwrite" && names.includes("mailboxes")) Object.defineProperty(tx, "oncomplete", { set: hears });
      return tx;
    };
  });
  await signIn(page, "bob");
  await make(page, "Gone at once");
  await page.evaluate(() => (window.holding = true)); // the page does not hear that the folders are kept
  await choose(page, "Gone at once", "Delete folder");
  await page.waitForSelector(".folder[data-depth='1']:has-text('Gone at once')");
  await settled(page);
  await page.close();
  const [{ list }] = await jmap("bob", ["Mailbox/get", { ids: null }]);
  assert.equal(list.find((m) => m.name === "Gone at once").parentId, list.find((m) => m.role === "trash").id);
  assert.deepEqual(page.wrong, []);
});

test("mail in Trash is destroyed after a question alone", async () => {
  const page = await open();
  await signIn(page, "bob");
  await deliver("mallory@elsewhere.example", "bob@example.com", mail("Ends in Trash"));
  await row(page, "Ends in Trash").click({ modifiers: ["Control"] });
  await page.keyboard.press("#");
  await page.waitForSelector(".toast:has-text('moved to Trash')");
  await page.click(".folder:has-text('Trash')");
  await row(page, "Ends in Trash").click({ modifiers: ["Control"] });
  await page.keyboard.press("#");
  await page.click("dialog >> text=Cancel");
  await row(page, "Ends in Trash").waitFor();
  await page.keyboard.press("#");
  await page.waitForSelector("dialog >> text=for good? This cannot be undone.");
  await page.click("dialog .danger");
  await page.waitForSelector(".toast:has-text('deleted for good')");
  await counts(row(page, "Ends in Trash"), 0);
  assert.deepEqual(page.wrong, []);
});

test("a change that the server refuses is undone on the screen", inChromium("bodies of requests"), async () => {
  const page = await open();
  await signIn(page, "bob");
  await make(page, "Stays here");
  await page.route("**/jmap/**", async (route) => {
    const body = route.request().postData() ?? "";
    const name = /"(Mailbox|Email)\/set"/u.exec(body)?.[0];
    if (!name) return route.continue();
    const calls = JSON.parse(body).methodCalls;
    const refused = Object.fromEntries(Object.keys(calls[0][1].update ?? {}).map((id) => [id, { type: "forbidden", description: "Not today." }]));
    return route.fulfill({ json: { methodResponses: [[calls[0][0], { accountId: calls[0][1].accountId, oldState: "x", newState: "x", notUpdated: refused }, calls[0][2]]], sessionState: "x" } });
  });
  await choose(page, "Stays here", "Delete folder");
  await page.waitForSelector(".toast:has-text('Not today.')");
  await folder(page, "Stays here", top).waitFor();
  await page.click(".folder:has-text('Inbox')");
  const first = page.locator(".row").first();
  const subject = await first.locator(".subject").textContent();
  const flagged = await first.locator(".flag").count();
  await page.keyboard.press("Home");
  const asked = page.waitForResponse((r) => (r.request().postData() ?? "").includes('"Email/set"'));
  await page.keyboard.press("s");
  await asked;
  await page.waitForSelector(".toast:has-text('Not today.')");
  await page.waitForFunction(([s, n]) => [...document.querySelectorAll(".row")].find((r) => r.querySelector(".subject").textContent === s)?.querySelectorAll(".flag").length === n, [subject, flagged]);
  assert.deepEqual(page.wrong, []);
});
