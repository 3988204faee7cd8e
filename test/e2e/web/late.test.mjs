// Calendar, tasks and contacts whose answers come late, are refused or are lost: nothing that the person did is lost or shown undone.
// Each test has a month of 2030 of its own.

import assert from "node:assert/strict";
import { after, test } from "node:test";
import { cards, events, jmap, make, tasks } from "./objects.mjs";
import { base, begin, browser, controlled, counts, deliver, inChromium, keptIn, open, row, signInAt, until } from "./world.mjs";

after(() => browser.close());

const me = "carol";
const event = (page, text) => page.locator(".calendar-view .event", { hasText: text });
const says = (route, text) => (route.request().postData() ?? "").includes(text);

/** Holds back the requests of a page that have a text in them. */
async function hold(page, text) {
  let go;
  const gone = new Promise((done) => (go = done));
  const held = { n: 0, go };
  await page.route("**/jmap/api", async (route) => {
    if (!says(route, text)) return route.fallback();
    held.n++;
    await gone;
    return route.fallback();
  });
  return held;
}

/**
 * Refuses the requests of a page that have a text in them, as a server does that has too much to do, until on is false. headers may tell
 * when the server wants to be asked again.
 */
async function refuse(page, text, status = 429, headers = {}) {
  const refused = { asked: [], on: true };
  await page.route("**/jmap/api", (route) => {
    if (!refused.on || !says(route, text)) return route.fallback();
    refused.asked.push(route.request().postData());
    return route.fulfill({ status, headers, contentType: "application/problem+json", body: JSON.stringify({ type: "urn:ietf:params:jmap:error:limit", limit: "maxConcurrentRequests", status, detail: "Too much is under way already." }) });
  });
  return refused;
}

/** Refuses what a page makes, as a server does whose mail file is full. */
const noRoom = (page) => page.route("**/jmap/api", (route) => {
  if (!says(route, '"create":{')) return route.fallback();
  const full = { type: "overQuota", description: "The mail file is full." };
  const methodResponses = JSON.parse(route.request().postData()).methodCalls.map(([name, { accountId, create }, id]) => [name, { accountId, oldState: "0", newState: "0", notCreated: Object.fromEntries(Object.keys(create).map((key) => [key, full])) }, id]);
  return route.fulfill({ contentType: "application/json", body: JSON.stringify({ methodResponses }) });
});

const answered = (page, text) => page.waitForResponse((r) => r.url().endsWith("/jmap/api") && r.ok() && (r.request().postData() ?? "").includes(text));

/** The browser keeps a fact. */
const keeps = (page, name) => until(async () => name in (await keptIn(page, me, "facts")));

/** Makes the browser of a page keep a fact slowly: while holding is true in the page it does not end. held: it has begun. */
const slowToKeep = (page, name) => page.addInitScript((name) => {
  const put = IDBObjectStore.prototype.put;
  IDBObjectStore.prototype.put = function (value, key) {
    const request = put.call(this, value, key);
    const again = () => {
      if (key !== name || !window.holding) return;
      window.held = true;
      this.get(key).onsuccess = again;
    };
    again();
    return request;
  };
}, name);

/** Changes the title in the editor of an event. */
async function rename(page, where, to) {
  await where.focus();
  await page.keyboard.press("Enter");
  await page.click(".event-card button[aria-label='Edit']");
  await page.locator(".event-form").getByLabel(/^Title/u).first().fill(to);
  await page.click(".event-form button:has-text('Save')");
}

test("an event that is deleted while it is being made stays deleted when the page goes", async () => {
  const page = await open({ worker: false });
  await signInAt(page, "/calendar/week/2030-01-07", ".grid-body", me);
  const making = await hold(page, '"create":{"e"');
  await page.fill("#quick", "Never meant 2030-01-08 10:00");
  await page.keyboard.press("Enter");
  await event(page, "Never meant").focus();
  await until(() => making.n === 1);
  await page.keyboard.press("#");
  await page.waitForSelector(".toast:has-text('deleted')");
  await counts(event(page, "Never meant"), 0);
  await page.evaluate(() => {
    window.seen = 0;
    new MutationObserver(() => (window.seen += document.querySelector(".calendar-view").textContent.includes("Never meant"))).observe(document.body, { childList: true, subtree: true });
  });
  const made = answered(page, '"create":{"e"');
  making.go();
  await made;
  await make(me, { title: "Meant", start: "2030-01-09T09:00:00" }); // what is read after it was made is shown
  await event(page, "Meant").waitFor();
  await counts(event(page, "Never meant"), 0);
  assert.equal(await page.evaluate(() => window.seen), 0);
  await page.close({ runBeforeUnload: true });
  await until(async () => !(await events(me, "2030-01-07", "2030-01-14")).some((e) => e.title === "Never meant"));
  assert.deepEqual(page.wrong, []);
});

test("an event that is deleted before its page knows that it was made is deleted by the next page", async () => {
  const page = await open({ worker: false });
  await signInAt(page, "/calendar/week/2030-07-08", ".grid-body", me);
  let go, asked = false;
  const gone = new Promise((done) => (go = done));
  await page.route("**/jmap/api", async (route) => {
    if (asked || !says(route, '"create":{"e"')) return route.fallback();
    asked = true;
    await gone;
    await route.fetch(); // and the answer never comes
  });
  await page.fill("#quick", "Never known 2030-07-09 10:00");
  await page.keyboard.press("Enter");
  await event(page, "Never known").focus();
  await until(() => asked);
  await page.keyboard.press("#");
  await page.waitForSelector(".toast:has-text('deleted')");
  go();
  await until(async () => (await events(me, "2030-07-08", "2030-07-15")).length === 1);
  const next = await page.context().newPage();
  await page.close({ runBeforeUnload: true });
  await next.goto(`${base}/contacts/all`);
  await until(async () => (await events(me, "2030-07-08", "2030-07-15")).length === 0);
  assert.deepEqual(page.wrong, []);
});

