// The full client in Chromium, against a server of its own: what a person does in a day.

import assert from "node:assert/strict";
import { after, test } from "node:test";
import { jmap } from "./objects.mjs";
import { atOnce, barriers, base, becomes, begin, boxOf, browser, controlled, counts, deliver, keptIn, open, row, signIn, signInAt, until } from "./world.mjs";

after(() => browser.close());

const mail = (subject, body, more = "", kind = "text/plain") =>
  `From: Mallory <mallory@elsewhere.example>\nTo: alice@example.com\nSubject: ${subject}\nMessage-ID: <${subject.replace(/\W/g, "")}@elsewhere.example>\nDate: Sat, 21 Nov 2026 10:00:00 +0000\nMIME-Version: 1.0\nContent-Type: ${kind}; charset=utf-8\n${more}\n${body}`;

test("a wrong password is told, a right one opens the inbox, signing out ends it", async () => {
  const page = await open();
  await page.goto(base);
  await page.fill("input[name=user]", "alice");
  await page.fill("input[name=password]", "wrong");
  await page.click("button.primary");
  await page.waitForSelector("[role=alert]");
  await page.fill("input[name=password]", "demo");
  await page.click("button.primary");
  await page.waitForSelector(".row .subject");
  await page.click(".top .tool >> nth=-1");
  await page.click("text=Sign out");
  await page.waitForSelector("main.gate input[name=password]"); // the page that was loaded anew
  await page.goto(base);
  await page.waitForSelector("input[name=password]");
  assert.deepEqual(page.wrong, []);
});

test("mail that comes is shown by itself, read, flagged, filed and brought back", async () => {
  const page = await open();
  await signIn(page);
  await deliver("mallory@elsewhere.example", "alice@example.com", mail("A line of news", "Something has happened.\n\n> quoted\n> words\n"));
  await row(page, "A line of news").waitFor();
  assert.match(await row(page, "A line of news").getAttribute("class"), /unread/);
  await row(page, "A line of news").click();
  await page.waitForSelector(".reader h1:has-text('A line of news')");
  await page.waitForSelector("text=Something has happened.");
  assert.equal(await page.locator("text=> words").count(), 0);
  await page.click("text=Show quoted text");
  await page.waitForSelector("text=> words");
  await page.waitForFunction(() => !document.querySelector(".row.unread.at"));
  await page.keyboard.press("s");
  await row(page, "A line of news").locator(".flag").waitFor();
  await page.keyboard.press("#");
  await page.waitForSelector(".toast:has-text('moved to Trash')");
  assert.equal(await page.locator(".row:has-text('A line of news')").count(), 0);
  await page.click(".toast >> text=Undo");
  await row(page, "A line of news").waitFor();
  assert.deepEqual(page.wrong, []);
});

test("the cursor stays with its message when mail comes: what is deleted by a key is what was marked", async () => {
  const page = await open();
  await signIn(page, "bob");
  for (const subject of ["Keep this one", "Mark this one"]) {
    await deliver("mallory@elsewhere.example", "bob@example.com", mail(subject, "x"));
    await row(page, subject).waitFor();
  }
  await page.keyboard.press("Home");
  await page.waitForSelector(".row.at:has-text('Mark this one')");
  await deliver("mallory@elsewhere.example", "bob@example.com", mail("Comes meanwhile", "x"));
  await row(page, "Comes meanwhile").waitFor();
  await page.waitForSelector(".row.at:has-text('Mark this one')");
  await page.keyboard.press("Delete");
  await page.waitForSelector(".toast:has-text('moved to Trash')");
  assert.equal(await row(page, "Mark this one").count(), 0);
  await counts(row(page, "Comes meanwhile"), 1);
  await counts(row(page, "Keep this one"), 1);
  assert.deepEqual(page.wrong, []);
});

