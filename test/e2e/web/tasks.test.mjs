// Tasks. Each test has words of its own, so that none sees the tasks of another.

import assert from "node:assert/strict";
import { after, test } from "node:test";
import { barriers, base, boxOf, browser, controlled, counts, deliver, inChromium, open, row, sameDay, signInAt, until } from "./world.mjs";

after(() => browser.close());

const list = (page) => page.goto(`${base}/calendar/tasks`).then(() => page.waitForSelector(".tasks"));
const task = (page, text) => page.locator(".task", { hasText: text }).first();
const group = (page, name, text) => page.locator(`.tasks > section[aria-label="${name}"] .task`, { hasText: text });
const toast = (page, text) => page.waitForSelector(`.toast:has-text("${text}")`);
const day = (n) => new Date(Date.now() + n * 86_400_000).toISOString().slice(0, 10);

async function enter(page, line) {
  await page.fill("#quick", line);
  await page.keyboard.press("Enter");
}

/** Fills the open editor in and saves. */
async function write(page, fields) {
  await page.waitForSelector(".event-form");
  for (const [label, value] of Object.entries(fields)) {
    const field = page.locator(".event-form").getByLabel(new RegExp(`^${label}`, "u")).first();
    if ((await field.evaluate((e) => e.tagName)) === "SELECT") await field.selectOption({ label: value });
    else await field.fill(value);
  }
  await page.click(".event-form button:has-text('Save')");
  await page.waitForSelector(".event-form", { state: "detached" });
}

/** Asks Alice's tasks over CalDAV: the same objects by another door. */
const dav = (method, path, body) => fetch(`${base}/dav/calendars/alice@example.com/${path}`, {
  method, body, headers: { Authorization: `Basic ${Buffer.from("alice:demo").toString("base64")}`, "Content-Type": body?.startsWith("<") ? "application/xml" : "text/calendar", Depth: "1" },
});
/** The address and the text of the VTODO with a summary. */
async function vtodo(summary) {
  const query = '<C:calendar-query xmlns:D="DAV:" xmlns:C="urn:ietf:params:xml:ns:caldav"><D:prop><C:calendar-data/></D:prop><C:filter><C:comp-filter name="VCALENDAR"><C:comp-filter name="VTODO"/></C:comp-filter></C:filter></C:calendar-query>';
  const text = await (await dav("REPORT", "tasks/", query)).text();
  const found = text.split("</D:response>").find((part) => part.includes(`SUMMARY:${summary}`));
  return found && { name: /([^/]+\.ics)<\/D:href>/u.exec(found)[1], text: found };
}

test("a line becomes a task; it is ticked, and CalDAV has the same object", async () => {
  await sameDay();
  const page = await open();
  await signInAt(page, "/calendar/tasks", ".tasks");
  await page.fill("#quick", "Pay the rent tomorrow !");
  await page.waitForSelector("#quick-says:has-text('Pay the rent'):has-text('High')");
  await page.keyboard.press("Enter");
  await group(page, "Tomorrow", "Pay the rent").waitFor();
  await toast(page, "Task added: Pay the rent");
  const made = await vtodo("Pay the rent");
  assert.match(made.text, /DUE;VALUE=DATE:\d{8}/u);
  assert.match(made.text, /PRIORITY:1/u);
  await task(page, "Pay the rent").locator("input").check();
  await toast(page, "Done: Pay the rent");
  await page.waitForSelector(".done-tasks summary");
  assert.match((await vtodo("Pay the rent")).text, /STATUS:COMPLETED/u);
  await page.locator(".toast", { hasText: "Done: Pay the rent" }).locator("button").click();
  await group(page, "Tomorrow", "Pay the rent").waitFor();
  await until(async () => !/COMPLETED/u.test((await vtodo("Pay the rent")).text)); // it is shown before it is done
  // What another program changes comes by push.
  const text = `BEGIN:VCALENDAR\r\nVERSION:2.0\r\nPRODID:x\r\nBEGIN:VTODO\r\nUID:${/UID:(\S+?)(?:&#xD;|\s)/u.exec(made.text)[1]}\r\nDTSTAMP:20260101T000000Z\r\nSUMMARY:Pay the rent late\r\nEND:VTODO\r\nEND:VCALENDAR\r\n`;
  assert.equal((await dav("PUT", `tasks/${made.name}`, text)).status, 204);
  await group(page, "No due date", "Pay the rent late").waitFor();
  assert.deepEqual(page.wrong, []);
});

