// What goes wrong around the client: no room, no storage, a wrong clock, a session that ended, a client that is out of date.

import assert from "node:assert/strict";
import { createServer, request } from "node:http";
import { after, test } from "node:test";
import { arrives, atOnce, base, begin, browser, controlled, counts, deliver, keptIn, open, row, signIn, until } from "./world.mjs";

after(() => browser.close());

const storages = {
  "a browser that denies storage": () => {
    IDBFactory.prototype.open = () => { throw new DOMException("denied", "SecurityError"); };
    Storage.prototype.setItem = () => { throw new DOMException("denied", "SecurityError"); };
    Storage.prototype.getItem = () => { throw new DOMException("denied", "SecurityError"); };
  },
  "a browser whose storage never answers": () => {
    IDBFactory.prototype.open = () => new EventTarget();
  },
  "a browser without room": () => {
    // Chromium ends such a transaction; so does this.
    const put = IDBObjectStore.prototype.put;
    IDBObjectStore.prototype.put = function (...args) {
      const request = put.apply(this, args);
      const { transaction } = this;
      Object.defineProperty(transaction, "error", { get: () => new DOMException("full", "QuotaExceededError") });
      queueMicrotask(() => transaction.abort());
      return request;
    };
  },
};

for (const [name, how] of Object.entries(storages)) {
  test(`${name}: it is said, mail is read, written and sent, and leaving is asked about while something waits`, async () => {
    const page = await open({ height: 3000 }); // the other tests leave mail above the one that is read
    await page.addInitScript(how);
    await signIn(page);
    await page.waitForSelector(".banner:has-text('blocks storage')");
    await row(page, "Welcome").click();
    await page.waitForSelector(".mail .body :text('Welcome'), .reader .mail .body p");
    await begin(page, "bob@example.com", `From ${name}`, "words");
    await page.waitForSelector(".writer >> text=Draft saved");
    await page.context().setOffline(true);
    await page.click(".writer .ProseMirror");
    await page.keyboard.type(" and more");
    await page.waitForSelector(".writer >> text=leave this page open");
    await page.click(".writer footer .primary");
    await page.waitForSelector(".toast:has-text('Sent in')");
    assert.equal(await page.evaluate(() => dispatchEvent(new Event("beforeunload", { cancelable: true }))), false);
    await page.context().setOffline(false);
    await arrives(`From ${name}`);
    assert.deepEqual(page.wrong, []);
    await page.context().close();
  });
}

for (const width of [1440, 390]) {
  test(`a browser that has no room left and no network, ${width} wide: it is said that what is written and sent is in the page alone, and none of it is lost`, async () => {
    const page = await open({ width });
    await page.goto(base);
    const cdp = await page.context().newCDPSession(page);
    await cdp.send("Storage.overrideQuotaForOrigin", { origin: base, quotaSize: 1 }); // before the browser first looks how much room there is
    await signIn(page);
    await page.waitForFunction(() => new Promise((resolve) => { // it has none for anybody
      const opening = indexedDB.open("doublet:alice@example.com");
      opening.onsuccess = () => {
        const tx = opening.result.transaction("facts", "readwrite");
        tx.objectStore("facts").put("x", "x");
        tx.oncomplete = () => resolve(opening.result.close());
        tx.onabort = () => { opening.result.close(); resolve(tx.error.name === "QuotaExceededError"); };
      };
    }));
    let parts;
    await until(async () => {
      parts = await page.evaluate(() => [...new Set(performance.getEntriesByType("resource").map((r) => r.name))].filter((name) => /\/assets\/(?:writer|drafts)-.*\.js$/.test(name)));
      return parts.length === 2;
    });
    await page.evaluate((parts) => Promise.all(parts.map((name) => import(name))).then(() => undefined), parts); // with all that they need
    await page.context().setOffline(true);
    await begin(page, "bob@example.com", `Quota of nothing ${width}`, "words");
    await page.waitForSelector(".writer >> text=leave this page open");
    await page.waitForSelector(".banner:has-text('keep this page open')");
    assert.equal(await page.evaluate(() => dispatchEvent(new Event("beforeunload", { cancelable: true }))), false);
    await page.keyboard.press("Control+Enter");
    await page.waitForSelector(".toast:has-text('Sent in')");
    await page.waitForSelector(".writer", { state: "detached" });
    await page.waitForSelector(".banner:has-text('in this page alone')");
    assert.equal(await page.evaluate(() => dispatchEvent(new Event("beforeunload", { cancelable: true }))), false);
    await page.context().setOffline(false);
    await arrives(`Quota of nothing ${width}`);
    await page.waitForFunction(() => dispatchEvent(new Event("beforeunload", { cancelable: true })));
    assert.deepEqual(page.wrong, []);
    await page.context().close();
  });
}

