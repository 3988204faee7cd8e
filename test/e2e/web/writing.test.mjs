// What the writer asks before it sends.

import assert from "node:assert/strict";
import { after, test } from "node:test";
import { browser, counts, open, signIn } from "./world.mjs";

after(() => browser.close());

test("a text that speaks of an attachment, and a message without a subject, are asked about", async () => {
  const page = await open();
  await signIn(page, "bob");
  await page.keyboard.press("c");
  await page.waitForSelector(".writer .ProseMirror");
  await page.keyboard.type("alice@example.com,");
  await page.click(".writer .ProseMirror");
  await page.keyboard.type("Please see the attached file.");
  await page.keyboard.press("Control+Enter");
  const ask = page.locator("dialog[open]");
  await ask.getByText("Send without a subject?").waitFor();
  await ask.getByRole("button", { name: "Cancel" }).click();
  await page.fill(".writer .subject input", "A file");
  await page.click(".writer .ProseMirror");
  await page.keyboard.press("Control+Enter");
  await ask.getByText("The text speaks of an attachment").waitFor();
  await ask.getByRole("button", { name: "Cancel" }).click();
  await counts(page.locator(".writer"), 1);
  assert.deepEqual(page.wrong, []);
});
