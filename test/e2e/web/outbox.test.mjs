// What is sent arrives, once, and what cannot be sent is not lost: whatever becomes of the answer, the storage, the page or the session.

import assert from "node:assert/strict";
import { after, test } from "node:test";
import { arrives, atOnce, base, begin, browser, controlled, keptIn, open, signIn } from "./world.mjs";

after(() => browser.close());

const submits = (r) => r.method() === "POST" && (r.postData() ?? "").includes('"EmailSubmission/set"');

/** Who stands between a page and the server: how decides what becomes of each submission. */
const between = (context, how) => context.route("**/jmap/api", (route) => (submits(route.request()) ? how(route) : route.fallback()));

/** What waits in the browser to be told. */
const kept = (page) => page.evaluate(() => new Promise((resolve) => {
  const opening = indexedDB.open("doublet:alice@example.com");
  opening.onsuccess = () => {
    const all = opening.result.transaction("outbox").objectStore("outbox").getAll();
    all.onsuccess = () => { opening.result.close(); resolve(all.result.map((i) => i.email?.subject)); };
  };
}));

async function until(what) {
  for (let i = 0; i < 300 && !(await what()); i++) await new Promise((done) => setTimeout(done, 50));
  assert.ok(await what());
}

const goOn = (page) => page.evaluate(() => void dispatchEvent(new Event("online")));

async function send(page, subject) {
  await begin(page, "bob@example.com", subject, "words");
  await page.keyboard.press("Control+Enter");
  await page.waitForSelector(".writer", { state: "detached" });
}

test("a server that is about to be taken over has not refused: the message waits, and is sent", async () => {
  const page = await open();
  await atOnce(page);
  await signIn(page);
  let n = 0, go;
  const looked = new Promise((done) => (go = done));
  await between(page.context(), async (route) => {
    if (n++ > 0) {
      await looked;
      return route.fallback();
    }
    const { methodCalls } = route.request().postDataJSON();
    return route.fulfill({ json: { methodResponses: methodCalls.map(([, , id]) => ["error", { type: "serverUnavailable" }, id]), sessionState: "x" } });
  });
  await send(page, "Not refused");
  await until(() => n > 0);
  await goOn(page);
  await until(() => n > 1); // it has the answer, and asks again
  assert.equal(await page.locator(".toast:has-text('refused'), .writer").count(), 0);
  assert.deepEqual(await kept(page), ["Not refused"]);
  go();
  await arrives("Not refused");
  assert.deepEqual(page.wrong, []);
});

test("a message that the server refuses is opened again in the writer, with what was written", async () => {
  const page = await open();
  await atOnce(page);
  await signIn(page);
  let refused = false;
  await between(page.context(), (route) => {
    if (refused) return route.fallback();
    refused = true;
    const { methodCalls } = route.request().postDataJSON();
    return route.fulfill({ json: { methodResponses: methodCalls.map(([, , id]) => ["error", { type: "forbidden", description: "Not today." }, id]), sessionState: "x" } });
  });
  await begin(page, "bob@example.com", "Written in vain", "all of it");
  await page.keyboard.press("Control+Enter");
  await page.waitForSelector(".toast:has-text('Not today.')");
  await page.waitForSelector(".writer .ProseMirror:has-text('all of it')");
  assert.equal(await page.inputValue(".writer .subject input"), "Written in vain");
  await page.click(".writer .ProseMirror");
  await page.keyboard.press("Control+Enter");
  await arrives("Written in vain");
  assert.deepEqual(page.wrong, []);
});

test("two pages of one browser send what waits once", async () => {
  const one = await open();
  const context = one.context();
  await atOnce(one);
  await signIn(one);
  let cut = true;
  const asked = [];
  await between(context, async (route) => {
    if (cut) return route.abort();
    asked.push(route);
    await new Promise((done) => setTimeout(done, 1500)); // the other page would ask meanwhile whether it is sent
    return route.fallback();
  });
  await send(one, "From two pages");
  await until(async () => (await kept(one)).length === 1);
  const two = await context.newPage();
  await two.goto(one.url());
  await two.waitForSelector(".row .subject");
  await two.waitForSelector(".banner");
  cut = false;
  await Promise.all([goOn(one), goOn(two)]);
  await arrives("From two pages");
  await until(async () => (await kept(one)).length === 0);
  assert.equal(asked.length, 1);
  await context.close();
});

