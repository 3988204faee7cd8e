// Senders: whether their domains were verified, leaving their lists at once, and blocking them.

import assert from "node:assert/strict";
import { after, test } from "node:test";
import { barriers, browser, deliver, open, row, signIn } from "./world.mjs";

after(() => browser.close());
const run = Date.now();

const message = (subject, fields = "") => `Message-ID: <${subject.replace(/\W/g, "")}.${run}@letters.example>\nFrom: Nina News <news@letters.example>\nTo: harry@example.com\nSubject: ${subject}\n${fields}MIME-Version: 1.0\n\nWords\n`;
const results = (dmarc) => `Authentication-Results: mx.example.com; dmarc=${dmarc} header.from=letters.example\n`;
const offer = "List-Unsubscribe: <https://letters.example/leave?me=1>, <mailto:leave@letters.example>\nList-Unsubscribe-Post: List-Unsubscribe=One-Click\n";

async function enter(options) {
  const page = await open(options);
  await signIn(page, "harry");
  return page;
}

async function show(page, subject) {
  await row(page, subject).click();
  await page.waitForSelector(`.reader h1:has-text('${subject}')`);
  await page.waitForSelector(".mail .body .plain");
}

test("the verified domain of a sender is shown, and that it could not be verified", async () => {
  for (const [subject, dmarc] of [["Proven words", "pass"], ["Doubtful words", "fail (p=none)"]]) await deliver("news@letters.example", "harry@example.com", message(subject, results(dmarc)));
  await deliver("news@letters.example", "harry@example.com", message("Words of nobody"));
  const page = await enter();
  await show(page, "Proven words");
  await page.waitForSelector(".mail .verified:has-text('letters.example, verified')");
  assert.equal(await page.locator(".notice.alarm").count(), 0);
  await show(page, "Words of nobody");
  await page.waitForTimeout(200);
  assert.equal(await page.locator(".mail .verified, .notice.alarm").count(), 0);
  await show(page, "Doubtful words");
  await page.waitForSelector(".notice.alarm[role=alert]:has-text('may not be from news@letters.example')");
  assert.equal(await page.locator(".mail .verified").count(), 0);
  assert.deepEqual(await barriers(page), []);
  assert.deepEqual(page.wrong, []);
});

test("one leaves a list by one press, where the message proves the offer; else by hand", async () => {
  await deliver("news@letters.example", "harry@example.com", message("List at once", offer));
  const page = await enter();
  let answers = ["left"];
  await page.route("**/jmap/api", async (route) => {
    const asked = JSON.parse(route.request().postData());
    const call = asked.methodCalls.find(([name]) => name === "Email/unsubscribe");
    if (!call || answers.length === 0) return route.fallback();
    const how = answers.shift();
    const reply = how === "left" ? ["Email/unsubscribe", { accountId: call[1].accountId, emailId: call[1].emailId }, call[2]] : ["error", { type: "listRefused", description: "mailing list's server answers 500" }, call[2]];
    return route.fulfill({ json: { methodResponses: [reply], sessionState: "x" } });
  });
  await show(page, "List at once");
  await page.click(".mail .who .chip");
  await page.waitForSelector("dialog[open]:has-text('letters.example gets a request')");
  await page.click("dialog[open] .button.primary");
  await page.waitForSelector(".toast:has-text('You left the list')");
  // The same over its row.
  await row(page, "List at once").hover();
  await page.click(".row .deeds [title='Leave this list']");
  answers = ["refused"];
  await page.click("dialog[open] .button.primary");
  await page.waitForSelector(".toast:has-text('answers 500')");
  await page.waitForSelector(".writer >> text=leave@letters.example");
  await page.click(".writer [aria-label='Discard draft']");
  await page.waitForSelector(".writer", { state: "detached" });
  // The server itself: nothing proves the offer, so that the message to the list is what is left.
  await page.click(".mail .who .chip");
  await page.click("dialog[open] .button.primary");
  await page.waitForSelector(".writer >> text=leave@letters.example");
  await page.click(".writer [aria-label='Discard draft']");
  await page.waitForSelector(".writer", { state: "detached" });
});

test("mail of a blocked sender goes to Junk; who is blocked stands in the settings", async () => {
  await deliver("news@letters.example", "harry@example.com", message("Before the block"));
  const page = await enter();
  await row(page, "Before the block").click({ button: "right" });
  await page.click("[role=menuitem]:has-text('Block the sender')");
  await page.waitForSelector(".toast:has-text('goes to Junk from now on')");
  await deliver("news@letters.example", "harry@example.com", message("After the block"));
  await page.click(".folder[title='Junk']");
  await row(page, "After the block").waitFor();
  await page.click(".folder[title='Inbox']");
  await row(page, "Before the block").waitFor();
  assert.equal(await row(page, "After the block").count(), 0);
  await page.click(".top [aria-label='Settings']");
  await page.waitForSelector(".blocked li:has-text('news@letters.example')");
  await page.fill(".blocked input", "nobody");
  await page.click(".blocked .add .button");
  await page.waitForSelector(".blocked [role=alert]:has-text('neither an address')");
  await page.fill(".blocked input", "@spam.example");
  await page.keyboard.press("Enter");
  await page.waitForSelector(".blocked li:has-text('@spam.example')");
  assert.deepEqual(await barriers(page), []);
  for (const who of ["news@letters.example", "@spam.example"]) await page.click(`.blocked [aria-label='Unblock ${who}']`);
  await page.waitForSelector(".blocked >> text=No sender is blocked.");
  await page.keyboard.press("Escape");
  await deliver("news@letters.example", "harry@example.com", message("After all"));
  await row(page, "After all").waitFor();
  assert.deepEqual(page.wrong, []);
});
