// The calendar. Each test has weeks of its own in 2027, so that none sees the events of another.

import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { after, test } from "node:test";
import { jmap } from "./objects.mjs";
import { barriers, base, becomes, boxOf, browser, controlled, counts, keptIn, open, sameDay, signInAt, until } from "./world.mjs";

after(() => browser.close());

const at = (page, path) => page.goto(`${base}/calendar/${path}`).then(() => page.waitForSelector(".calendar-bar h1"));
const event = (page, text) => page.locator(".calendar-view .event", { hasText: text }).first();
const path = (page) => new URL(page.url()).pathname;
const toast = (page, text) => page.waitForSelector(`.toast:has-text("${text}")`);
const undo = (page, text) => page.locator(".toast", { hasText: text }).locator("button").click();
/** What the server has of events between two days. */
const stored = (page, from, to) => page.evaluate(async ([after, before]) => {
  const session = await (await fetch("/jmap/session")).json();
  const cap = "urn:ietf:params:jmap:calendars";
  const accountId = session.primaryAccounts[cap];
  const auth = await (await fetch("/auth/session", { headers: { Accept: "application/json" } })).json();
  const calls = [["CalendarEvent/query", { accountId, filter: { after: `${after}T00:00:00`, before: `${before}T00:00:00` }, sort: [{ property: "start", isAscending: true }], expandRecurrences: true, timeZone: "UTC" }, "q"], ["CalendarEvent/get", { accountId, "#ids": { resultOf: "q", name: "CalendarEvent/query", path: "/ids" }, properties: ["title", "start", "duration", "timeZone", "utcStart", "showWithoutTime", "freeBusyStatus", "alerts", "description", "participants"] }, "g"]];
  const r = await fetch(session.apiUrl, { method: "POST", headers: { "Content-Type": "application/json", "X-CSRF-Token": auth.csrf }, body: JSON.stringify({ using: ["urn:ietf:params:jmap:core", cap], methodCalls: calls }) });
  return (await r.json()).methodResponses[1][1].list;
}, [from, to]);

/** Fills the editor in and saves. */
async function write(page, fields, then = "Save") {
  await page.waitForSelector(".event-form");
  for (const [label, value] of Object.entries(fields)) {
    // The name of a select has its choices in it.
    const field = page.locator(".event-form").getByLabel(new RegExp(`^${label}`, "u")).first();
    if ((await field.evaluate((e) => e.tagName)) === "SELECT") await field.selectOption(value);
    else await field.fill(value);
  }
  await page.click(`.event-form button:has-text("${then}")`);
  await page.waitForSelector(".event-form", { state: "detached" });
}

async function drag(page, from, to) {
  await page.mouse.move(...from);
  await page.mouse.down();
  await page.mouse.move(from[0] + 6, from[1] + 6, { steps: 2 });
  await page.mouse.move(...to, { steps: 6 });
  await page.mouse.up();
}

/** The point of a minute in the column of a day, scrolled into sight. */
async function pointAt(page, day, minutes) {
  const column = page.locator(`.grid-column[data-day="${day}"]`);
  await page.locator(".grid-scroll").evaluate((e) => e.scrollTo(0, 8 * 60));
  const box = await boxOf(column);
  return [box.x + box.width / 2, box.y + (box.height * minutes) / 1440 + 1];
}

test("the views have addresses, keys and history; the switch leads to mail and back", async () => {
  await sameDay();
  const page = await open();
  await signInAt(page, "/mail/inbox", ".row .subject");
  await page.click(".switch a:has-text('Calendar')");
  await page.waitForSelector(".calendar-bar h1");
  await page.waitForSelector(".switch a[aria-current=page]:has-text('Calendar')");
  await at(page, "week/2027-01-06");
  for (const [key, view] of [["d", "day"], ["x", "workweek"], ["m", "month"], ["a", "agenda"], ["w", "week"]]) {
    await page.keyboard.press(key);
    await page.waitForURL(`**/calendar/${view}/2027-01-06`);
  }
  await page.keyboard.press("j");
  await page.waitForURL("**/calendar/week/2027-01-13");
  await page.keyboard.press("ArrowRight");
  await page.waitForURL("**/calendar/week/2027-01-14");
  await page.goBack();
  await page.waitForURL("**/calendar/week/2027-01-06");
  await page.goBack();
  await page.waitForURL("**/calendar/agenda/2027-01-06");
  await page.goForward();
  await page.reload();
  await page.waitForSelector(".grid-column[data-day='2027-01-06']");
  await page.keyboard.press("?");
  await page.waitForSelector("dialog.sheet:has-text('Work week')");
  await page.keyboard.press("Escape");
  await page.waitForSelector("dialog.sheet", { state: "detached" });
  await page.keyboard.press("t");
  const today = await page.evaluate(() => new Date().toISOString().slice(0, 10));
  await page.waitForURL(`**/calendar/week/${today}`);
  await page.click(".switch a:has-text('Mail')");
  await page.waitForSelector(".row .subject");
  assert.deepEqual(page.wrong, []);
});

