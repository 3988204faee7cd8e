// What goes on to somebody else, as it is; and what somebody else's mail file is good for.

import assert from "node:assert/strict";
import { after, test } from "node:test";
import { barriers, base, browser, counts, deliver, open, row, signIn } from "./world.mjs";

after(() => browser.close());

/** Reads the source of the message that is open. */
async function source(page) {
  await page.click(".read .bar [aria-label='More']");
  await page.click("text=Message source");
  const text = await page.waitForFunction(() => document.querySelector(".source")?.textContent.includes("Message-ID:") && document.querySelector(".source").textContent);
  await page.keyboard.press("Escape");
  await page.waitForFunction(() => !location.search.includes("open=")); // a page that is loaded anew does not show it again
  return (await text.jsonValue()).replace(/\r\n/g, "\n");
}

test("a message is redirected: fields of the resending before it, its own bytes as they were, once", async () => {
  const page = await open();
  await page.addInitScript(() => localStorage.setItem("doublet:preferences", JSON.stringify({ undoSeconds: 0 })));
  await signIn(page);
  const own = "From: =?UTF-8?Q?M=C3=A4llory?= <mallory@elsewhere.example>\nTo: alice@example.com\nX-Odd:   kept\t as it is \nSubject: Goes on as it is\nMessage-ID: <goes.on@elsewhere.example>\nDate: Sat, 21 Nov 2026 10:00:00 +0000\nMIME-Version: 1.0\nContent-Type: text/plain; charset=utf-8\nContent-Transfer-Encoding: 8bit\n\nWörds, and  blanks \n\n-- \nM";
  await deliver("mallory@elsewhere.example", "alice@example.com", own);
  await row(page, "Goes on as it is").click();
  await page.waitForSelector(".mail .body :text('Wörds')");
  await page.click(".read .bar [aria-label='More']");
  await page.click(".menu >> text=Redirect");
  await page.click("dialog button.primary");
  await page.waitForSelector("dialog [role=alert]:has-text('at least one recipient')");
  await page.fill("#redirect-to", "Böb <bob@example.com>,");
  await page.click("dialog button.primary");
  await page.waitForSelector("dialog", { state: "detached" });
  const bob = await open();
  await signIn(bob, "bob");
  await row(bob, "Goes on as it is").waitFor({ timeout: 30_000 });
  await counts(bob.locator(".row", { hasText: "Goes on as it is" }), 1);
  assert.equal(await row(bob, "Goes on as it is").locator(".sent-on").textContent(), "sent on by Alice Liddell");
  assert.equal(await row(page, "Goes on as it is").locator(".sent-on").count(), 0); // Alice has it from its author
  assert.deepEqual(await barriers(bob), []);
  await row(bob, "Goes on as it is").click();
  await bob.waitForSelector(".mail .who:has-text('Mällory') >> text=sent on by Alice Liddell");
  await bob.click(".mail [aria-label='Details']");
  await bob.waitForSelector(".mail dl >> text=Alice Liddell"); // who sent it on
  const got = await source(bob);
  const before = got.slice(0, got.indexOf("From: =?UTF-8?Q?M=C3=A4llory?="));
  assert.match(before, /^Resent-From: "Alice Liddell" <alice@example\.com>$/m);
  assert.match(before, /^Resent-To: =\?UTF-8\?B\?QsO2Yg==\?= <bob@example\.com>$/m);
  assert.match(before, /^Resent-Date: \w{3}, \d{2} \w{3} \d{4} [\d:]{8} \+0000$/m);
  assert.match(before, /^Resent-Message-ID: <[0-9a-f-]+@example\.com>$/m);
  assert.equal((before.match(/^Return-Path:/gm) ?? []).length, 1);
  assert.ok(got.endsWith(`${own}\n`), got);
  await page.click(".folder:has-text('Sent')");
  await row(page, "Goes on as it is").waitFor();
  await counts(page.locator(".row", { hasText: "Goes on as it is" }), 1);

  // Bob sends it on again: the fields of the first resending are Alice's, and stay.
  await bob.evaluate(() => localStorage.setItem("doublet:preferences", JSON.stringify({ undoSeconds: 0 })));
  await bob.reload();
  await row(bob, "Goes on as it is").click();
  await bob.click(".read .bar [aria-label='More']");
  await bob.click(".menu >> text=Redirect");
  await bob.fill("#redirect-to", "carol@example.com,");
  await bob.click("dialog button.primary");
  const carol = await open();
  await signIn(carol, "carol");
  await row(carol, "Goes on as it is").waitFor({ timeout: 30_000 });
  assert.equal(await row(carol, "Goes on as it is").locator(".sent-on").textContent(), "sent on by Bob Cratchit"); // the last one
  await row(carol, "Goes on as it is").click();
  await carol.waitForSelector(".mail .body :text('Wörds')");
  const twice = await source(carol);
  assert.ok(twice.indexOf("Resent-From: \"Bob Cratchit\"") >= 0 && twice.indexOf("Resent-From: \"Bob Cratchit\"") < twice.indexOf("Resent-From: \"Alice Liddell\""), twice);
  assert.ok(twice.endsWith(`${own}\n`));
  assert.deepEqual([...page.wrong, ...bob.wrong, ...carol.wrong], []);
});