test("lines in three languages have their days and hours", async () => {
  await sameDay();
  const page = await open({ language: "de-DE" });
  await signInAt(page, "/calendar/tasks", ".tasks");
  await enter(page, "Miete zahlen morgen 15 Uhr");
  await group(page, "Morgen", "Miete zahlen").waitFor();
  await page.locator(".task", { hasText: "Miete zahlen" }).getByText("15:00").waitFor();
  await page.context().close();
  const other = await open({ language: "zh-CN" });
  await signInAt(other, "/calendar/tasks", ".tasks");
  await enter(other, "明天交水费");
  await group(other, "明天", "交水费").waitFor();
  assert.deepEqual(other.wrong, []);
});

test("a task is written, changed, moved to another list and deleted", async () => {
  const page = await open();
  await signInAt(page, "/calendar/tasks", ".tasks");
  await page.click("button[aria-label='New task list']");
  await page.fill("dialog.sheet input", "Household");
  await page.click("dialog.sheet button:has-text('Save')");
  await page.waitForSelector(".shelf:has-text('Household')");
  await page.waitForSelector("dialog.sheet", { state: "detached" });
  await page.keyboard.press("n");
  await write(page, { Title: "Paint the door", Due: day(3), Time: "09:30", Priority: "Medium", Notes: "Blue, two coats" });
  await group(page, "Next 7 days", "Paint the door").waitFor();
  await task(page, "Paint the door").getByText("Blue, two coats").waitFor();
  await task(page, "Paint the door").locator(".task-open").click();
  await write(page, { Title: "Paint both doors", List: "Household", State: "In progress", Due: "" });
  await group(page, "No due date", "Paint both doors").getByText("Household").waitFor();
  await task(page, "Paint both doors").getByText("In progress").waitFor();
  await page.locator(".shelf", { hasText: "Household" }).locator("input").uncheck();
  await page.waitForFunction(() => !document.querySelector(".tasks").textContent.includes("Paint both doors"));
  await page.locator(".shelf", { hasText: "Household" }).locator("input").check();
  await task(page, "Paint both doors").locator(".task-open").focus();
  await page.keyboard.press("y");
  await page.waitForSelector(".done-tasks");
  await page.locator(".toast", { hasText: "Done: Paint both doors" }).locator("button").click();
  await group(page, "No due date", "Paint both doors").waitFor(); // its line among those that are done had no focus to take
  await task(page, "Paint both doors").locator(".task-open").focus();
  await page.keyboard.press("#");
  await toast(page, "Task deleted: Paint both doors");
  await page.waitForFunction(() => !document.querySelector(".tasks").textContent.includes("Paint both doors"));
  await page.locator(".toast", { hasText: "Task deleted" }).locator("button").click();
  await task(page, "Paint both doors").waitFor();
  await page.locator(".shelf", { hasText: "Household" }).hover();
  await page.click("button[aria-label='More for Household']");
  await page.click(".menu button:has-text('Delete list')");
  await page.click("dialog.sheet button:has-text('Delete')");
  await page.waitForFunction(() => !document.querySelector(".side").textContent.includes("Household"));
  await counts(page.locator(".task", { hasText: "Paint both doors" }), 0);
  assert.deepEqual(page.wrong, []);
});

test("what is written in the editor is not lost by a key, a press beside it, or a deletion elsewhere", async () => {
  const page = await open();
  await signInAt(page, "/calendar/tasks", ".tasks");
  await enter(page, "Mend the fence");
  await group(page, "No due date", "Mend the fence").waitFor();
  await toast(page, "Task added: Mend the fence");
  await task(page, "Mend the fence").locator(".task-open").click();
  const notes = page.locator(".event-form").getByLabel("Notes");
  await notes.fill("Two boards");
  await page.keyboard.press("Escape");
  await page.waitForSelector(".said:has-text('Discard')");
  await page.mouse.click(5, 5);
  const { name } = await vtodo("Mend the fence");
  assert.equal((await dav("DELETE", `tasks/${name}`)).status, 204);
  await page.waitForFunction(() => !document.querySelector(".tasks").textContent.includes("Mend the fence"));
  assert.equal(await notes.inputValue(), "Two boards");
  await page.click(".event-form .said button");
  await page.waitForSelector(".event-form", { state: "detached" });
  assert.deepEqual(page.wrong, []);
});