test("an event is made with n, opened, changed and deleted; deleting is undone; all that was written is kept", async () => {
  const page = await open();
  await signInAt(page, "/calendar/week/2027-02-03", ".grid-body");
  await page.keyboard.press("n");
  await write(page, { Title: "Budget review", Starts: "2027-02-03", "Start time": "10:00", "End time": "11:30", Place: "Blue room", Description: "Bring figures.", Alert: "30", "Link of the online meeting": "https://meet.example/x", "Show as": "free" });
  await event(page, "Budget review").click();
  const card = page.locator(".event-card");
  for (const words of ["Budget review", "Blue room", "Bring figures.", "Join online", "free"]) await card.getByText(words, { exact: false }).first().waitFor();
  assert.match(page.url(), /[?&]event=/u);
  const [e] = await stored(page, "2027-02-01", "2027-02-08");
  assert.equal(e.start, "2027-02-03T10:00:00");
  assert.equal(e.duration, "PT1H30M");
  assert.equal(e.freeBusyStatus, "free");
  assert.equal(Object.values(e.alerts)[0].trigger.offset, "-PT30M");
  await page.keyboard.press("e");
  await write(page, { Title: "Budget round", "Start time": "14:00" });
  await toast(page, "Saved.");
  await event(page, "Budget round").waitFor();
  const [changed] = await stored(page, "2027-02-01", "2027-02-08");
  assert.equal(changed.start, "2027-02-03T14:00:00");
  assert.equal(changed.duration, "PT1H30M", "the end keeps its distance");
  assert.equal(changed.description, "Bring figures.");
  await undo(page, "Saved.");
  await event(page, "Budget review").waitFor();

  await event(page, "Budget review").focus();
  await page.keyboard.press("Delete");
  await event(page, "Budget review").waitFor({ state: "detached" });
  await undo(page, "deleted");
  await event(page, "Budget review").waitFor();
  assert.equal((await stored(page, "2027-02-01", "2027-02-08")).length, 1, "the server was not told");
  // The server is told when the time to undo is over.
  await event(page, "Budget review").focus();
  const told = page.waitForResponse((r) => (r.request().postData() ?? "").includes('"destroy"'));
  await page.keyboard.press("#");
  await told;
  assert.deepEqual(await stored(page, "2027-02-01", "2027-02-08"), []);
  assert.deepEqual(page.wrong, []);
});

