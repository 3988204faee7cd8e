// The browser and the people of the tests. All files run one after the other against one server, and mail stays where it came: mail
// that is hostile or only styled, which the policy of the page reports while it is made harmless, goes to Alice and Carol, never to
// Bob. A test that opens what lies beside its own mail (after archiving, say) and looks at page.wrong is Bob's.

import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { createConnection, createServer } from "node:net";
import { afterEach } from "node:test";
import { isDeepStrictEqual } from "node:util";
import playwright from "playwright-core";

export const base = process.env.WEB;
const smtp = Number(process.env.SMTP);
/** SLOW=4 makes pages in Chromium run four times slower: a test that needs a fast page fails. */
const slow = Number(process.env.SLOW ?? 1);
const axe = readFileSync(new URL("node_modules/axe-core/axe.min.js", import.meta.url), "utf8");

/**
 * Chromium, or with FIREFOX a Firefox as distributions have it: by WebDriver BiDi, which this version of playwright-core has under a
 * name that it does not document yet. Its documented "firefox" needs a build of its own.
 */
const firefox = process.env.FIREFOX;
export const browser = await (firefox ? playwright._bidiFirefox.launch({ channel: "moz-firefox", executablePath: firefox, headless: true }) : playwright.chromium.launch({
  executablePath: process.env.CHROMIUM ?? "/usr/bin/chromium",
  args: ["--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking", "--disable-component-update", "--disable-sync"],
}));

// A page that stays open reads every message that comes, and the pages of the next test are slower by that.
if (process.env.NODE_TEST_CONTEXT) afterEach(() => Promise.all(browser.contexts().map((context) => context.close())));

/**
 * The options of a test that needs what playwright-core has in Chromium alone: over WebDriver BiDi a browser cannot be taken offline, the
 * bodies of its requests are not seen, a drag ends when it has begun, and there are no double clicks, touches, file choosers, downloads
 * and DevTools. Firefox itself takes no paste that a script makes, and makes no touches on a desktop.
 */
export const inChromium = (what) => (firefox ? { skip: `${what}: Chromium alone` } : {});

/**
 * A page of a browser of its own; what goes wrong in it is in page.wrong, what it asks other servers for in page.foreign. Without a
 * worker each request goes over the network.
 */
export async function open({ width = 1440, height = 900, dark = false, language = "en-US", permissions = [], scripts = true, worker = true, at = base } = {}) {
  const context = await browser.newContext({ viewport: { width, height }, colorScheme: dark ? "dark" : "light", locale: language, permissions, javaScriptEnabled: scripts, serviceWorkers: worker ? "allow" : "block" });
  const page = await context.newPage();
  page.wrong = [];
  page.foreign = [];
  page.failed = [];
  page.on("pageerror", (e) => page.wrong.push(e.message));
  page.on("console", (m) => {
    if (m.type() === "error" && !/401|ERR_INTERNET_DISCONNECTED|Failed to load resource/.test(m.text())) page.wrong.push(m.text());
  });
  page.on("requestfailed", (r) => {
    page.failed.push(`${r.url()}: ${r.failure()?.errorText}`);
    if (r.resourceType() === "stylesheet" && r.failure()?.errorText !== "net::ERR_ABORTED") page.wrong.push(`${r.url()}: ${r.failure()?.errorText}`);
  });
  await context.route("**/*", (route) => {
    if (new URL(route.request().url()).origin !== new URL(at).origin) {
      page.foreign.push(route.request().url());
      return route.abort();
    }
    return route.continue();
  });
  if (slow > 1) await (await context.newCDPSession(page)).send("Emulation.setCPUThrottlingRate", { rate: slow });
  page.setDefaultTimeout(slow * 15_000);
  return page;
}