test("what is asked for while the browser keeps the last answer is read: a task and a task list that are new", async () => {
  const page = await open({ worker: false });
  await slowToKeep(page, "tasks");
  await signInAt(page, "/calendar/tasks", ".tasks", me);
  const task = (text) => page.locator(".task", { hasText: text });
  const enter = async (line) => {
    await page.fill("#quick", line);
    await page.keyboard.press("Enter");
    await task(line).waitFor();
  };
  await enter("Late one");
  await page.waitForSelector(".toast:has-text('Late one')"); // it was read back
  const making = await hold(page, '"Late three"');
  await enter("Late three");
  await until(() => making.n === 1);
  await page.evaluate(() => (window.holding = true));
  const [lists] = await jmap(me, ["TaskList/get", { ids: null }]);
  await jmap(me, ["Task/set", { create: { t: { "@type": "Task", title: "Late two", taskListId: lists.list.find((l) => l.role === "inbox").id } } }]);
  await page.waitForFunction(() => window.held);
  const told = answered(page, '"Late three"');
  making.go();
  await told;
  await page.click("button[aria-label='New task list']");
  await page.fill("dialog.sheet input", "Late list");
  const made = answered(page, '"TaskList/set"');
  await page.click("dialog.sheet button:has-text('Save')");
  await made;
  await page.evaluate(() => (window.holding = false));
  await page.waitForSelector(".toast:has-text('Late three')");
  await counts(task("Late"), 3);
  await page.waitForSelector(".shelf:has-text('Late list')");
  await page.waitForSelector("dialog.sheet", { state: "detached" });
  assert.deepEqual(page.wrong, []);
});

test("a change that cannot be read back stays shown: an event and a contact", async () => {
  await make(me, { title: "Old title", start: "2030-02-05T09:00:00" });
  const [books] = await jmap(me, ["AddressBook/get", { ids: null }]);
  const card = { "@type": "Card", version: "1.0", addressBookIds: { [books.list.find((b) => b.isDefault).id]: true }, name: { components: [{ kind: "given", value: "Old" }, { kind: "surname", value: "Lately" }] } };
  await jmap(me, ["ContactCard/set", { create: { a: card } }]);
  const page = await open({ worker: false });
  await signInAt(page, "/calendar/week/2030-02-04", ".grid-body", me);
  await event(page, "Old title").waitFor();
  const month = '"after":"2030-02-01T'; // alerts and invitations are asked for by themselves
  const reading = await refuse(page, month);
  await rename(page, event(page, "Old title"), "New title");
  await page.waitForSelector(".event-form", { state: "detached" });
  await until(() => reading.asked.length > 0);
  await counts(event(page, "Old title"), 0);
  await counts(event(page, "New title"), 1);
  reading.on = false;
  await answered(page, month);
  await counts(event(page, "New title"), 1);

  await page.goto(`${base}/contacts/all?search=Lately`);
  const line = page.locator(".contact-row", { hasText: "Lately" });
  await line.click();
  const syncing = await refuse(page, '"ContactCard/changes"');
  await page.click(".person button[aria-label='Edit'], .pane.read button[aria-label='Edit']");
  await page.locator(".contact-form").getByLabel("First name", { exact: true }).fill("New");
  await page.click(".contact-form button:has-text('Save')");
  await page.waitForSelector(".contact-form", { state: "detached" });
  await until(() => syncing.asked.length > 0);
  assert.match(await line.textContent(), /New/u);
  syncing.on = false;
  await answered(page, '"ContactCard/changes"');
  assert.match(await line.textContent(), /New/u);
  assert.match(JSON.stringify((await cards(me, "Lately"))[0].name), /New/u);
  assert.deepEqual(page.wrong, []);
});

test("what a push tells of is read after a while if the server refuses it: a message, an event, a task and a contact", async () => {
  const page = await open({ worker: false });
  await signInAt(page, "/mail/inbox", ".row .subject", me);
  const [lists, books] = await jmap(me, ["TaskList/get", { ids: null }], ["AddressBook/get", { ids: null }]);
  const task = { "@type": "Task", title: "Refused task", taskListId: lists.list.find((l) => l.role === "inbox").id };
  const card = (full) => ({ "@type": "Card", version: "1.0", addressBookIds: { [books.list.find((b) => b.isDefault).id]: true }, name: { full } });
  await jmap(me, ["ContactCard/set", { create: { card: card("Known Before") } }]);
  for (const [path, there, question, change, shown, last] of [
    ["/mail/inbox", ".row .subject", '"Email/changes"', () => deliver("x@other.example", `${me}@example.com`, `From: x@other.example\nTo: ${me}@example.com\nSubject: Refused message\nMessage-ID: <refused@other.example>\n\nWords.\n`), row(page, "Refused message")],
    ["/calendar/week/2030-09-02", ".grid-body", '"after":"2030-09-01T', () => make(me, { title: "Refused event", start: "2030-09-03T09:00:00" }), event(page, "Refused event")],
    ["/calendar/tasks", ".tasks", '"Task/', () => jmap(me, ["Task/set", { create: { task } }]), page.locator(".task", { hasText: "Refused task" }), '"Task/query"'],
    ["/contacts/all", ".contact-row", '"ContactCard/changes"', () => jmap(me, ["ContactCard/set", { create: { card: card("Refused Contact") } }]), page.locator(".contact-row", { hasText: "Refused Contact" })],
  ]) {
    await page.goto(base + path);
    await page.locator(there).first().waitFor();
    await page.waitForLoadState("networkidle"); // it was read, and it listens
    const reading = await refuse(page, question);
    await change();
    await until(() => reading.asked.some((body) => body.includes(last ?? question))); // a reading that begins anew by itself too
    reading.on = false;
    await shown.waitFor();
  }
  assert.deepEqual(page.wrong, []);
});