/** Lines in a folder of Bob, by the minute, and the list of the folder on a page; with pinned, another line is pinned. */
async function lines(name, n, pinned = false) {
  const [{ created: { f: { id } } }] = await jmap("bob", ["Mailbox/set", { create: { f: { name } } }]);
  const letter = (n, keywords) => ({ mailboxIds: { [id]: true }, keywords: { $seen: true, ...keywords }, subject: `Line ${n}.`, receivedAt: new Date(Date.UTC(2026, 0, 2) - n * 60_000).toISOString().replace(".000", ""), bodyValues: { t: { value: "x" } }, textBody: [{ partId: "t", type: "text/plain" }] });
  const write = async (...letters) => Object.values((await jmap("bob", ["Email/set", { create: Object.fromEntries(letters.map((m, i) => [`e${i}`, m])) }]))[0].created).map((m) => m.id);
  const ids = await write(...Array.from({ length: n }, (_, i) => letter(i + 1)));
  if (pinned) await write(letter(200, { $pinned: true }));
  const page = await open({ worker: false });
  await signInAt(page, `/mail/${name}`, ".row:has-text('Line 1.')", "bob");
  const list = page.locator(".list .scroll");
  /** The rows in sight, by their distances from the top of the list. */
  const seen = () => list.evaluate((e) => Object.fromEntries([...e.querySelectorAll(".row")].map((r) => [Math.round(r.getBoundingClientRect().top - e.getBoundingClientRect().top), /Line (-?\d+)/u.exec(r.textContent)?.[1]]).filter(([y]) => y > -76 && y < e.clientHeight)));
  const scroll = async (at) => {
    await list.evaluate((e, y) => (e.scrollTop = y), at * 76);
    await until(async () => Object.values(await seen()).every((n) => n) && (await list.evaluate((e) => e.scrollTop)) > 0);
    return seen();
  };
  /** Waits until the list has n rows. */
  const has = (n) => page.waitForSelector(`.rows[aria-rowcount='${n}']`);
  const end = async () => {
    await jmap("bob", ["Mailbox/set", { destroy: [id], onDestroyRemoveEmails: true }]);
    assert.deepEqual(page.wrong, []);
  };
  return { letter, write, ids, page, list, seen, scroll, has, end };
}

test("a list that was scrolled stays where it is when mail comes or goes; at its top it shows what comes", async () => {
  const { letter, write, ids, page, list, seen, scroll, has, end } = await lines("Scrolled", 130, true);
  await page.keyboard.press("j");
  await page.waitForSelector(".row.at:has-text('Line 1.')");
  const before = await scroll(70.5);
  const top = Math.min(...Object.keys(before));
  assert.equal(before[top], "70");
  await write(letter(0));
  await has(132);
  await becomes(seen, before);
  await write(...Array.from({ length: 20 }, (_, i) => letter(-i - 1)));
  await has(152);
  await becomes(seen, before);
  await jmap("bob", ["Email/set", { destroy: ids.slice(2, 5) }]);
  await has(149);
  await becomes(seen, before);
  await jmap("bob", ["Email/set", { update: { [ids[69]]: { "keywords/$pinned": true } } }]); // the first one in sight goes to the top alone
  await page.locator(".row:has-text('Line 70.')").waitFor({ state: "detached" });
  await becomes(seen, { ...before, [top]: "69" });
  await jmap("bob", ["Email/set", { update: { [ids[69]]: { "keywords/$pinned": null } } }]);
  await becomes(seen, before);
  // The cursor, which is out of sight, has stayed with its message, and a key leads to it.
  await page.keyboard.press("j");
  await page.waitForSelector(".row.at:has-text('Line 2.')");
  await until(async () => Object.values(await seen()).includes("2"));
  await page.keyboard.press("Home");
  await write(letter(-21, { $pinned: true }));
  await page.waitForSelector(".row[aria-rowindex='1']:has-text('Line -21.')");
  assert.equal(await list.evaluate((e) => e.scrollTop), 0);
  await end();
});

test("a list at its end stays there when messages above go", async () => {
  const { ids, seen, scroll, has, end } = await lines("Ended", 50);
  const before = await scroll(50);
  await jmap("bob", ["Email/set", { destroy: ids.slice(2, 5) }]);
  await has(47);
  await becomes(seen, before);
  await end();
});

test("a list stays where it is when the first two in sight go to its top", async () => {
  const { ids, seen, scroll, end } = await lines("Held", 130, true);
  const before = await scroll(70.5);
  const [first, second] = Object.keys(before).sort((a, b) => a - b);
  assert.deepEqual([before[first], before[second]], ["70", "71"]);
  await jmap("bob", ["Email/set", { update: Object.fromEntries(ids.slice(69, 71).map((id) => [id, { "keywords/$pinned": true }])) }]);
  await becomes(seen, { ...before, [first]: "68", [second]: "69" });
  await end();
});