test("events are made, moved and made longer by dragging and by keys; each is undone", async () => {
  const page = await open();
  await signInAt(page, "/calendar/week/2027-02-10", ".grid-body");
  await drag(page, await pointAt(page, "2027-02-10", 9 * 60), await pointAt(page, "2027-02-10", 10 * 60));
  await page.waitForSelector(".event-form");
  await write(page, { Title: "Dragged" });
  const times = async () => (await stored(page, "2027-02-08", "2027-02-22")).map((e) => [e.start, e.duration]);
  assert.deepEqual(await times(), [["2027-02-10T09:00:00", "PT1H"]]);
  // Moved to another day and time.
  await drag(page, await pointAt(page, "2027-02-10", 9 * 60 + 20), await pointAt(page, "2027-02-11", 11 * 60 + 20));
  await toast(page, "moved to");
  assert.deepEqual(await times(), [["2027-02-11T11:00:00", "PT1H"]]);
  await undo(page, "moved to");
  await page.waitForSelector(".grid-column[data-day='2027-02-10'] .event:has-text('Dragged')");
  await becomes(times, [["2027-02-10T09:00:00", "PT1H"]]);
  // Made longer by its lower edge.
  const [x] = await pointAt(page, "2027-02-10", 0);
  const box = await boxOf(event(page, "Dragged"));
  await drag(page, [x, box.y + box.height - 3], await pointAt(page, "2027-02-10", 11 * 60));
  await page.waitForFunction(() => document.querySelector(".event.timed")?.textContent.includes("11:00"));
  await becomes(times, [["2027-02-10T09:00:00", "PT2H"]]);
  // The same by keys.
  await event(page, "Dragged").focus();
  await page.keyboard.press("Alt+ArrowDown");
  await page.waitForFunction(() => document.querySelector(".event.timed")?.textContent.includes("9:15"));
  await event(page, "Dragged").focus();
  await page.keyboard.press("Alt+ArrowRight");
  await page.waitForSelector(".grid-column[data-day='2027-02-11'] .event:has-text('Dragged')");
  await toast(page, "moved to Thu, Feb 11"); // the browser keeps it too: the next page shows it there
  assert.deepEqual(await times(), [["2027-02-11T09:15:00", "PT2H"]]);
  // In the month, to another day.
  await at(page, "month/2027-02-10");
  const from = await boxOf(event(page, "Dragged"));
  const to = await boxOf(page.locator(".month-day-cell[data-day='2027-02-18']"));
  await drag(page, [from.x + 20, from.y + 10], [to.x + 30, to.y + 40]);
  await toast(page, "moved to");
  assert.deepEqual(await times(), [["2027-02-18T09:15:00", "PT2H"]]);
  assert.deepEqual(page.wrong, []);
});

test("of a series one instance, those that follow, or all are changed and deleted", async () => {
  const page = await open();
  await signInAt(page, "/calendar/month/2027-03-10", ".month-week");
  await page.locator(".month-day-cell[data-day='2027-03-02']").dblclick({ position: { x: 60, y: 60 } });
  await write(page, { Title: "Standup", "Start time": "08:30", "End time": "08:45", Repeat: "weekly" });
  const starts = async () => (await stored(page, "2027-03-01", "2027-04-05")).map((e) => `${e.start.slice(5, 16)} ${e.title}`);
  await page.waitForFunction(() => document.querySelectorAll(".month .event").length === 5);
  assert.deepEqual(await starts(), ["03-02T08:30", "03-09T08:30", "03-16T08:30", "03-23T08:30", "03-30T08:30"].map((s) => `${s} Standup`));
  const nth = (n) => page.locator(".month .event", { hasText: "Standup" }).nth(n);
  const changeTime = async (n, time, scope) => {
    await nth(n).click();
    await page.waitForSelector(".event-card");
    await page.keyboard.press("e");
    await page.waitForSelector(".event-form");
    await page.getByLabel("Start time", { exact: true }).fill(time);
    await page.click(".event-form button:has-text('Save')");
    await page.click(`.scopes button:has-text("${scope}")`);
    await page.waitForSelector(".event-form", { state: "detached" });
  };
  await changeTime(1, "10:00", "This event");
  assert.deepEqual((await starts()).map((s) => s.slice(0, 11)), ["03-02T08:30", "03-09T10:00", "03-16T08:30", "03-23T08:30", "03-30T08:30"]);
  await changeTime(2, "09:00", "This and following");
  assert.deepEqual((await starts()).map((s) => s.slice(0, 11)), ["03-02T08:30", "03-09T10:00", "03-16T09:00", "03-23T09:00", "03-30T09:00"]);
  await nth(3).click();
  await page.waitForSelector(".event-card");
  await page.keyboard.press("#");
  const told = page.waitForResponse((r) => (r.request().postData() ?? "").includes('"destroy"'));
  await page.click(".scopes button:has-text('This event')");
  await toast(page, "deleted");
  await told; // the time to undo is over
  await page.reload();
  await page.waitForFunction(() => document.querySelectorAll(".month .event").length === 4);
  assert.deepEqual((await starts()).map((s) => s.slice(0, 11)), ["03-02T08:30", "03-09T10:00", "03-16T09:00", "03-30T09:00"]);
  await changeTime(0, "07:45", "All events");
  assert.deepEqual((await starts()).map((s) => s.slice(0, 11)), ["03-02T07:45", "03-09T10:00", "03-16T09:00", "03-30T09:00"]);
  assert.deepEqual(page.wrong, []);
});