test("what the server refuses to read is read again when the server wants to be asked, and no earlier", async () => {
  const page = await open({ worker: false });
  await signInAt(page, "/calendar/week/2030-10-07", ".grid-body", me);
  await page.clock.install();
  await page.goto(`${base}/calendar/week/2030-10-07`);
  await page.waitForSelector(".grid-body");
  await page.waitForLoadState("networkidle"); // it was read, and it listens
  for (const [status, day] of [[429, "08"], [503, "09"]]) {
    const reading = await refuse(page, "", status, { "Retry-After": "60" });
    const asks = () => reading.asked.filter((body) => body.includes('"methodCalls":[["Calendar/get"')).length; // alerts are read with more
    await make(me, { title: `After ${status}`, start: `2030-10-${day}T09:00:00` });
    await until(() => asks() > 0);
    if (status === 503) await page.waitForSelector(".banner");
    const before = asks();
    await page.clock.fastForward(30_000);
    await page.evaluate(() => fetch("/auth/session")); // a request of that time is seen before this one
    assert.equal(asks(), before);
    reading.on = false;
    await page.clock.fastForward(95_000); // others were refused at that time
    await event(page, `After ${status}`).waitFor();
  }
  assert.deepEqual(page.wrong, []);
});

test("a page whose scripts were lost on the way says so, and comes when it is loaded again", async () => {
  const page = await open({ worker: false });
  let lost = 0;
  await page.route("**/assets/page-*.js", (route) => (lost++ === 0 ? route.abort("connectionreset") : route.fallback()));
  await signInAt(page, "/calendar/week/2030-09-09", ".gate:has-text('did not load')", me);
  await page.click(".gate button:has-text('Load it')");
  await page.waitForSelector(".grid-body");
});

test("a calendar whose first requests are refused lives, and a line in the quick entry is not lost", async () => {
  await make(me, { title: "Was there", start: "2030-03-05T09:00:00" });
  const page = await open({ worker: false });
  const opening = await refuse(page, '"Calendar/get"');
  await signInAt(page, "/calendar/week/2030-03-04", ".grid-body", me);
  await until(() => opening.asked.length > 0);
  const line = "Not lost 2030-03-06 10:00";
  await page.fill("#quick", line);
  await page.keyboard.press("Enter");
  await page.waitForSelector(".toast");
  assert.equal(await page.inputValue("#quick"), line);
  await until(() => opening.asked.filter((body) => body.includes('"Preferences/get"')).length > 1); // the second time too
  opening.on = false;
  await event(page, "Was there").waitFor();
  await page.focus("#quick");
  await page.keyboard.press("Enter");
  await event(page, "Not lost").waitFor();
  await until(async () => (await events(me, "2030-03-04", "2030-03-11")).length === 2);
  // What others change comes by push.
  await make(me, { title: "By push", start: "2030-03-07T09:00:00" });
  await event(page, "By push").waitFor();
  assert.deepEqual(page.wrong, []);
});

test("a line that the server refuses is in the quick entry again: an event and a task", async () => {
  const page = await open({ worker: false });
  await noRoom(page);
  for (const [path, there] of [["week/2030-08-05", ".grid-body"], ["tasks", ".tasks"]]) {
    if (path === "tasks") await page.goto(`${base}/calendar/${path}`);
    else await signInAt(page, `/calendar/${path}`, there, me);
    await page.waitForSelector(there);
    const line = `Too much for ${path.slice(0, 4)} 2030-08-06 10:00`;
    await page.fill("#quick", line);
    await page.keyboard.press("Enter");
    await page.waitForSelector(".toast:has-text('The mail file is full')");
    await page.waitForFunction((line) => document.querySelector("#quick").value === line, line);
  }
  assert.deepEqual(page.wrong, []);
});

test("a refused change behind one that is done does not hide what others change", async () => {
  const [lists] = await jmap(me, ["TaskList/get", { ids: null }]);
  const [made] = await jmap(me, ["Task/set", { create: { t: { "@type": "Task", title: "Ticked here", taskListId: lists.list.find((l) => l.role === "inbox").id } } }]);
  const page = await open({ worker: false });
  await signInAt(page, "/calendar/tasks", ".tasks", me);
  const ticking = await hold(page, '"percentComplete":100');
  await noRoom(page);
  await page.locator(".task", { hasText: "Ticked here" }).locator("input").check();
  await until(() => ticking.n === 1);
  await page.fill("#quick", "Refused behind it");
  await page.keyboard.press("Enter");
  await page.locator(".task", { hasText: "Refused behind it" }).waitFor();
  ticking.go();
  await page.waitForSelector(".toast:has-text('The mail file is full')");
  await jmap(me, ["Task/set", { update: { [made.created.t.id]: { title: "Open again elsewhere", progress: "needs-action", percentComplete: null } } }]);
  await page.locator(".task", { hasText: "Open again elsewhere" }).waitFor();
  assert.deepEqual(page.wrong, []);
});

