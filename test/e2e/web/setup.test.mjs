// The first start: doublet setup leads through in the browser, and the server runs.

import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { mkdtempSync, readFileSync, existsSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, test } from "node:test";
import { barriers, browser, freePort, open } from "./world.mjs";

const running = [];
after(async () => {
  for (const p of running) p.kill("SIGKILL");
  await browser.close();
});

/** Starts doublet setup with doors on free ports, and gives its address, process and data folder. */
async function setup(language = "en-US") {
  const data = join(mkdtempSync(join(tmpdir(), "doublet-setup-")), "data");
  const off = ["submission", "submissions", "lmtp", "imaps", "pop3", "pop3s"].flatMap((d) => [`--${d}`, "off"]);
  const doors = [];
  for (const d of ["smtp", "imap", "http", "https"]) doors.push(`--${d}`, `127.0.0.1:${await freePort()}`);
  const p = spawn(process.env.DOUBLET, ["setup", "--data", data, "--at", `127.0.0.1:${await freePort()}`, ...doors, ...off], { stdio: ["ignore", "pipe", "pipe"] });
  running.push(p);
  let out = "";
  const address = await new Promise((resolve, reject) => {
    p.stdout.on("data", (d) => { out += d; const m = /http:\S+/.exec(out); if (m) resolve(m[0]); });
    p.stderr.on("data", (d) => (out += d));
    p.on("exit", () => reject(new Error(out)));
  });
  const page = await open({ language });
  page.context().unroute("**/*"); // it has an address of its own
  await page.emulateMedia({ reducedMotion: "reduce" });
  return { address, page, data, process: p, out: () => out };
}

test("a first start is led through: domain, doors, person, certificates; it ends with a server, signed in", async () => {
  const s = await setup();
  const { page } = s;
  const origin = new URL(s.address).origin;
  const token = new URL(s.address).hash.slice(1);
  // Without the token nothing is told and nothing made, nor by a name that leads here.
  await page.goto(`${origin}/setup`);
  await page.waitForSelector("[role=alert]");
  const post = (path, word, body = {}) => fetch(origin + path, { method: "POST", headers: { "X-Setup-Token": word }, body: JSON.stringify(body) });
  assert.equal((await post("/setup/state", "wrong")).status, 403);
  assert.equal((await post("/setup/make", "")).status, 403);
  assert.equal((await fetch(`${origin}/auth/session`)).status, 404);
  const complaint = await (await post("/setup/make", token, { domain: "not a domain", person: "x", short: "x", password: "12345678", certificates: "self" })).json();
  assert.match(complaint.error, /domain/);
  assert.equal(existsSync(s.data), false);

  await page.goto("about:blank");
  await page.goto(s.address);
  await page.waitForSelector("h1:has-text('Set up this server')");
  assert.deepEqual(await barriers(page), []);
  await page.fill("input[name=domain]", "example.net");
  await page.waitForSelector("button.primary:enabled"); // the server has said which ports it can open
  await page.keyboard.press("Enter");
  await page.waitForSelector("text=All ports can be opened.");
  await page.click("text=For real use");
  assert.equal(await page.inputValue("input[name=server]"), "mail.example.net");
  assert.deepEqual(await barriers(page), []);
  await page.click("button.primary");
  await page.fill("input[name=person]", "Grace Hopper");
  await page.fill("input[name=short]", "grace");
  await page.fill("input[name=password]", "nanoseconds");
  await page.fill("input[name=again]", "nanosecond");
  await page.click("button.primary");
  await page.waitForSelector(".said:has-text('not the same')");
  await page.fill("input[name=again]", "nanoseconds");
  await page.click("button.primary");
  await page.click("text=From files");
  await page.fill(".choice input:not([type=radio]) >> nth=0", "/no/such/file.pem");
  await page.fill(".choice input:not([type=radio]) >> nth=1", "/no/such/key.pem");
  await page.click("text=Make the server");
  await page.waitForSelector(".said:has-text('no such file')");
  assert.equal(existsSync(s.data), false);
  await page.click("text=Self-signed for now");
  assert.deepEqual(await barriers(page), []);
  await page.click("text=Make the server");
  await page.waitForSelector("h1:has-text('The server runs')", { timeout: 30_000 });
  await page.waitForSelector(".records >> text=v=spf1 mx ~all");
  await page.waitForSelector(".records >> text=_domainkey.example.net");
  assert.deepEqual(await barriers(page), []);
  assert.equal(page.url(), `${origin}/setup`);
  // The token is good for nothing now.
  assert.notEqual((await post("/setup/state", token)).status, 200);
  assert.notEqual((await post("/setup/make", token)).status, 200);
  await page.click("text=Add people");
  await page.waitForSelector(".lines .line:has-text('Grace Hopper')");
  await page.goto(`${origin}/`);
  await page.waitForSelector(".folder:has-text('Inbox')");
  assert.match(readFileSync(join(s.data, "doublet.toml"), "utf8"), /domain = "example.net"/);
  assert.deepEqual(page.wrong, []);
  s.process.kill("SIGTERM");
  await new Promise((resolve) => s.process.on("close", resolve)); // its output has come, too
  assert.match(s.out(), /doublet serve --data/);
  rmSync(s.data, { recursive: true });
});