test("a list stays where it is when more messages come than it reads at once", async () => {
  const { letter, write, seen, scroll, has, end } = await lines("Flooded", 130);
  const before = await scroll(70.5);
  await write(...Array.from({ length: 70 }, (_, i) => letter(-i)));
  await has(200);
  await becomes(seen, before);
  await end();
});

test("a list at its top shows what comes, however much it is, and the cursor stays with its message", async () => {
  const { letter, write, page, seen, has, end } = await lines("Topmost", 60);
  const before = await seen();
  await write(...Array.from({ length: 30 }, (_, i) => letter(-i)));
  await has(90);
  await write(letter(-30));
  await has(91);
  await becomes(seen, Object.fromEntries(Object.entries(before).map(([y, n]) => [y, String(n - 31)])));
  await page.keyboard.press("j");
  await page.waitForSelector(".row.at:has-text('Line 2.')");
  await end();
});

test("a list that a message hides in a narrow window is where it was when one returns, though mail came meanwhile", async () => {
  const { letter, write, page, seen, scroll, end } = await lines("Hidden", 130);
  await page.setViewportSize({ width: 390, height: 700 });
  const before = await scroll(70.5);
  for (const [n, back] of [[0, () => page.goBack()], [-1, () => page.click(".read [aria-label='Back']")]]) {
    await row(page, "Line 74.").dispatchEvent("click"); // click() may scroll
    await page.waitForSelector(".frame[data-pane=read] .reader h1:has-text('Line 74.')");
    await write(letter(n));
    await page.waitForSelector(`.rows[aria-rowcount='${131 - n}']`, { state: "attached" });
    await back();
    await page.waitForSelector(".frame[data-pane=list]");
    await becomes(seen, before);
  }
  await page.keyboard.press("j");
  await page.waitForSelector(".row.at:has-text('Line 75.')");
  await end();
});

test("a folder behind a search opens at its top, with the cursor there", async () => {
  const { page, seen, has, end } = await lines("Searched", 60);
  const before = await seen();
  await page.fill(".search input", "Line 50 in:Searched");
  await page.keyboard.press("Enter");
  await has(1);
  await page.click(".list [aria-label='End the search']");
  await has(60);
  await page.keyboard.press("j");
  await page.waitForSelector(".row.at:has-text('Line 2.')");
  await becomes(seen, before);
  await end();
});

test("a list that the browser kept stays where it was scrolled when the server tells that it is longer", async () => {
  const { letter, write, page, seen, scroll, has, end } = await lines("Stale", 130);
  const before = await scroll(80.5);
  await write(letter(0));
  await has(131);
  await until(async () => Object.values(await keptIn(page, "bob", "lists")).some((ids) => ids.length === 120)); // two windows
  let answer;
  const answered = new Promise((done) => (answer = done));
  await page.route("**/jmap/**", async (route) => {
    if (route.request().postData()?.includes('"collapseThreads"')) await answered;
    await route.continue();
  });
  await page.reload();
  await has(120);
  const held = await scroll(81.5);
  assert.deepEqual(held, before);
  answer();
  await has(131);
  await becomes(seen, held);
  await end();
});

test("two browsers on one mailbox show the same", async () => {
  const [one, two] = [await open(), await open()];
  await signIn(one);
  await signIn(two);
  await deliver("mallory@elsewhere.example", "alice@example.com", mail("Seen by both", "x"));
  await row(one, "Seen by both").waitFor();
  await row(two, "Seen by both").click();
  await one.waitForFunction(() => [...document.querySelectorAll(".row")].some((r) => r.textContent.includes("Seen by both") && !r.classList.contains("unread")));
  await two.keyboard.press("e");
  await one.waitForFunction(() => ![...document.querySelectorAll(".row")].some((r) => r.textContent.includes("Seen by both")));
  assert.deepEqual([...one.wrong, ...two.wrong], []);
});