test("of a series, the instance and the whole are there without a network", inChromium("offline"), async () => {
  await make(me, { title: "Both kept", description: "With words", start: "2030-04-01T09:00:00", recurrenceRules: [{ "@type": "RecurrenceRule", frequency: "daily", count: 3 }] });
  const page = await open();
  await signInAt(page, "/calendar/week/2030-04-01", ".grid-body", me);
  await event(page, "Both kept").nth(1).focus();
  await page.keyboard.press("Enter");
  await page.waitForSelector(".event-card:has-text('With words'):has-text('3 times')");
  await page.keyboard.press("Escape");
  await page.waitForSelector(".event-card", { state: "detached" });
  await controlled(page);
  await page.context().setOffline(true);
  await rename(page, event(page, "Both kept").nth(1), "Both there");
  assert.equal(await page.locator(".event-form:has-text('only a part')").count(), 0);
  await page.click("dialog button:has-text('All')");
  await counts(event(page, "Both there"), 3);
  assert.deepEqual(page.wrong, []);
});

test("what the browser keeps of a month is shown while the server does not answer", async () => {
  await make(me, { title: "Kept here", start: "2030-05-07T09:00:00" });
  const page = await open({ worker: false });
  await signInAt(page, "/calendar/week/2030-05-06", ".grid-body", me);
  await event(page, "Kept here").waitFor();
  await keeps(page, "events:2030-05");
  const asked = await hold(page, '"Calendar');
  await page.reload();
  await event(page, "Kept here").waitFor();
  await until(() => asked.n > 0);
  asked.go();
  await make(me, { title: "Came later", start: "2030-05-08T09:00:00" });
  await event(page, "Came later").waitFor();
  await counts(event(page, "Kept here"), 1);
  assert.deepEqual(page.wrong, []);
});

test("the agenda shows no later month before an earlier one", async () => {
  await make(me, { title: "In June", start: "2030-06-27T09:00:00" });
  await make(me, { title: "In July", start: "2030-07-03T09:00:00" });
  const page = await open({ worker: false });
  const june = await hold(page, '"after":"2030-06-01T');
  await signInAt(page, "/calendar/agenda/2030-06-24", ".agenda", me);
  await keeps(page, "events:2030-07"); // it was read and shown
  assert.equal(june.n, 1);
  assert.equal(await event(page, "In July").count(), 0);
  june.go();
  await event(page, "In July").waitFor();
  assert.deepEqual((await event(page, "In J").allTextContents()).map((text) => /In (June|July)/u.exec(text)[1]), ["June", "July"]);
  assert.deepEqual(page.wrong, []);
});

test("a task that gets its id keeps its element, and with it the focus and a press that is under way", async () => {
  const page = await open({ worker: false });
  await signInAt(page, "/calendar/tasks", ".tasks", me);
  const making = await hold(page, '"Task/set"');
  await page.fill("#quick", "Made below the pointer");
  await page.keyboard.press("Enter");
  const button = page.locator(".task:has-text('Made below the pointer') .task-open");
  await button.focus();
  await button.evaluate((e) => (window.first = { element: e, key: e.dataset.task }));
  await until(() => making.n === 1);
  making.go();
  await page.waitForFunction(() => window.first.element.dataset.task !== window.first.key);
  assert.ok(await page.evaluate(() => document.activeElement === window.first.element));
  assert.deepEqual(page.wrong, []);
});

test("a list and a calendar that are hidden and shown again stay shown while the server is told", async () => {
  const page = await open({ worker: false });
  await signInAt(page, "/calendar/week/2030-09-02", ".grid-body", me);
  const make = (type, name) => jmap(me, [`${type}/set`, { create: { x: { name } } }]);
  const shelf = (name) => page.locator(".shelf", { hasText: name });
  for (const type of ["TaskList", "Calendar"]) {
    await make(type, `Hidden ${type}`);
    const box = shelf(`Hidden ${type}`).locator("input");
    await box.waitFor();
    const showing = await hold(page, '"isVisible":true');
    const hidden = answered(page, '"isVisible":false');
    await box.click();
    await box.click();
    await hidden;
    await make(type, `Next ${type}`);
    await shelf(`Next ${type}`).waitFor(); // what the server had in between was read
    assert.equal(await box.isChecked(), true);
    showing.go();
    await until(async () => (await jmap(me, [`${type}/get`, { ids: null }]))[0].list.find((x) => x.name === `Hidden ${type}`).isVisible);
  }
  assert.deepEqual(page.wrong, []);
});

test("a key that is pressed as soon as the page is seen is not lost: calendar and contacts", async () => {
  const page = await open({ worker: false });
  await signInAt(page, "/calendar/week/2030-09-02", ".grid-body", me);
  // What a page does once it was seen comes late.
  await page.addInitScript(() => {
    const timer = window.setTimeout;
    const late = [];
    window.setTimeout = (work, ms, ...more) => timer(() => (ms === undefined && document.querySelector(".calendar-bar, .contact-rows") && !window.goesOn ? late.push(work) : work(...more)), ms);
    window.goOn = () => {
      window.goesOn = true;
      for (const work of late) work();
    };
  });
  for (const [path, seen, form] of [["calendar/week/2030-09-02", ".grid-body", ".event-form"], ["contacts/all", ".contact-rows", ".contact-form"]]) {
    await page.goto(`${base}/${path}`);
    await page.waitForSelector(seen);
    await page.keyboard.press("n");
    await page.evaluate(() => window.goOn());
    await page.waitForSelector(form);
  }
  assert.deepEqual(page.wrong, []);
});

