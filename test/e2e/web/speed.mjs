// How quick the client is in Chromium: make speed. It starts a demo of its own with a few hundred messages more, prints the
// median and the 95th percentile of each, and with OUT=FILE writes all samples there as JSON. Times are of the page's own
// clock (Performance API): from the event to the layout of what it asked for, without the wait for the next frame.

import { execFileSync, spawn } from "node:child_process";
import { mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
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
const server = spawn(process.env.DOUBLET ?? join(root, "bin/doublet"), ["demo", "--data", join(data, "d"), "--http", `127.0.0.1:${http}`, "--smtp", `127.0.0.1:${smtp}`, ...off], { stdio: ["ignore", "pipe", "inherit"] });
await new Promise((done) => server.stdout.once("data", done));
process.env.WEB = `http://127.0.0.1:${http}`;
process.env.SMTP = String(smtp);
const { browser, deliver, open, signIn } = await import("./world.mjs");

const samples = {};
const aims = { "first load to inbox": 1000, "folder switch": 50, "message open": 50, "key in compose": 16 };

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
  await page.keyboard.press("c");
  await page.waitForSelector(".writer .ProseMirror");
  await page.click(".writer .ProseMirror");
  await page.evaluate(() => {
    globalThis.keys = [];
    addEventListener("keydown", (e) => setTimeout(() => {
      void document.body.offsetHeight;
      globalThis.keys.push(performance.now() - e.timeStamp);
    }), { capture: true });
  });
  await page.keyboard.type("What a person types who has something to say to somebody, and says it. ".repeat(4), { delay: 25 });
  samples["key in compose"] = await page.evaluate(() => globalThis.keys);

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
} finally {
  await browser.close();
  server.kill();
  await new Promise((done) => server.once("exit", done));
  rmSync(data, { recursive: true, force: true });
}

const at = (list, share) => list.toSorted((a, b) => a - b)[Math.min(list.length - 1, Math.floor(list.length * share))];
for (const [name, list] of Object.entries(samples)) console.log(`${name.padEnd(20)} p50 ${at(list, 0.5).toFixed(1).padStart(7)} ms   p95 ${at(list, 0.95).toFixed(1).padStart(7)} ms   of ${list.length}, aim < ${aims[name]} ms`);
const assets = join(root, "web/dist/assets");
const page = readFileSync(join(root, "web/dist/index.html"), "utf8");
const sizes = readdirSync(assets).filter((f) => f.endsWith(".js")).map((f) => ({ file: f, first: page.includes(f), gzip: gzipSync(readFileSync(join(assets, f))).length }));
const total = (list) => (list.reduce((n, x) => n + x.gzip, 0) / 1000).toFixed(1);
console.log(`scripts              ${total(sizes.filter((s) => s.first))} KB gzip named by the page, ${total(sizes)} KB in all; load.test.mjs counts those until the inbox is drawn, aim <= 60 KB`);
if (process.env.OUT) writeFileSync(process.env.OUT, JSON.stringify({ samples, sizes }));
