// Mail and the calendar: what else is at the time of an invitation, and the invitations that wait there.

import assert from "node:assert/strict";
import { after, test } from "node:test";
import { barriers, browser, counts, deliver, open, row, signIn, signInAt } from "./world.mjs";

after(() => browser.close());

/** A day that no other test has events on, n days later. */
const dayAt = (n) => new Date(Date.UTC(2027, 2, 10 + n)).toISOString().slice(0, 10);

const mail = (subject, day, from, to, uid, more = "") => `From: Mallory <mallory@elsewhere.example>
To: bob@example.com
Subject: ${subject}
Message-ID: <${uid}@elsewhere.example>
Date: Sat, 21 Nov 2026 10:00:00 +0000
MIME-Version: 1.0
Content-Type: text/calendar; charset=utf-8; method=REQUEST

BEGIN:VCALENDAR
METHOD:REQUEST
BEGIN:VEVENT
UID:${uid}
DTSTAMP:20261120T080000Z
DTSTART:${day.replaceAll("-", "")}T${from}Z
DTEND:${day.replaceAll("-", "")}T${to}Z
SUMMARY:${subject}
ORGANIZER;CN=Mallory:mailto:mallory@elsewhere.example
ATTENDEE;PARTSTAT=NEEDS-ACTION;RSVP=TRUE:mailto:bob@example.com
${more}END:VEVENT
END:VCALENDAR
`;

/** Makes events in the calendar of the person who is signed in; of others in the names of guests. */
const make = (page, events) => page.evaluate(async (events) => {
  const { csrf } = await (await fetch("/auth/session", { headers: { Accept: "application/json" } })).json();
  const session = await (await fetch("/jmap/session")).json();
  const accountId = session.primaryAccounts["urn:ietf:params:jmap:mail"];
  const call = async (...methodCalls) => (await (await fetch(session.apiUrl, { method: "POST", headers: { "Content-Type": "application/json", "X-CSRF-Token": csrf }, body: JSON.stringify({ using: Object.keys(session.capabilities), methodCalls }) })).json()).methodResponses;
  const calendar = (await call(["Calendar/get", { accountId, ids: null }, "c"]))[0][1].list.find((c) => c.isDefault).id;
  const create = Object.fromEntries(events.map((e, i) => [`e${i}`, { "@type": "Event", calendarIds: { [calendar]: true }, timeZone: "Etc/UTC", ...e }]));
  const [[, made]] = await call(["CalendarEvent/set", { accountId, create, sendSchedulingMessages: true }, "s"]);
  if (made.notCreated) throw new Error(JSON.stringify(made.notCreated));
}, events);

test("an invitation shows what else is at its time, and what does not take that time is not in the way", async () => {
  const page = await open();
  await signIn(page, "bob");
  await make(page, [
    { title: "Chess club", start: `${dayAt(0)}T09:30:00`, duration: "PT1H" },
    { title: "Ends before", start: `${dayAt(0)}T08:00:00`, duration: "PT1H" },
    { title: "A birthday", start: `${dayAt(0)}T09:00:00`, duration: "PT1H", freeBusyStatus: "free" },
    { title: "Every day", start: `${dayAt(-2)}T10:15:00`, duration: "PT15M", recurrenceRules: [{ "@type": "RecurrenceRule", frequency: "daily", count: 4 }] },
  ]);
  await deliver("mallory@elsewhere.example", "bob@example.com", mail("Clash", dayAt(0), "090000", "103000", "clash"));
  await row(page, "Clash").click();
  const card = page.locator(".invitation");
  await card.locator(".conflicts").waitFor();
  assert.deepEqual(await card.locator(".conflicts li a").allInnerTexts(), ["Chess club", "Every day"]);
  assert.match(await card.locator(".conflicts p").innerText(), /In your calendar at this time:/u);
  assert.deepEqual(await barriers(page), []);

  await deliver("mallory@elsewhere.example", "bob@example.com", mail("Room to breathe", dayAt(0), "120000", "130000", "noclash"));
  await row(page, "Room to breathe").click();
  await page.waitForSelector(".reader h1:has-text('Room to breathe')");
  await card.locator("text=Your calendar is free at this time.").waitFor();
  assert.equal(await card.locator(".conflicts").count(), 0);

  // One that was accepted is no conflict of its own.
  await page.addInitScript(() => localStorage.setItem("doublet:preferences", JSON.stringify({ undoSeconds: 0 })));
  await page.reload();
  await page.waitForSelector(".reader h1:has-text('Room to breathe')");
  const recorded = page.waitForResponse((r) => (r.request().postData() ?? "").includes("CalendarEvent/set"));
  await card.locator("button:has-text('Accept')").click();
  await recorded;
  await page.reload();
  await card.locator("text=Your calendar is free at this time.").waitFor();

  await row(page, "Clash").click();
  await page.waitForSelector(".reader h1:text-is('Clash')");
  await card.locator(".conflicts a:has-text('Chess club')").click();
  await page.waitForURL(new RegExp(`/calendar/day/${dayAt(0)}`, "u"));
  await page.waitForSelector(".event-card:has-text('Chess club')");
  assert.deepEqual(page.wrong, []);
});

