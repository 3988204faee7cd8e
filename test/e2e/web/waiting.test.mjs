// Events, tasks and contacts that are changed without a network: they are shown as waiting, outlive the page, and are told when the server
// answers. What was changed elsewhere meanwhile is not overwritten. Each test has a month of 2029 of its own.

import assert from "node:assert/strict";
import { after, test } from "node:test";
import { cards, events, jmap, make, tasks } from "./objects.mjs";
import { base, browser, controlled, counts, keptIn, open, signInAt, until } from "./world.mjs";

after(() => browser.close());

const me = "carol"; // Alice has series without an end
const event = (page, text) => page.locator(".calendar-view .event", { hasText: text });
const mark = (where) => where.locator(".waits");

/** Fills the open editor in and saves. */
async function write(page, fields) {
  await page.waitForSelector(".event-form");
  for (const [label, value] of Object.entries(fields)) await page.locator(".event-form").getByLabel(new RegExp(`^${label}`, "u")).first().fill(value);
  await page.click(".event-form button:has-text('Save')");
  await page.waitForSelector(".event-form", { state: "detached" });
}

/** Goes offline, once the page is kept by its worker. */
async function leave(page) {
  await controlled(page);
  await page.context().setOffline(true);
}

/** Opens the page anew once the browser keeps n changes. */
async function again(page, n) {
  await until(async () => Object.keys(await keptIn(page, me, "outbox")).length === n);
  await page.reload();
}

/** Opens the editor of an event by its key. */
async function edit(page, title) {
  await event(page, title).first().focus();
  await page.keyboard.press("Enter");
  await page.click(".event-card button[aria-label='Edit']");
}

test("events are made, changed, moved and deleted without a network; people hear of it when it is back", async () => {
  await make(me, { title: "To rename", start: "2029-01-09T09:00:00" });
  await make(me, { title: "To move", start: "2029-01-09T11:00:00" });
  await make(me, { title: "To drop", start: "2029-01-09T13:00:00" });
  await make(me, { title: "Each day", start: "2029-01-08T15:00:00", recurrenceRules: [{ "@type": "RecurrenceRule", frequency: "daily", count: 4 }] });
  const page = await open();
  await signInAt(page, "/calendar/week/2029-01-08", ".grid-body", me);
  await event(page, "To drop").waitFor();
  await leave(page);

  await page.keyboard.press("n");
  await page.waitForSelector(".event-form");
  await page.locator(".event-form").getByLabel(/^People/u).first().fill("bob@example.com,");
  await write(page, { Title: "Made away", Starts: "2029-01-10", "Start time": "09:00", Ends: "2029-01-10", "End time": "10:00" });
  await mark(event(page, "Made away")).waitFor();
  // A change of what the server does not have yet is told with it.
  await edit(page, "Made away");
  await write(page, { Place: "Room 7" });
  await edit(page, "To rename");
  await page.waitForSelector(".event-form:has-text('only a part')");
  await write(page, { Title: "Renamed" });
  await mark(event(page, "Renamed")).waitFor();
  await event(page, "To move").focus();
  await page.keyboard.press("Alt+ArrowRight");
  await mark(event(page, "To move")).waitFor();
  await event(page, "Each day").nth(1).focus();
  await page.keyboard.press("Alt+ArrowDown");
  await page.click("dialog button:has-text('This')");
  await mark(event(page, "Each day")).waitFor();
  await event(page, "To drop").focus();
  await page.keyboard.press("#");
  await event(page, "To drop").waitFor({ state: "detached" });
  await page.waitForSelector(".banner:has-text('changes wait')");

  await again(page, 5);
  await mark(event(page, "Made away")).waitFor();
  await mark(event(page, "Renamed")).waitFor();
  await counts(event(page, "Each day"), 4); // what waits is shown before what is kept of the server's
  await counts(event(page, "To drop"), 0);
  await counts(event(page, "To rename"), 0);
  assert.match(await event(page, "Made away").getAttribute("aria-label"), /Room 7.*Waits for the server/u);
  assert.deepEqual((await events(me, "2029-01-08", "2029-01-15")).map((e) => e.title).filter((title) => title !== "Each day"), ["To rename", "To move", "To drop"]);

  await page.context().setOffline(false);
  await page.waitForFunction(() => document.querySelectorAll(".waits").length === 0, undefined, { timeout: 30_000 });
  await until(async () => !(await events(me, "2029-01-08", "2029-01-15")).some((e) => e.title === "To drop")); // the time to undo it is over
  const now = await events(me, "2029-01-08", "2029-01-15");
  assert.deepEqual(now.filter((e) => e.title !== "Each day").map((e) => [e.title, e.start]), [["Renamed", "2029-01-09T09:00:00"], ["Made away", "2029-01-10T09:00:00"], ["To move", "2029-01-10T11:00:00"]]);
  assert.deepEqual(now.filter((e) => e.title === "Each day").map((e) => e.start.slice(8, 16)), ["08T15:00", "09T15:15", "10T15:00", "11T15:00"]);
  assert.equal(Object.values(now.find((e) => e.title === "Made away").locations)[0].name, "Room 7");
  await until(async () => (await events("bob", "2029-01-08", "2029-01-15")).some((e) => e.title === "Made away"));
  await counts(event(page, "Made away"), 1);
  assert.deepEqual(page.wrong, []);
});