test("a message is written, kept as a draft, sent, taken back, sent again, and arrives", async () => {
  const page = await open();
  await signIn(page);
  await page.keyboard.press("c");
  await page.waitForSelector(".writer .ProseMirror");
  await page.keyboard.type("bob@example.com,");
  await page.fill(".writer .subject input", "Written in a browser");
  await page.click(".writer .ProseMirror");
  await page.keyboard.press("Control+b");
  await page.keyboard.type("Bold");
  await page.keyboard.press("Control+b");
  await page.keyboard.type(" words, and attached a file");
  await page.setInputFiles(".writer input[type=file]", { name: "notes.txt", mimeType: "text/plain", buffer: Buffer.from("the file") });
  await page.waitForSelector(".writer .file:has-text('notes.txt'):not(:has(progress))"); // it is uploaded
  await page.waitForSelector(".writer >> text=Draft saved");
  await page.click(".writer footer .primary");
  await page.waitForSelector(".toast:has-text('Sent in')");
  await page.click(".toast >> text=Undo");
  await page.waitForSelector(".writer .ProseMirror >> text=words");
  await page.keyboard.press("Control+Enter");
  const bob = await open();
  await signIn(bob, "bob");
  await row(bob, "Written in a browser").waitFor({ timeout: 30_000 });
  await row(bob, "Written in a browser").click();
  await bob.waitForSelector(".file:has-text('notes.txt')");
  const frame = bob.frameLocator("iframe").first();
  assert.equal(await frame.locator("strong").textContent(), "Bold");
  await page.click(".folder:has-text('Sent')");
  await row(page, "Written in a browser").waitFor();
  await page.click(".folder:has-text('Drafts')");
  await page.waitForFunction(() => ![...document.querySelectorAll(".row")].some((r) => r.textContent.includes("Written in a browser")));
  assert.deepEqual([...page.wrong, ...bob.wrong], []);
});

test("a search finds while one types, with operators, and marks what it found", async () => {
  const page = await open();
  await signIn(page);
  await page.fill("#search", "cake");
  await page.waitForSelector(".row mark:has-text('cake')");
  await page.fill("#search", "subject:minutes -is:unread from:nobody");
  await page.waitForSelector("text=Nothing found");
  await page.fill("#search", "");
  await page.waitForSelector(".bar h2:has-text('Inbox')");
  assert.deepEqual(page.wrong, []);
});

test("hostile mail runs nothing, loads nothing and leaves the page alone", async () => {
  const hostile = [
    `<script>top.hacked=1</script><img src=x onerror="top.hacked=2"><svg onload="top.hacked=3"></svg>`,
    `<a href="javascript:top.hacked=4">press</a><form action="https://evil.example"><input name=password><button>Sign in</button></form>`,
    `<style>@import url(https://evil.example/a.css);body{background:url(https://evil.example/b.png)}</style><link rel=stylesheet href="https://evil.example/c.css">`,
    `<meta http-equiv=refresh content="0;url=https://evil.example/"><base href="https://evil.example/"><img src="https://evil.example/pixel.gif"><img srcset="https://evil.example/s.png 2x">`,
    `<div style="position:fixed;inset:0;background:url('https://evil.example/d.png')">cover</div><iframe src="https://evil.example/"></iframe><object data="https://evil.example/"></object><video poster="https://evil.example/v.png"></video>`,
    `<math><mtext><table><mglyph><style><!--</style><img title="--&gt;&lt;img src=1 onerror=top.hacked=5&gt;">`,
    `<input autofocus onfocus="top.hacked=6"><details open ontoggle="top.hacked=7"><marquee onstart="top.hacked=8">x</marquee>`,
    `<div id="app"></div><div class="frame top">x</div><template><img src=x onerror="top.hacked=9"></template><td background="https://evil.example/e.png">`,
  ];
  const page = await open();
  await signIn(page);
  await deliver("mallory@elsewhere.example", "alice@example.com", mail("Hostile", hostile.join("\n<hr>\n"), "", "text/html"));
  await row(page, "Hostile").click();
  const inside = page.frameLocator("iframe");
  await inside.getByText("cover").waitFor();
  await page.waitForTimeout(800);
  assert.equal(await page.evaluate(() => window.hacked), undefined);
  assert.deepEqual(page.foreign, []);
  assert.equal(new URL(page.url()).origin, base);
  assert.equal(await inside.locator("script, style:not(head style), form, input, iframe, object, svg, [onerror], [srcset], a[href^=javascript]").count(), 0);
  await page.click("text=Load pictures");
  await until(() => new Set(page.foreign).size >= 3);
  await page.waitForTimeout(800);
  // Pictures, those of backgrounds too, and nothing else: no sheet, no frame, no film.
  assert.deepEqual([...new Set(page.foreign)].sort(), ["b", "d"].map((x) => `https://evil.example/${x}.png`).concat("https://evil.example/pixel.gif"));
  assert.equal(await page.evaluate(() => window.hacked), undefined);
});

