// An hour of a page that is open all day.

import { deliver, row } from "./world.mjs";

/** Has messages come to somebody and opens each, answers the last one in the writer, and visits other folders. */
export async function hour(page, name, count, who = "carol") {
  for (let i = 0; i < count; i++) {
    const subject = `Hour ${name} matter ${i}`;
    await deliver("mallory@elsewhere.example", `${who}@example.com`, `From: Mallory <mallory@elsewhere.example>\nTo: ${who}@example.com\nSubject: ${subject}\nMessage-ID: <day${name.replace(/\W/g, "")}.${i}@elsewhere.example>\n\n${subject}. ${"Words of a day. ".repeat(300)}`);
    await row(page, subject).click();
    await page.locator(".reader h1", { hasText: subject }).waitFor();
  }
  await page.keyboard.press("r");
  await page.locator(".writer .ProseMirror").waitFor();
  await page.keyboard.type("Thank you.");
  await page.keyboard.press("Control+Enter");
  await page.locator(".writer").waitFor({ state: "detached" });
  for (const folder of ["Sent", "Archive", "Inbox"]) {
    await page.click(`.side .folder[title=${folder}]`);
    await page.waitForFunction((f) => document.querySelector(".list h2")?.textContent === f, folder);
  }
}