test("what was changed elsewhere meanwhile is not overwritten: the person's version is kept, and they decide", async () => {
  const ids = {};
  for (const [title, hour] of [["Both rename", "09"], ["Only mine", "11"], ["Gone there", "13"], ["Moved there", "15"]]) ids[title] = await make(me, { title, start: `2029-02-06T${hour}:00:00` });
  const page = await open();
  await signInAt(page, "/calendar/week/2029-02-05", ".grid-body", me);
  await event(page, "Moved there").waitFor();
  await leave(page);
  for (const title of ["Both rename", "Only mine", "Gone there"]) {
    await edit(page, title);
    await write(page, { Title: `${title} by me` });
  }
  await event(page, "Moved there").focus();
  await page.keyboard.press("#");
  await page.waitForSelector(".toast:has-text('deleted')");
  await page.waitForSelector(".toast:has-text('deleted')", { state: "detached", timeout: 30_000 });
  // Another property is no conflict.
  await jmap(me, ["CalendarEvent/set", { update: { [ids["Both rename"]]: { title: "Renamed there" }, [ids["Only mine"]]: { description: "there" }, [ids["Moved there"]]: { start: "2029-02-07T15:00:00" } }, destroy: [ids["Gone there"]] }]);
  await page.context().setOffline(false);
  const notice = (text) => page.locator(".notice.unsaved", { hasText: text });
  await notice("“Both rename” was not saved: it was changed elsewhere meanwhile. Your version: Both rename by me").waitFor({ timeout: 30_000 });
  await notice("“Gone there” was not saved: it was deleted elsewhere meanwhile. Your version: Gone there by me").waitFor();
  await notice("“Moved there” was not deleted: it was changed elsewhere meanwhile.").waitFor();
  assert.equal(await notice("Only mine").count(), 0);
  const titles = async () => (await events(me, "2029-02-05", "2029-02-12")).map((e) => `${e.title} ${e.start.slice(8, 13)}`);
  assert.deepEqual(await titles(), ["Renamed there 06T09", "Only mine by me 06T11", "Moved there 07T15"]);
  // The views show what is there, also after a reload, and what was written is still here.
  await page.reload();
  await event(page, "Renamed there").waitFor();
  await counts(event(page, "by me"), 1);
  await notice("Both rename by me").locator("button:has-text('Save my version')").click();
  await event(page, "Both rename by me").waitFor();
  await notice("Gone there by me").locator("button:has-text('Save my version')").click();
  await event(page, "Gone there by me").waitFor();
  await notice("Moved there").locator("button:has-text('Keep it')").click();
  await page.waitForFunction(() => !document.querySelector(".unsaved, .waits"));
  assert.deepEqual(await titles(), ["Both rename by me 06T09", "Only mine by me 06T11", "Gone there by me 06T13", "Moved there 07T15"]);
  assert.deepEqual(page.wrong, []);
});