export async function signIn(page, user = "alice", password = "demo", at = base) {
  await page.goto(at);
  await page.fill("input[name=user]", user).catch(async (e) => {
    throw new Error(`${e.message}\nwrong: ${page.wrong}\nfailed: ${page.failed}\nthe page: ${await page.content()}`);
  });
  await page.fill("input[name=password]", password);
  await page.click("button.primary");
  await page.locator(".row .subject").first().waitFor();
}

/** Signs in at the address of a page, and waits until the page has what a selector names. */
export async function signInAt(page, path, selector, user = "alice") {
  await page.goto(base + path);
  await page.fill("input[name=user]", user);
  await page.fill("input[name=password]", "demo");
  await page.click("button.primary");
  await page.locator(selector).first().waitFor();
}

/** Delivers a message over SMTP as it is. */
export function deliver(from, to, text) {
  return new Promise((resolve, reject) => {
    const lines = [`EHLO test.example\r\n`, `MAIL FROM:<${from}>\r\n`, `RCPT TO:<${to}>\r\n`, "DATA\r\n", `${text.replace(/\r?\n/g, "\r\n").replace(/^\./gm, "..")}\r\n.\r\n`, "QUIT\r\n"];
    const c = createConnection(smtp, "127.0.0.1");
    let got = "";
    let at = 0;
    c.on("data", (d) => {
      got += d;
      const m = /^\d{3} [^\n]*\n$/m.exec(got);
      if (!m) return;
      if (!/^[23]/.test(m[0])) {
        c.end("QUIT\r\n"); // an open connection would keep this process running until the server ends it
        return reject(new Error(m[0]));
      }
      got = "";
      if (at < lines.length) c.write(lines[at++]);
    });
    c.on("close", () => resolve());
    c.on("error", reject);
  });
}

/** Waits until a locator finds n elements: the last of them may come a moment after the first. */
export async function counts(where, n) {
  let found = await where.count();
  for (let i = 0; i < 150 * slow && found !== n; i++) {
    await new Promise((done) => setTimeout(done, 100));
    found = await where.count();
  }
  assert.equal(found, n);
}

/** The box of an element that stays where it is: what is drawn anew (an object that gets its id) has none for a moment. */
export async function boxOf(where) {
  let box = null;
  await until(async () => {
    const before = box;
    box = await where.boundingBox();
    return box && before && ["x", "y", "width", "height"].every((k) => box[k] === before[k]);
  });
  return box;
}

/** Waits until what a function looks at is so. */
export async function until(what) {
  let so = await what();
  for (let i = 0; i < 200 * slow && !so; i++) {
    await new Promise((done) => setTimeout(done, 100));
    so = await what();
  }
  assert.ok(so);
}

/** Waits until the worker of a page has all of the client: parts that were not loaded yet are there without a network. */
export const controlled = (page) => page.waitForFunction(() => navigator.serviceWorker.controller !== null);

/** What the browser of a page keeps for somebody in a store of the client, by key. */
export const keptIn = (page, user, store) => page.evaluate(([name, store]) => new Promise((done) => {
  const opening = indexedDB.open(name);
  opening.onsuccess = () => {
    const from = opening.result.transaction(store).objectStore(store);
    const keys = from.getAllKeys(), values = from.getAll();
    values.onsuccess = () => { // the keys came before
      opening.result.close();
      done(Object.fromEntries(keys.result.map((key, i) => [key, values.result[i]])));
    };
  };
}), [`doublet:${user}@example.com`, store]);

/** Waits until what a function looks at is as expected: a page shows what the server is told in a moment. */
export async function becomes(look, expected) {
  let found = await look();
  for (let i = 0; i < 200 * slow && !isDeepStrictEqual(found, expected); i++) {
    await new Promise((done) => setTimeout(done, 100));
    found = await look();
  }
  assert.deepEqual(found, expected);
}

/** Waits for the next day (UTC) if this one ends in a moment: a test that names tomorrow ends on the day on which it began. */
export async function sameDay() {
  const left = 86_400_000 - (Date.now() % 86_400_000);
  if (left < 90_000) await new Promise((done) => setTimeout(done, left));
}

