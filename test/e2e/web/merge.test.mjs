// Mail merge: one text, a message of its own for each of several people, each sent once whatever happens meanwhile.

import assert from "node:assert/strict";
import { after, test } from "node:test";
import { atOnce, barriers, browser, counts, open, row, signIn, signInAt, until } from "./world.mjs";

after(() => browser.close());

const submits = (r) => r.method() === "POST" && (r.postData() ?? "").includes('"EmailSubmission/set"');
const between = (context, how) => context.route("**/jmap/api", (route) => (submits(route.request()) ? how(route) : route.fallback()));

/** The messages that a page asks to be sent, as it makes them, with their envelopes. */
function sendings(page) {
  const list = [];
  page.on("request", (r) => {
    if (!submits(r)) return;
    const calls = r.postDataJSON().methodCalls;
    const email = calls.find(([name]) => name === "Email/set")[1].create.m;
    const { envelope } = calls.find(([name]) => name === "EmailSubmission/set")[1].create.s;
    list.push({ to: email.to, rcpt: envelope.rcptTo.map((r) => r.email), id: email.messageId[0], subject: email.subject, text: email.bodyValues.text.value, html: email.bodyValues.html.value, cc: email.cc });
  });
  return list;
}

/** Begins a message and opens the sheet. */
async function compose(page, subject, text, to = "") {
  await page.keyboard.press("c");
  await page.waitForSelector(".writer .ProseMirror");
  if (to) await page.keyboard.type(to);
  await page.fill(".writer .subject input", subject);
  await page.click(".writer .ProseMirror");
  await page.keyboard.type(text);
}

async function openSheet(page) {
  await page.click(".writer [aria-label='Send to each apart…']");
  await page.waitForSelector("dialog[open] .apart");
}

const table = (page, text) => page.fill("dialog[open] .apart textarea", text);
const go = (page) => page.locator("dialog[open] .apart .ends .primary");
const problems = async (page) => (await page.locator("dialog[open] .apart .said li").allInnerTexts());

/** Waits until the preview begins with some lines: it is drawn into its frame behind what surrounds it. */
async function shows(page, ...lines) {
  const body = page.frameLocator("dialog[open] .letter-preview iframe").locator("body");
  await until(async () => (await body.innerText()).trim().split("\n").slice(0, lines.length).map((l) => l.trim()).join("\n") === lines.join("\n"));
}

/** How many messages of a subject are in a folder, as the server has it. */
const countOf = (page, role, subject) => page.evaluate(async ([role, subject]) => {
  const { csrf } = await (await fetch("/auth/session", { headers: { Accept: "application/json" } })).json();
  const session = await (await fetch("/jmap/session")).json();
  const accountId = session.primaryAccounts["urn:ietf:params:jmap:mail"];
  const call = async (...methodCalls) => (await (await fetch(session.apiUrl, { method: "POST", headers: { "Content-Type": "application/json", "X-CSRF-Token": csrf }, body: JSON.stringify({ using: Object.keys(session.capabilities), methodCalls }) })).json()).methodResponses;
  const boxes = (await call(["Mailbox/get", { accountId, ids: null }, "m"]))[0][1].list;
  const inMailbox = boxes.find((m) => m.role === role).id;
  return (await call(["Email/query", { accountId, filter: { inMailbox, subject } }, "q"]))[0][1].ids.length;
}, [role, subject]);

/** What is read of the messages of a subject by calls that are given their query. */
const read = (page, filter, ...calls) => page.evaluate(async ([filter, calls]) => {
  const { csrf } = await (await fetch("/auth/session", { headers: { Accept: "application/json" } })).json();
  const session = await (await fetch("/jmap/session")).json();
  const accountId = session.primaryAccounts["urn:ietf:params:jmap:mail"];
  const methodCalls = calls.map(([name, args, id]) => [name, { accountId, ...args }, id]);
  const answer = await (await fetch(session.apiUrl, { method: "POST", headers: { "Content-Type": "application/json", "X-CSRF-Token": csrf }, body: JSON.stringify({ using: Object.keys(session.capabilities), methodCalls: [["Email/query", { accountId, filter }, "q"], ...methodCalls] }) })).json();
  return Object.fromEntries(answer.methodResponses.map(([, args, id]) => [id, args]));
}, [filter, calls]);