test("a change whose answer was lost is done once; a page of mail tells what waits, and says what was refused", async () => {
  const id = await make(me, { title: "Agreed", start: "2029-03-06T13:00:00" });
  const page = await open({ worker: false });
  await signInAt(page, "/calendar/week/2029-03-05", ".grid-body", me);
  let lost = 0;
  await page.context().route("**/jmap/api", async (route) => {
    if (lost > 0 || !(route.request().postData() ?? "").includes('"CalendarEvent/set"')) return route.fallback();
    lost++;
    await route.fetch();
    return route.abort("connectionreset");
  });
  await page.keyboard.press("n");
  await page.waitForSelector(".event-form");
  await page.locator(".event-form").getByLabel(/^People/u).first().fill("bob@example.com,");
  await write(page, { Title: "Told twice", Starts: "2029-03-06", "Start time": "09:00", Ends: "2029-03-06", "End time": "10:00" });
  await until(async () => lost === 1 && (await page.locator(".waits").count()) === 0);
  const titles = async () => (await events(me, "2029-03-05", "2029-03-12")).map((e) => e.title);
  assert.deepEqual(await titles(), ["Told twice", "Agreed"]);
  await counts(event(page, "Told twice"), 1);
  assert.equal(await page.locator(".unsaved").count(), 0);

  await page.context().setOffline(true);
  await edit(page, "Agreed");
  await write(page, { Title: "Agreed by me" });
  await mark(event(page, "Agreed by me")).waitFor();
  const [moved] = await jmap(me, ["CalendarEvent/set", { update: { [id]: { title: "Agreed there" } } }]);
  assert.deepEqual(Object.keys(moved.updated), [id]);
  const context = page.context();
  await page.close();
  await context.setOffline(false);
  const mail = await context.newPage();
  await mail.goto(`${base}/mail/inbox`);
  await mail.click(".banner a:has-text('A change was not saved')");
  await mail.waitForSelector(".unsaved:has-text('Agreed by me')");
  await mail.click(".unsaved button:has-text('Discard my version')");
  await mail.waitForFunction(() => !document.querySelector(".unsaved"));
  assert.deepEqual(await titles(), ["Told twice", "Agreed there"]);
  assert.deepEqual(page.wrong, []);
  await context.close();
});

test("tasks are made, ticked, changed and deleted without a network", async () => {
  const [lists] = await jmap(me, ["TaskList/get", { ids: null }]);
  const taskListId = lists.list.find((l) => l.role === "inbox").id;
  const create = Object.fromEntries(["Waits tick", "Waits change", "Waits drop"].map((title, i) => [`t${i}`, { "@type": "Task", title, taskListId }]));
  await jmap(me, ["Task/set", { create }]);
  const page = await open();
  await signInAt(page, "/calendar/tasks", ".tasks", me);
  const task = (text) => page.locator(".task", { hasText: text });
  await task("Waits drop").waitFor();
  await leave(page);
  await page.fill("#quick", "Waits new tomorrow");
  await page.keyboard.press("Enter");
  await mark(task("Waits new")).waitFor();
  await task("Waits new").locator("input").check();
  await task("Waits tick").locator("input").check();
  await task("Waits change").locator(".task-open").click();
  await write(page, { Title: "Waits changed", Notes: "with words" });
  await mark(task("Waits changed")).waitFor();
  await task("Waits drop").locator(".task-open").click();
  await page.click(".event-form button:has-text('Delete')");
  await task("Waits drop").waitFor({ state: "detached" });
  await again(page, 4);
  await mark(task("Waits changed")).waitFor();
  assert.equal(await task("Waits drop").count(), 0);
  await page.click(".done-tasks summary");
  await mark(task("Waits tick")).waitFor();
  await mark(task("Waits new")).waitFor();
  const of = async () => Object.fromEntries((await tasks(me)).filter((x) => x.title.startsWith("Waits")).map((x) => [x.title, `${x.progress ?? "needs-action"} ${x.description ?? ""}`.trim()]));
  assert.deepEqual(await of(), { "Waits tick": "needs-action", "Waits change": "needs-action", "Waits drop": "needs-action" });
  await page.context().setOffline(false);
  await page.waitForFunction(() => document.querySelectorAll(".waits").length === 0, undefined, { timeout: 30_000 });
  await until(async () => !("Waits drop" in (await of())));
  await until(async () => (await of())["Waits new"] === "completed"); // its tick is told after it is made
  assert.deepEqual(await of(), { "Waits tick": "completed", "Waits changed": "needs-action with words", "Waits new": "completed" });
  await counts(task("Waits new"), 1);
  assert.deepEqual(page.wrong, []);
});