test("a task that repeats: one time is done, the next one comes; the views show both on their days", async () => {
  await sameDay();
  const page = await open();
  await signInAt(page, "/calendar/tasks", ".tasks");
  await page.keyboard.press("n");
  await write(page, { Title: "Water the garden", Due: day(0), Repeat: "Every day" });
  await group(page, "Today", "Water the garden").waitFor();
  await task(page, "Water the garden").locator("input").click(); // the next time takes its place
  await toast(page, "Done: Water the garden");
  await group(page, "Tomorrow", "Water the garden").waitFor();
  await counts(page.locator(".tasks > section .task", { hasText: "Water the garden" }), 1);
  for (const view of ["day", "agenda"]) {
    await page.goto(`${base}/calendar/${view}/${day(0)}`);
    await page.waitForSelector(".task-chip.done:has-text('Water the garden')");
  }
  await page.goto(`${base}/calendar/week/${day(7)}`);
  await page.waitForSelector(".lane .task-chip:has-text('Water the garden'):not(.done)");
  await page.locator(".lane .task-chip", { hasText: "Water the garden" }).first().locator("button").click();
  await page.waitForSelector(".event-form :text('Changes are for all times')");
  await page.click(".event-form button:has-text('Skip this time')");
  await toast(page, "Skipped: Water the garden");
  // Far ahead too: the days that the calendar shows are read.
  await page.goto(`${base}/calendar/week/${day(200)}`);
  await page.waitForSelector(".lane .task-chip:has-text('Water the garden')");
  await list(page);
  await task(page, "Water the garden").locator(".task-open").click();
  await write(page, { "First due": day(2) });
  await group(page, "Next 7 days", "Water the garden").waitFor();
  await task(page, "Water the garden").locator(".task-open").click();
  await page.click(".event-form button:has-text('Delete')");
  await page.waitForFunction(() => !document.querySelector(".tasks > section, .tasks")?.textContent.includes("Water the garden"));
  assert.deepEqual(page.wrong, []);
});

test("an address that names a task that is not there says so, and leaves the keys to the page", async () => {
  const page = await open();
  await signInAt(page, "/calendar/tasks?task=A%2Fnone", ".tasks");
  await toast(page, "This task does not exist any more.");
  await page.keyboard.press("w");
  await page.waitForSelector(".grid-body");
  assert.equal(new URL(page.url()).search, "");
  assert.deepEqual(page.wrong, []);
});

test("an editor that saves before the lists have come saves into the usual one", async () => {
  const page = await open();
  await signInAt(page, "/calendar/tasks", ".tasks");
  let held = [];
  let hold = true;
  await page.route("**/jmap/**", (route) => {
    if (hold && (route.request().postData() ?? "").includes("TaskList/get")) held.push(route);
    else return route.continue();
  });
  await page.evaluate(() => new Promise((done) => {
    const asked = indexedDB.databases().then((list) => Promise.all(list.map(({ name }) => new Promise((next) => Object.assign(indexedDB.deleteDatabase(name), { onsuccess: next, onblocked: next, onerror: next })))));
    void asked.then(done);
  }));
  await page.goto(`${base}/calendar/tasks?task=new`);
  await page.waitForSelector(".event-form");
  await page.locator(".event-form").getByLabel(/^Title/u).first().fill("Asked early");
  await page.click(".event-form button:has-text('Save')");
  await page.waitForSelector(".event-form button:has-text('Save'):disabled");
  hold = false;
  for (const route of held) await route.continue();
  await page.waitForSelector(".event-form", { state: "detached" });
  await task(page, "Asked early").waitFor();
  assert.deepEqual(page.wrong, []);
});