test("a task that is ticked while it is made is there once when it has its id", async () => {
  const page = await open({ worker: false });
  await signInAt(page, "/calendar/tasks", ".tasks", me);
  const making = await hold(page, '"create":{');
  await page.fill("#quick", "Ticked while made");
  await page.keyboard.press("Enter");
  await until(() => making.n === 1);
  const ticking = await hold(page, '"update":{');
  const rows = page.locator(".task:has-text('Ticked while made')");
  await page.evaluate(() => {
    window.most = 0;
    new MutationObserver(() => (window.most = Math.max(window.most, [...document.querySelectorAll(".task")].filter((e) => e.textContent.includes("Ticked while made")).length))).observe(document.body, { childList: true, subtree: true });
  });
  await rows.locator("input").check();
  const made = answered(page, '"create":{');
  making.go();
  await made;
  await until(() => ticking.n === 1);
  ticking.go();
  await until(async () => (await tasks(me)).some((t) => t.title === "Ticked while made" && t.progress === "completed"));
  await counts(rows, 1);
  assert.equal(await page.evaluate(() => window.most), 1);
  assert.deepEqual(page.wrong, []);
});

test("what had no answer is read when the server answers something else", async () => {
  const page = await open({ worker: false });
  await signInAt(page, "/mail/inbox", ".row .subject", me);
  await page.goto(`${base}/mail/inbox`);
  await row(page, "").first().waitFor();
  await page.waitForLoadState("networkidle"); // it was read, and it listens
  let lost = 0, on = true;
  await page.route("**/jmap/api", (route) => {
    if (!on || !says(route, '"Email/changes"')) return route.fallback();
    lost++;
    return route.abort("connectionreset");
  });
  await deliver("x@other.example", `${me}@example.com`, "From: x@other.example\nTo: carol@example.com\nSubject: Not answered\nMessage-ID: <unanswered@other.example>\n\nWords.\n");
  await until(() => lost > 0);
  const other = answered(page, '"SieveRules/get"');
  await page.click("button[aria-label='Settings']");
  await other;
  const before = lost;
  await until(() => lost > before); // it is asked for again, and is lost again
  on = false;
  await row(page, "Not answered").waitFor();
  assert.deepEqual(page.wrong.filter((w) => !/ERR_CONNECTION_RESET/.test(w)), []);
});

/** Takes the signature away that another file's tests gave the person: the words of a message would be written into it. */
async function unsigned() {
  const [{ list }] = await jmap(me, ["Identity/get", { ids: null }]);
  await jmap(me, ["Identity/set", { update: Object.fromEntries(list.map((i) => [i.id, { htmlSignature: "", textSignature: "" }])) }]);
}

/** The drafts that the server has of a subject. */
async function draftsOf(subject) {
  const [, { list }] = await jmap(me, ["Email/query", { filter: { subject } }], ["Email/get", { "#ids": { resultOf: "0", name: "Email/query", path: "/ids" }, properties: ["preview"] }]);
  return list.map((m) => m.preview.trim());
}

test("a message that is gone on with and closed as it is was not lost: the server has it as a draft", async () => {
  await unsigned();
  const page = await open({ worker: false });
  page.on("dialog", (d) => void d.accept()); // leaving with something unsaved is asked about
  await signInAt(page, "/mail/inbox", ".row .subject", me);
  const saving = await refuse(page, '"create":{"d"');
  await begin(page, "bob@example.com", "Gone on with", "Words");
  await page.waitForSelector(".writer [role=status]:has-text('kept')");
  await page.goto(`${base}/mail/inbox`);
  saving.on = false;
  await page.click(".unfinished:has-text('Gone on with') .primary");
  await page.locator(".writer .ProseMirror:has-text('Words')").press("Escape");
  await page.waitForSelector(".writer", { state: "detached" });
  assert.deepEqual(await draftsOf("Gone on with"), ["Words"]);
  assert.deepEqual(page.wrong, []);
});

test("a draft that is opened while its writer closes has all that was written, also where the last save fails", async () => {
  await unsigned();
  const page = await open({ worker: false });
  await signInAt(page, "/mail/inbox", ".row .subject", me);
  await begin(page, "bob@example.com", "Closes late", "One");
  await page.waitForSelector(".writer [role=status]:has-text('Draft saved')");
  await page.click(".folder:has-text('Drafts')");
  for (const [words, isLost] of [["two", false], ["three", true]]) {
    await row(page, "Closes late").waitFor();
    let go, asked = 0, isOpen = false;
    const gone = new Promise((done) => (go = done));
    await page.route("**/jmap/api", async (route) => {
      if (isOpen || !says(route, `${words}</p>`)) return route.fallback();
      asked++;
      await gone;
      return isLost ? route.abort("connectionreset") : route.fallback();
    });
    await page.click(".writer .ProseMirror");
    await page.keyboard.press("Control+End");
    await page.keyboard.type(` ${words}`);
    await page.keyboard.press("Escape");
    await until(() => asked > 0);
    await page.evaluate(() => (document.querySelector(".writer").isFirst = true));
    await row(page, "Closes late").click();
    go();
    await page.waitForFunction((words) => [...document.querySelectorAll(".writer")].some((w) => !w.isFirst && w.querySelector(".ProseMirror")?.textContent.includes(words)), words);
    await counts(page.locator(".writer"), 1);
    isOpen = true;
  }
  await page.locator(".writer .ProseMirror").press("Escape");
  await page.waitForSelector(".writer", { state: "detached" });
  assert.deepEqual(await draftsOf("Closes late"), ["One two three"]);
  assert.deepEqual(page.wrong.filter((w) => !/ERR_CONNECTION_RESET/.test(w)), []);
});