test("a task that was done elsewhere is opened again without a network, and the alert of one is changed", async () => {
  const [lists] = await jmap(me, ["TaskList/get", { ids: null }]);
  const taskListId = lists.list.find((l) => l.role === "inbox").id;
  const alerts = { a: { "@type": "Alert", trigger: { "@type": "OffsetTrigger", offset: "-PT10M", relativeTo: "end" }, action: "display" } };
  const done = { "@type": "Task", taskListId, title: "Reopens away", progress: "completed", percentComplete: 100 };
  await jmap(me, ["Task/set", { create: { done, rings: { "@type": "Task", taskListId, title: "Rings away", due: "2029-04-10T09:00:00", timeZone: "Etc/UTC", alerts } } }]);
  const page = await open();
  await signInAt(page, "/calendar/tasks", ".tasks", me);
  const task = (text) => page.locator(".task", { hasText: text });
  await task("Rings away").waitFor();
  await leave(page);
  await page.click(".done-tasks summary");
  await task("Reopens away").locator("input").click();
  await mark(task("Reopens away")).waitFor();
  await task("Rings away").locator(".task-open").click();
  const alert = page.locator(".event-form").getByLabel("Alert");
  await alert.waitFor();
  assert.equal(await alert.inputValue(), "10");
  await alert.selectOption("30");
  await write(page, {});
  await mark(task("Rings away")).waitFor();
  await page.context().setOffline(false);
  await page.waitForFunction(() => document.querySelectorAll(".waits").length === 0, undefined, { timeout: 30_000 });
  assert.equal(await page.locator(".unsaved").count(), 0);
  const of = async (title) => (await tasks(me)).find((x) => x.title === title);
  assert.equal((await of("Reopens away")).progress ?? "needs-action", "needs-action");
  assert.deepEqual(Object.values((await of("Rings away")).alerts).map((a) => a.trigger.offset), ["-PT30M"]);
  assert.deepEqual(page.wrong, []);
});

test("of a task that repeats, the editor changes one time without a network, and says so", async () => {
  const [lists] = await jmap(me, ["TaskList/get", { ids: null }]);
  const [made] = await jmap(me, ["Task/set", { create: { t: { "@type": "Task", taskListId: lists.list.find((l) => l.role === "inbox").id, title: "Each year away", start: "2026-12-24T00:00:00", due: "2026-12-24T00:00:00", showWithoutTime: true, recurrenceRules: [{ "@type": "RecurrenceRule", frequency: "yearly" }] } } }]);
  const page = await open();
  await signInAt(page, "/calendar/tasks", ".tasks", me);
  const task = (text) => page.locator(".task", { hasText: text });
  await task("Each year away").waitFor();
  await leave(page);
  await task("Each year away").locator(".task-open").click();
  await page.waitForSelector(".event-form:has-text('changes are for this time alone')");
  const field = (label) => page.locator(".event-form").getByLabel(new RegExp(`^${label}`, "u"));
  assert.equal(await field("Repeat").count(), 0);
  for (const label of ["Due", "Time", "List"]) assert.ok(await field(label).isDisabled(), label);
  await write(page, { Title: "Once away" });
  await mark(task("Once away")).waitFor();
  await page.context().setOffline(false);
  await page.waitForFunction(() => document.querySelectorAll(".waits").length === 0, undefined, { timeout: 30_000 });
  const [{ list: [series] }] = await jmap(me, ["Task/get", { ids: [made.created.t.id] }]);
  assert.equal(series.title, "Each year away");
  assert.deepEqual(Object.values(series.recurrenceOverrides), [{ title: "Once away" }]);
  await task("Once away").locator(".task-open").click();
  await page.waitForSelector(".event-form:has-text('Changes are for all times')");
  assert.equal(await field("Title").inputValue(), "Each year away");
  assert.deepEqual(page.wrong, []);
});