test("storage that fills up keeps what waits, and gives up copies of what the server has", async () => {
  const page = await open();
  await atOnce(page);
  await signIn(page);
  await until(async () => Object.values(await keptIn(page, "alice", "messages")).length > 0); // copies are kept
  await page.evaluate(() => {
    const put = IDBObjectStore.prototype.put;
    const clear = IDBObjectStore.prototype.clear;
    let full = true;
    IDBObjectStore.prototype.clear = function () { full = false; return clear.call(this); };
    IDBObjectStore.prototype.put = function (...args) {
      const request = put.apply(this, args);
      const { transaction } = this;
      if (full) {
        Object.defineProperty(transaction, "error", { get: () => new DOMException("full", "QuotaExceededError") });
        queueMicrotask(() => transaction.abort());
      }
      return request;
    };
  });
  await begin(page, "bob@example.com", "Kept in a full browser", "words");
  await page.waitForFunction(() => new Promise((resolve) => {
    const opening = indexedDB.open("doublet:alice@example.com");
    opening.onsuccess = () => {
      const all = opening.result.transaction("facts").objectStore("facts").getAll();
      all.onsuccess = () => { opening.result.close(); resolve(all.result.some((x) => x?.draft?.subject === "Kept in a full browser" && x.draft.html.includes("words"))); };
    };
  }));
  await page.click(".writer footer .primary");
  await arrives("Kept in a full browser");
  assert.deepEqual(page.wrong, []);
});

for (const hours of [-7, 9]) {
  test(`a clock that is ${hours} h off: it is said, dates are the server's, and what is sent is sent at once and dated right`, async () => {
    const page = await open();
    await atOnce(page);
    await page.addInitScript((ms) => {
      const Real = Date;
      globalThis.Date = class extends Real {
        constructor(...args) { super(...(args.length === 0 ? [Real.now() + ms] : args)); }
        static now() { return Real.now() + ms; }
      };
    }, hours * 3_600_000);
    await signIn(page);
    await page.waitForSelector(".banner:has-text('clock is wrong')");
    await begin(page, "bob@example.com", `Clock ${hours}`, "words");
    await page.keyboard.press("Control+Enter");
    const bob = await open();
    await signIn(bob, "bob");
    await row(bob, `Clock ${hours}`).waitFor({ timeout: 30_000 });
    await row(bob, `Clock ${hours}`).click();
    await bob.click(".read .bar [aria-label='More']");
    await bob.click("text=Message source");
    const source = await bob.waitForFunction(() => document.querySelector(".source")?.textContent.includes("Date:") && document.querySelector(".source").textContent);
    const date = Date.parse(/^Date: (.*)$/m.exec(await source.jsonValue())[1]);
    assert.ok(Math.abs(date - Date.now()) < 120_000, `dated ${new Date(date).toISOString()}`);
    assert.deepEqual([...page.wrong, ...bob.wrong], []);
    await page.context().close();
    await bob.context().close();
  });
}