test("each row is in a list once, and none is missing, where two windows meet while a removal waits", async () => {
  const [{ created: { f: { id } } }] = await jmap(me, ["Mailbox/set", { create: { f: { name: "Two windows" } } }]);
  const letter = (n) => ({ mailboxIds: { [id]: true }, keywords: { $seen: true }, subject: `Joint ${String(n).padStart(3, "0")}`, receivedAt: new Date(Date.UTC(2026, 0, 2) - n * 60_000).toISOString().replace(".000", ""), bodyValues: { t: { value: "x" } }, textBody: [{ partId: "t", type: "text/plain" }] });
  await jmap(me, ["Email/set", { create: Object.fromEntries(Array.from({ length: 130 }, (_, n) => [`e${n}`, letter(n + 1)])) }]);
  const page = await open({ worker: false });
  await signInAt(page, "/mail/Two windows", ".row .subject", me);
  await refuse(page, '"Email/set"', 429, { "Retry-After": "600" });
  const scroll = (to) => page.locator(".list .scroll").evaluate((e, to) => (e.scrollTop = to * e.querySelector(".row").offsetHeight), to);
  /** The rows around the end of the first window are the given ones, one after the other. */
  const are = (first, n) => page.waitForFunction(([first, n]) => {
    const rows = [...document.querySelectorAll(".row")].sort((a, b) => a.getBoundingClientRect().top - b.getBoundingClientRect().top).map((r) => Number(/Joint (\d+)/u.exec(r.textContent)?.[1]));
    return rows.includes(first) && rows.includes(first + n) && rows.every((x, i) => i === 0 || x === rows[i - 1] + 1);
  }, [first, n]);
  await page.keyboard.press("#"); // the first one
  await page.waitForSelector(".banner:has-text('come again later')");
  await scroll(55); // the second window is read by itself
  await are(58, 8);
  await jmap(me, ["Email/set", { create: { e: letter(0) } }]);
  await page.waitForSelector(".rows[aria-rowcount='131']"); // both were read in one request
  await scroll(55); // the list has stayed with its rows
  await are(57, 8);
  assert.deepEqual(page.wrong, []);
});

test("a list is read to its end once, and shown to its end, while removals wait: of its messages, and of those of another folder", async () => {
  const [{ created: { f: { id }, g: { id: other } } }] = await jmap(me, ["Mailbox/set", { create: { f: { name: "Has an end" }, g: { name: "Elsewhere" } } }]);
  const letter = (n, id) => ({ mailboxIds: { [id]: true }, keywords: { $seen: true }, subject: `End ${n}`, receivedAt: new Date(Date.UTC(2026, 0, 2) - n * 60_000).toISOString().replace(".000", ""), bodyValues: { t: { value: "x" } }, textBody: [{ partId: "t", type: "text/plain" }] });
  const write = (from, to, id) => jmap(me, ["Email/set", { create: Object.fromEntries(Array.from({ length: to - from + 1 }, (_, n) => [`e${n}`, letter(from + n, id)])) }]);
  await write(1, 60, id);
  await write(201, 205, other);
  const page = await open({ worker: false });
  await signInAt(page, "/mail/Has an end", ".row .subject", me);
  await refuse(page, '"Email/set"', 429, { "Retry-After": "600" });
  const questions = [];
  page.on("request", (r) => (r.postData() ?? "").includes(`"inMailbox":"${id}"`) && questions.push(r.postData()));
  const ofFirst = () => questions.filter((q) => q.includes('"position":0,')).length;
  /** The list ends with a message, and has so many rows. */
  const ends = async (n, rows) => {
    const end = page.locator(".list .scroll");
    await until(async () => {
      await end.evaluate((e) => (e.scrollTop = e.scrollHeight));
      return row(page, `End ${n}`).isVisible();
    });
    const before = questions.length;
    await page.waitForTimeout(1000);
    assert.ok(questions.length - before <= 3, `${questions.length - before} questions in a second`);
    assert.equal(await page.getAttribute(".rows", "aria-rowcount"), `${rows}`);
    assert.equal(await row(page, `End ${n}`).getAttribute("aria-rowindex"), `${rows}`);
    await end.evaluate((e) => (e.scrollTop = 0));
    await row(page, "End 2").waitFor();
  };
  await page.keyboard.press("#"); // the first one
  await page.waitForSelector(".banner:has-text('come again later')");
  await write(61, 61, id);
  await ends(61, 60);
  await page.click(".folder:has-text('Elsewhere')");
  for (let left = 5; left > 0; left--) {
    await counts(page.locator(".row:has-text('End 20')"), left);
    await page.keyboard.press("#");
  }
  await write(62, 64, id);
  await page.click(".folder:has-text('Has an end')");
  await ends(64, 63);
  await write(65, 70, id); // more than the first window is read with
  await page.waitForSelector(".rows[aria-rowcount='70']"); // where it ends is known from the second
  const before = ofFirst();
  assert.ok(before > 0);
  await ends(70, 69);
  assert.equal(ofFirst(), before);
  await page.evaluate(() => {
    window.totals = [];
    const rows = document.querySelector(".rows");
    new MutationObserver(() => window.totals.push(rows.getAttribute("aria-rowcount"))).observe(rows, { attributeFilter: ["aria-rowcount"] });
  });
  const [{ ids }] = await jmap(me, ["Email/query", { filter: { inMailbox: id }, sort: [{ property: "receivedAt", isAscending: false }] }]);
  for (const [n, seen] of [[1, "End 2"], [ids.length - 1, "End 70"]]) { // the first window is read, then both are
    if (n > 1) await page.locator(".list .scroll").evaluate((e) => (e.scrollTop = e.scrollHeight));
    await row(page, seen).waitFor();
    const read = answered(page, `"inMailbox":"${id}"`);
    await jmap(me, ["Email/set", { update: { [ids[n]]: { "keywords/$flagged": true } } }]);
    await read;
    await ends(70, 69);
  }
  assert.deepEqual(await page.evaluate(() => window.totals), []);
  assert.deepEqual(page.wrong, []);
});

