// How quick the client is in Chromium, and how much a page holds after a day: make speed. It starts a demo of its own with a few hundred
// messages more and a folder of 100,000, prints the median and the 95th percentile of each, and with OUT=FILE writes all samples there as
// JSON. Times are of the page's own clock (Performance API): from the event to the layout of what it asked for, without the wait for the
// next frame, but for those of a key until its frame (typing.mjs). Scrolling is the time between two frames.

import { execFileSync, spawn } from "node:child_process";
import { appendFileSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { createServer } from "node:net";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { gzipSync } from "node:zlib";

const root = resolve(import.meta.dirname, "../../..");
const data = mkdtempSync(join(tmpdir(), "doublet-speed-"));
const free = () => new Promise((done) => {
  const s = createServer().listen(0, "127.0.0.1", () => { const { port } = s.address(); s.close(() => done(port)); });
});
const [http, smtp] = [await free(), await free()];
const off = ["https", "imap", "imaps", "pop3", "pop3s", "submission", "submissions", "lmtp"].flatMap((d) => [`--${d}`, "off"]);
const program = process.env.DOUBLET ?? join(root, "bin/doublet");
const server = spawn(program, ["demo", "--data", join(data, "d"), "--http", `127.0.0.1:${http}`, "--smtp", `127.0.0.1:${smtp}`, ...off], { stdio: ["ignore", "pipe", "inherit"] });
await new Promise((done) => server.stdout.once("data", done));
process.env.WEB = `http://127.0.0.1:${http}`;
process.env.SMTP = String(smtp);
const { browser, deliver, heap, open, signIn } = await import("./world.mjs");
const { at, bare, typed, writing } = await import("./typing.mjs");
const { hour } = await import("./day.mjs");

const samples = {};
const aims = { "first load to inbox": 1000, "folder switch": 50, "message open": 50, "key in compose": 16, "frame of scrolling": 17 };
const held = [];
const costs = [];

// In the page: runs act, and gives how long it took until shows was true of the document.
const measure = () => {
  globalThis.timed = (act, shows) => new Promise((done, fail) => {
    const begin = performance.now();
    let watch;
    const look = () => {
      if (!shows()) return false;
      void document.body.offsetHeight; // the layout of it
      watch?.disconnect();
      done(performance.now() - begin);
      return true;
    };
    watch = new MutationObserver(look);
    watch.observe(document, { subtree: true, childList: true, attributes: true, characterData: true });
    act();
    setTimeout(() => look() || fail(new Error("it did not come")), 5000);
  });
};

/** Imports 100,000 messages for a person of their own. */
function fill() {
  const file = join(data, "many.mbox");
  for (let i = 0; i < 100_000; i += 1000) {
    appendFileSync(file, Array.from({ length: 1000 }, (_, k) => `From x@elsewhere.example Tue Sep  1 00:00:00 2026\nDate: Tue, 1 Sep 2026 00:00:00 +0000\nFrom: Sender ${k % 23} <s${k % 23}@elsewhere.example>\nTo: many@example.com\nSubject: Number ${i + k} of many\nMessage-ID: <many${i + k}@elsewhere.example>\n\nBody ${i + k}\n\n`).join(""));
  }
  const run = (...args) => execFileSync(program, [...args, "--data", join(data, "d")], { stdio: "ignore" });
  run("user", "add", "Many Mails", "--short", "many", "--address", "many@example.com", "--password", "demo");
  run("import", "mbox", file, "--user", "many");
}

/** The times between frames while a wheel turns over the list of 100,000 rows, in a browser that shows 60 frames a second. */
async function scrolled() {
  fill();
  const page = await open();
  await signIn(page, "many");
  await page.waitForTimeout(3000);
  await page.hover(".list .scroll");
  await page.evaluate(() => {
    globalThis.frames = [];
    let before;
    const next = (at) => {
      if (before !== undefined) globalThis.frames.push(at - before);
      before = at;
      requestAnimationFrame(next);
    };
    requestAnimationFrame(next);
  });
  for (let i = 0; i < 400; i++) {
    await page.mouse.wheel(0, i < 300 ? 160 : 4000);
    await page.waitForTimeout(16);
  }
  const frames = await page.evaluate(() => globalThis.frames);
  await page.context().close();
  return frames;
}

/**
 * What a page holds in the course of a day: 30 hours of 12 messages that come and are opened, one that is answered in the writer, and visits
 * to other folders. After the second hour and each ten the heap after a collection, the nodes, and what the browser keeps of the origin.
 */
async function day() {
  const page = await open();
  await signIn(page, "carol");
  const out = [];
  for (let at = 1; at <= 30; at++) {
    await hour(page, String(at), 12);
    if (at === 2 || at % 10 === 0) out.push({ hour: at, ...(await heap(page)), kept: await page.evaluate(async () => (await navigator.storage.estimate()).usage) });
  }
  await page.context().close();
  return out;
}

try {
  const text = "Words of a message that is long enough to be read. ".repeat(40);
  for (let i = 0; i < 200; i++) await deliver("mallory@elsewhere.example", "alice@example.com", `From: Sender ${i % 23} <s${i % 23}@elsewhere.example>\nTo: alice@example.com\nSubject: Matter ${i}\nMessage-ID: <speed${i}@elsewhere.example>\n\n${i} ${text}`);
  const page = await open();
  await page.addInitScript(measure);
  await signIn(page);
  await page.waitForTimeout(5000); // what is kept of the inbox is fetched ahead

  samples["message open"] = await page.evaluate(async () => {
    const list = [];
    const key = (k) => document.dispatchEvent(new KeyboardEvent("keydown", { key: k, bubbles: true }));
    document.querySelector(".row[id]").click();
    await new Promise((r) => setTimeout(r, 500));
    for (let i = 0; i < 45; i++) {
      const before = document.querySelector(".reader h1").textContent;
      list.push(await timed(() => key("j"), () => {
        const h = document.querySelector(".reader h1");
        return h && h.textContent !== before && document.querySelector(".mail .body .plain");
      }));
      await new Promise((r) => setTimeout(r, 60));
    }
    return list;
  });
  samples["folder switch"] = await page.evaluate(async () => {
    const list = [];
    const folders = [...document.querySelectorAll(".folder")].filter((f) => /Inbox|Sent|Archive/.test(f.title)).slice(0, 3);
    // The first visit of each is the server's.
    for (const f of folders) { f.click(); await new Promise((r) => setTimeout(r, 1500)); }
    for (let i = 0; i < 60; i++) {
      const f = folders[i % folders.length];
      list.push(await timed(() => f.click(), () => document.querySelector(".list h2")?.textContent === f.title && document.querySelector(".rows .row[id], .list .empty")));
      await new Promise((r) => setTimeout(r, 120));
    }
    return list;
  });
  await writing(page);
  const inWriter = await typed(page), inBare = await typed(await bare());
  samples["key in compose"] = inWriter.layout;
  samples["until its frame"] = inWriter.frame;
  samples["in a bare page"] = inBare.frame;
  costs.push(["writer", inWriter.cost], ["bare page", inBare.cost]);

  samples["first load to inbox"] = [];
  const state = await page.context().storageState();
  for (let i = 0; i < 10; i++) {
    const context = await browser.newContext({ viewport: { width: 1440, height: 900 }, storageState: { cookies: state.cookies, origins: [] } });
    const fresh = await context.newPage();
    await fresh.addInitScript(() => {
      new MutationObserver((_, watch) => {
        if (!document.querySelector(".row .subject")) return;
        void document.body.offsetHeight;
        globalThis.first ??= performance.now();
        watch.disconnect();
      }).observe(document, { subtree: true, childList: true });
    });
    await fresh.goto(process.env.WEB);
    samples["first load to inbox"].push(await (await fresh.waitForFunction(() => globalThis.first)).jsonValue());
    await context.close();
  }
  samples["frame of scrolling"] = await scrolled();
  held.push(...(await day()));
} finally {
  await browser.close();
  server.kill();
  await new Promise((done) => server.once("exit", done));
  rmSync(data, { recursive: true, force: true });
}

for (const [name, list] of Object.entries(samples)) console.log(`${name.padEnd(20)} p50 ${at(list, 0.5).toFixed(1).padStart(7)} ms   p95 ${at(list, 0.95).toFixed(1).padStart(7)} ms   of ${list.length}${aims[name] ? `, aim < ${aims[name]} ms` : ""}`);
for (const [where, cost] of costs) console.log(`a key in the ${where}`.padEnd(20), Object.entries(cost).map(([of, ms]) => `${of} ${ms.toFixed(2)}`).join(", "), "ms of processor time");
for (const h of held) console.log(`after ${h.hour} hours       heap ${(h.usedSize / 1e6).toFixed(1)} MB, ${h.nodes} nodes, ${(h.kept / 1e6).toFixed(1)} MB kept by the browser`);
if (held.length > 0 && held.at(-1).nodes > held[0].nodes + 200) {
  console.error(`the page holds ${held.at(-1).nodes} nodes after ${held.at(-1).hour} hours, and ${held[0].nodes} after ${held[0].hour}: something keeps them`);
  process.exitCode = 1;
}
const assets = join(root, "web/dist/assets");
const page = readFileSync(join(root, "web/dist/index.html"), "utf8");
const sizes = readdirSync(assets).filter((f) => f.endsWith(".js")).map((f) => ({ file: f, first: page.includes(f), gzip: gzipSync(readFileSync(join(assets, f))).length }));
const total = (list) => (list.reduce((n, x) => n + x.gzip, 0) / 1000).toFixed(1);
console.log(`scripts              ${total(sizes.filter((s) => s.first))} KB gzip named by the page, ${total(sizes)} KB in all; load.test.mjs counts those until the inbox is drawn, aim <= 60 KB`);
if (process.env.OUT) writeFileSync(process.env.OUT, JSON.stringify({ samples, costs, held, sizes }));
