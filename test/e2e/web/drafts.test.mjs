// What is being written is kept in the browser, and offered again.

import assert from "node:assert/strict";
import { after, test } from "node:test";
import { jmap } from "./objects.mjs";
import { base, browser, controlled, counts, deliver, inChromium, keptIn, open, row, signIn, signInAt, until } from "./world.mjs";
import { writing } from "./typing.mjs";

after(() => browser.close());

async function begin(page, to, subject, text) {
  await page.keyboard.press("c");
  await page.waitForSelector(".writer .ProseMirror");
  await page.keyboard.type(`${to},`);
  await page.fill(".writer .subject input", subject);
  await page.click(".writer .ProseMirror");
  await page.keyboard.type(text);
}

/** How many messages this browser keeps as they are written. */
const kept = (page) => page.evaluate(() => new Promise((resolve) => {
  const opening = indexedDB.open("doublet:alice@example.com");
  opening.onsuccess = () => {
    const all = opening.result.transaction("facts").objectStore("facts").getAllKeys();
    all.onsuccess = () => { opening.result.close(); resolve(all.result.filter((k) => String(k).startsWith("writing:")).length); };
  };
}));

test("what was being written is offered again by a page that begins; two pages do not mix", async () => {
  const one = await open();
  one.on("dialog", (d) => void d.accept()); // leaving with something unsaved is asked about
  await signIn(one);
  await begin(one, "bob@example.com", "First page", "Words of the first");
  const two = await one.context().newPage();
  two.on("dialog", (d) => void d.accept());
  await two.goto(base);
  await two.waitForSelector(".row .subject");
  await begin(two, "carol@example.com", "Second page", "Words of the second");
  await until(async () => Object.values(await keptIn(two, "alice", "facts")).some((k) => k?.draft?.html.includes("second")));
  assert.equal(await two.locator(".unfinished").count(), 0); // the first page has the other

  await one.goto(base);
  await one.waitForSelector(".unfinished:has-text('First page')");
  await counts(one.locator(".unfinished"), 1);
  await one.click(".unfinished .primary");
  await one.waitForSelector(".writer .ProseMirror:has-text('Words of the first')");
  assert.match(await one.textContent(".writer .token"), /bob/);

  await two.close({ runBeforeUnload: false });
  await one.click(".writer [aria-label='Discard draft']");
  await one.waitForSelector(".toast:has-text('Draft discarded')");
  await one.goto(base);
  await one.waitForSelector(".unfinished:has-text('Second page')");
  await counts(one.locator(".unfinished"), 1);
  await one.click(".unfinished .primary");
  await one.waitForSelector(".writer .ProseMirror:has-text('Words of the second')");
  await one.click(".writer footer .primary");
  await one.waitForSelector(".toast:has-text('Sent in')");
  assert.equal(await kept(one), 0);
  await one.reload();
  await one.waitForSelector(".row .subject");
  assert.equal(await one.locator(".unfinished").count(), 0);
  assert.deepEqual(one.wrong, []);
});

test("a draft that was sent or discarded elsewhere is not offered", async () => {
  const page = await open();
  page.on("dialog", (d) => void d.accept());
  await signIn(page);
  await begin(page, "bob@example.com", "Gone elsewhere", "x");
  await until(async () => Object.values(await keptIn(page, "alice", "facts")).some((k) => k?.saved && k.draft.html.includes("x"))); // all of it is at the server
  const other = await open();
  await signIn(other);
  await other.click(".folder:has-text('Drafts')");
  const line = other.locator(".row", { hasText: "Gone elsewhere" }).first();
  await line.click({ modifiers: ["Control"] });
  await other.keyboard.press("#");
  await other.waitForSelector(".toast:has-text('moved to Trash')");
  await other.click(".folder:has-text('Trash')");
  await other.locator(".row", { hasText: "Gone elsewhere" }).first().waitFor();
  await other.click(".list .bar >> text=Empty");
  await other.click("dialog .danger");
  await other.waitForSelector("text=Nothing here");
  await page.reload();
  await page.waitForSelector(".row .subject");
  await until(async () => (await kept(page)) === 0);
  assert.equal(await page.locator(".unfinished").count(), 0);
  assert.deepEqual([...page.wrong, ...other.wrong], []);
});

