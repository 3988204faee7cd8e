// Invitations in mail: shown with their time, answered, and the answers of others.

import assert from "node:assert/strict";
import { after, test } from "node:test";
import { browser, deliver, open, row, signIn, signInAt } from "./world.mjs";

after(() => browser.close());

const event = (uid, method, more = "") => `BEGIN:VCALENDAR
METHOD:${method}
BEGIN:VTIMEZONE
TZID:Ours
X-LIC-LOCATION:Asia/Tokyo
END:VTIMEZONE
BEGIN:VEVENT
UID:${uid}
SEQUENCE:3
DTSTAMP:20261120T080000Z
DTSTART;TZID=Ours:20261225T100000
DTEND;TZID=Ours:20261225T113000
RRULE:FREQ=WEEKLY;INTERVAL=2;COUNT=5
SUMMARY:Tee für alle\\; ${uid}
LOCATION:Blue room
X-GOOGLE-CONFERENCE:https://meet.example/abc
ORGANIZER;CN=Alice Liddell:mailto:alice@example.com
ATTENDEE;CN="Cratchit, Bob";PARTSTAT=NEEDS-ACTION;RSVP=TRUE:mailto:bob@example.com
ATTENDEE;CN=Mad Hatter;PARTSTAT=DECLINED:mailto:hatter@example.com
${more}END:VEVENT
END:VCALENDAR
`;

const mail = (subject, calendar, method) => `From: Mallory <mallory@elsewhere.example>
To: bob@example.com
Subject: ${subject}
Message-ID: <${subject.replace(/\W/gu, "")}@elsewhere.example>
Date: Sat, 21 Nov 2026 10:00:00 +0000
MIME-Version: 1.0
Content-Type: multipart/alternative; boundary=b

--b
Content-Type: text/plain

Come!
--b
Content-Type: text/calendar; charset=utf-8; method=${method}
Content-Transfer-Encoding: base64

${Buffer.from(calendar).toString("base64").replace(/.{76}/gu, "$&\n")}
--b--
`;

const send = (...of) => deliver("mallory@elsewhere.example", "bob@example.com", mail(...of));
const noUndo = (page) => page.addInitScript(() => localStorage.setItem("doublet:preferences", JSON.stringify({ undoSeconds: 0 })));

test("an invitation shows its event, and is answered; who invited sees the answer", async () => {
  await send("Invitation one", event("one", "REQUEST"), "REQUEST");
  const page = await open();
  await noUndo(page);
  await signIn(page, "bob");
  await row(page, "Invitation one").click();
  const card = page.locator(".invitation");
  await card.locator("h2:has-text('Tee für alle; one')").waitFor();
  const text = await card.innerText();
  const [zone, here] = await page.evaluate(() => {
    const f = (o) => new Intl.DateTimeFormat("en", o).format(new Date("2026-12-25T01:00:00Z"));
    return [Intl.DateTimeFormat().resolvedOptions().timeZone, f({ weekday: "long", day: "numeric", month: "long", year: "numeric" })];
  });
  for (const words of ["Alice Liddell invites you.", here, "Blue room", "Every 2 weeks, 5 times", "Meet online", "meet.example", "Guests: 2"]) assert.ok(text.includes(words), `${words} in ${text}`);
  await card.locator(".said:has-text('This message came from mallory@elsewhere.example, not from alice@example.com.')").waitFor();
  if (zone !== "Asia/Tokyo") assert.ok(text.includes("in Tokyo"), text);
  await card.locator("summary").click();
  await card.locator("li:has-text('Mad Hatter') >> text=declined").waitFor();
  const told = ["keywords/$accepted", "CalendarEvent/set"].map((text) => page.waitForResponse((r) => (r.request().postData() ?? "").includes(text)));
  await card.locator("button:has-text('Accept')").click();
  await card.locator("[role=status]:has-text('You accepted.')").waitFor();
  await Promise.all(told);

  // The event is in the calendar, with the answer.
  const diary = await open();
  await signInAt(diary, "/calendar/agenda/2026-12-24", ".agenda", "bob");
  await diary.locator(".calendar-view .event", { hasText: "Tee für alle; one" }).first().click();
  await diary.locator(".event-card .answer [aria-pressed=true]:has-text('Accept')").waitFor();

  // The answer is kept with the message, on every device.
  const other = await open();
  await signIn(other, "bob");
  await row(other, "Invitation one").click();
  await other.locator(".invitation [role=status]:has-text('You accepted.')").waitFor();

  const alice = await open();
  await signIn(alice, "alice");
  await row(alice, "Accepted: Tee für alle; one").click();
  await alice.locator(".invitation p:has-text('Bob Cratchit: accepted')").waitFor();
  assert.equal(await alice.locator(".invitation button, .invitation .said").count(), 0);
  await alice.locator(".reader .body:has-text('Bob Cratchit accepted the invitation.')").waitFor();
  const answer = await alice.locator(".files a.file").first().evaluate(async (file) => (await fetch(file.href)).text());
  for (const line of ["METHOD:REPLY", "UID:one", "SEQUENCE:3", "ORGANIZER:mailto:alice@example.com", 'ATTENDEE;PARTSTAT=ACCEPTED;CN="Bob Cratchit":mailto:bob@example.com', "DTSTART:20261225T010000Z", "SUMMARY:Tee für alle\\; one"]) {
    assert.ok(answer.split("\r\n").includes(line), `${line} in ${answer}`);
  }

  // Another answer takes the place of the first.
  await card.locator("button:has-text('Decline')").click();
  await card.locator("[role=status]:has-text('You declined.')").waitFor();
  await row(alice, "Declined: Tee für alle; one").waitFor();
  await diary.locator(".event-card .guests li:has-text('Bob'):has-text('declined')").waitFor();
  assert.deepEqual([...page.wrong, ...other.wrong, ...alice.wrong], []);
});

