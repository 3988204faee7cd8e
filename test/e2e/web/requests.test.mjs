// What the full client asks the server for each action, as the benchmark's driver has it (bench/drive/testdata/requests.json, which
// its own test reads too). Where this fails because the client asks otherwise now, RECORD=1 writes the file anew, and the driver
// (bench/drive/web*.go) has to follow.

import assert from "node:assert/strict";
import { readFileSync, writeFileSync } from "node:fs";
import { after, test } from "node:test";
import { browser, deliver, open, row, signIn, signInAt } from "./world.mjs";

after(() => browser.close());

const file = new URL("../../../bench/drive/testdata/requests.json", import.meta.url);
const byID = ["create", "update", "onSuccessUpdateEmail", "mailboxIds", "calendarIds"];

/** The name of a member without the ids in it; bench/drive/web_test.go has the same. */
const member = (k) => k.replace(/^mailboxIds\/.*/u, "mailboxIds/*").replace(/^participants\/[^/]*/u, "participants/*").replace(/^p\d+-.*/u, "p*");

/** A value in short; bench/drive/web_test.go has the same. */
function shape(name, v) {
  if (v === null) return name === "name" ? "*" : "null";
  if (typeof v === "string") return "*";
  if (Array.isArray(v)) {
    if (v.length === 0) return "[]";
    return name === "properties" || name === "dataTypes" ? JSON.stringify(v) : `[${shape("", v[0])}]`;
  }
  if (typeof v === "object") {
    const names = Object.keys(v).sort();
    if (byID.includes(name) && names.length > 0) return `{*:${shape("", v[names[0]])}}`;
    return `{${[...new Set(names.map((k) => `${member(k)}:${shape(k, v[k])}`))].sort().join(",")}}`;
  }
  return name === "position" ? "*" : JSON.stringify(v);
}

function shapeOf(r, page) {
  const { pathname: path } = new URL(r.url());
  const body = r.method() === "POST" ? r.postData() : null;
  if (path.startsWith("/auth/") || path === "/.well-known/jmap") return `${r.method()} ${path}${body ? ` ${shape("", JSON.parse(body))}` : ""}`;
  if (path.startsWith("/jmap/upload")) return "upload";
  if (!body || !body.includes('"methodCalls"')) return "";
  const calls = JSON.parse(body).methodCalls;
  // Whether somebody is looked for depends on how quick the keys are, and the alerts of events are asked for a few times an hour. A page
  // of mail asks for invitations once when it is opened or comes to the front. The driver leaves all of them out.
  const besides = new URL(page).pathname.startsWith("/calendar") ? /^(?:Principal|ContactCard)\//u : /^(?:Principal|ContactCard|Calendar|CalendarEvent)\//u;
  if (body.includes("defaultAlertsWithTime") || calls.every(([name]) => besides.test(name))) return "";
  return calls.map(([name, args]) => name + shape("", args)).join(" + ");
}

const run = Date.now().toString(36); // of no conversation that is there already
const mail = (subject, more = "") => `From: Mallory <mallory@elsewhere.example>\nTo: bob@example.com\nSubject: ${subject} ${run}\nMessage-ID: <${subject.replace(/\W/g, "")}.${run}@elsewhere.example>\n${more}Date: Sat, 21 Nov 2026 10:00:00 +0000\nMIME-Version: 1.0\nContent-Type: text/plain\n\nWords.\n`;