test("a key in an answer to a long message does not write all of the message anew", { ...inChromium("a paste made by a script"), timeout: 60_000 }, async () => {
  const page = await open();
  await signIn(page, "bob");
  const paragraphs = 500;
  await writing(page, paragraphs);
  /** What this browser keeps of the message, once it has some words. */
  const keeps = (words) => page.evaluate(async (words) => {
    for (;;) {
      const html = await new Promise((resolve) => {
        const opening = indexedDB.open("doublet:bob@example.com");
        opening.onsuccess = () => {
          const all = opening.result.transaction("facts").objectStore("facts").getAll();
          all.onsuccess = () => { opening.result.close(); resolve(all.result.map((k) => k.draft?.html ?? "").find((h) => h.includes(words))); };
        };
      });
      if (html) return html;
      await new Promise(requestAnimationFrame);
    }
  }, words);
  await keeps("<p>x</p>");
  await page.locator(".writer footer [role=status]", { hasText: "saved" }).waitFor();
  await page.evaluate(() => {
    globalThis.made = 0;
    const create = document.createElement;
    document.createElement = function (...of) { globalThis.made++; return create.apply(this, of); };
  });
  await page.click(".writer .ProseMirror");
  await page.keyboard.press("Control+Home");
  await page.keyboard.type("zebra ");
  const html = await keeps("<p>zebra x</p>");
  assert.equal(html.match(/<p>/g).length, paragraphs + 1);
  assert.match(html, /^<p>zebra x<\/p><blockquote><p>.*<\/p><\/blockquote>/s);
  const made = await page.evaluate(() => globalThis.made);
  assert.ok(made > 0 && made < 100, `${made} elements were made`);
  // In the quotation, where one answers, too.
  await page.click(".writer .ProseMirror blockquote p");
  await page.keyboard.press("Home");
  await page.keyboard.type("inside ");
  assert.equal((await keeps("<blockquote><p>inside A line")).match(/<p>/g).length, paragraphs + 1);
  assert.ok((await page.evaluate(() => globalThis.made)) < 200);
  await page.locator('.writer [aria-label="Discard draft"]').click();
  await page.locator(".writer").waitFor({ state: "detached" });
  assert.deepEqual(page.wrong, []);
});

/**
 * Has the server take the drafts of a page as how.is says: "kept" as it does, "lost" not at all; "held" not before release is called, and
 * then not at all. held: how many it holds.
 */
async function takesDrafts(page, is) {
  let release;
  const released = new Promise((done) => (release = done));
  const how = { is, held: 0, release };
  await page.route("**/jmap/api", async (route) => {
    if (how.is === "kept" || !(route.request().postData() ?? "").includes('"$draft":true')) return route.fallback();
    if (how.is === "held") {
      how.held++;
      await released;
    }
    return route.abort();
  });
  return how;
}

test("a writer that is closed twice saves once: the message that is gone on with is one draft, and its writer stays", inChromium("bodies of requests"), async () => {
  const page = await open({ worker: false });
  await signIn(page, "bob");
  const drafts = await takesDrafts(page, "lost");
  await begin(page, "carol@example.com", "Closed twice", "Words");
  await page.waitForSelector(".writer [role=status]:has-text('kept in this browser')");
  drafts.is = "held";
  await page.keyboard.press("Escape");
  await until(() => drafts.held === 1);
  await page.keyboard.press("Escape");
  drafts.is = "kept";
  drafts.release();
  await page.click(".unfinished:has-text('Closed twice') .primary");
  await page.waitForSelector(".writer [role=status]:has-text('Draft saved')");
  await page.click(".writer .ProseMirror");
  await page.keyboard.press("Escape");
  await page.waitForSelector(".writer", { state: "detached" });
  const [found] = await jmap("bob", ["Email/query", { filter: { subject: "Closed twice" } }]);
  assert.equal(found.ids.length, 1);
  assert.deepEqual(page.wrong, []);
});

