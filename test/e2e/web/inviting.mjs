// Alice invites Bob, a room and somebody of another server (test/e2e TestInviting, which answers for them): STEP says which half this is.

import assert from "node:assert/strict";
import { after, test } from "node:test";
import { browser, open, signInAt } from "./world.mjs";

after(() => browser.close());

const day = "2027-03-03";

if (process.env.STEP === "invite") {
  test("Alice invites three from the calendar", async () => {
    const page = await open();
    await signInAt(page, `/calendar/week/${day}`, ".grid-body");
    await page.keyboard.press("n");
    await page.waitForSelector(".event-form");
    const form = page.locator(".event-form");
    await form.getByLabel(/^Title/u).first().fill("Plans for spring");
    await form.getByLabel(/^Starts/u).first().fill(day);
    await form.getByLabel(/^Start time/u).first().fill("10:00");
    await form.getByLabel(/^Ends/u).first().fill(day);
    await form.getByLabel(/^End time/u).first().fill("11:00");
    await form.getByLabel(/^People/u).first().fill("bob@example.com, spring@example.com, pat@outside.example,");
    await page.click(".event-form button.primary");
    await page.waitForSelector(".event-form", { state: "detached" });
    await page.locator(".calendar-view .event", { hasText: "Plans for spring" }).waitFor();
    assert.deepEqual(page.wrong, []);
  });
} else {
  test("Alice sees who has answered, and what", async () => {
    const page = await open();
    await signInAt(page, `/calendar/week/${day}`, ".grid-body");
    await page.locator(".calendar-view .event", { hasText: "Plans for spring" }).click();
    for (const [who, answer] of [["bob@example.com", "accepted"], ["spring@example.com", "accepted"], ["pat@outside.example", "may come"]]) {
      await page.locator(`.guests li[title="${who}"]`).filter({ hasText: new RegExp(answer, "iu") }).waitFor();
    }
    assert.deepEqual(page.wrong, []);
  });
}
