// The pictures of the README: make screenshots. It starts a demo of its own, and leaves small PNGs in doc/pictures.

import { execFileSync, spawn } from "node:child_process";
import { mkdirSync, mkdtempSync, readdirSync, rmSync, statSync } from "node:fs";
import { createServer } from "node:net";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";

const root = resolve(import.meta.dirname, "../../..");
const out = join(root, "doc/pictures");
const data = mkdtempSync(join(tmpdir(), "doublet-pictures-"));
const free = () => new Promise((done) => {
  const s = createServer().listen(0, "127.0.0.1", () => { const { port } = s.address(); s.close(() => done(port)); });
});
const doublet = join(root, "bin/doublet");
const http = await free();
const smtp = await free();
const server = spawn(doublet, ["demo", "--data", join(data, "d"), "--http", `127.0.0.1:${http}`, "--smtp", `127.0.0.1:${smtp}`, ...["https", "imap", "imaps", "pop3", "pop3s", "submission", "submissions", "lmtp"].flatMap((d) => [`--${d}`, "off"])], { stdio: ["ignore", "pipe", "inherit"] });
await new Promise((done) => server.stdout.once("data", done));
process.env.WEB = `http://127.0.0.1:${http}`;
process.env.SMTP = String(smtp);
const verb = (...args) => execFileSync(doublet, ["--data", join(data, "d"), ...args], { input: "a-password-of-words\n" });
for (const name of ["Ada Lindqvist", "Boris Okafor", "Chen Wei", "Dana Petrov", "Emil Fischer", "Fatima Costa", "Gunnar Hansen", "Hana Tanaka"]) verb("user", "add", name);
const { browser, deliver, open, row, signIn } = await import("./world.mjs");

// Fewer colours make small files: PNG of Chromium, with a palette where pngquant is there.
async function shot(page, name) {
  const path = join(out, `${name}.png`);
  await page.mouse.move(page.viewportSize().width / 2, page.viewportSize().height - 2);
  await page.waitForTimeout(250);
  await page.screenshot({ path });
  try {
    execFileSync("pngquant", ["--force", "--skip-if-larger", "--speed", "1", "--strip", "--output", path, "64", path]);
  } catch {
    // the file stays as it is
  }
}

mkdirSync(out, { recursive: true });
try {
  for (const [width, height, theme] of [[1440, 900, "light"], [1440, 900, "dark"], [390, 844, "light"], [390, 844, "dark"]]) {
    const page = await open({ width, height, dark: theme === "dark" });
    await page.emulateMedia({ reducedMotion: "reduce" });
    await signIn(page);
    await page.waitForTimeout(800);
    if (width > 390 || theme === "dark") {
      await row(page, "garden party").click();
      await page.waitForSelector(".reader .mail .body");
      await page.waitForTimeout(600);
    }
    await shot(page, `mail-${width}-${theme}`);
    if (width > 390) {
      await page.goto(`${process.env.WEB}/admin/#/${theme === "light" ? "people" : "statistics"}`);
      await page.waitForSelector(".stage");
      if (theme === "light") {
        await page.locator(".lines .line").first().click();
        await page.waitForSelector(".detail .block");
      } else {
        // Something to see: mail that comes in for a while.
        for (let i = 0; i < 60; i++) {
          await deliver("mallory@elsewhere.example", "bob@example.com", `From: mallory@elsewhere.example\nTo: bob@example.com\nSubject: figures ${i}\n\nx`);
          await page.waitForTimeout(150 + 400 * Math.abs(Math.sin(i / 5)));
        }
        await page.waitForTimeout(2500);
      }
      await shot(page, `admin-${width}-${theme}`);
      await page.goto(`${process.env.WEB}/lite/`);
      if (theme === "dark") await page.getByRole("link", { name: "garden party" }).first().click();
      await shot(page, `lite-${width}-${theme}`);
    }
    await page.context().close();
  }
} finally {
  await browser.close();
  server.kill();
  await new Promise((done) => server.once("exit", done));
  rmSync(data, { recursive: true, force: true });
}
let total = 0;
for (const f of readdirSync(out)) total += statSync(join(out, f)).size;
console.log(`${out}: ${Math.round(total / 1024)} KB`);
