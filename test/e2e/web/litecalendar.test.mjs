// The calendar and the contacts of the lite mode in a Chromium that runs no script.

import assert from "node:assert/strict";
import { after, test } from "node:test";
import { barriers, base, browser, deliver, open, sameDay } from "./world.mjs";

after(() => browser.close());

async function enter(user) {
  const page = await open({ scripts: false });
  await page.goto(`${base}/lite/`);
  await page.fill("input[name=user]", user);
  await page.fill("input[name=password]", "demo");
  await page.click("form.card button.primary");
  await page.waitForSelector("nav[id=folders]");
  return page;
}

const said = (page, text) => page.locator(".said", { hasText: text }).waitFor();
const inDays = (n) => new Date(Date.now() + n * 86_400_000).toISOString().slice(0, 10);

test("an event is added, changed for one day, answered by a guest, and deleted", async () => {
  await sameDay();
  const bob = await enter("bob");
  const day = inDays(3), next = inDays(4);
  await bob.goto(`${base}/lite/calendar?day=${day}`);
  await bob.click("text=New event");
  await bob.fill("#title", "Lite plans");
  await bob.fill("input[name=from]", "10:00");
  await bob.fill("input[name=to]", "11:30");
  await bob.selectOption("#repeat", "daily");
  await bob.fill("#until", inDays(6));
  await bob.fill("#place", "Lite room");
  await bob.fill("#people", "carol@example.com");
  await bob.click("button[value=save]");
  await said(bob, "Event saved");
  await bob.goto(`${base}/lite/calendar?view=day&day=${next}`);
  await bob.click(".day li a:has-text('Lite plans')");
  await bob.click("text=Edit this event");
  await bob.fill("#title", "Lite plans, later");
  await bob.fill("input[name=from]", "12:00");
  await bob.fill("input[name=to]", "12:30");
  await bob.click("button[value=save]");
  await bob.goto(`${base}/lite/calendar?view=day&day=${next}`);
  await bob.waitForSelector("text=12:00–12:30");

  const carol = await enter("carol");
  await carol.click("nav a:has-text('Calendar')");
  const waiting = carol.locator(".notice li", { hasText: "Lite plans" });
  await waiting.locator("button[value=accepted]").click();
  await said(carol, "Your answer is sent");
  assert.equal(await waiting.count(), 0);
  await bob.goto(`${base}/lite/calendar?view=day&day=${day}`);
  await bob.click(".day li a:has-text('Lite plans')");
  await bob.waitForSelector(".thread li:has-text('carol'):has-text('accepted')");
  assert.deepEqual(await barriers(await enterWithScripts(bob.url(), "bob")), []);

  await bob.click("text=Delete");
  await bob.click("button[value=deleteAll]");
  await said(bob, "Event deleted");
  await carol.goto(`${base}/lite/calendar?view=day&day=${day}`);
  await carol.waitForSelector(".off:has-text('cancelled')");
  assert.deepEqual([...bob.wrong, ...carol.wrong, ...bob.foreign], []);
});

/** The page of an address in a browser that may run the script that looks for barriers: the pages have none of their own. */
async function enterWithScripts(address, user) {
  const page = await open();
  await page.goto(`${base}/lite/`);
  await page.fill("input[name=user]", user);
  await page.fill("input[name=password]", "demo");
  await page.click("form.card button.primary");
  await page.waitForSelector("nav[id=folders]");
  await page.goto(address);
  return page;
}

test("an invitation in mail is answered where it is read", async () => {
  await sameDay();
  const day = inDays(5).replaceAll("-", "");
  await deliver("eve@far.example", "bob@example.com", `From: Eve <eve@far.example>\nTo: bob@example.com\nSubject: Far invitation\nMessage-ID: <lite.far@far.example>\nDate: Sat, 21 Nov 2026 10:00:00 +0000\nMIME-Version: 1.0\nContent-Type: text/calendar; method=REQUEST; charset=utf-8\n\nBEGIN:VCALENDAR\nVERSION:2.0\nPRODID:-//far\nMETHOD:REQUEST\nBEGIN:VEVENT\nUID:lite.far\nDTSTAMP:20260101T000000Z\nDTSTART:${day}T100000Z\nDTEND:${day}T110000Z\nSUMMARY:Far meeting\nORGANIZER;CN=Eve:mailto:eve@far.example\nATTENDEE;PARTSTAT=NEEDS-ACTION;RSVP=TRUE:mailto:bob@example.com\nEND:VEVENT\nEND:VCALENDAR\n`);
  const bob = await enter("bob");
  await bob.locator(".rows li", { hasText: "Far invitation" }).first().locator("a").click();
  await bob.waitForSelector(".invitation h2:has-text('Far meeting')");
  await bob.click(".invitation button[value=accepted]");
  await said(bob, "Your answer is sent");
  await bob.click(".invitation a:has-text('Open in the calendar')");
  await bob.waitForSelector("text=You accepted.");
  await bob.goto(`${base}/lite/calendar?view=day&day=${inDays(5)}`);
  await bob.waitForSelector("text=Far meeting");
});

test("a contact is written, found, changed and deleted", async () => {
  const bob = await enter("bob");
  await bob.click("nav a:has-text('Contacts')");
  await bob.click("text=New contact");
  await bob.fill("#given", "Lite");
  await bob.fill("#surname", "Person");
  await bob.fill("#email0", "lite.person@far.example");
  await bob.selectOption("select[name=emailkind] >> nth=0", "work");
  await bob.fill("#birthday", "1990-02-28");
  await bob.click("button[value=save]");
  await said(bob, "Saved");
  await bob.fill("input[name=words]", "lite.person");
  await bob.click("form[action='/lite/contacts'] button");
  await bob.click("text=Lite Person");
  await bob.waitForSelector("text=Mail (Work)");
  assert.deepEqual(await barriers(await enterWithScripts(bob.url(), "bob")), []);
  await bob.click("a:has-text('Edit')");
  await bob.fill("#phone0", "+49 30 1");
  await bob.click("button[value=save]");
  await bob.click("text=Lite Person");
  await bob.waitForSelector("text=+49 30 1");
  await bob.click("text=Delete");
  await bob.click("button[value=delete]");
  await said(bob, "Contact deleted");
  for (const path of ["calendar", "calendar?view=month", "event?edit=new", "contact?edit=new", "contacts"]) {
    assert.deepEqual(await barriers(await enterWithScripts(`${base}/lite/${path}`, "bob")), [], path);
  }
  assert.deepEqual([...bob.wrong, ...bob.foreign], []);
});