test("a series moves to another day with its rule, and stays where the rule cannot follow", async () => {
  const page = await open();
  await signInAt(page, "/calendar/week/2027-06-28", ".grid-body");
  const rule = (r) => ({ recurrenceRules: [{ "@type": "RecurrenceRule", ...r }] });
  const wednesdays = [{ "@type": "NDay", day: "we", nthOfPeriod: 3 }, { "@type": "NDay", day: "we", nthOfPeriod: -1 }];
  await page.evaluate(async (events) => {
    const session = await (await fetch("/jmap/session")).json();
    const cap = "urn:ietf:params:jmap:calendars";
    const accountId = session.primaryAccounts[cap];
    const auth = await (await fetch("/auth/session", { headers: { Accept: "application/json" } })).json();
    const ask = async (...call) => {
      const r = await fetch(session.apiUrl, { method: "POST", headers: { "Content-Type": "application/json", "X-CSRF-Token": auth.csrf }, body: JSON.stringify({ using: ["urn:ietf:params:jmap:core", cap], methodCalls: [[...call, "0"]] }) });
      return (await r.json()).methodResponses[0][1];
    };
    const calendar = (await ask("Calendar/get", { accountId })).list.find((c) => c.isDefault).id;
    const create = Object.fromEntries(events.map((e, i) => [`e${i}`, { "@type": "Event", calendarIds: { [calendar]: true }, timeZone: "UTC", duration: "PT1H", ...e }]));
    const { notCreated } = await ask("CalendarEvent/set", { accountId, create });
    if (notCreated) throw new Error(JSON.stringify(notCreated));
  }, [
    { title: "Founding day", start: "2027-06-30T10:00:00", ...rule({ frequency: "yearly", byMonth: ["6"], byMonthDay: [30] }) },
    { title: "Twice a month", start: "2027-06-30T13:00:00", ...rule({ frequency: "monthly", byDay: wednesdays }) },
  ]);
  await page.reload();
  const move = async (title, said) => {
    await event(page, title).focus();
    await page.keyboard.press("Alt+ArrowRight");
    await page.click(".scopes button:has-text('All events')");
    await toast(page, said);
  };
  await move("Founding day", "moved to");
  await move("Twice a month", "cannot be moved to another day");
  const starts = async (from, to) => (await stored(page, from, to)).filter((e) => /^(?:Founding day|Twice a month)$/u.test(e.title)).map((e) => `${e.start} ${e.title}`);
  assert.deepEqual(await starts("2027-06-28", "2027-07-05"), ["2027-06-30T13:00:00 Twice a month", "2027-07-01T10:00:00 Founding day"]);
  assert.deepEqual(await starts("2028-07-01", "2028-07-02"), ["2028-07-01T10:00:00 Founding day"]);
  assert.deepEqual(page.wrong, []);
});

test("a deletion outlives its page: the page tells it as it goes, else the next one does", async () => {
  const other = await open();
  await signInAt(other, "/calendar/week/2027-09-06", ".grid-body");
  const there = async (title, is) => {
    for (let n = 0; (await stored(other, "2027-09-06", "2027-09-13")).some((e) => e.title === title) !== is; n++) {
      assert.ok(n < 60, `${title} is ${is ? "not" : "still"} there`);
      await other.waitForTimeout(250);
    }
  };
  const gone = (title) => there(title, false);
  const remove = async (title, offline = false) => {
    const page = await open();
    await signInAt(page, "/calendar/week/2027-09-06", ".grid-body");
    await page.keyboard.press("n");
    await write(page, { Title: title, Starts: "2027-09-08", "Start time": "10:00" });
    await there(title, true);
    await event(page, title).focus();
    await page.context().setOffline(offline);
    await page.keyboard.press("#");
    await toast(page, "deleted");
    return page;
  };
  await (await remove("Told at the end")).close({ runBeforeUnload: true }); // no other page of this browser is open
  await gone("Told at the end");

  // A page that ends without a word, as one whose process dies.
  const page = await remove("Told by the next", true);
  await page.waitForSelector(".toast", { state: "detached" }); // the time to undo is over
  await event(page, "Told by the next").waitFor({ state: "detached" });
  const cdp = await page.context().newCDPSession(page);
  const crashed = page.waitForEvent("crash");
  void cdp.send("Page.crash").catch(() => {});
  await crashed;
  await page.close();
  await page.context().setOffline(false);
  const told = (await stored(other, "2027-09-06", "2027-09-13")).map((e) => e.title).filter((title) => title.startsWith("Told"));
  assert.deepEqual(told, ["Told by the next"], "the server was told, or the first deletion was not");
  const next = await page.context().newPage();
  await next.goto(`${base}/contacts/all`);
  await gone("Told by the next");
  assert.deepEqual([...page.wrong, ...other.wrong], []);
});

