// Two servers of a cluster behind one address: the one that answers dies while a message is being written.

import assert from "node:assert/strict";
import { after, test } from "node:test";
import { browser, open, row, until } from "./world.mjs";

after(() => browser.close());

/** The texts of the drafts that the mate has. */
async function draftsOfMate() {
  const headers = { Authorization: `Basic ${Buffer.from("anna:secret").toString("base64")}`, "Content-Type": "application/json" };
  const session = await (await fetch(`${process.env.MATE}/jmap/session`, { headers })).json();
  const accountId = session.primaryAccounts["urn:ietf:params:jmap:mail"];
  const body = JSON.stringify({ using: Object.keys(session.capabilities), methodCalls: [["Email/query", { accountId, filter: { hasKeyword: "$draft" } }, "q"], ["Email/get", { accountId, "#ids": { resultOf: "q", name: "Email/query", path: "/ids" }, properties: ["preview"] }, "g"]] });
  const answer = await (await fetch(`${process.env.MATE}/jmap/api`, { method: "POST", headers, body })).json();
  return answer.methodResponses[1][1].list.map((e) => e.preview);
}

const signInAs = async (page) => {
  await page.fill("input[name=user]", "anna");
  await page.fill("input[name=password]", "secret");
  await page.click("button.primary");
};

test("the server dies: it is said, a mate goes on, the draft is there and is sent once", async () => {
  const page = await open();
  await page.addInitScript(() => localStorage.setItem("doublet:preferences", JSON.stringify({ undoSeconds: 0 })));
  await page.goto(process.env.WEB);
  await signInAs(page);
  await row(page, "alone").waitFor();
  await page.keyboard.press("c");
  await page.waitForSelector(".writer .ProseMirror");
  await page.keyboard.type("anna@cluster.example,");
  await page.fill(".writer .subject input", "Through a death");
  await page.click(".writer .ProseMirror");
  await page.keyboard.type("Before");
  await page.waitForSelector(".writer >> text=Draft saved");
  await until(async () => (await draftsOfMate()).some((text) => text.includes("Before")));
  await page.keyboard.type(", in the last second");
  process.kill(Number(process.env.VICTIM), "SIGKILL");
  const again = page.locator("dialog.gate-again[open]");
  const told = page.locator(".toast", { hasText: "does not answer. Going on at two" });
  await told.or(again).first().waitFor({ timeout: 60_000 });
  assert.equal(await again.count(), 0, "the mate asks to sign in again");
  await told.waitFor();
  await page.waitForSelector(".writer .ProseMirror:has-text('Before, in the last second')");
  await page.click(".writer .ProseMirror");
  await page.keyboard.press("Control+End");
  await page.keyboard.type(", and after");
  await page.waitForSelector(".writer >> text=Draft saved", { timeout: 60_000 });
  await page.click(".writer footer .primary");
  await page.waitForFunction(() => [...document.querySelectorAll(".row .subject")].some((s) => s.textContent === "Through a death"), null, { timeout: 60_000 });
  await page.waitForTimeout(1500);
  await page.fill("#search", "in:inbox subject:death");
  await page.waitForSelector(".bar h2:has-text('1 found')");
  await page.fill("#search", "in:sent subject:death");
  await page.waitForSelector(".bar h2:has-text('1 found')");
  await page.fill("#search", "in:drafts subject:death");
  await page.waitForSelector("text=Nothing found");
  await page.focus("#search");
  await page.keyboard.press("Escape");
  await row(page, "Through a death").click();
  await page.waitForSelector(".mail iframe");
  assert.match(await page.frameLocator("iframe").first().locator("body").textContent(), /Before, in the last second, and after/);
  await page.reload();
  await page.waitForSelector(".row .subject");
  assert.equal(await page.locator(".unfinished").count(), 0);
  assert.equal(await again.count(), 0, "the mate asks to sign in again");
  assert.deepEqual(page.wrong.filter((w) => !/WebSocket/.test(w)), []);
});
