// The administration of a cluster of two.

import assert from "node:assert/strict";
import { after, test } from "node:test";
import { barriers, browser, counts, open } from "./world.mjs";

after(() => browser.close());

test("the members of a cluster are seen, changed and balanced", async () => {
  const page = await open();
  await page.goto(`${process.env.WEB}/admin/#/cluster`);
  await page.fill("input[name=user]", process.env.ADMIN);
  await page.fill("input[name=password]", "secret");
  await page.click("button.primary");
  await page.waitForSelector(".picture");
  await counts(page.locator(".members .card"), 2);
  const two = page.locator(".card", { has: page.locator("h3:text-is('two')") });
  const capacity = async (percent, site) => {
    await two.locator("text=Change").click();
    await page.fill("dialog label:has-text('Capacity') input", percent);
    await page.fill("dialog label:has-text('Site') input", site);
    await page.click("dialog .primary");
    await page.waitForSelector("dialog", { state: "detached" });
  };
  await capacity("300", "cellar");
  await two.locator("text=300 %").waitFor();
  await two.locator("text=cellar").waitFor();
  await page.click(".bar >> text=Balance…");
  await page.waitForSelector("dialog .evenness >> text=300 %");
  assert.deepEqual(await barriers(page), []);
  const apply = page.locator("dialog .primary", { hasText: "Make the moves" });
  if (await apply.count()) {
    await apply.click();
    await page.waitForSelector("dialog >> text=/The moves have begun|It is even/"); // they are counted anew
  } else await page.waitForSelector("dialog >> text=It is even");
  await page.click("dialog >> text=Close");
  await capacity("100", "");
  await two.locator("text=cellar").waitFor({ state: "detached" });
  await two.locator("text=Change").click();
  assert.equal(await page.inputValue("dialog label:has-text('Site') input"), "");
  await page.keyboard.press("Escape");
  assert.deepEqual(page.wrong.filter((w) => !/500/.test(w)), []);
});