/** The messages of a subject that the server sends later, with their times and files. */
async function heldOf(page, subject) {
  const found = await read(page, { subject },
    ["Email/get", { "#ids": { resultOf: "q", name: "Email/query", path: "/ids" }, properties: ["subject", "attachments"] }, "e"],
    ["EmailSubmission/query", { filter: { undoStatus: "pending" } }, "s"],
    ["EmailSubmission/get", { "#ids": { resultOf: "s", name: "EmailSubmission/query", path: "/ids" }, properties: ["emailId", "sendAt"] }, "h"]);
  return found.h.list.flatMap((h) => found.e.list.filter((e) => e.id === h.emailId).map((e) => ({ subject: e.subject, at: h.sendAt, files: e.attachments.map((a) => a.name) }))).sort((a, b) => (a.subject < b.subject ? -1 : 1));
}

/** The tables that messages of a subject in a folder have, as the server keeps them. */
async function tablesOf(page, role, subject) {
  const boxes = await read(page, {}, ["Mailbox/get", { ids: null }, "m"]);
  const inMailbox = boxes.m.list.find((m) => m.role === role).id;
  const found = await read(page, { inMailbox, subject }, ["Email/get", { "#ids": { resultOf: "q", name: "Email/query", path: "/ids" }, properties: ["header:Doublet-Merge-Table:asRaw"] }, "e"]);
  return found.e.list.map((e) => e["header:Doublet-Merge-Table:asRaw"]);
}

test("each person gets a message of their own with their values; what is missing is said before any is sent", async () => {
  const page = await open();
  await atOnce(page);
  await signIn(page, "bob");
  const sent = sendings(page);
  await compose(page, "Hello {{ first name }}", "Dear {{First Name}}, your seat is ");
  await page.keyboard.press("Control+b");
  await page.keyboard.type("{{Se");
  await page.keyboard.press("Control+b");
  await page.keyboard.type("at}} & {{Sate}}. ");
  await page.click(".writer [aria-label='Link']");
  await page.fill("dialog[open] input", "https://x.example/?seat={{Seat}}");
  await page.click("dialog[open] .button.primary");
  await openSheet(page);
  assert.equal(await go(page).isDisabled(), true);
  assert.deepEqual(await barriers(page), []);
  await table(page, "First name\tMail\tSeat\nAlice\talice@example.com\t<12>\nCarol\tCarol Kane <carol@example.com>\t\nBob\tnobody\t4");
  assert.deepEqual(await problems(page), ["No column is named “Sate”.", "Row 4 has no email address.", "Row 3 (carol@example.com): “Seat” is empty."]);
  assert.equal(await go(page).isDisabled(), true);
  await table(page, "First name\tMail\tSeat\tSate\nAlice\talice@example.com\t<12>\tÄ\nCarol\tCarol Kane <carol@example.com>\t\t\"x\ny\"\nAlice\tALICE@example.com\t4\tz");
  assert.deepEqual(await problems(page), ["Row 4: ALICE@example.com is in row 2 already.", "Row 3 (carol@example.com): “Seat” is empty."]);
  await table(page, "First name\tMail\tSeat\tSate\nAlice\talice@example.com\t<12>\tÄ\nCarol\tCarol Kane <carol@example.com>\t\t\"x\ny\"");
  assert.deepEqual(await problems(page), ["Row 3 (carol@example.com): “Seat” is empty."]);
  assert.equal(await go(page).innerText(), "Send 2 messages");
  assert.equal(await go(page).isDisabled(), true);

  // Each is seen before.
  await shows(page, "Dear Alice, your seat is <12> & Ä. https://x.example/?seat=<12>");
  await page.click("dialog[open] [aria-label='Next message']");
  await page.waitForSelector("dialog[open] .letter-preview dd:has-text('Hello Carol')");
  await page.waitForSelector("dialog[open] .letter-preview dd:has-text('Carol Kane')");
  await shows(page, "Dear Carol, your seat is & x", "y. https://x.example/?seat=");
  assert.deepEqual(await barriers(page), []);
  assert.deepEqual(sent, []);

  await page.check("dialog[open] .apart .check input");
  await go(page).click();
  await page.waitForSelector(".writer", { state: "detached" });
  await until(() => sent.length === 2);
  assert.deepEqual(sent.map((s) => [s.subject, s.rcpt, s.to]), [
    ["Hello Alice", ["alice@example.com"], [{ name: null, email: "alice@example.com" }]],
    ["Hello Carol", ["carol@example.com"], [{ name: "Carol Kane", email: "carol@example.com" }]],
  ]);
  assert.equal(new Set(sent.map((s) => s.id)).size, 2);
  assert.equal(sent[0].text.split("\n")[0], "Dear Alice, your seat is <12> & Ä. https://x.example/?seat=<12>");
  assert.ok(sent[0].html.includes('href="https://x.example/?seat=%3C12%3E"'), sent[0].html);
  assert.ok(sent[0].html.includes("<strong>&lt;12&gt;</strong>") && sent[0].html.includes("&amp; Ä."), sent[0].html);
  assert.ok(sent[1].html.includes("x<br>y."), sent[1].html);
  const alice = await open();
  await signIn(alice, "alice");
  await row(alice, "Hello Alice").click();
  await alice.waitForSelector(".reader h1:has-text('Hello Alice')");
  assert.equal(await row(alice, "Hello Carol").count(), 0);
  await until(async () => (await countOf(page, "sent", "Hello")) === 2);
  await until(async () => (await countOf(page, "drafts", "Hello")) === 0);
  assert.deepEqual(page.wrong, []);
});