test("a line of text becomes an event, in three languages", async () => {
  await sameDay();
  for (const [language, line, title] of [["en-US", "Lunch with Bob tomorrow 12:30", "Lunch with Bob"], ["de-DE", "Zahnarzt morgen 9:15-10 Uhr", "Zahnarzt"], ["zh-CN", "明天下午3点半 团队会议", "团队会议"]]) {
    const page = await open({ language });
    await signInAt(page, "/calendar/day/2027-04-01", ".grid-body", "carol");
    await page.keyboard.press("/");
    await page.keyboard.type(line);
    await page.waitForSelector(`.quick [role=status] b:text-is("${title}")`);
    await page.keyboard.press("Enter");
    await event(page, title).waitFor();
    const tomorrow = await page.evaluate(() => new Date(Date.now() + 86_400_000).toISOString().slice(0, 10));
    assert.equal(path(page), `/calendar/day/${tomorrow}`);
    const times = { "en-US": ["12:30", "PT1H"], "de-DE": ["09:15", "PT45M"], "zh-CN": ["15:30", "PT1H"] }[language];
    const end = new Date(Date.parse(tomorrow) + 86_400_000).toISOString().slice(0, 10);
    const found = async () => (await stored(page, tomorrow, end)).filter((e) => e.title === title).map((e) => [e.start, e.duration]);
    await becomes(found, [[`${tomorrow}T${times[0]}:00`, times[1]]]);
    await undo(page, title);
    await event(page, title).waitFor({ state: "detached" });
    assert.deepEqual(page.wrong, []);
    await page.context().close();
  }
});

test("a line that is entered before the calendars are known becomes one event, once they are", async () => {
  await sameDay();
  const page = await open();
  let release, answered = new Promise((done) => (release = done));
  await page.route("**/jmap/**", async (route) => {
    if ((route.request().postData() ?? "").includes('"Calendar/get"')) await answered;
    await route.continue();
  });
  await signInAt(page, "/calendar/day/2027-04-02", ".grid-body", "carol");
  await page.keyboard.press("/");
  await page.keyboard.type("Early bird tomorrow 7:00");
  await page.waitForSelector(".quick [role=status]");
  await page.keyboard.press("Enter");
  await page.keyboard.press("Enter");
  assert.equal(await page.inputValue("#quick"), "");
  release();
  await toast(page, "Early bird"); // two would both be shown by now
  await counts(page.locator(".calendar-view .event", { hasText: "Early bird" }), 1);
  const tomorrow = path(page).slice(-10);
  const end = new Date(Date.parse(tomorrow) + 86_400_000).toISOString().slice(0, 10);
  assert.equal((await stored(page, tomorrow, end)).filter((e) => e.title === "Early bird").length, 1);
  assert.deepEqual(page.wrong, []);
});