test("somebody else's folder is read, answered and its files sent on from one's own account", async () => {
  const admin = await open();
  await admin.goto(`${base}/admin/#/databases`);
  await admin.fill("input[name=user]", "alice");
  await admin.fill("input[name=password]", "demo");
  await admin.click("button.primary");
  await admin.fill("[data-find]", "carol");
  await admin.locator(".lines .line", { hasText: "Carol" }).first().click();
  await admin.waitForSelector(".detail .table >> text=INBOX");
  await admin.fill(".detail .inline-form input", "bob");
  await admin.click(".detail .inline-form button");
  await admin.waitForSelector(".plain-list >> text=Bob Cratchit");
  const parts = ["--b", "Content-Type: text/html", "", "<p>Shared words <img src=\"cid:pic\"></p>", "--b", "Content-Type: image/png; name=p.png", "Content-ID: <pic>", "Content-Transfer-Encoding: base64", "", "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==", "--b", "Content-Type: text/plain; name=list.txt", "Content-Disposition: attachment; filename=list.txt", "", "the list", "--b--", ""];
  await deliver("mallory@elsewhere.example", "carol@example.com", `From: mallory@elsewhere.example\nTo: carol@example.com\nSubject: For Carol and those who share\nMessage-ID: <shared@elsewhere.example>\nMIME-Version: 1.0\nContent-Type: multipart/related; boundary=b\n\n${parts.join("\n")}`);
  const bob = await open();
  await bob.addInitScript(() => localStorage.setItem("doublet:preferences", JSON.stringify({ undoSeconds: 0 })));
  await signIn(bob, "bob");
  await bob.click(".side .folder:has-text('Carol')");
  await row(bob, "For Carol and those who share").click();
  await bob.waitForSelector(".mail iframe");
  await bob.click(".answer-bar >> text=Forward");
  await bob.waitForSelector(".writer .file:has-text('list.txt')");
  await bob.waitForFunction(() => { const i = document.querySelector(".writer .ProseMirror img"); return i && i.complete && i.naturalWidth === 1; });
  await bob.fill(".writer [role=combobox]", "alice@example.com,");
  await bob.click(".writer footer .primary");
  const alice = await open();
  await signIn(alice, "alice");
  await row(alice, "Fwd: For Carol and those who share").waitFor({ timeout: 30_000 });
  await row(alice, "Fwd: For Carol and those who share").click();
  await alice.waitForSelector(".file:has-text('list.txt')");
  const inside = alice.frameLocator("iframe").first();
  await inside.locator("img[src*='/jmap/download/']").waitFor();
  assert.equal(await inside.locator("img").evaluate((i) => i.complete && i.naturalWidth), 1);
  await bob.click(".side .folder:has-text('Bob')");
  await bob.click(".folder:has-text('Sent')");
  await row(bob, "Fwd: For Carol").waitFor();
  assert.deepEqual([...admin.wrong, ...bob.wrong, ...alice.wrong], []);
});