test("words that are typed for a writer that does not come are written in no other message", inChromium("bodies of requests"), async () => {
  await deliver("x@other.example", "bob@example.com", "From: x@other.example\nTo: bob@example.com\nSubject: Never read\nMessage-ID: <neverread@other.example>\n\nWords.\n");
  const page = await open({ worker: false });
  page.on("dialog", (d) => void d.accept());
  let lose;
  const lost = new Promise((done) => (lose = done));
  await page.route("**/jmap/api", async (route) => {
    if (!(route.request().postData() ?? "").includes('"fetchHTMLBodyValues"')) return route.fallback();
    await lost;
    return route.abort();
  });
  await signIn(page, "bob");
  await begin(page, "carol@example.com", "Goes on", "Its words");
  await page.waitForSelector(".writer [role=status]:has-text('Draft saved')");
  await page.goto(base);
  await page.waitForSelector(".unfinished:has-text('Goes on')");
  await row(page, "Never read").click();
  await page.keyboard.press("r");
  await page.keyboard.type("Thanks, Bob");
  lose();
  await until(() => page.failed.some((request) => request.includes("/jmap/api")));
  await page.click(".unfinished:has-text('Goes on') .primary");
  await page.waitForSelector(".writer .ProseMirror:has-text('Its words')");
  assert.deepEqual(await page.locator(".writer .ProseMirror > p").allTextContents(), ["Its words"]);
  await page.click(".writer [aria-label='Discard draft']");
  await page.waitForSelector(".writer", { state: "detached" });
  assert.deepEqual(page.wrong, []);
});

test("words that are typed for a draft that this browser keeps are written in it, until its writer is there", async () => {
  const page = await open({ worker: false });
  page.on("dialog", (d) => void d.accept());
  await signIn(page, "bob");
  await begin(page, "carol@example.com", "Kept and opened", "its words");
  await until(async () => Object.values(await keptIn(page, "bob", "facts")).some((k) => k?.saved && k.draft.html.includes("its words"))); // all of it is at the server
  await page.goto(base);
  await page.waitForSelector(".unfinished:has-text('Kept and opened')");
  await page.click(".folder:has-text('Drafts')");
  await row(page, "Kept and opened").waitFor();
  await page.evaluate(() => new MutationObserver(async (_, watch) => {
    if (document.querySelector(".unfinished")) return;
    watch.disconnect();
    for (let i = 0; i < 50; i++) await null; // the draft is taken, and its writer, which is drawn later, is not there
    for (const key of "See #1; ") document.body.dispatchEvent(new KeyboardEvent("keydown", { key, bubbles: true, cancelable: true }));
  }).observe(document.body, { childList: true, subtree: true }));
  await row(page, "Kept and opened").click();
  await page.waitForSelector(".writer .ProseMirror:has-text('its words')");
  await page.locator(".writer .ProseMirror").focus();
  assert.deepEqual(await page.locator(".writer .ProseMirror > p").allTextContents(), ["See #1; its words"]);
  await page.click(".writer [aria-label='Discard draft']");
  await page.waitForSelector(".writer", { state: "detached" });
  assert.deepEqual(page.wrong, []);
});