test("people come from To, a file as spreadsheets write it, and a group of the contacts", async () => {
  const page = await open();
  await signInAt(page, "/mail/inbox", ".row .subject", "bob");
  await page.evaluate(async () => {
    const { csrf } = await (await fetch("/auth/session", { headers: { Accept: "application/json" } })).json();
    const session = await (await fetch("/jmap/session")).json();
    const accountId = session.primaryAccounts["urn:ietf:params:jmap:contacts"];
    const call = async (...methodCalls) => (await (await fetch(session.apiUrl, { method: "POST", headers: { "Content-Type": "application/json", "X-CSRF-Token": csrf }, body: JSON.stringify({ using: Object.keys(session.capabilities), methodCalls }) })).json()).methodResponses;
    const book = (await call(["AddressBook/get", { accountId, ids: null }, "b"]))[0][1].list[0].id;
    const card = (given, surname, address) => ({ "@type": "Card", version: "1.0", uid: `merge-${given}`, addressBookIds: { [book]: true }, name: { components: [{ kind: "given", value: given }, { kind: "surname", value: surname }] }, emails: { e: { address } } });
    const [[, made]] = await call(["ContactCard/set", { accountId, create: {
      a: card("Alice", "Liddell", "alice@example.com"), b: card("Zoe", "Stranger", "zoe@elsewhere.example"),
      g: { "@type": "Card", version: "1.0", uid: "merge-group", kind: "group", addressBookIds: { [book]: true }, name: { full: "Tea party" }, members: { "merge-Alice": true } },
    } }, "s"]);
    if (made.notCreated) throw new Error(JSON.stringify(made.notCreated));
  });
  await compose(page, "From where", "Hello {{Name}}", "Dora Doe <dora@elsewhere.example>,emil@elsewhere.example,");
  await openSheet(page);
  const value = () => page.inputValue("dialog[open] .apart textarea");
  assert.equal(await value(), "Name\tEmail\nDora Doe\tdora@elsewhere.example\n\temil@elsewhere.example");
  assert.deepEqual(await problems(page), ["Row 3 (emil@elsewhere.example): “Name” is empty."]);

  // A file with semicolons, quotes, and the letters of another encoding.
  await page.setInputFiles("dialog[open] .apart input[type=file]", { name: "x.csv", mimeType: "text/csv", buffer: Buffer.from('Name;E-Mail;Ort\r\n"M\xfcller; J\xf6rg";joerg@elsewhere.example;"a ""b"""\r\n', "latin1") });
  await page.waitForSelector("dialog[open] .letter-preview dd:has-text('Müller; Jörg')");
  await shows(page, "Hello Müller; Jörg");
  assert.deepEqual(await problems(page), ["dora@elsewhere.example is in To, but not in the table.", "emil@elsewhere.example is in To, but not in the table."]);
  // A table without names of columns.
  await table(page, "anna@elsewhere.example,Anna\nben@elsewhere.example,Ben");
  assert.deepEqual((await problems(page))[0], "No column is named “Name”.");
  await page.waitForSelector("dialog[open] .apart p:has-text('Columns: {{1}} {{2}}')");
  // More than are sent at once.
  await table(page, `Name,Email\n${Array.from({ length: 201 }, (_, i) => `N${i},n${i}@elsewhere.example`).join("\n")}`);
  assert.deepEqual((await problems(page))[0], "Only the first 200 people can get a message at once. Divide the table.");
  assert.equal(await go(page).isDisabled(), true);

  await page.click("dialog[open] .apart button:has-text('From contacts')");
  await page.selectOption("dialog[open] .apart .sources select", { label: "Tea party" });
  assert.equal(await value(), "Name\tFirst name\tLast name\tEmail\tCompany\nAlice Liddell\tAlice\tLiddell\talice@example.com\t");
  // The keys of the client are not those of the sheet; it is left by Escape, and the table stays with what is written.
  await page.focus("dialog[open] .apart .ends .button");
  await page.keyboard.press("c");
  await counts(page.locator(".writer"), 1);
  await page.keyboard.press("Escape");
  await page.waitForSelector("dialog[open]", { state: "detached" });
  await counts(page.locator(".writer"), 1);
  await openSheet(page);
  assert.equal((await value()).split("\n").length, 2);
  await page.keyboard.press("Escape");
  await page.click(".writer [aria-label='Discard draft']");
  await page.waitForSelector(".writer", { state: "detached" });
  assert.deepEqual(page.wrong, []);
});