test("the answer for one instance of a series is not that for the series", async () => {
  const series = event("many", "REQUEST");
  await send("Invitation many", series, "REQUEST");
  await send("Invitation second", series.replace(/RRULE.*\n/u, "RECURRENCE-ID;TZID=Ours:20270108T100000\n").replaceAll("20261225T", "20270108T"), "REQUEST");
  const page = await open();
  await noUndo(page);
  await signIn(page, "bob");
  for (const [subject, word] of [["Invitation many", "Accept"], ["Invitation second", "Decline"]]) {
    await row(page, subject).click();
    await page.waitForSelector(`.reader h1:has-text('${subject}')`);
    const recorded = page.waitForResponse((r) => (r.request().postData() ?? "").includes("CalendarEvent/set"));
    await page.locator(`.invitation button:has-text('${word}')`).click();
    await recorded;
  }
  const diary = await open();
  await signInAt(diary, "/calendar/agenda/2026-12-24", ".agenda", "bob");
  for (const [nth, word] of [[0, "Accept"], [1, "Decline"], [2, "Accept"]]) {
    await diary.locator(".calendar-view .event", { hasText: "Tee für alle; many" }).nth(nth).click();
    await diary.locator(`.event-card .answer [aria-pressed=true]:has-text('${word}')`).waitFor();
    await diary.keyboard.press("Escape");
    await diary.waitForSelector(".event-card", { state: "detached" });
  }
  assert.deepEqual([...page.wrong, ...diary.wrong], []);
});

test("nothing that a stranger wrote makes a line of an answer, nor a field of its message", async () => {
  const odd = `BEGIN:VCALENDAR
METHOD:REQUEST
BEGIN:VEVENT
UID:odd\\nATTENDEE\\;PARTSTAT=DECLINED:mailto:hatter@example.com
SUMMARY:Odd\\nX-MINE:1\rX-MINE:2
DTSTART:20261225T100000Z
ORGANIZER;CN="Alice Liddell^nBcc: hatter@example.com":mailto:alice@example.com
ATTENDEE:mailto:bob@example.com
END:VEVENT
END:VCALENDAR
`;
  await send("Invitation odd", odd, "REQUEST");
  await send("Invitation worse", odd.replace("mailto:alice@example.com", "mailto:alice@example.com\rBcc: hatter@example.com"), "REQUEST");
  const page = await open();
  await noUndo(page);
  await signIn(page, "bob");
  await row(page, "Invitation odd").click();
  await page.locator(".invitation button:has-text('Accept')").waitFor(); // it is known whose the mail is
  await row(page, "Invitation worse").click();
  await page.waitForSelector(".reader h1:has-text('Invitation worse')");
  await page.locator(".invitation h2").waitFor();
  assert.equal(await page.locator(".invitation button").count(), 0);
  await row(page, "Invitation odd").click();
  const uploaded = page.waitForRequest((r) => (r.postData() ?? "").includes('"Blob/upload"'));
  await page.waitForSelector(".reader h1:has-text('Invitation odd')");
  await page.locator(".invitation button:has-text('Accept')").click();
  const message = JSON.parse((await uploaded).postData()).methodCalls[0][1].create.b.data[0]["data:asText"];
  const [head, ...parts] = message.split(/--doublet-\S+\r\n/u);
  assert.ok(!/^(?:Bcc|X-MINE)/imu.test(head.replaceAll("\r", "\n")), head);
  const calendar = Buffer.from(parts[1].split("\r\n\r\n")[1], "base64").toString();
  const names = calendar.replaceAll("\r\n ", "").split(/[\r\n]+/u).map((l) => l.split(/[:;]/u)[0]);
  assert.deepEqual(names, ["BEGIN", "PRODID", "VERSION", "METHOD", "BEGIN", "UID", "SEQUENCE", "DTSTAMP", "ORGANIZER", "ATTENDEE", "DTSTART", "SUMMARY", "END", "END", ""]);
  assert.deepEqual(page.wrong, []);
});