test("what another browser does is shown; calendars have names and check boxes; what is kept is read offline", async () => {
  const page = await open();
  await signInAt(page, "/calendar/week/2027-05-05", ".grid-body", "bob");
  const other = await open();
  await signInAt(other, "/calendar/agenda/2027-05-01", ".agenda", "bob");
  await page.click(".side button[aria-label='New calendar']");
  await page.click(".menu >> text=New calendar");
  await page.fill("dialog input", "Family");
  await page.click("dialog button.primary");
  await page.waitForSelector(".shelf:has-text('Family')");
  await other.waitForSelector(".shelf:has-text('Family')");
  await page.waitForSelector("dialog", { state: "detached" });
  await page.keyboard.press("n");
  await page.waitForSelector(".event-form");
  await page.getByLabel("All day").check();
  await write(page, { Title: "School trip", Ends: "2027-05-06", Calendar: { label: "Family" } });
  await event(other, "School trip").waitFor();
  const [e] = await stored(page, "2027-05-03", "2027-05-10");
  assert.deepEqual([e.start, e.duration, e.showWithoutTime], ["2027-05-05T00:00:00", "P2D", true]);
  await page.locator(".shelf", { hasText: "Family" }).locator("input").uncheck();
  await event(page, "School trip").waitFor({ state: "detached" });
  await event(other, "School trip").waitFor({ state: "detached" });
  await page.locator(".shelf", { hasText: "Family" }).locator("input").check();
  await event(page, "School trip").waitFor();
  await event(other, "School trip").waitFor();
  await until(async () => (await keptIn(page, "bob", "facts")).calendars.some((c) => c.name === "Family" && c.isVisible));
  await controlled(page);
  await page.context().setOffline(true);
  await page.reload();
  await event(page, "School trip").waitFor();
  await event(page, "School trip").focus();
  await page.keyboard.press("Alt+ArrowRight");
  await event(page, "School trip").locator(".waits").waitFor(); // waiting.test.mjs has the rest
  await page.context().setOffline(false);
  await event(page, "School trip").locator(".waits").waitFor({ state: "detached" });
  assert.deepEqual([...page.wrong, ...other.wrong], []);
});

test("people are completed, their busy times are shown, and a conflict is said", async () => {
  const bob = await open();
  await signInAt(bob, "/calendar/day/2027-06-01", ".grid-body", "bob");
  await bob.keyboard.press("n");
  await write(bob, { Title: "Bob is away", "Start time": "10:00", "End time": "12:00" });
  const page = await open();
  await signInAt(page, "/calendar/day/2027-06-01", ".grid-body");
  await page.keyboard.press("n");
  await page.waitForSelector(".event-form");
  await page.getByLabel("Start time", { exact: true }).fill("10:30");
  await page.getByLabel("People").fill("cratch");
  await page.locator(".suggest li", { hasText: "bob@example.com" }).click();
  await page.waitForSelector(".free-times [role=status]:has-text('Busy at this time: Bob Cratchit')");
  await page.click(".free-times .chip");
  await page.waitForSelector(".free-times [role=status]:has-text('Everyone is free.')");
  await write(page, { Title: "With Bob" });
  const all = await stored(page, "2027-06-01", "2027-06-02");
  const e = all.find((x) => x.title === "With Bob");
  assert.equal(e.start, "2027-06-01T12:00:00", JSON.stringify(all));
  const people = Object.values(e.participants);
  assert.ok(people.some((p) => p.roles.owner) && people.some((p) => JSON.stringify(p).includes("bob@example.com") && p.roles.attendee));
  assert.deepEqual([...page.wrong, ...bob.wrong], []);
});

test("an invitation waits in the calendar of the person invited, whose answer the organizer sees", async () => {
  const soon = new Date(Date.now() + 9 * 86_400_000).toISOString().slice(0, 10);
  const page = await open();
  await signInAt(page, `/calendar/day/${soon}`, ".grid-body", "alice");
  await page.keyboard.press("n");
  await page.waitForSelector(".event-form");
  await page.locator(".event-form").getByLabel(/^People/u).first().fill("bob@example.com,");
  await write(page, { Title: "Tell me if you come", Starts: soon, "Start time": "10:00", Ends: soon, "End time": "11:00" });
  const bob = await open();
  await signInAt(bob, "/calendar/week/2027-02-18", ".grid-body", "bob");
  await bob.locator(".unanswered", { hasText: "Tell me if you come" }).click();
  await bob.waitForSelector(".event-card:has-text('Tell me if you come')");
  await bob.click(".event-card .answer .button:has-text('Accept')");
  await bob.locator(".unanswered", { hasText: "Tell me if you come" }).waitFor({ state: "detached" });
  await event(page, "Tell me if you come").click();
  await page.waitForSelector(".event-card .guests li:has-text('accepted')");
  assert.deepEqual([...page.wrong, ...bob.wrong], []);
});