test("without a network one reads, files and writes, and it is done when the network is back", async () => {
  const page = await open();
  await signIn(page);
  await controlled(page);
  await until(async () => Object.values(await keptIn(page, "alice", "messages")).some((m) => m.subject?.includes("Minutes: garden party"))); // bodies are fetched ahead
  await page.context().setOffline(true);
  await row(page, "Minutes: garden party").click();
  await page.waitForSelector(".reader .mail .body :text('three pieces'), .reader .mail .body :text('Present')");
  await page.keyboard.press("e");
  await page.waitForSelector(".banner");
  await page.keyboard.press("c");
  await page.waitForSelector(".writer .ProseMirror");
  await page.keyboard.type("bob@example.com,");
  await page.fill(".writer .subject input", "Written without a network");
  await page.keyboard.press("Control+Enter");
  await page.waitForSelector(".toast:has-text('Sent in')");
  await page.waitForSelector(".toast:has-text('Sent in')", { state: "detached" }); // it was to be sent
  await page.context().setOffline(false);
  const bob = await open();
  await signIn(bob, "bob");
  await row(bob, "Written without a network").waitFor({ timeout: 30_000 });
  await page.click(".folder:has-text('Archive')");
  await row(page, "Minutes: garden party").waitFor();
  assert.deepEqual(page.wrong, []);
});

test("nobody is kept out: no violation of WCAG 2.2 AA in the main screens, light and dark", async () => {
  for (const dark of [false, true]) {
    const page = await open({ dark });
    await page.goto(base);
    await page.waitForSelector("input[name=user]");
    assert.deepEqual(await barriers(page), [], "signing in");
    await signIn(page);
    assert.deepEqual(await barriers(page), [], "list");
    await row(page, "Welcome").click();
    await page.waitForSelector(".mail .body");
    await page.waitForTimeout(400);
    assert.deepEqual(await barriers(page), [], "message");
    await page.keyboard.press("c");
    await page.waitForSelector(".writer .ProseMirror");
    await page.waitForTimeout(400);
    assert.deepEqual(await barriers(page), [], "writer");
    await page.keyboard.press("Escape");
    await page.waitForSelector(".writer", { state: "detached" });
    await page.keyboard.press("?");
    await page.waitForSelector("dialog[open]");
    assert.deepEqual(await barriers(page), [], "help");
    await page.context().close();
  }
});

test("on a telephone, and in German", async () => {
  const page = await open({ width: 390, height: 844, language: "de-DE" });
  await signIn(page);
  await page.waitForSelector("h2:has-text('Eingang')");
  await row(page, "Welcome").click();
  await page.waitForSelector(".reader h1");
  assert.equal(await page.locator(".list").isVisible(), false);
  await page.click("button[aria-label='Zurück']");
  await page.waitForSelector(".list .row");
  await page.click(".bar button[aria-label='Menü']");
  await page.click(".side.open .folder:has-text('Gesendet')");
  await page.waitForSelector("h2:has-text('Gesendet')");
  assert.equal(await page.evaluate(() => document.documentElement.scrollWidth <= innerWidth), true);
  assert.deepEqual(page.wrong, []);
});

test("what one sends to a group that one is in stands once in its conversation, and goes from each folder by itself", async () => {
  const page = await open();
  await atOnce(page);
  await signIn(page, "bob"); // archiving opens what lies beside it: no hostile mail (world.mjs)
  await begin(page, "team@example.com", "To all of us", "words for all");
  await page.keyboard.press("Control+Enter");
  await row(page, "To all of us").waitFor({ timeout: 30_000 });
  const fresh = await open(); // knows nothing of what lies in Sent
  await signIn(fresh, "bob");
  await row(fresh, "To all of us").waitFor();
  assert.equal(await row(fresh, "To all of us").locator(".size-of-thread").count(), 0);
  await fresh.context().close();
  await row(page, "To all of us").click();
  await page.waitForSelector(".mail .body");
  await counts(page.locator(".reader .mail"), 1);
  assert.equal(await row(page, "To all of us").locator(".size-of-thread").count(), 0);
  await page.waitForFunction(() => ![...document.querySelectorAll(".row.unread")].some((r) => r.textContent.includes("To all of us")));
  await page.keyboard.press("e"); // the copy that came goes into the archive; that in Sent stays
  await page.waitForFunction(() => ![...document.querySelectorAll(".row")].some((r) => r.textContent.includes("To all of us")));
  await page.click(".folder:has-text('Sent')");
  await row(page, "To all of us").click();
  await page.waitForSelector(".mail .body");
  await counts(page.locator(".reader .mail"), 1);
  assert.deepEqual(page.wrong, []);
});