test("a clock that is set back while a message waits to be sent does not hold it up", async () => {
  const page = await open();
  await page.addInitScript(() => {
    const Real = Date;
    globalThis.back = 0;
    globalThis.Date = class extends Real {
      constructor(...args) { super(...(args.length === 0 ? [Real.now() - globalThis.back] : args)); }
      static now() { return Real.now() - globalThis.back; }
    };
  });
  await signIn(page);
  await begin(page, "bob@example.com", "Set back", "words");
  await page.keyboard.press("Control+Enter");
  await page.evaluate(() => { globalThis.back = 5 * 3_600_000; });
  await arrives("Set back");
});

test("a session that ended in an open page: it says so, signing in goes on in place, and the draft and what waits are there", async () => {
  const page = await open();
  await atOnce(page);
  await signIn(page);
  await begin(page, "bob@example.com", "Across a week", "Before the end");
  await page.waitForSelector(".writer >> text=Draft saved");
  // Nothing asks the server before the words are there: the sheet would take them.
  let go;
  const typed = new Promise((done) => (go = done));
  await page.route("**/jmap/**", async (route) => {
    await typed;
    return route.fallback();
  });
  await page.context().clearCookies();
  await page.click(".writer .ProseMirror");
  await page.keyboard.type(", and after it");
  go();
  await page.waitForSelector("dialog.gate-again[open]:has-text('not signed in any more')");
  assert.equal(await page.inputValue("dialog input[name=user]"), "alice@example.com");
  await page.keyboard.press("Escape"); // there is nothing behind it yet
  await counts(page.locator("dialog.gate-again[open]"), 1);
  await page.fill("dialog input[name=password]", "demo");
  await page.click("dialog button.primary");
  await page.waitForSelector("dialog.gate-again", { state: "detached" });
  await page.waitForSelector(".writer .ProseMirror:has-text('and after it')");
  await page.waitForSelector(".writer >> text=Draft saved");
  assert.equal(await page.locator(".unfinished").count(), 0);
  await page.click(".writer footer .primary");
  await arrives("Across a week");
  assert.deepEqual(page.wrong.filter((w) => !/WebSocket/.test(w)), []);
});

test("a page that slept for a week: the session has ended and the server cannot tell what changed; what was written and read is there, and what came", async () => {
  const week = 7 * 24 * 3_600_000;
  let slept = false;
  const mark = Date.now(); // of this run
  let tooOld; // the state of which the server knows nothing any more
  let told;
  const asked = new Promise((resolve) => (told = resolve));
  const sockets = [];
  const page = await open();
  await page.clock.install();
  await page.routeWebSocket(/.*/, (ws) => {
    sockets.push(ws);
    ws.connectToServer();
  });
  await page.route(/\/(?:jmap|auth)\//, async (route) => {
    const since = slept && /"Email\/changes",.*"sinceState":"([^"]*)"/.exec(route.request().postData() ?? "")?.[1];
    if (since && since === (tooOld ??= since)) {
      told();
      return route.fulfill({ json: { methodResponses: [["error", { type: "cannotCalculateChanges" }, "0"]], sessionState: "x" }, headers: { date: new Date(Date.now() + week).toUTCString() } });
    }
    const answer = await route.fetch().catch(() => undefined);
    if (!answer) return route.abort();
    // A week is over at the server too.
    return route.fulfill({ response: answer, headers: { ...answer.headers(), date: new Date(Date.now() + (slept ? week : 0)).toUTCString() } });
  });
  await deliver("mallory@elsewhere.example", "bob@example.com", `From: m@elsewhere.example\nTo: bob@example.com\nSubject: Read before sleep ${mark}\nMessage-ID: <before${mark}@elsewhere.example>\n\nWords to read`);
  await signIn(page, "bob");
  await row(page, `Read before sleep ${mark}`).click();
  await page.waitForSelector(".reader .mail .body:has-text('Words to read')");
  const read = await page.locator(".reader .mail .body").first().innerText();
  await begin(page, "alice@example.com", "Asleep for a week", "Before it");
  await page.clock.runFor(2000);
  await page.waitForSelector(".writer >> text=Draft saved");
  await page.click(".writer .ProseMirror");
  await page.keyboard.press("Control+End");
  await page.keyboard.type(", and unsaved");
  await page.context().setOffline(true); // the lid is closed
  for (const ws of sockets) await ws.close();
  slept = true;
  await page.context().clearCookies();
  await deliver("mallory@elsewhere.example", "bob@example.com", `From: m@elsewhere.example\nTo: bob@example.com\nSubject: Came while asleep ${mark}\nMessage-ID: <asleep${mark}@elsewhere.example>\n\nx`);
  await page.context().setOffline(false);
  await page.clock.fastForward(week);
  await page.clock.resume();
  await page.waitForSelector("dialog.gate-again[open]:has-text('not signed in any more')");
  await page.fill("dialog input[name=password]", "demo");
  await page.click("dialog button.primary");
  await page.waitForSelector("dialog.gate-again", { state: "detached" });
  await row(page, `Came while asleep ${mark}`).waitFor();
  await asked;
  await deliver("mallory@elsewhere.example", "bob@example.com", `From: m@elsewhere.example\nTo: bob@example.com\nSubject: Came to who woke ${mark}\nMessage-ID: <awake${mark}@elsewhere.example>\n\nx`);
  await row(page, `Came to who woke ${mark}`).waitFor();
  await page.waitForSelector(".writer .ProseMirror:has-text('Before it, and unsaved')");
  await page.waitForSelector(".writer >> text=Draft saved");
  await page.waitForFunction((was) => document.querySelector(".reader .mail .body")?.innerText === was, read);
  await counts(page.locator(".banner"), 0);
});