/** Repeats a request of a page, with so many of its calls. */
async function repeat(page, request, calls = Infinity) {
  const { using, methodCalls } = request.postDataJSON();
  const answer = await page.request.post(request.url(), { headers: { "Content-Type": "application/json", "X-CSRF-Token": (await request.allHeaders())["x-csrf-token"] }, data: { using, methodCalls: methodCalls.slice(0, calls) } });
  return (await answer.json()).methodResponses;
}

/** How many messages of a subject Alice has in a folder, as the server has it. */
async function countOf(page, folder, subject) {
  const session = await page.evaluate(async () => ({ ...(await (await fetch("/jmap/session")).json()), csrf: (await (await fetch("/auth/session", { headers: { Accept: "application/json" } })).json()).csrf }));
  const accountId = session.primaryAccounts["urn:ietf:params:jmap:mail"];
  const call = async (...methodCalls) => (await (await page.request.post(session.apiUrl, { headers: { "Content-Type": "application/json", "X-CSRF-Token": session.csrf }, data: { using: Object.keys(session.capabilities), methodCalls } })).json()).methodResponses[0][1];
  const inMailbox = (await call(["Mailbox/get", { accountId, ids: null }, "m"])).list.find((m) => m.role === folder).id;
  return (await call(["Email/query", { accountId, filter: { inMailbox, subject } }, "q"])).ids.length;
}

for (const [when, subject] of [["before", "Late but first"], ["after", "Late and second"]]) {
  test(`a request of a page that has gone reaches the server just ${when} the next page's, which has looked already: sent once`, async () => {
    const page = await open();
    await atOnce(page);
    await signIn(page);
    const asked = [];
    const answers = [];
    await between(page.context(), async (route) => {
      asked.push(route.request());
      if (asked.length === 1) return route.abort();
      if (asked.length > 2) return route.fallback();
      if (when === "before") {
        answers.push(...(await repeat(page, asked[0])));
        return route.fallback();
      }
      const response = await route.fetch();
      answers.push(...(await repeat(page, asked[0])));
      return route.fulfill({ response });
    });
    await send(page, subject);
    await until(() => asked.length > 0);
    await page.reload();
    await page.waitForSelector(".row .subject");
    await arrives(subject);
    await until(async () => (await kept(page)).length === 0);
    assert.equal(asked.length, 2);
    assert.equal(answers.some(([name, args]) => name === "error" && args.type === "stateMismatch"), when === "after", JSON.stringify(answers));
    assert.equal(await countOf(page, "sent", subject), 1);
    assert.equal(await countOf(page, "drafts", subject), 0);
    assert.deepEqual(page.wrong, []);
    await page.context().close();
  });
}

test("a request that was cut off before it sent what it made leaves no draft, and the message is sent", async () => {
  const page = await open();
  await atOnce(page);
  await signIn(page);
  let n = 0;
  await between(page.context(), async (route) => {
    if (++n > 1) return route.fallback();
    await repeat(page, route.request(), 1); // Email/set, and no EmailSubmission/set
    return route.abort();
  });
  await send(page, "Cut off before sent");
  await until(() => n > 0);
  await goOn(page);
  await arrives("Cut off before sent");
  await until(async () => (await kept(page)).length === 0);
  assert.equal(await countOf(page, "sent", "Cut off before sent"), 1);
  assert.equal(await countOf(page, "drafts", "Cut off before sent"), 0);
});

test("storage that breaks while a message waits in it loses nothing", async () => {
  const page = await open();
  await signIn(page);
  await begin(page, "bob@example.com", "Storage broke", "words");
  await page.keyboard.press("Control+Enter");
  await page.waitForSelector(".toast:has-text('Sent in')");
  await until(async () => (await kept(page)).includes("Storage broke"));
  await page.evaluate(() => {
    IDBDatabase.prototype.transaction = () => { throw new DOMException("broken", "UnknownError"); };
  });
  await arrives("Storage broke");
});

test("a browser that keeps things is not said to keep nothing, however long a page is open", async () => {
  const page = await open();
  await page.clock.install();
  await signIn(page);
  await page.clock.runFor(20_000);
  assert.equal(await page.locator(".banner").count(), 0);
});

test("a newer client's database has what waited in the older one's", async () => {
  const page = await open();
  await atOnce(page);
  await signIn(page);
  let cut = true;
  await between(page.context(), (route) => (cut ? route.abort() : route.fallback()));
  await send(page, "Across an upgrade");
  await until(async () => (await kept(page)).includes("Across an upgrade"));
  await page.addInitScript(() => {
    const open = IDBFactory.prototype.open;
    IDBFactory.prototype.open = function (name, version) { return version ? open.call(this, name, version + 1) : open.call(this, name); };
  });
  cut = false;
  await page.reload();
  await arrives("Across an upgrade");
});