test("a task from a message leads back to it", async () => {
  await deliver("x@other.example", "bob@example.com", "From: Xenia <x@other.example>\nTo: bob@example.com\nSubject: Please send the form\nMessage-ID: <form%7@other.example>\nDate: Thu, 26 Nov 2026 10:00:00 +0000\n\nThe form, please.\n");
  const page = await open();
  await signInAt(page, "/mail/inbox", ".row .subject", "bob");
  await row(page, "Please send the form").click();
  await page.waitForSelector(".pane.read .bar");
  await page.locator(".pane.read .bar button[aria-label='More']").click();
  await page.click(".menu button:has-text('Add to tasks')");
  await page.locator(".toast", { hasText: "Task added" }).locator("button").click();
  await page.waitForSelector(".event-form button:has-text('Open the message')");
  await page.click(".event-form button:has-text('Open the message')");
  await page.waitForURL("**/mail/**message=**");
  await page.waitForSelector(".reader h1:has-text('Please send the form')");
  assert.deepEqual(page.wrong, []);
});

test("tasks are read without the server; a change waits", inChromium("offline"), async () => {
  const page = await open();
  await signInAt(page, "/calendar/tasks", ".tasks");
  await enter(page, "Read offline");
  await toast(page, "Task added: Read offline");
  await controlled(page);
  await page.context().setOffline(true);
  await page.reload();
  await task(page, "Read offline").waitFor();
  await task(page, "Read offline").locator("input").click();
  await page.waitForSelector(".banner:has-text('1 changes wait')"); // waiting.test.mjs has the rest
  await page.context().setOffline(false);
});

test("nobody is kept out: in light, in dark and on a telephone, by keys", async () => {
  for (const size of [{}, { dark: true }, { width: 390, height: 844 }]) {
    const page = await open(size);
    await signInAt(page, "/calendar/tasks", ".tasks");
    if (!size.width && !size.dark) for (const line of ["Oldest of all !", "Second tomorrow", "Third in 3 days"]) { await enter(page, line); await toast(page, line.split(" ")[0]); }
    await task(page, "Third").waitFor();
    assert.deepEqual(await barriers(page), []);
    assert.ok(await page.evaluate(() => document.documentElement.scrollWidth <= innerWidth));
    await page.locator("body").click({ position: { x: 2, y: 2 } });
    await page.keyboard.press("ArrowDown");
    await page.keyboard.press("ArrowDown");
    assert.ok(await page.evaluate(() => document.activeElement.dataset.task));
    await page.keyboard.press("Enter");
    await page.waitForSelector(".event-form");
    assert.deepEqual(await barriers(page), []);
    if (process.env.SHOTS) await page.screenshot({ path: `${process.env.SHOTS}/editor-${size.dark ? "dark" : (size.width ?? "light")}.png` });
    await page.keyboard.press("Escape");
    await page.waitForSelector(".event-form", { state: "detached" });
    if (process.env.SHOTS) {
      await page.screenshot({ path: `${process.env.SHOTS}/tasks-${size.dark ? "dark" : (size.width ?? "light")}.png` });
      await page.goto(`${base}/calendar/week/${day(0)}`);
      await page.waitForSelector(".lane .task-chip");
      await page.screenshot({ path: `${process.env.SHOTS}/week-${size.dark ? "dark" : (size.width ?? "light")}.png` });
    }
    assert.deepEqual(page.wrong, []);
    await page.context().close();
  }
});

/** Drags a task to what takes it, which may be there only while one drags. */
async function drag(page, from, to) {
  const box = await boxOf(from);
  await page.mouse.move(box.x + box.width / 2, box.y + box.height / 2);
  await page.mouse.down();
  await page.mouse.move(box.x + box.width / 2 + 8, box.y + box.height / 2 + 8, { steps: 3 });
  if ((await page.locator(".tasks").count()) > 0) await page.waitForSelector(".drop-days");
  const there = await boxOf(to);
  let x = 40;
  await until(async () => { // the page knows in a moment that it is dragged, and the first move over an element only enters it
    x = 84 - x;
    await page.mouse.move(there.x + x, there.y + there.height / 2, { steps: 3 });
    return (await page.locator(".drop").count()) > 0;
  });
  await page.mouse.up();
  await page.waitForSelector(".drop-days", { state: "detached" });
}

