// Addresses are completed from the mail that was seen and from the directory.

import assert from "node:assert/strict";
import { after, test } from "node:test";
import { barriers, browser, open, signIn, until } from "./world.mjs";

after(() => browser.close());

const shown = (page) => page.$$eval(".suggest li", (list) => list.map((l) => l.textContent));

test("people of the directory are offered beside those who are known, once; offline those who are known", async () => {
  const page = await open();
  await signIn(page);
  await page.keyboard.press("c");
  await page.waitForSelector(".writer .ProseMirror");
  let hold;

  // Words in another order than any mail has them: only the directory knows.
  const to = page.locator(".writer [role=combobox]").first();
  await to.pressSequentially("cratchit bo");
  await page.waitForSelector(".suggest li:has-text('bob@example.com')");
  assert.deepEqual(await barriers(page), []);
  await to.press("Enter");
  await page.waitForSelector(".writer .token[title='bob@example.com']");

  // Somebody whom both know is there once; who is in the field already is not.
  const answer = (text) => page.waitForResponse((r) => r.request().postData()?.includes(`"text":"${text}"`)).then((r) => r.json());
  let answered = answer("carol");
  await to.pressSequentially("carol");
  await answered;
  await page.waitForTimeout(100);
  assert.equal((await shown(page)).filter((s) => s.includes("carol@example.com")).length, 1);
  await to.fill("");
  answered = answer("cratchit bo");
  await to.pressSequentially("cratchit bo");
  assert.equal((await answered).methodResponses.find(([name]) => name === "Principal/get")[1].list[0].email, "bob@example.com");
  await page.waitForTimeout(100);
  assert.deepEqual((await shown(page)).filter((s) => s.includes("bob@example.com")), []);

  // An answer that is out of date is given up, and not shown when it comes.
  await to.fill("");
  const given = page.waitForEvent("requestfailed", (r) => r.postData()?.includes('"text":"caro"'));
  await page.context().route("**/jmap/api", async (route) => {
    if (!hold && route.request().postData()?.includes('"text":"caro"')) return void (hold = route);
    return route.fallback();
  });
  await to.pressSequentially("caro");
  await until(() => hold);
  await to.pressSequentially("l");
  await given;
  await page.waitForSelector(".suggest li:has-text('carol@example.com')");

  // What is no answer is no trouble: those who are known are offered.
  await to.fill("");
  await page.context().setOffline(true);
  await to.pressSequentially("liddell");
  await page.waitForSelector(".suggest li:has-text('alice@example.com')");
  await page.context().setOffline(false);
  assert.deepEqual(page.wrong, []);
});

test("an address that nobody here has is said while writing; addresses elsewhere are not judged", async () => {
  const page = await open();
  await signIn(page);
  await page.keyboard.press("c");
  await page.waitForSelector(".writer .ProseMirror");
  const to = page.locator(".writer [role=combobox]").first();
  await to.pressSequentially("bob@example.com,nobodi@example.com,somebody@elsewhere.example,");
  await page.waitForSelector(".writer .nobody:has-text('Nobody here has the address nobodi@example.com.')");
  assert.deepEqual(await page.$$eval(".writer .token.bad", (list) => list.map((e) => e.title)), ["Nobody here has the address nobodi@example.com."]);
  assert.deepEqual(await barriers(page), []);
  // The nearest address that there is takes the place of one that nobody has.
  await to.pressSequentially("aliec@example.com,");
  await page.click(".writer .nobody .chip:has-text('Did you mean')");
  await page.waitForSelector(".writer .token[title='alice@example.com']");
  await page.waitForFunction(() => document.querySelectorAll(".writer .token.bad").length === 1);
  assert.equal(await page.locator(".writer .nobody .chip").count(), 0);
  await page.click(".writer .token.bad button");
  await page.waitForFunction(() => !document.querySelector(".writer .nobody, .writer .token.bad"));
  assert.deepEqual(page.wrong, []);
});