test("a client that began without a network, and so without the session's word, sends when there is one", async () => {
  const page = await open();
  await atOnce(page);
  await signIn(page);
  await controlled(page);
  await until(async () => Object.values(await keptIn(page, "alice", "rows")).length > 0);
  let cut = true;
  await page.context().route("**/*", (route) => (cut && /\/(auth|jmap|\.well-known)\//.test(route.request().url()) ? route.abort() : route.fallback()));
  await page.reload();
  await page.waitForSelector(".banner");
  await page.waitForSelector(".row .subject");
  cut = false;
  const refused = page.waitForResponse((r) => r.status() === 403);
  await goOn(page);
  await refused; // for want of the word
  await send(page, "Begun without a network");
  await arrives("Begun without a network");
  assert.equal(await page.locator("dialog").count(), 0);
});

test("somebody else who signs in on another page carries out nothing that waits on this one", async () => {
  const page = await open();
  await atOnce(page);
  await signIn(page);
  let cut = true;
  await between(page.context(), (route) => (cut ? route.abort() : route.fallback()));
  await send(page, "Alice's alone");
  await until(async () => (await kept(page)).includes("Alice's alone"));
  const signed = (user) => page.evaluate(async (user) => (await fetch("/auth/sign-in", { method: "POST", headers: { "Content-Type": "application/json", Accept: "application/json" }, body: JSON.stringify({ user, password: "demo", code: "", keep: false }) })).status, user);
  await page.context().clearCookies();
  assert.equal(await signed("bob"), 200);
  cut = false;
  await goOn(page);
  await page.waitForSelector("dialog.gate-again[open]");
  assert.deepEqual(await kept(page), ["Alice's alone"]);
  await page.fill("dialog input[name=password]", "demo");
  await page.click("dialog button.primary");
  await page.waitForSelector("dialog.gate-again", { state: "detached" });
  await arrives("Alice's alone");
});

test("signing out asks before it throws away what waits", async () => {
  const page = await open();
  await signIn(page);
  await controlled(page);
  await page.context().setOffline(true);
  await send(page, "Almost thrown away");
  await page.click(".top [aria-label*='Alice']");
  await page.click(".menu >> text=Sign out");
  await page.waitForSelector("dialog:has-text('throws them away')");
  await page.click("dialog >> text=Cancel");
  await page.context().setOffline(false);
  await arrives("Almost thrown away");
});

test("a server that has too much to do has not refused: it is asked again when it says, and told once", async () => {
  const page = await open();
  await atOnce(page);
  await signIn(page);
  const times = [];
  await between(page.context(), (route) => {
    times.push(Date.now());
    if (times.length === 1) return route.fulfill({ status: 429, headers: { "Retry-After": "2" }, contentType: "application/problem+json", body: '{"type":"urn:ietf:params:jmap:error:limit"}' });
    if (times.length === 2) return route.fulfill({ status: 500, contentType: "text/plain", body: "oh" });
    return route.fallback();
  });
  await send(page, "Asked again later");
  await until(() => times.length > 0);
  await page.waitForSelector(".banner:has-text('come again later')");
  assert.equal(await page.locator(".toast:has-text('refused'), .writer").count(), 0);
  await goOn(page); // nothing hurries it
  await until(() => times.length > 2);
  assert.ok(times[1] - times[0] >= 2000, `asked again after ${times[1] - times[0]} ms`);
  assert.ok(times[2] - times[1] >= 500);
  await arrives("Asked again later");
  await page.waitForSelector(".banner", { state: "detached" });
  assert.deepEqual(page.wrong, []);
});

test("signing out asks first where something waits, in administration too", async () => {
  const page = await open();
  await atOnce(page);
  await signIn(page);
  await between(page.context(), (route) => route.fulfill({ status: 503, body: "" }));
  await send(page, "Not thrown away");
  await until(async () => (await kept(page)).length === 1);
  await page.goto(`${base}/admin/`);
  const out = async () => {
    await page.click(".top .tool[aria-label^='Account'], .top .tool:has(.domino) >> nth=-1");
    await page.click(".menu >> text=Sign out");
  };
  await out();
  await page.waitForSelector("dialog:has-text('Signing out throws them away')");
  await page.keyboard.press("Escape");
  assert.equal((await kept(page)).length, 1);
  await page.waitForSelector(".stage");
  await page.context().unroute("**/jmap/api");
  await page.goto(base);
  await arrives("Not thrown away");
});