/** Waits until the server has been told all that somebody did on a page. */
export const settled = (page, user = "bob") => until(async () => Object.keys(await keptIn(page, user, "outbox")).length === 0);

/**
 * Waits until the browser keeps what it keeps for work offline: the beginnings of the folders that were shown, and the newest messages
 * of each. Until then it reads them from the server.
 */
export const kept = (page, user = "bob") => until(async () => {
  const lists = Object.values(await keptIn(page, user, "lists")), messages = await keptIn(page, user, "messages"), rows = await keptIn(page, user, "rows");
  return lists.length > 0 && lists.every((ids) => ids.every((id) => id in rows) && ids.slice(0, 50).every((id) => id in messages || rows[id].size >= 500_000));
});

const ports = (process.env.PORTS ?? "").split(" ").filter(Boolean);

/** A port for a server of a test: of those that are kept for it until it ends, else one that is free now. */
export const freePort = async () => ports.shift() ?? new Promise((resolve) => {
  const s = createServer().listen(0, "127.0.0.1", () => { const { port } = s.address(); s.close(() => resolve(port)); });
});

/** What axe finds that keeps somebody out (WCAG 2.2 A and AA). */
export async function barriers(page) {
  // What is still fading in has less contrast than it will have.
  await page.evaluate(() => Promise.all(document.getAnimations().filter((a) => a.effect?.getComputedTiming().iterations !== Infinity).map((a) => a.finished.catch(() => undefined))));
  await page.evaluate(axe + ";0").catch(() => undefined);
  return page.evaluate(async () => {
    if (!window.axe) return ["axe did not load"];
    const result = await window.axe.run(document, { runOnly: ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa"], iframes: false });
    return result.violations.map((v) => `${v.id}: ${v.help}: ${v.nodes.slice(0, 3).map((n) => n.target.join(" ")).join(" | ")}`);
  });
}

/**
 * What a page holds after a collection, once its notices are gone: bytes of its heap (usedSize), documents, and nodes. An element that a
 * test has a handle of (what waitForSelector returns) counts as long as the page lives: a test that counts waits with locators.
 */
export async function heap(page) {
  // The notice of an alert stays for a minute.
  await page.waitForFunction(() => !document.querySelector(".toast"), undefined, { timeout: 90_000 }).catch(async (e) => {
    throw new Error(`${e.message}\nthe notices stay: ${await page.locator(".toast").allTextContents()}`);
  });
  const cdp = await page.context().newCDPSession(page);
  await cdp.send("HeapProfiler.collectGarbage");
  const { usedSize } = await cdp.send("Runtime.getHeapUsage");
  const { nodes, documents } = await cdp.send("Memory.getDOMCounters");
  await cdp.detach();
  return { usedSize, documents, nodes };
}

export const row = (page, text) => page.locator(".row", { hasText: text }).first();

/** Sends at once what is sent. */
export const atOnce = (page) => page.addInitScript(() => {
  try {
    localStorage.setItem("doublet:preferences", JSON.stringify({ undoSeconds: 0 }));
  } catch {
    // Firefox runs this in about:blank too, which has no storage
  }
});

/** Begins a message. */
export async function begin(page, to, subject, text) {
  await page.keyboard.press("c");
  await page.waitForSelector(".writer .ProseMirror");
  await page.keyboard.type(`${to},`);
  await page.fill(".writer .subject input", subject);
  await page.click(".writer .ProseMirror");
  await page.keyboard.type(text);
}

/** Waits until bob has exactly one message of a subject. */
export async function arrives(subject) {
  const bob = await open();
  await signIn(bob, "bob");
  await row(bob, subject).waitFor({ timeout: 30_000 });
  await bob.waitForTimeout(500);
  assert.equal(await bob.locator(".row", { hasText: subject }).count(), 1);
  await bob.context().close();
}