const three = "First\tEmail\nAlice\talice@example.com\nCarol\tcarol@example.com\nBob\tbob@example.com";

test("a reload in the middle, and an answer that is lost, send nothing twice and forget nobody", async () => {
  const page = await open();
  await atOnce(page);
  await signIn(page, "bob");
  let n = 0, lost = false;
  // The server carries the second out, but its answer does not come; nothing more reaches it until the reload.
  await between(page.context(), async (route) => {
    n++;
    if (n === 1) return route.fallback();
    if (n === 2) await route.fetch();
    lost = true;
    return route.abort("internetdisconnected");
  });
  await compose(page, "Once for {{First}}", "Words");
  await openSheet(page);
  await table(page, three);
  await go(page).click();
  await page.waitForSelector(".writer", { state: "detached" });
  await until(() => lost);
  await page.context().unroute("**/jmap/api");
  await page.reload();
  await page.waitForSelector(".row .subject");
  await until(async () => (await countOf(page, "sent", "Once for")) === 3);
  await until(async () => (await page.evaluate(() => new Promise((resolve) => {
    const opening = indexedDB.open("doublet:bob@example.com");
    opening.onsuccess = () => {
      const all = opening.result.transaction("outbox").objectStore("outbox").count();
      all.onsuccess = () => { opening.result.close(); resolve(all.result); };
    };
  }))) === 0);
  assert.equal(await page.locator(".unfinished, .writer").count(), 0);
  for (const [who, name] of [["alice", "Alice"], ["carol", "Carol"], ["bob", "Bob"]]) {
    const other = await open();
    await signIn(other, who);
    await row(other, `Once for ${name}`).waitFor();
    assert.equal(await countOf(other, "inbox", "Once for"), 1, who);
    await other.context().close();
  }
  assert.deepEqual(page.wrong, []);
});