test("contacts are made, changed and deleted without a network; a refusal keeps what was written", async () => {
  const [books] = await jmap(me, ["AddressBook/get", { ids: null }]);
  const addressBookIds = { [books.list.find((b) => b.isDefault).id]: true };
  const card = (given) => ({ "@type": "Card", version: "1.0", addressBookIds, name: { components: [{ kind: "given", value: given }, { kind: "surname", value: "Waitley" }] }, emails: { e1: { address: `${given.toLowerCase()}@waitley.example` } } });
  const [made] = await jmap(me, ["ContactCard/set", { create: { a: card("Changed"), b: card("Dropped"), c: card("Contested") } }]);
  const page = await open();
  await signInAt(page, "/contacts/all?search=Waitley", ".contact-row", me);
  const line = (text) => page.locator(".contact-row", { hasText: text });
  const field = (label) => page.locator(".contact-form").getByLabel(label, { exact: true });
  const save = async () => {
    await page.click(".contact-form button:has-text('Save')");
    await page.waitForSelector(".contact-form", { state: "detached" });
  };
  await line("Dropped").waitFor();
  await leave(page);
  await page.keyboard.press("n");
  await field("First name").fill("Added");
  await field("Last name").fill("Waitley");
  await save();
  await mark(line("Added")).waitFor();
  for (const [name, job] of [["Changed", "Clerk"], ["Contested", "Baker"]]) {
    await line(name).click();
    await page.click(".person button[aria-label='Edit'], .pane.read button[aria-label='Edit']");
    await field("Job title").fill(job);
    await save();
    await mark(line(name)).waitFor();
  }
  await line("Dropped").click();
  await page.keyboard.press("#");
  await line("Dropped").waitFor({ state: "detached" });
  await again(page, 4);
  await mark(line("Added")).waitFor();
  await mark(line("Changed")).waitFor();
  assert.equal(await line("Dropped").count(), 0);
  await jmap(me, ["ContactCard/set", { update: { [made.created.c.id]: { titles: { t1: { "@type": "Title", name: "Butcher" } } } } }]);
  await page.context().setOffline(false);
  await page.locator(".unsaved", { hasText: "“Contested Waitley” was not saved: it was changed elsewhere meanwhile. Your version: " }).waitFor({ timeout: 30_000 });
  await page.waitForSelector(".unsaved:has-text('Baker')");
  await page.waitForFunction(() => document.querySelectorAll(".waits").length === 0);
  const of = async () => (await cards(me, "Waitley")).map((c) => `${c.name.components.find((x) => x.kind === "given").value} ${Object.values(c.titles ?? {})[0]?.name ?? ""}`.trim()).sort();
  await until(async () => (await of()).length === 3);
  assert.deepEqual(await of(), ["Added", "Changed Clerk", "Contested Butcher"]);
  await page.click(".unsaved button:has-text('Save my version')");
  await page.waitForFunction(() => !document.querySelector(".unsaved, .waits"));
  assert.deepEqual(await of(), ["Added", "Changed Clerk", "Contested Baker"]);
  assert.deepEqual(page.wrong, []);
});