test("the days of an out-of-office note are those of where one is", async () => {
  const context = await browser.newContext({ locale: "en-US", timezoneId: "Asia/Shanghai", viewport: { width: 1200, height: 900 } });
  const page = await context.newPage();
  await signIn(page, "carol");
  let set;
  await context.route("**/jmap/api", (route) => {
    const call = route.request().postDataJSON().methodCalls.find(([name]) => name === "VacationResponse/set");
    if (call) set = call[1].update.singleton;
    return route.continue();
  });
  await page.click(".top [aria-label='Settings']");
  const days = page.locator("dialog input[type=date]");
  await days.first().waitFor();
  await days.nth(0).fill("2026-12-24");
  await days.nth(1).fill("2027-01-02");
  await page.click("dialog form:has(input[type=date]) .button");
  await page.waitForSelector(".toast:has-text('Saved')");
  assert.equal(set.fromDate, "2026-12-23T16:00:00Z");
  assert.equal(set.toDate, "2027-01-02T15:59:59Z");
  assert.deepEqual(await Promise.all([days.nth(0).inputValue(), days.nth(1).inputValue()]), ["2026-12-24", "2027-01-02"]);
  await page.goto(`${base}/lite/settings`); // the same days, in the same zone
  assert.deepEqual(await Promise.all(["from", "until"].map((n) => page.inputValue(`input[name=${n}]`))), ["2026-12-24", "2027-01-02"]);
  await context.close();
});

test("a mailto: link opens the writer with what it says, whatever signs are in it", async () => {
  const page = await open();
  await signIn(page);
  // As a browser calls the handler of the manifest: the link is encoded into the address once.
  for (const [link, subject, text] of [
    ["mailto:bob@example.com?subject=Hi%20there%20%26%20100%25&body=one%0D%0Atwo=2", "Hi there & 100%", "two=2"],
    ["mailto:bob@example.com?subject=100%&body=x", "100%", "x"],
  ]) {
    await page.goto(`${base}/?mailto=${encodeURIComponent(link)}`);
    await page.waitForSelector(".writer .subject input");
    assert.equal(await page.inputValue(".writer .subject input"), subject);
    await page.waitForSelector(`.writer .ProseMirror >> text=${text}`);
    assert.match(await page.textContent(".writer .fields"), /bob@example\.com|Bob/);
    await page.click(".writer [aria-label='Discard'], .writer [aria-label='Close']");
  }
  assert.deepEqual(page.wrong, []);
});

test("a subject of 10,000 characters leaves room for the message; lines of two directions are each read from their side", async () => {
  const page = await open({ width: 390, height: 844 });
  await signIn(page);
  const subject = Array.from({ length: 150 }, () => "word ".repeat(13).trim()).join("\n ");
  await deliver("mallory@elsewhere.example", "alice@example.com", `From: m@elsewhere.example\nTo: alice@example.com\nSubject: Endless ${subject}\nMessage-ID: <endless@elsewhere.example>\nMIME-Version: 1.0\nContent-Type: text/plain; charset=utf-8\nContent-Transfer-Encoding: 8bit\n\nمرحبا، كيف حالك؟\nEnglish line.\n`);
  await row(page, "Endless").click();
  const body = page.locator(".mail .body .plain");
  await body.waitFor();
  assert.ok((await boxOf(body)).y < 844, "the message is in sight");
  assert.equal(await body.evaluate((e) => getComputedStyle(e).unicodeBidi), "plaintext");
  assert.equal(await page.locator(".float").count(), 0); // nothing lies above what is read
  assert.deepEqual(page.wrong, []);
});