test("who signs in instead of somebody else sees nothing of theirs", async () => {
  const page = await open();
  page.on("dialog", (d) => void d.accept());
  await signIn(page);
  await begin(page, "carol@example.com", "Alice's own", "x");
  await page.context().clearCookies();
  await page.keyboard.type("y");
  await page.waitForSelector("dialog.gate-again[open]");
  await page.fill("dialog input[name=user]", "bob");
  await page.fill("dialog input[name=password]", "demo");
  await page.click("dialog button.primary");
  await page.waitForSelector(".top [aria-label*='Bob']");
  await page.waitForSelector(".row .subject");
  assert.equal(await page.locator(".writer, .unfinished").count(), 0);
});

/**
 * A server before the server, whose client can be changed: what it is to hand out at /sw.js and which of its files are gone. Requests may be
 * lost, and their answers break off.
 */
async function before() {
  const it = { build: "", gone: /^$/, isLost: () => false, isBroken: () => false };
  const server = createServer((from, to) => {
    if (it.gone.test(from.url)) return to.writeHead(404).end();
    if (it.isLost(from)) return to.writeHead(503).end(); // browsers ask again by themselves after a connection that broke
    const on = request(`${base}${from.url}`, { method: from.method, headers: from.headers }, (answer) => {
      if (from.url !== "/sw.js" || answer.statusCode !== 200) {
        to.writeHead(answer.statusCode, answer.headers);
        if (it.isBroken(from)) return answer.once("data", (d) => to.write(d.subarray(0, d.length / 2), () => to.destroy()));
        return answer.pipe(to);
      }
      delete answer.headers["content-length"];
      delete answer.headers.etag;
      let text = "";
      answer.setEncoding("utf8").on("data", (d) => (text += d)).on("end", () => to.writeHead(200, answer.headers).end(text.replace(/doublet-[0-9a-f]{12}/, (x) => it.build || x)));
    });
    delete from.headers["accept-encoding"];
    on.setHeader("accept-encoding", "identity");
    on.on("error", () => to.destroy());
    from.pipe(on);
  }).listen(0, "127.0.0.1");
  await new Promise((done) => server.once("listening", done));
  it.base = `http://127.0.0.1:${server.address().port}`;
  server.unref(); // a test that fails does not keep the process
  it.close = () => server.close(() => undefined) && server.closeAllConnections();
  return it;
}