test("a list whose beginning is removed, which the server has not heard of, asks for no rows again and again", inChromium("bodies of requests"), async () => {
  const [{ created: { f: { id } } }] = await jmap(me, ["Mailbox/set", { create: { f: { name: "Many go" } } }]);
  const letter = (n) => ({ mailboxIds: { [id]: true }, keywords: { $seen: true }, subject: `Many ${n}.`, receivedAt: new Date(Date.UTC(2026, 0, 2) - n * 60_000).toISOString().replace(".000", ""), bodyValues: { t: { value: "x" } }, textBody: [{ partId: "t", type: "text/plain" }] });
  const made = [];
  for (const from of [1, 301]) made.push((await jmap(me, ["Email/set", { create: Object.fromEntries(Array.from({ length: 300 }, (_, n) => [`e${n}`, letter(from + n)])) }]))[0].created);
  const page = await open({ worker: false });
  await signInAt(page, "/mail/Many go", ".row:has-text('Many 1.')", me);
  const refused = await refuse(page, '"Email/set"', 429, { "Retry-After": "600" });
  await page.locator(".list .scroll").evaluate((e) => (e.scrollTop = 468 * e.querySelector(".row").offsetHeight));
  await row(page, "Many 470.").click({ modifiers: ["Shift"] });
  await page.waitForSelector(".list .bar h2:has-text('470')");
  let asked = 0;
  page.on("request", (r) => (asked += (r.postData() ?? "").includes(`"inMailbox":"${id}"},"sort"`)));
  await page.keyboard.press("#");
  await page.waitForSelector(".banner:has-text('come again later')");
  await page.locator(".list .scroll").evaluate((e) => (e.scrollTop = e.scrollHeight));
  await until(() => asked > 0);
  await page.waitForTimeout(1000);
  const before = asked;
  await page.waitForTimeout(1000);
  assert.ok(asked - before <= 3, `${asked - before} questions in a second`);
  refused.on = false;
  await page.reload();
  await counts(page.locator(".rows[aria-rowcount='130']"), 1);
  for (const n of [471, 600]) {
    await page.locator(".list .scroll").evaluate((e, end) => (e.scrollTop = end ? e.scrollHeight : 0), n === 600);
    await row(page, `Many ${n}.`).waitFor();
  }
  for (const created of made) await jmap(me, ["Email/set", { destroy: Object.values(created).map((m) => m.id) }]);
  await jmap(me, ["Mailbox/set", { destroy: [id] }]);
  assert.deepEqual(page.wrong, []);
});

test("a short window whose rows are dropped, of a list whose beginning is removed and not told, is read again", inChromium("bodies of requests"), async () => {
  const [{ created: { f: { id } } }] = await jmap(me, ["Mailbox/set", { create: { f: { name: "Dropped rows" } } }]);
  const letter = (n) => ({ mailboxIds: { [id]: true }, keywords: { $seen: true }, subject: `Far ${n}.`, receivedAt: new Date(Date.UTC(2026, 0, 2) - n * 60_000).toISOString().replace(".000", ""), bodyValues: { t: { value: "x" } }, textBody: [{ partId: "t", type: "text/plain" }] });
  for (let from = 1; from <= 3000; from += 250) await jmap(me, ["Email/set", { create: Object.fromEntries(Array.from({ length: 250 }, (_, n) => [`e${n}`, letter(from + n)])) }]);
  const page = await open({ worker: false });
  await signInAt(page, "/mail/Dropped rows", ".row:has-text('Far 1.')", me);
  const list = page.locator(".list .scroll");
  const height = await row(page, "Far 1.").evaluate((e) => e.offsetHeight);
  /** Goes to a position, and waits until there are rows near it. */
  const goTo = async (at) => {
    await list.evaluate((e, y) => (e.scrollTop = y), at * height);
    await page.waitForFunction((at) => [...document.querySelectorAll(".row[aria-rowindex]")].some((r) => Math.abs(r.getAttribute("aria-rowindex") - at) < 8), at);
  };
  await refuse(page, '"Email/set"', 429, { "Retry-After": "600" });
  await goTo(718);
  await row(page, "Far 720.").click({ modifiers: ["Shift"] });
  await page.waitForSelector(".list .bar h2:has-text('720')");
  await page.keyboard.press("#");
  await page.waitForSelector(".banner:has-text('come again later')");
  // The list begins with 60 messages that it had; 460 are read for a window: of those from the 360th on 40 are neither removed nor there.
  await goTo(365);
  for (const at of [1100, 1400, 1800, 2200]) await goTo(at); // more rows than stay in memory
  await goTo(365);
  await jmap(me, ["Mailbox/set", { destroy: [id], onDestroyRemoveEmails: true }]);
  assert.deepEqual(page.wrong, []);
});