test("what is over, or somebody else's to answer, says nothing of the calendar", async () => {
  await deliver("mallory@elsewhere.example", "bob@example.com", mail("Long ago", "2020-01-06", "090000", "100000", "ago"));
  await deliver("mallory@elsewhere.example", "bob@example.com", mail("Not asked", dayAt(0), "090000", "103000", "notasked").replace("mailto:bob@example.com", "mailto:carol@example.com"));
  const page = await open();
  await signIn(page, "bob");
  for (const subject of ["Long ago", "Not asked"]) {
    await row(page, subject).click();
    await page.waitForSelector(`.reader h1:has-text('${subject}')`);
    await page.locator(".invitation h2").waitFor();
    await page.waitForTimeout(300);
    assert.equal(await page.locator(".invitation .conflicts, .invitation .free-then").count(), 0, subject);
  }
  assert.deepEqual(page.wrong, []);
});

test("the mail page tells of invitations that wait in the calendar, and leads to them", async () => {
  const page = await open();
  const asks = (r) => (r.request().postData() ?? "").includes('"participationStatus"');
  const first = page.waitForResponse(asks, { timeout: 40_000 }); // after somebody has signed in
  await signIn(page, "carol");
  const alice = await open();
  await signIn(alice, "alice");
  const waiting = async (answer) => (await (await answer).json()).methodResponses[1][1].list;
  const before = (await waiting(first)).length;
  const guest = (name, address, owner) => ({ "@type": "Participant", name, sendTo: { imip: `mailto:${address}` }, roles: owner ? { owner: true, attendee: true } : { attendee: true }, participationStatus: owner ? "accepted" : "needs-action", expectReply: !owner });
  const soon = new Date(Date.now() + 40 * 60_000).toISOString().slice(0, 17) + "00";
  await make(alice, [{ title: "Croquet", start: soon, duration: "PT1H", replyTo: { imip: "mailto:alice@example.com" }, participants: { a: guest("Alice", "alice@example.com", true), c: guest("Carol", "carol@example.com") } }]);
  // One who comes back to the page is told, at most once a minute.
  await page.evaluate(() => { const now = Date.now; Date.now = () => now() + 61_000; });
  await page.evaluate(() => dispatchEvent(new Event("focus")));
  await page.waitForFunction((n) => Number(document.querySelector(".invited .count")?.textContent) === n, before + 1);
  assert.equal(await page.locator(".switch a[href='/calendar/'] .count").innerText(), String(before + 1));
  let asked = 0;
  page.on("request", (r) => { const body = r.postData() ?? "";
    if (body.includes("CalendarEvent/query") && !body.includes("defaultAlertsWithTime")) asked++; // alerts are asked for by themselves
  });
  for (let i = 0; i < 5; i++) await page.evaluate(() => dispatchEvent(new Event("focus")));
  await page.waitForTimeout(200);
  assert.equal(asked, 0);
  for (const width of [1024, 390]) {
    await page.setViewportSize({ width, height: 844 });
    await page.waitForFunction((w) => matchMedia("(max-width: 760px)").matches === w < 760, width);
    await page.locator(".switch .count").waitFor();
    assert.deepEqual(await barriers(page), []);
  }
  await page.setViewportSize({ width: 1440, height: 900 });
  await page.click("a.invited");
  await page.waitForSelector(".event-card:has-text('Croquet')");
  const told = page.waitForResponse((r) => (r.request().postData() ?? "").includes("CalendarEvent/set"));
  await page.locator(".event-card .answer button:has-text('Accept')").click();
  await page.locator(".event-card .answer [aria-pressed=true]:has-text('Accept')").waitFor();
  await told;

  // It waits no more.
  const other = await open({ dark: true });
  const read = other.waitForResponse(asks, { timeout: 40_000 });
  await signInAt(other, "/mail/inbox", ".row .subject", "carol");
  assert.equal((await waiting(read)).length, before);
  await counts(other.locator(".invited, .switch .count"), before === 0 ? 0 : 2);
  assert.deepEqual([...alice.wrong, ...page.wrong, ...other.wrong], []);
});