// Bob's: beside mail that is opened by itself lies no hostile mail of another test (world.mjs).
test("the client asks for what the driver of the benchmark asks for", async () => {
  // The beginning of a conversation, in another folder than its rest will be.
  const other = await open();
  await signIn(other, "bob");
  await deliver("mallory@elsewhere.example", "bob@example.com", mail("Asked before"));
  await row(other, "Asked before").click();
  await other.waitForSelector(".reader h1:has-text('Asked before')");
  const archived = other.waitForResponse((r) => /"update".*"mailboxIds"/.test(r.request().postData() ?? ""));
  await other.keyboard.press("e");
  await archived;
  await other.context().close();
  const page = await open();
  await page.addInitScript(() => localStorage.setItem("doublet:preferences", JSON.stringify({ undoSeconds: 0 })));
  let seen = new Set();
  let last = Date.now();
  const underWay = new Set();
  page.on("request", (r) => {
    const s = shapeOf(r, page.url());
    if (s) {
      seen.add(s);
      underWay.add(r);
    }
    last = Date.now();
  });
  const ended = (r) => {
    underWay.delete(r);
    last = Date.now();
  };
  page.on("response", (r) => ended(r.request()));
  page.on("requestfailed", ended);
  // Each WebSocketPushEnable replaces the one before; parts of a page that listen join its connection one after the other.
  let enabled = "";
  page.on("websocket", (ws) => ws.on("framesent", (f) => {
    seen.delete(enabled);
    enabled = `WebSocket ${shape("", JSON.parse(f.payload))}`;
    seen.add(enabled);
  }));
  const until = async (what) => {
    for (let i = 0; i < 600 && !what(); i++) await page.waitForTimeout(50);
    assert.ok(what());
  };
  const asked = (part) => until(() => [...seen].some((s) => s.includes(part)));
  // All of what is asked behind an action has come when nothing was asked for a while, and the page has nothing to do.
  const calm = async () => {
    for (let before = 0; before !== last;) {
      await until(() => underWay.size === 0 && Date.now() - last > 700);
      before = last;
      await page.evaluate(() => new Promise((done) => requestIdleCallback(() => done())));
    }
  };
  const found = {};
  const done = async (action) => {
    await calm();
    found[action] = new Set([...(found[action] ?? []), ...seen]);
    seen = new Set();
  };

  await signIn(page, "bob");
  await done("sign-in");
  for (const [subject, more] of [["Re: Asked before", `In-Reply-To: <Askedbefore.${run}@elsewhere.example>\n`], ["Asked one"], ["Asked two"]]) {
    await deliver("mallory@elsewhere.example", "bob@example.com", mail(subject, more));
    await row(page, subject).waitFor();
  }
  await done("beside");
  await page.keyboard.press("g");
  await page.keyboard.press("i");
  await done("open");
  await row(page, "Asked one").click();
  await page.waitForSelector("text=Words.");
  await asked("$seen");
  await done("read");
  await page.keyboard.press("s");
  await asked("$flagged");
  await done("flag");
  await page.keyboard.press("u"); // from the list: beside an open message the next one is opened, and so marked read
  for (const key of ["e", "#"]) {
    await page.keyboard.press(key);
    await asked("update:{*:{mailboxIds");
    await done("move");
  }
  await page.keyboard.press("c");
  await page.waitForSelector(".writer .ProseMirror");
  await page.keyboard.type("alice@example.com,");
  await page.fill(".writer .subject input", "Asked by somebody");
  await page.click(".writer .ProseMirror");
  await page.keyboard.type("Some words");
  await page.waitForSelector(".writer >> text=Draft saved");
  await page.setInputFiles(".writer input[type=file]", { name: "notes.bin", mimeType: "application/octet-stream", buffer: Buffer.from("the file") });
  await until(() => [...seen].some((s) => s.includes("attachments:[{") && s.includes("destroy:[*]")));
  await page.waitForSelector(".writer >> text=Draft saved");
  await page.keyboard.press("Control+Enter");
  await asked("Email/set{accountId:*,destroy:[*]}");
  // If the keys were slow, the draft was saved more than once before it had the file.
  for (const s of seen) if (s.includes("attachments:[]") && s.includes("destroy:[*]")) seen.delete(s);
  await done("send");
  await deliver("mallory@elsewhere.example", "bob@example.com", mail("Asked three"));
  await row(page, "Asked three").click();
  await page.waitForSelector(".reader h1:has-text('Asked three')");
  await done("read");
  await page.keyboard.press("r");
  await page.waitForSelector(".writer .ProseMirror");
  await page.keyboard.type("An answer");
  await page.waitForSelector(".writer >> text=Draft saved");
  await page.keyboard.type(" with more");
  await asked("destroy:[*]");
  await page.waitForSelector(".writer >> text=Draft saved");
  await page.keyboard.press("Control+Enter");
  await asked("$answered");
  await done("reply");
  // The calendar is a page of its own: it signs nobody in, and asks for what it shows.
  await page.click(".switch a:has-text('Calendar')");
  await page.waitForSelector(".grid-body");
  await done("calendar");
  const day = new Date(Date.now() + 86_400_000).toISOString().slice(0, 10);
  const save = async (at, title, people) => {
    await at.keyboard.press("n");
    const form = at.locator(".event-form");
    await form.getByLabel(/^Title/u).first().fill(title);
    await form.getByLabel(/^Starts/u).first().fill(day);
    await form.getByLabel(/^Start time/u).first().fill("10:00");
    await form.getByLabel(/^Ends/u).first().fill(day);
    await form.getByLabel(/^End time/u).first().fill("11:00");
    for (const one of people) await form.getByLabel(/^People/u).first().fill(`${one},`);
    await form.locator("button:has-text('Save')").click();
    await form.waitFor({ state: "detached" });
  };
  await save(page, `Alone ${run}`, []);
  await done("appointment");
  await save(page, `Together ${run}`, ["alice@example.com", "carol@example.com"]);
  await done("invite");
  const alice = await open();
  await signInAt(alice, "/calendar/", ".grid-body", "alice");
  await save(alice, `Answer me ${run}`, ["bob@example.com"]);
  const waiting = page.locator(".unanswered", { hasText: `Answer me ${run}` });
  await waiting.waitFor();
  await done("beside the calendar");
  await waiting.click();
  await page.click(".event-card .answer .button:has-text('Accept')");
  await waiting.waitFor({ state: "detached" });
  await done("rsvp");
  assert.deepEqual(page.wrong, []);

  // What a page asks for by itself counts there alone; to open the calendar is to ask for it.
  const beside = ["beside", "beside the calendar"];
  const byItself = (action, s) => !beside.includes(action) && action !== "calendar" && beside.some((b) => found[b].has(s));
  const sorted = Object.fromEntries(Object.entries(found).map(([action, list]) => [action, [...list].filter((s) => !byItself(action, s)).sort()]));
  if (process.env.RECORD) writeFileSync(file, `${JSON.stringify(sorted, null, "\t")}\n`);
  assert.deepEqual(sorted, JSON.parse(readFileSync(file, "utf8")));
});