test("an answer that comes behind that of a later question is not shown: calendars, and invitations that wait", async () => {
  const soon = (days) => `${new Date(Date.now() + days * 86_400_000).toISOString().slice(0, 10)}T09:00:00`;
  const guest = (email, more) => ({ "@type": "Participant", email, sendTo: { imip: `mailto:${email}` }, roles: { attendee: true }, ...more });
  const invite = (title) => make(me, { title, start: soon(20), replyTo: { imip: "mailto:mallory@elsewhere.example" }, participants: { m: guest("mallory@elsewhere.example", { roles: { owner: true } }), me: guest(`${me}@example.com`, { participationStatus: "needs-action" }) } });
  const page = await open({ worker: false });
  await signInAt(page, "/calendar/week/2030-11-04", ".grid-body", me);
  const named = (name) => jmap(me, ["Calendar/set", { create: { x: { name } } }]);
  for (const [kind, question, change] of [["shelf", '"methodCalls":[["Calendar/get"', named], ["visit", '"participationStatus":"needs-action","attendee"', invite]]) {
    const side = (name) => page.locator("nav.side", { hasText: name });
    await change(`First ${kind}`);
    await side(`First ${kind}`).waitFor();
    let go, asked = 0;
    const gone = new Promise((done) => (go = done));
    await page.route("**/jmap/api", async (route) => {
      if (!says(route, question) || asked++ > 0) return route.fallback();
      const response = await route.fetch();
      await gone;
      return route.fulfill({ response });
    });
    await change(`Second ${kind}`);
    await until(() => asked > 0);
    await change(`Third ${kind}`);
    await side(`Third ${kind}`).waitFor();
    await page.evaluate((name) => {
      window.missed = 0;
      new MutationObserver(() => (window.missed += !document.querySelector("nav.side").textContent.includes(name))).observe(document.body, { childList: true, subtree: true, characterData: true });
    }, `Third ${kind}`);
    const told = answered(page, question);
    go();
    await told;
    await change(`Last ${kind}`);
    await side(`Last ${kind}`).waitFor();
    assert.equal(await page.evaluate(() => window.missed), 0);
  }
  assert.deepEqual(page.wrong, []);
});

test("words that are typed before the writer is there are written in it, and are no commands", async () => {
  await unsigned();
  for (const n of [1, 2]) await deliver("x@other.example", `${me}@example.com`, `From: x@other.example\nTo: ${me}@example.com\nSubject: Typed over ${n}\nMessage-ID: <over${n}@other.example>\n\nWords.\n`);
  for (const key of ["c", "r"]) {
    const page = await open({ worker: false });
    let go, asked = 0;
    const gone = new Promise((done) => (go = done));
    await page.route("**/assets/writer-*.js", (route) => (asked++, gone.then(() => route.fallback())));
    await signInAt(page, "/mail/inbox", ".row .subject", me);
    await row(page, "Typed over 2").click();
    await page.waitForSelector(".reader h1:has-text('Typed over 2')");
    await page.keyboard.press(key);
    await until(() => asked > 0);
    for (const words of key === "c" ? ["bob@example.com,", "Told early"] : []) {
      await page.keyboard.type(words);
      await page.keyboard.press("Tab");
    }
    await page.keyboard.type("See #1; eat!x");
    await page.keyboard.press("Backspace");
    await page.keyboard.press("Delete");
    await page.keyboard.press("Enter");
    await page.keyboard.press("Enter");
    await page.keyboard.type("Bye");
    go();
    await page.waitForSelector(".writer .ProseMirror p:has-text('Bye')");
    await page.keyboard.type(" now");
    assert.deepEqual((await page.locator(".writer .ProseMirror > p").allTextContents()).slice(0, 3), ["See #1; eat!", "", "Bye now"]);
    assert.match(await page.textContent(".writer .token"), key === "c" ? /bob/iu : /x@other/u);
    assert.equal(await page.inputValue(".writer .subject input"), key === "c" ? "Told early" : "Re: Typed over 2");
    await counts(page.locator(".row:has-text('Typed over')"), 2); // nothing was archived, deleted or sorted out
    assert.equal(await page.locator("dialog[open], .toast").count(), 0);
    await page.click(".writer [aria-label='Discard draft']");
    await page.waitForSelector(".writer", { state: "detached" });
    assert.deepEqual(page.wrong, []);
    await page.close();
  }
});

test("what is opened before the account is read stays open: settings", async () => {
  const page = await open({ worker: false });
  const folders = await hold(page, '"pins"');
  await signInAt(page, "/", ".top [aria-label='Settings']", me);
  await until(() => folders.n > 0);
  await page.click(".top [aria-label='Settings']");
  await page.waitForSelector("dialog[open]");
  folders.go();
  await page.waitForFunction(() => location.pathname === "/mail/inbox");
  assert.equal(await page.locator("dialog[open]").count(), 1);
  await page.waitForFunction(() => location.search === "?open=settings");
  assert.deepEqual(page.wrong, []);
});