test("written without a network it waits as one, can be undone, and is sent when the server answers", async () => {
  const page = await open();
  await signIn(page, "bob");
  await compose(page, "Waits for {{First}}", "Words");
  await openSheet(page);
  await page.context().setOffline(true);
  await table(page, three);
  await go(page).click();
  await page.waitForSelector(".toast:has-text('Sending 3 messages in 8 s')");
  await page.click(".toast button:has-text('Undo')");
  await page.waitForSelector(".toast:has-text('taken back')");
  await page.waitForSelector(".writer .ProseMirror:has-text('Words')");
  await openSheet(page);
  assert.equal(await page.inputValue("dialog[open] .apart textarea"), three);
  await go(page).click();
  await page.waitForSelector(".writer", { state: "detached" });
  await page.context().setOffline(false);
  await page.reload();
  await page.waitForSelector(".row .subject");
  assert.equal(await page.locator(".unfinished").count(), 0);
  await until(async () => (await countOf(page, "sent", "Waits for")) === 3);
  await until(async () => (await countOf(page, "drafts", "Waits for")) === 0);
  assert.deepEqual(page.wrong, []);
});

test("who is refused is said, and the writer opens again for them alone", async () => {
  const page = await open();
  await atOnce(page);
  await signIn(page, "bob");
  await between(page.context(), async (route) => {
    const { methodCalls } = route.request().postDataJSON();
    if (!JSON.stringify(methodCalls).includes('"carol@example.com"')) return route.fallback();
    const answers = methodCalls.map(([name, args, id]) => [name, { accountId: args.accountId, ...(name === "EmailSubmission/set" ? { notCreated: { s: { type: "forbiddenToSend", description: "Not to Carol." } } } : { created: null, notCreated: null }) }, id]);
    return route.fulfill({ json: { methodResponses: answers, sessionState: "x" } });
  });
  await compose(page, "Refused for {{First}}", "Words for {{First}}");
  await openSheet(page);
  await table(page, three);
  await go(page).click();
  await page.waitForSelector(".toast:has-text('1 of 3 messages were not sent: Not to Carol.')");
  await page.waitForSelector(".writer .ProseMirror:has-text('Words for {{First}}')");
  assert.equal(await countOf(page, "sent", "Refused for"), 2);
  await page.context().unroute("**/jmap/api");
  await openSheet(page);
  assert.equal(await page.inputValue("dialog[open] .apart textarea"), "First\tEmail\nCarol\tcarol@example.com");
  await go(page).click();
  await until(async () => (await countOf(page, "sent", "Refused for")) === 3);
  assert.deepEqual(page.wrong, []);
});

test("all get the same files, at a later time; a reload sends none of them twice", async () => {
  const page = await open();
  await atOnce(page);
  await signIn(page, "bob");
  await compose(page, "Later for {{First}}", "Words for {{First}}");
  await page.setInputFiles(".writer input[type=file]", { name: "plan.txt", mimeType: "text/plain", buffer: Buffer.from("The plan of all") });
  await page.waitForSelector(".writer .files .file:has-text('plan.txt'):not(:has(progress))"); // it is uploaded
  await openSheet(page);
  await table(page, three);
  const when = page.locator("dialog[open] .apart > .field select");
  await when.selectOption("pick");
  await page.fill("dialog[open] input[type=datetime-local]", "2020-01-01T10:00");
  await page.waitForSelector("dialog[open] .said:has-text('Choose a time between now and')");
  await go(page).click();
  await page.waitForSelector("dialog[open] .apart"); // it stays
  assert.deepEqual(await barriers(page), []);
  await when.selectOption({ index: 1 });
  await page.waitForSelector("dialog[open] .apart .primary:has-text('Schedule 3 messages')");

  // The server gets the second message, and its answer is lost: the page goes on after a reload.
  const times = new Set();
  let n = 0, lost = false;
  await between(page.context(), async (route) => {
    const { methodCalls } = route.request().postDataJSON();
    times.add(methodCalls.find(([name]) => name === "EmailSubmission/set")[1].create.s.envelope.mailFrom.parameters.HOLDUNTIL);
    if (++n !== 2) return route.fallback();
    await route.fetch();
    lost = true;
    return route.abort();
  });
  await go(page).click();
  await page.waitForSelector(".toast:has-text('3 messages are scheduled for')");
  await until(() => lost);
  await page.reload();
  await page.waitForSelector(".row .subject");
  await until(async () => (await countOf(page, "sent", "Later for")) === 3);
  assert.equal(times.size, 1);
  await until(async () => (await countOf(page, "drafts", "Later for")) === 0);
  assert.deepEqual(await heldOf(page, "Later for"), ["Later for Alice", "Later for Bob", "Later for Carol"].map((subject) => ({ subject, at: [...times][0], files: ["plan.txt"] })));
  const alice = await open();
  await signIn(alice, "alice");
  assert.equal(await countOf(alice, "inbox", "Later for"), 0);
  assert.deepEqual(page.wrong, []);
});