test("while a writer is waited for a menu has its keys, and Escape gives the page its own again", inChromium("bodies of requests"), async () => {
  const mail = (n) => `From: x@other.example\nTo: bob@example.com\nSubject: Awaited ${n}\nMessage-ID: <awaited${n}@other.example>\n\nWords.\n`;
  for (const n of [1, 2]) await deliver("x@other.example", "bob@example.com", mail(n));
  const page = await open({ worker: false });
  let go;
  const gone = new Promise((done) => (go = done));
  await page.route("**/jmap/api", async (route) => {
    if ((route.request().postData() ?? "").includes('"fetchHTMLBodyValues"')) await gone;
    return route.fallback();
  });
  await signIn(page, "bob");
  await row(page, "Awaited 1").click();
  await page.keyboard.press("r");
  await page.keyboard.type("Words");
  await row(page, "Awaited 2").click({ button: "right" });
  await page.locator(".menu button", { hasText: "Flag" }).focus();
  await page.keyboard.press("Enter");
  await row(page, "Awaited 2").locator(".marks .flag").waitFor();
  await page.keyboard.press("Escape");
  await page.keyboard.press("g");
  await page.keyboard.press("t");
  await page.waitForSelector(".list .bar h2:has-text('Sent')");
  go();
  await page.waitForSelector(".writer .ProseMirror blockquote");
  assert.equal(await page.locator(".writer .ProseMirror > p").first().textContent(), "");
  await page.click(".writer [aria-label='Discard draft']");
  await page.waitForSelector(".writer", { state: "detached" });
  assert.deepEqual(page.wrong, []);
});

/** Makes a draft of bob, as another program does, and returns the path that names it. */
async function draftAt(subject) {
  const [boxes] = await jmap("bob", ["Mailbox/get", { ids: null }]);
  const address = `${crypto.randomUUID()}@example.com`;
  const draft = { messageId: [address], subject, from: [{ email: "bob@example.com" }], mailboxIds: { [boxes.list.find((b) => b.role === "drafts").id]: true }, keywords: { $draft: true, $seen: true }, bodyValues: { t: { value: "Words" } }, textBody: [{ partId: "t", type: "text/plain" }] };
  await jmap("bob", ["Email/set", { create: { draft } }]);
  return `/mail/inbox?write=${address}`;
}

test("the address of a draft that the page has not the parts for asks to load it anew, and still names it", async () => {
  const path = await draftAt("Of an older page");
  const page = await open({ worker: false });
  await page.route("**/assets/drafts-*.js", (route) => route.fulfill({ status: 404 }));
  await signInAt(page, path, ".banner:has-text('newer Doublet')", "bob");
  await row(page, "").waitFor();
  assert.equal(await page.locator(".toast").count(), 0);
  assert.equal(await page.evaluate(() => decodeURIComponent(location.pathname + location.search)), path);
  await page.unroute("**/assets/drafts-*.js");
  await page.click(".banner button");
  await page.waitForSelector(".writer .ProseMirror:has-text('Words')");
  await page.click(".writer [aria-label='Discard draft']");
  await page.waitForSelector(".writer", { state: "detached" });
  assert.deepEqual(page.wrong.filter((w) => !/Loading module/.test(w)), []);
});

test("the cursor stays with the message that is read when another, which the address named, comes late", inChromium("bodies of requests"), async () => {
  const deliverNamed = (subject) => deliver("x@other.example", "bob@example.com", `From: x@other.example\nTo: bob@example.com\nSubject: ${subject}\nMessage-ID: <${subject.replaceAll(" ", "")}@other.example>\n\nWords.\n`);
  await deliverNamed("Read meanwhile");
  const [boxes] = await jmap("bob", ["Mailbox/get", { ids: null }]);
  const box = (role) => ({ [boxes.list.find((b) => b.role === role).id]: true });
  const late = { subject: "Named by the address", from: [{ email: "bob@example.com" }], mailboxIds: box("sent"), keywords: { $seen: true }, bodyValues: { t: { value: "Words" } }, textBody: [{ partId: "t", type: "text/plain" }] };
  const [{ created }] = await jmap("bob", ["Email/set", { create: { late } }]);
  const { id } = created.late;
  const page = await open({ worker: false });
  let go, asked = false;
  const gone = new Promise((done) => (go = done));
  await page.route("**/jmap/api", async (route) => {
    if (asked || !(route.request().postData() ?? "").includes(`"ids":["${id}"]`)) return route.fallback();
    asked = true;
    await gone;
    return route.fallback();
  });
  await signInAt(page, `/mail/inbox?message=${id}`, ".row:has-text('Read meanwhile')", "bob");
  await until(() => asked);
  await row(page, "Read meanwhile").click();
  await page.waitForSelector(".reader h1:has-text('Read meanwhile')");
  await jmap("bob", ["Email/set", { update: { [id]: { mailboxIds: box("inbox") } } }]);
  await row(page, "Named by the address").waitFor();
  const answered = page.waitForResponse((r) => (r.request().postData() ?? "").includes(`"ids":["${id}"]`));
  go();
  await answered;
  await deliverNamed("After that");
  await row(page, "After that").waitFor();
  assert.match(await page.locator(".row[tabindex='0']").textContent(), /Read meanwhile/u);
  assert.deepEqual(page.wrong, []);
});

