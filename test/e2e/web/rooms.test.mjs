// Rooms, links and feeds of calendars, and alerts. Each test has weeks of its own in 2028.

import assert from "node:assert/strict";
import { after, test } from "node:test";
import { make } from "./objects.mjs";
import { barriers, base, browser, open, signInAt } from "./world.mjs";

after(() => browser.close());

const event = (page, text) => page.locator(".calendar-view .event", { hasText: text }).first();
const toast = (page, text) => page.waitForSelector(`.toast:has-text("${text}")`);

/** Opens the editor at a time, and fills in the title. */
async function begin(page, title, from, to) {
  await page.keyboard.press("n");
  await page.waitForSelector(".event-form");
  const form = page.locator(".event-form");
  await form.getByLabel("Title").first().fill(title);
  await form.getByLabel("Start time").fill(from);
  await form.getByLabel("End time").fill(to);
}

async function save(page) {
  await page.click(".event-form button:has-text('Save')");
  await page.waitForSelector(".event-form", { state: "detached" });
}

test("a room is found by seats, equipment and site, booked, and declines when it is taken", async () => {
  const page = await open();
  await signInAt(page, "/calendar/week/2028-03-06", ".calendar-bar h1", "bob");
  await begin(page, "Room talk", "10:00", "11:00");
  await page.click("text=Book a room");
  const rooms = page.locator(".room-list li");
  await rooms.filter({ hasText: "Blue Room" }).waitFor();
  await page.getByLabel("Seats at least").fill("20");
  await rooms.filter({ hasText: "Blue Room" }).waitFor({ state: "detached" });
  await page.getByLabel("Seats at least").fill("");
  await rooms.filter({ hasText: "Blue Room" }).waitFor();
  await page.locator(".room-things").getByLabel("Stage").check();
  await rooms.filter({ hasText: "Blue Room" }).waitFor({ state: "detached" });
  await rooms.filter({ hasText: "Hall" }).waitFor();
  await page.locator(".room-things").getByLabel("Stage").uncheck();
  await page.getByLabel("Site").selectOption("Main house");
  await rooms.filter({ hasText: "Hall" }).waitFor({ state: "detached" });
  await rooms.filter({ hasText: "free at this time" }).waitFor();
  assert.deepEqual(await barriers(page), []);
  await page.click("button[aria-label='Book Blue Room']");
  assert.equal(await page.locator(".event-form").getByLabel("Place").inputValue(), "Blue Room");
  await page.waitForSelector(".free-row:has-text('Blue Room')");
  await save(page);
  await event(page, "Room talk").click();
  await page.waitForSelector(".guests li:has-text('Blue Room'):has-text('accepted')");
  await page.keyboard.press("Escape");
  await page.waitForSelector(".event-card", { state: "detached" });

  await begin(page, "Second talk", "10:30", "11:30");
  await page.click("text=Book a room");
  await rooms.filter({ hasText: "Blue Room" }).filter({ hasText: "taken at this time" }).waitFor();
  await page.click("button[aria-label='Book Blue Room']");
  await save(page);
  await toast(page, "Not booked: Blue Room");
  await event(page, "Second talk").click();
  await page.waitForSelector(".guests li:has-text('Blue Room'):has-text('declined')");
  assert.deepEqual(page.wrong, []);
});

const menuOf = (page, name) => page.click(`.shelf:has-text("${name}") button.tool`);

test("a link of a calendar is made, read by everybody, and revoked", async () => {
  const page = await open();
  await signInAt(page, "/calendar/week/2028-03-13", ".calendar-bar h1", "bob");
  await begin(page, "Published talk", "10:00", "11:00");
  await save(page);
  await menuOf(page, "Calendar");
  await page.click(".menu >> text=Link and feed");
  await page.getByLabel("Link with busy times only").first().check();
  await page.getByLabel("Link with all public events").first().check();
  const link = (name) => page.locator(".feed-kind", { hasText: name }).locator("input[readonly]");
  await link("all public").waitFor();
  await link("busy times").waitFor();
  assert.deepEqual(await barriers(page), []);
  const full = await link("all public").inputValue(), busy = await link("busy times").inputValue();
  assert.ok(full.startsWith(`${base}/feeds/`), full);
  const anybody = await fetch(full);
  assert.equal(anybody.status, 200);
  assert.match(await anybody.text(), /SUMMARY:Published talk/u);
  assert.equal((await fetch(full, { headers: { "If-None-Match": anybody.headers.get("ETag") } })).status, 304);
  const times = await (await fetch(busy)).text();
  assert.match(times, /SUMMARY:Busy/u);
  assert.doesNotMatch(times, /Published talk/u);
  await page.getByLabel("Link with all public events").first().uncheck();
  await link("all public").waitFor({ state: "detached" });
  assert.equal((await fetch(full)).status, 404);
  assert.equal((await fetch(busy)).status, 200);
  assert.deepEqual(page.wrong, []);
});

test("a feed that leads into a private network is refused with a word, one that fails says why", async () => {
  const page = await open();
  await signInAt(page, "/calendar/week/2028-03-20", ".calendar-bar h1", "bob");
  await page.click("button[aria-label='New calendar']");
  await page.click(".menu >> text=Subscribe to a feed");
  await page.fill("dialog input", "https://127.0.0.1/x.ics");
  await page.click("dialog button.primary");
  await page.waitForSelector("dialog [role=alert]:has-text('public Internet')");
  await page.fill("dialog input", "webcal://nowhere.invalid/x.ics");
  await page.click("dialog button.primary");
  await page.waitForSelector(".shelf:has-text('nowhere.invalid') .icon, .shelf:has-text('nowhere.invalid') svg");
  const sheet = async () => {
    await menuOf(page, "nowhere.invalid");
    await page.click(".menu >> text=Link and feed");
    await page.waitForSelector(".feed-source:has-text('https://nowhere.invalid/x.ics')");
  };
  await sheet();
  await page.waitForSelector(".feed-source [role=alert]:has-text('could not be read')", { timeout: 60_000 });
  await page.click("dialog >> text=Close");
  await menuOf(page, "nowhere.invalid");
  await page.click(".menu >> text=Delete calendar");
  await page.click("dialog button.danger");
  await page.waitForSelector(".shelf:has-text('nowhere.invalid')", { state: "detached" });
});

test("an alert of an event is shown on any page, once in a browser", async () => {
  // Before a page is there: each reads it when it opens, and stays while it may ring.
  const start = new Date(Date.now() + 3_600_000 + 12_000).toISOString().slice(0, 19);
  const alerts = { a: { "@type": "Alert", trigger: { "@type": "OffsetTrigger", offset: "-PT1H" }, action: "display" } };
  await make("carol", { title: "Alerted talk", start, alerts });
  const looks = (p) => p.waitForFunction(() => performance.getEntriesByType("resource").some((e) => /\/alarms-/.test(e.name))); // seconds after somebody has signed in
  const page = await open();
  await signInAt(page, "/contacts/all", ".contact-rows", "carol");
  const mail = await page.context().newPage();
  await mail.goto(`${base}/mail/inbox`);
  await Promise.all([looks(page), looks(mail)]);
  const rings = (p) => p.locator(".toast", { hasText: "Alerted talk" });
  await Promise.race([rings(mail).waitFor({ timeout: 40_000 }), rings(page).waitFor({ timeout: 40_000 })]);
  await page.waitForTimeout(1000);
  assert.equal((await rings(mail).count()) + (await rings(page).count()), 1);
});