test("a client that the server has replaced goes on with the parts that it had, and a newer one is offered", async () => {
  const server = await before();
  const page = await open({ at: server.base });
  page.on("dialog", (d) => void d.accept());
  await signIn(page, "alice", "demo", server.base);
  await controlled(page);
  server.build = "doublet-0123456789ab";
  await page.evaluate(async () => { await (await navigator.serviceWorker.ready).update(); });
  await page.waitForSelector(".banner:has-text('newer Doublet')");
  server.gone = /\/assets\/(writer|settings)-/;
  await begin(page, "bob@example.com", "Before the newer", "words"); // loaded only now, from what the browser keeps
  await page.waitForSelector(".writer >> text=Draft saved");
  server.gone = /^$/;
  await page.evaluate(() => (window.before = true));
  await page.click(".banner >> text=Load it");
  await page.waitForFunction(() => !window.before);
  await page.waitForSelector(".writer .ProseMirror:has-text('words')");
  await page.waitForSelector(".row .subject");
  assert.equal(await page.locator(".banner").count(), 0);
  assert.deepEqual(page.wrong.filter((w) => !/WebSocket/.test(w)), []);
  await page.context().close();
  server.close();
});

test("files that are lost on the way to the worker are asked for again", async () => {
  const server = await before();
  const asked = new Set();
  // The worker reads files as data, the page reads them as scripts and styles.
  server.isLost = ({ url, headers }) => url.startsWith("/assets/") && headers["sec-fetch-dest"] === "empty" && asked.size < 3 && !asked.has(url) && asked.add(url);
  const page = await open({ at: server.base });
  await page.goto(server.base);
  await controlled(page);
  assert.equal(asked.size, 3);
  await page.context().close();
  server.close();
});

test("a part of the client that cannot be loaded is no dead button", async () => {
  const server = await before();
  server.gone = /^\/(?:sw\.js|assets\/writer-)/;
  const page = await open({ at: server.base });
  await signIn(page, "alice", "demo", server.base);
  await page.keyboard.press("c");
  await page.waitForSelector(".banner:has-text('newer Doublet')");
  await page.context().close();
  server.close();
});

test("an answer that breaks off is as none: it is said that the server does not answer, and what was asked for comes when it does", async () => {
  const server = await before();
  const page = await open({ worker: false, at: server.base });
  await signIn(page, "bob", "demo", server.base);
  let n = 0;
  server.isBroken = ({ url }) => url === "/jmap/api" && ++n > 0;
  await page.click(".folder:has-text('Inbox')");
  await until(() => n > 0);
  await page.waitForSelector(".banner:has-text('No connection')");
  await counts(page.locator(".list .empty[role=alert]"), 0); // the browser's words for it
  await deliver("mallory@elsewhere.example", "bob@example.com", "From: m@elsewhere.example\nTo: bob@example.com\nSubject: Came behind a break\nMessage-ID: <break@elsewhere.example>\n\nx");
  server.isBroken = () => false;
  await row(page, "Came behind a break").waitFor();
  await page.waitForSelector(".banner", { state: "detached" });
  assert.deepEqual(page.wrong.filter((w) => !/WebSocket/.test(w)), []);
  await page.context().close();
  server.close();
});

test("a list that could not be read is read when the server answers something else", async () => {
  const page = await open({ worker: false });
  await signIn(page, "bob");
  let isAway = true, asked = 0;
  await page.route("**/jmap/api", (route) => (isAway && ++asked ? route.abort() : route.fallback()));
  await page.click(".folder:has-text('Drafts')");
  await until(() => asked > 0);
  await page.waitForSelector(".banner:has-text('No connection')");
  const read = page.waitForResponse((r) => (r.request().postData() ?? "").includes('"Email/query"'));
  isAway = false;
  await page.click(".top [aria-label='Settings']");
  await read;
  await page.waitForSelector(".banner", { state: "detached" });
  assert.deepEqual(page.wrong, []);
});