test("a task moves to another list and another day by dragging and by keys; each is undone", inChromium("dragging"), async () => {
  await sameDay();
  const page = await open();
  await signInAt(page, "/calendar/tasks", ".tasks", "bob");
  await page.click(".side button[aria-label='New task list']");
  await page.fill("dialog.sheet input", "Garden");
  await page.click("dialog.sheet button:has-text('Save')");
  await page.waitForSelector("dialog.sheet", { state: "detached" });
  const shelf = page.locator(".shelf", { hasText: "Garden" }).last();
  await shelf.waitFor();
  for (const line of ["Drag me today", "Stay without"]) {
    await enter(page, line);
    await task(page, line.split(" ")[0]).waitFor();
  }
  const moved = async (text) => page.locator(".toast", { hasText: `“Drag me” moved to ${text}` }).last();
  const undo = async (text) => (await moved(text)).locator("button").click();

  await drag(page, task(page, "Drag me"), shelf);
  await (await moved("Garden")).waitFor();
  await page.waitForSelector(".task:has-text('Drag me') .of-list:has-text('Garden')");
  await undo("Garden");
  await page.waitForSelector(".task:has-text('Drag me') .of-list:not(:has-text('Garden'))");
  // A group that stands for a day takes it, and while one drags the days stand below, those without tasks too.
  await drag(page, task(page, "Drag me"), group(page, "No due date", "Stay without"));
  await group(page, "No due date", "Drag me").waitFor();
  await undo("No due date");
  await group(page, "Today", "Drag me").waitFor();
  await drag(page, task(page, "Drag me"), page.locator(".drop-days span", { hasText: "Tomorrow" }));
  await group(page, "Tomorrow", "Drag me").waitFor();
  assert.equal(await page.locator(".drop").count(), 0);
  await (await moved("")).waitFor(); // the browser keeps it too: the next page shows it there

  // In a view of days, and by keys.
  await page.goto(`${base}/calendar/agenda/${day(0)}`);
  const chip = page.locator(".task-chip", { hasText: "Drag me" });
  await chip.locator("button").focus();
  await page.keyboard.press("Alt+ArrowRight");
  await page.waitForSelector(`.agenda-day[data-day="${day(2)}"] .task-chip:has-text("Drag me")`);
  await drag(page, chip, page.locator(`.agenda-day[data-day="${day(0)}"]`));
  await page.waitForSelector(`.agenda-day[data-day="${day(0)}"] .task-chip:has-text("Drag me")`);
  await chip.locator("button").focus();
  await page.keyboard.press("v");
  await page.click(".menu >> text=Garden");
  await (await moved("Garden")).waitFor();
  assert.deepEqual(await barriers(page), []);
  assert.deepEqual(page.wrong, []);
});

test("an alert of a task is shown when it comes, and leads to it; one that is done alerts nobody", async () => {
  const page = await open();
  await signInAt(page, "/calendar/tasks", ".tasks", "carol");
  const soon = new Date(Date.now() + 5 * 60_000 + 25_000);
  const pad = (n) => String(n).padStart(2, "0");
  const local = await page.evaluate((at) => { const d = new Date(at); return [d.getFullYear(), d.getMonth() + 1, d.getDate(), d.getHours(), d.getMinutes()]; }, soon.getTime());
  for (const title of ["Rings for nobody", "Rings for me"]) {
    await page.keyboard.press("n");
    await write(page, { Title: title });
    await task(page, title).locator(".task-open").click();
    const due = { Due: `${local[0]}-${pad(local[1])}-${pad(local[2])}`, Time: `${pad(local[3])}:${pad(local[4])}` };
    await write(page, title.endsWith("nobody") ? { ...due, Alert: "10 minutes before", State: "Done" } : { ...due, Alert: "5 minutes before" }); // the first would ring before the second
  }
  await task(page, "Rings for me").locator(".task-open").click();
  await page.waitForSelector(".event-form");
  assert.equal(await page.locator(".event-form").getByLabel(/^Alert/u).inputValue(), "5");
  await page.click(".event-form button:has-text('Cancel')");
  const ring = page.locator(".toast", { hasText: "Rings for me" }).filter({ hasText: "due" });
  await ring.waitFor({ timeout: 60_000 });
  assert.equal(await page.locator(".toast", { hasText: "Rings for nobody" }).filter({ hasText: "due" }).count(), 0);
  await ring.locator("button").click();
  await page.waitForSelector(".event-form");
  assert.equal(await page.locator(".event-form .title-input").inputValue(), "Rings for me");
  assert.deepEqual(page.wrong, []);
});