test("an answer that cannot be begun says why: the server refuses the message, has it no more, or does not answer", inChromium("bodies of requests"), async () => {
  await deliver("x@other.example", "bob@example.com", "From: x@other.example\nTo: bob@example.com\nSubject: Not kept here\nMessage-ID: <notkept@other.example>\n\nWords.\n");
  const page = await open({ worker: false });
  let answer = (route) => route.fulfill({ status: 429, contentType: "application/problem+json", body: JSON.stringify({ type: "urn:ietf:params:jmap:error:limit", detail: "Too much is under way already." }) });
  await page.route("**/jmap/api", (route) => ((route.request().postData() ?? "").includes('"fetchHTMLBodyValues"') ? answer(route) : route.fallback()));
  await signIn(page, "bob");
  const reply = async () => {
    await row(page, "Not kept here").click({ button: "right" });
    await page.getByRole("menuitem", { name: "Reply", exact: true }).click();
  };
  await reply();
  await page.waitForSelector(".toast:has-text('The server refused: Too much is under way already.')");
  answer = (route) => route.fulfill({ contentType: "application/json", body: JSON.stringify({ methodResponses: JSON.parse(route.request().postData()).methodCalls.map(([name, { ids }, id]) => [name, { list: [], notFound: ids }, id]) }) });
  await reply();
  await page.waitForSelector(".toast:has-text('This message was deleted.')");
  answer = (route) => route.abort();
  await reply();
  await page.waitForSelector(".toast:has-text('The server cannot be reached.')");
  assert.equal(await page.locator(".writer").count(), 0);
  answer = (route) => route.fallback();
  await reply();
  await page.waitForSelector(".writer .ProseMirror blockquote:has-text('Words.')");
  await page.click(".writer [aria-label='Discard draft']");
  await page.waitForSelector(".writer", { state: "detached" });
  assert.deepEqual(page.wrong, []);
});

test("an answer to the message that is read is begun without a network", inChromium("offline"), async () => {
  await deliver("x@other.example", "bob@example.com", "From: x@other.example\nTo: bob@example.com\nSubject: Read before\nMessage-ID: <readbefore@other.example>\n\nWords.\n");
  const page = await open();
  await signIn(page, "bob");
  await controlled(page);
  await row(page, "Read before").click();
  await page.waitForSelector(".reader .mail:has-text('Words.')");
  await page.context().setOffline(true);
  for (const key of ["r", "a", "f"]) {
    await page.keyboard.press(key);
    await page.waitForSelector(".writer .ProseMirror:has-text('Words.')");
    await page.click(".writer [aria-label='Discard draft']");
    await page.waitForSelector(".writer", { state: "detached" });
  }
  assert.deepEqual(page.wrong, []);
});

test("the address of a draft that the server refuses to look for says so", inChromium("bodies of requests"), async () => {
  const path = await draftAt("Not looked for");
  const page = await open({ worker: false });
  await page.route("**/jmap/api", (route) => {
    const data = route.request().postData() ?? "";
    if (!data.includes('"Message-ID"')) return route.fallback();
    return route.fulfill({ json: { methodResponses: JSON.parse(data).methodCalls.map(([, , tag]) => ["error", { type: "serverFail" }, tag]), sessionState: "" } });
  });
  await signInAt(page, path, ".toast:has-text('serverFail')", "bob");
  await row(page, "").waitFor();
  assert.deepEqual(page.wrong, []);
});
