// Sending later: the server keeps the message until its time, and gives it back.

import assert from "node:assert/strict";
import { after, test } from "node:test";
import { browser, open, row, signIn } from "./world.mjs";

after(() => browser.close());

async function written(page, subject) {
  await page.addInitScript(() => localStorage.setItem("doublet:preferences", JSON.stringify({ undoSeconds: 0 })));
  await signIn(page, "bob");
  await page.keyboard.press("c");
  await page.waitForSelector(".writer .ProseMirror");
  await page.keyboard.type("alice@example.com,");
  await page.fill(".writer .subject input", subject);
  await page.click(".writer .ProseMirror");
  await page.keyboard.type("Words for later");
}

async function scheduled(page) {
  await page.keyboard.press("Control+k");
  await page.waitForSelector("dialog[open] [role=combobox]");
  await page.keyboard.type("scheduled");
  await page.keyboard.press("Enter");
}

test("a message is sent at a chosen time, waits in Sent with its time, and is taken back", async () => {
  const page = await open();
  await written(page, "Not today");
  await page.click(".writer [aria-label='Send later']");
  for (const name of ["Tomorrow morning", "Tomorrow afternoon", "Choose a time", "Scheduled messages"]) await page.waitForSelector(`[role=menuitem]:has-text('${name}')`);
  const asked = page.waitForRequest((r) => (r.postData() ?? "").includes("HOLDUNTIL"));
  await page.click("[role=menuitem]:has-text('Tomorrow morning')");
  await page.waitForSelector(".writer", { state: "detached" });
  await page.waitForSelector(".toast:has-text('Scheduled for')");
  const submission = JSON.parse((await asked).postData()).methodCalls.find(([name]) => name === "EmailSubmission/set")[1].create.s;
  const until = new Date(submission.envelope.mailFrom.parameters.HOLDUNTIL);
  assert.equal(until.getTime() % 60_000, 0);
  assert.ok(until > new Date());

  await page.keyboard.press("g");
  await page.keyboard.press("t");
  await row(page, "Not today").click();
  await page.waitForSelector(".reader .notice:has-text('This message will be sent on')");

  await scheduled(page);
  await page.waitForSelector("dialog[open] .held li:has-text('Not today')");
  await page.waitForSelector("dialog[open] .held li:has-text('alice@example.com')");
  await page.click("dialog[open] .held li:has-text('Not today') button");
  await page.waitForSelector(".writer .ProseMirror:has-text('Words for later')");
  await page.waitForSelector(".toast:has-text('is a draft again')");
  assert.equal(await page.inputValue(".writer .subject input"), "Not today");
  await page.click(".writer [aria-label='Discard draft']");
  await page.waitForSelector(".writer", { state: "detached" });
  await scheduled(page);
  await page.waitForSelector("dialog[open] >> text=No message is scheduled.");
  assert.deepEqual(page.wrong, []);
});

test("a time that has passed is not taken; until the one that is chosen the message is not there", async () => {
  const page = await open();
  await written(page, "In a moment");
  await page.click(".writer [aria-label='Send later']");
  await page.click("[role=menuitem]:has-text('Choose a time')");
  await page.fill("dialog[open] input", "2020-01-01T10:00");
  await page.click("dialog[open] .button.primary");
  await page.waitForSelector("dialog[open] [role=alert]:has-text('Choose a time between now and')");
  const soon = await page.evaluate(() => {
    const d = new Date(Date.now() + 300_000); // later than this test takes
    return new Date(d.getTime() - d.getTimezoneOffset() * 60_000).toISOString().slice(0, 16);
  });
  const asked = page.waitForRequest((r) => (r.postData() ?? "").includes("HOLDUNTIL"));
  await page.fill("dialog[open] input", soon);
  await page.click("dialog[open] .button.primary");
  await page.waitForSelector(".toast:has-text('Scheduled for')");
  await page.waitForSelector(".writer", { state: "detached" });
  const until = /"HOLDUNTIL":"([^"]+)"/u.exec((await asked).postData())[1];
  assert.equal(new Date(until).getTime(), await page.evaluate((s) => new Date(s).getTime(), soon));
  // It is not there before its time.
  const other = await open();
  await signIn(other, "alice");
  await other.waitForTimeout(1000);
  assert.equal(await row(other, "In a moment").count(), 0);
  assert.deepEqual([...page.wrong, ...other.wrong], []);
});