test("a calendar is imported from a file, and exported", async () => {
  const page = await open();
  await signInAt(page, "/calendar/agenda/2027-07-01", ".agenda", "carol");
  const ics = "BEGIN:VCALENDAR\r\nVERSION:2.0\r\nPRODID:-//t//t//EN\r\nBEGIN:VEVENT\r\nUID:imported-1\r\nDTSTAMP:20261101T000000Z\r\nDTSTART:20270701T100000Z\r\nDTEND:20270701T110000Z\r\nSUMMARY:Imported one\r\nEND:VEVENT\r\nBEGIN:VEVENT\r\nUID:imported-2\r\nDTSTAMP:20261101T000000Z\r\nDTSTART;VALUE=DATE:20270703\r\nSUMMARY:Imported two\r\nEND:VEVENT\r\nEND:VCALENDAR\r\n";
  await page.locator(".shelf .tool").first().click();
  const [chooser] = await Promise.all([page.waitForEvent("filechooser"), page.click(".menu button:has-text('Import')")]);
  await chooser.setFiles({ name: "a.ics", mimeType: "text/calendar", buffer: Buffer.from(ics) });
  await toast(page, "2 events imported");
  await event(page, "Imported one").waitFor();
  await event(page, "Imported two").waitFor();
  await page.locator(".shelf .tool").first().click();
  const [file] = await Promise.all([page.waitForEvent("download"), page.click(".menu button:has-text('Export')")]);
  const lines = readFileSync(await file.path(), "utf8").split("\r\n");
  for (const l of ["UID:imported-1", "SUMMARY:Imported one", "DTSTART:20270701T100000Z", "DTSTART;VALUE=DATE:20270703"]) assert.ok(lines.includes(l), `${l} in ${lines.join("\n")}`);
  assert.deepEqual(page.wrong, []);
});

test("week start and time zone are kept by the server", async (t) => {
  t.after(() => jmap("carol", ["Preferences/set", { update: { singleton: { "values/calendar:week": null, "values/calendar:zone": null } } }]));
  const page = await open();
  await signInAt(page, "/calendar/week/2027-08-04", ".grid-body", "carol");
  await page.click(".top button[aria-label='Settings']");
  await page.getByLabel(/^Week starts on/u).selectOption("6");
  await page.waitForSelector(".grid-column[data-day='2027-07-31']");
  const told = page.waitForResponse((r) => (r.request().postData() ?? "").includes("Asia/Tokyo"));
  await page.getByLabel(/^Time zone/u).selectOption("Asia/Tokyo");
  await told;
  await page.keyboard.press("Escape");
  const other = await open();
  await signInAt(other, "/calendar/week/2027-08-04", ".grid-column[data-day='2027-07-31']", "carol");
  await other.keyboard.press("n");
  await write(other, { Title: "Morning in Tokyo", "Start time": "09:00" });
  const [e] = await stored(other, "2027-08-03", "2027-08-06");
  assert.deepEqual([e.timeZone, e.utcStart], ["Asia/Tokyo", "2027-08-04T00:00:00Z"]);
  assert.deepEqual([...page.wrong, ...other.wrong], []);
});

test("nobody is kept out of the calendar", async () => {
  for (const [width, height, dark] of [[1440, 900, false], [1024, 768, true], [390, 844, false]]) {
    const page = await open({ width, height, dark });
    await signInAt(page, "/calendar/agenda/2027-02-01", ".agenda .event");
    for (const view of width < 760 ? ["agenda", "month"] : ["week", "month", "agenda", "day"]) {
      await at(page, `${view}/2027-02-18`);
      await page.waitForSelector(view === "day" ? ".grid-body" : ".event, .dots");
      assert.deepEqual(await barriers(page), [], `${view} at ${width}`);
    }
    await at(page, "agenda/2027-02-01");
    await page.locator(".event").first().click();
    await page.waitForSelector(".event-card");
    assert.deepEqual(await barriers(page), [], `card at ${width}`);
    await page.keyboard.press("e");
    await page.waitForSelector(".event-form");
    assert.deepEqual(await barriers(page), [], `editor at ${width}`);
    assert.deepEqual(page.wrong, []);
    await page.context().close();
  }
});