test("the table is in the draft: another browser goes on with it, and no message has it", async () => {
  const people = "First\tEmail\nÄlice 🂡\talice@example.com\nCarol\tcarol@example.com";
  const page = await open();
  await signIn(page, "bob");
  await compose(page, "Moved for {{First}}", "Words for {{First}}");
  await openSheet(page);
  await table(page, people);
  await page.keyboard.press("Escape");
  await page.click(".writer [aria-label='Close']");
  await page.waitForSelector(".writer", { state: "detached" });
  await page.context().close();

  const other = await open();
  await atOnce(other);
  await signIn(other, "bob");
  const sent = sendings(other);
  await other.keyboard.press("g");
  await other.keyboard.press("d");
  await row(other, "Moved for").click();
  await other.waitForSelector(".writer .ProseMirror:has-text('Words for')");
  await openSheet(other);
  assert.equal(await other.inputValue("dialog[open] .apart textarea"), people);
  await go(other).click();
  await until(async () => (await countOf(other, "sent", "Moved for")) === 2);
  await until(async () => (await countOf(other, "drafts", "Moved for")) === 0);
  assert.deepEqual(sent.map((s) => s.subject), ["Moved for Älice 🂡", "Moved for Carol"]);
  assert.deepEqual(await tablesOf(other, "sent", "Moved for"), [null, null]);

  // One that is too long stays in this browser, and that is said.
  await compose(other, "Long", "{{1}}");
  await openSheet(other);
  await table(other, `alice@example.com\t${"x".repeat(9_000)}\n`.repeat(9));
  await other.waitForSelector("dialog[open] .apart p:has-text('only this browser keeps it')");
  await other.keyboard.press("Escape");
  await other.click(".writer [aria-label='Close']");
  await other.waitForSelector(".writer", { state: "detached" });
  assert.deepEqual(await tablesOf(other, "drafts", "Long"), [null]);
  assert.deepEqual(other.wrong, []);
});

test("the sheet is whole on a phone, dark, in every language", async () => {
  for (const [language, button] of [["de-DE", "2 Nachrichten senden"], ["zh-CN", "发送 2 封邮件"]]) {
    const page = await open({ width: 390, height: 800, dark: true, language });
    await signInAt(page, "/mail/inbox", ".row .subject", "bob");
    await page.click(".float");
    await page.waitForSelector(".writer .ProseMirror");
    await page.fill(".writer .subject input", "x");
    await page.locator(".writer footer .tool").nth(1).click();
    await page.waitForSelector("dialog[open] .apart");
    await table(page, "Name\tEmail\nAlice\talice@example.com\nCarol\tcarol@example.com");
    await page.waitForSelector(`dialog[open] .apart .primary:has-text('${button}')`);
    assert.equal(await page.evaluate(() => document.querySelector("dialog[open]").scrollWidth <= document.querySelector("dialog[open]").clientWidth), true);
    assert.deepEqual(await barriers(page), []);
    assert.deepEqual(page.wrong, []);
    await page.context().close();
  }
});
