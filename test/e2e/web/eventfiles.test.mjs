// Attachments of events: added by the chooser and by drop, seen by those who are invited, removed. The days are in May 2029.

import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { after, test } from "node:test";
import { barriers, browser, deliver, open, row, signIn, signInAt } from "./world.mjs";

after(() => browser.close());

const event = (page, text) => page.locator(".calendar-view .event", { hasText: text }).first();
const form = (page) => page.locator(".event-form");

async function begin(page, title, day, people = "") {
  await page.keyboard.press("n");
  await page.waitForSelector(".event-form");
  await form(page).getByLabel(/^Title/u).first().fill(title);
  for (const [label, value] of [["Starts", day], ["Start time", "10:00"], ["Ends", day], ["End time", "11:00"]]) await form(page).getByLabel(new RegExp(`^${label}`, "u")).first().fill(value);
  if (people) await form(page).getByLabel(/^People/u).first().fill(`${people},`);
}

async function save(page) {
  await page.click(".event-form button.primary");
  await page.waitForSelector(".event-form", { state: "detached" });
}

/** Drops files on the editor. */
const drop = (page, files) => form(page).evaluate((target, files) => {
  const data = new DataTransfer();
  for (const [name, type, text] of files) data.items.add(new File([text], name, { type }));
  for (const kind of ["dragover", "drop"]) target.dispatchEvent(new DragEvent(kind, { bubbles: true, cancelable: true, dataTransfer: data }));
}, files);

/** Saves what a link leads to. */
async function saved(page, link) {
  const [download] = await Promise.all([page.waitForEvent("download"), link.click()]);
  return { name: download.suggestedFilename(), text: readFileSync(await download.path(), "utf8") };
}

const names = (page, where) => page.locator(`${where} .file .name`).allInnerTexts();

test("attachments are added by the chooser and by drop, seen by those invited, and removed", async () => {
  const page = await open();
  await signInAt(page, "/calendar/week/2029-05-09", ".grid-body");
  await begin(page, "Talk with slides", "2029-05-09", "bob@example.com");
  await page.setInputFiles(".event-form input[type=file]", { name: "Plan – 你好.txt", mimeType: "text/plain", buffer: Buffer.from("the plan") });
  await form(page).locator("a.file", { hasText: "Plan – 你好.txt" }).waitFor();
  await drop(page, [["slides.pdf", "application/pdf", "%PDF-1.4"], ["page.html", "text/html", "<script>document.title = 'run'</script>"]]);
  await form(page).locator("a.file", { hasText: "page.html" }).waitFor();
  assert.deepEqual(await barriers(page), []);
  await save(page);

  await event(page, "Talk with slides").click();
  await page.locator(".event-card .file", { hasText: "page.html" }).waitFor();
  assert.deepEqual((await names(page, ".event-card")).sort(), ["Plan – 你好.txt", "page.html", "slides.pdf"]);
  assert.match(await page.locator(".event-card .file", { hasText: "Plan" }).innerText(), /8 B/u);
  assert.deepEqual(await saved(page, page.locator(".event-card a.file", { hasText: "Plan" })), { name: "Plan – 你好.txt", text: "the plan" });
  const shown = page.locator(".event-card a[aria-label='Preview slides.pdf']");
  assert.match(await shown.getAttribute("href"), /&preview=1$/u);
  // A page that somebody attached is saved, and never runs as one of this server.
  const answer = await page.evaluate(async (url) => {
    const r = await fetch(url);
    return [r.headers.get("Content-Disposition"), r.headers.get("Content-Security-Policy")];
  }, await page.locator(".event-card a.file", { hasText: "page.html" }).getAttribute("href"));
  assert.match(answer[0], /^attachment/u);
  assert.match(answer[1], /^sandbox/u);

  // Bob has them in the event of his own, and changes none.
  const bob = await open();
  await signInAt(bob, "/calendar/week/2029-05-09", ".grid-body", "bob");
  await event(bob, "Talk with slides").click();
  await bob.locator(".event-card .file", { hasText: "slides.pdf" }).waitFor();
  assert.deepEqual(await saved(bob, bob.locator(".event-card a.file", { hasText: "Plan" })), { name: "Plan – 你好.txt", text: "the plan" });
  await bob.click(".event-card button[aria-label='Edit']");
  await bob.locator(".event-form a.file", { hasText: "slides.pdf" }).waitFor();
  assert.equal(await bob.locator(".event-form input[type=file]").count(), 0);
  assert.equal(await bob.locator(".event-form button[aria-label^='Remove']").count(), 0);
  assert.deepEqual(bob.wrong, []);
  await bob.context().close();

  await page.click(".event-card button[aria-label='Edit']");
  await form(page).locator("button[aria-label='Remove page.html']").click();
  await save(page);
  await event(page, "Talk with slides").click();
  await page.locator(".event-card .file", { hasText: "slides.pdf" }).waitFor();
  assert.deepEqual((await names(page, ".event-card")).sort(), ["Plan – 你好.txt", "slides.pdf"]);
  assert.deepEqual(page.wrong, []);
});