test("an answer can be taken back while it waits", async () => {
  await send("Invitation two", event("two", "REQUEST"), "REQUEST");
  const page = await open();
  await signIn(page, "bob");
  await row(page, "Invitation two").click();
  const card = page.locator(".invitation");
  await card.locator("button:has-text('Maybe')").click();
  await card.locator("[role=status]:has-text('may come')").waitFor();
  await page.click(".toast button:has-text('Undo')");
  await page.waitForSelector(".toast:has-text('taken back')");
  await card.locator("button:has-text('Accept')").waitFor();
  assert.equal(await card.locator("[role=status]").count(), 0);
  assert.deepEqual(page.wrong, []);
});

test("a cancellation says so and asks for no answer; a file that is no event is a file", async () => {
  await send("Invitation off", event("off", "CANCEL", "STATUS:CANCELLED\n"), "CANCEL");
  await send("No event", "BEGIN:VCALENDAR\nBEGIN:VEVENT\n", "REQUEST");
  await send("Odd event", "BEGIN:VCALENDAR\nMETHOD:REQUEST\nBEGIN:VEVENT\nSUMMARY:<b>x</b>\nDTSTART:99999999T999999\nRRULE:FREQ=SECONDLY\nX-GOOGLE-CONFERENCE:javascript:alert(1)\nORGANIZER:javascript:alert(1)\nATTENDEE:bob@example.com\nEND:VEVENT\nEND:VCALENDAR\n", "REQUEST");
  await send("Far event", "BEGIN:VCALENDAR\nBEGIN:VEVENT\nSUMMARY:Far\nDTSTART;TZID=America/Los_Angeles:99991231T235959\nRRULE:FREQ=DAILY;UNTIL=00000101T000000Z\nX-GOOGLE-CONFERENCE:https://[\nEND:VEVENT\nEND:VCALENDAR\n", "PUBLISH");
  const page = await open();
  await signIn(page, "bob");
  await row(page, "Far event").click();
  await page.locator(".invitation h2:text-is('Far')").waitFor();
  assert.equal(await page.locator(".invitation a").count(), 0);
  await row(page, "Invitation off").click();
  await page.locator(".invitation p:has-text('Alice Liddell cancelled this event.')").waitFor();
  assert.equal(await page.locator(".invitation button").count(), 0);
  const parsed = page.waitForResponse((r) => (r.request().postData() ?? "").includes("CalendarEvent/parse"));
  await row(page, "No event").click();
  await page.waitForSelector(".reader h1:has-text('No event')");
  await page.waitForSelector(".reader .files .file");
  await parsed;
  assert.equal(await page.locator(".invitation").count(), 0);
  await row(page, "Odd event").click();
  await page.locator(".invitation h2:text-is('<b>x</b>')").waitFor();
  assert.equal(await page.locator(".invitation a, .invitation button").count(), 0);
  assert.deepEqual(page.wrong, []);
});

test("an answer that the server refuses is not shown as given", async () => {
  await send("Invitation refused", event("refused", "REQUEST"), "REQUEST");
  const page = await open();
  await noUndo(page);
  await signIn(page, "bob");
  await row(page, "Invitation refused").click();
  await page.route("**/jmap/**", async (route) => {
    const body = route.request().postData() ?? "";
    if (!body.includes('"EmailSubmission/set"')) return route.continue();
    const calls = JSON.parse(body).methodCalls;
    const answers = calls.map(([name, args, id]) => [name, { accountId: args.accountId, ...(name === "EmailSubmission/set" ? { notCreated: { s: { type: "forbiddenToSend", description: "Not today." } } } : {}) }, id]);
    return route.fulfill({ json: { methodResponses: answers, sessionState: "x" } });
  });
  await page.locator(".invitation button:has-text('Accept')").click();
  await page.waitForSelector(".toast:has-text('Not today.')");
  await page.locator(".invitation button:has-text('Accept')").waitFor();
  assert.equal(await page.locator(".invitation [role=status]").count(), 0);
  assert.deepEqual(page.wrong, []);
});