test("a file that is too large is refused with a word, a refusal of the server too; nothing is lost", async () => {
  const page = await open({ worker: false });
  await signInAt(page, "/calendar/week/2029-05-16", ".grid-body");
  await begin(page, "Large", "2029-05-16");
  // Made in the page: on its way there it would take many seconds.
  await page.locator(".event-form input[type=file]").evaluate((input) => {
    const data = new DataTransfer();
    data.items.add(new File([new Uint8Array((10 << 20) + 1)], "big.bin"));
    input.files = data.files;
    input.dispatchEvent(new Event("change", { bubbles: true }));
  });
  await page.waitForSelector(".toast:has-text('“big.bin” is larger than 10')");
  await page.route("**/jmap/upload/**", (route) => route.fulfill({ status: 413, contentType: "application/problem+json", body: JSON.stringify({ type: "urn:ietf:params:jmap:error:limit", status: 413, detail: "The uploads are full." }) }));
  await page.setInputFiles(".event-form input[type=file]", { name: "a.txt", mimeType: "text/plain", buffer: Buffer.from("a") });
  await page.waitForSelector(".toast:has-text('The uploads are full.')");
  await page.unroute("**/jmap/upload/**");
  assert.equal(await form(page).locator(".file").count(), 0);
  await page.setInputFiles(".event-form input[type=file]", { name: "a.txt", mimeType: "text/plain", buffer: Buffer.from("a") });
  await form(page).locator("a.file", { hasText: "a.txt" }).waitFor();
  // The editor asks before it drops what was attached.
  await form(page).getByRole("button", { name: "Cancel" }).click();
  await page.waitForSelector(".event-form [role=alert] button.danger");
  await save(page);
  await event(page, "Large").click();
  await page.locator(".event-card .file", { hasText: "a.txt" }).waitFor();
  assert.deepEqual(page.wrong, []);
});

test("an invitation by mail lists its attachments", async () => {
  const page = await open();
  await signIn(page, "bob");
  await deliver("mallory@elsewhere.example", "bob@example.com", `From: Mallory <mallory@elsewhere.example>
To: bob@example.com
Subject: With files
Message-ID: <withfiles@elsewhere.example>
Date: Sat, 21 Nov 2026 10:00:00 +0000
MIME-Version: 1.0
Content-Type: text/calendar; charset=utf-8; method=REQUEST

BEGIN:VCALENDAR
METHOD:REQUEST
BEGIN:VEVENT
UID:withfiles
DTSTAMP:20261120T080000Z
DTSTART:20290523T080000Z
DTEND:20290523T090000Z
SUMMARY:With files
ORGANIZER;CN=Mallory:mailto:mallory@elsewhere.example
ATTENDEE;PARTSTAT=NEEDS-ACTION;RSVP=TRUE:mailto:bob@example.com
ATTACH;FMTTYPE=text/plain;FILENAME=agenda.txt;ENCODING=BASE64;VALUE=BINARY:dGhlIGFnZW5kYQ==
ATTACH;FMTTYPE=application/pdf;FILENAME=there.pdf:https://elsewhere.example/there.pdf
ATTACH;FILENAME=bad:javascript:alert(1)
END:VEVENT
END:VCALENDAR
`);
  await row(page, "With files").click();
  await page.locator(".invitation .file", { hasText: "agenda.txt" }).waitFor();
  assert.deepEqual(await names(page, ".invitation"), ["agenda.txt", "there.pdf"]);
  assert.match(await page.locator(".invitation .file", { hasText: "agenda.txt" }).innerText(), /10 B/u);
  assert.deepEqual(await saved(page, page.locator(".invitation a.file", { hasText: "agenda.txt" })), { name: "agenda.txt", text: "the agenda" });
  const there = page.locator(".invitation a.file", { hasText: "there.pdf" });
  assert.equal(await there.getAttribute("href"), "https://elsewhere.example/there.pdf");
  assert.equal(await there.getAttribute("rel"), "noopener noreferrer");
  assert.match(await there.innerText(), /there\.pdf\s+elsewhere\.example/u); // the name is a stranger's
  assert.deepEqual(page.foreign, []);
  assert.deepEqual(page.wrong, []);
});
