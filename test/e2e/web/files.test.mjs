// Attachments that are looked at and saved together; mail that comes in and goes out as files.

import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { after, test } from "node:test";
import { barriers, base, browser, deliver, open, row, signIn } from "./world.mjs";

after(() => browser.close());
const run = Date.now();

const png = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==";
const pdf = Buffer.from("%PDF-1.1\n1 0 obj<</Type/Catalog/Pages 2 0 R>>endobj\n2 0 obj<</Type/Pages/Kids[3 0 R]/Count 1>>endobj\n3 0 obj<</Type/Page/Parent 2 0 R/MediaBox[0 0 99 99]>>endobj\ntrailer<</Root 1 0 R>>\n").toString("base64");
const part = (type, name, text) => `--x\nContent-Type: ${type}; name="${name}"\nContent-Disposition: attachment; filename="${name}"\nContent-Transfer-Encoding: base64\n\n${text}\n`;

test("pictures, PDF and text are looked at, others only saved; all are saved as one", async () => {
  await deliver("mallory@elsewhere.example", "bob@example.com", `From: mallory@elsewhere.example\nTo: bob@example.com\nSubject: Files to see\nMessage-ID: <files.${run}@files.example>\nMIME-Version: 1.0\nContent-Type: multipart/mixed; boundary=x\n\n--x\n\nText\n${part("image/png", "dot.png", png)}${part("application/pdf", "page.pdf", pdf)}${part("text/plain", "words.txt", Buffer.from("Words of a file").toString("base64"))}${part("text/html", "page.html", Buffer.from("<script>parent.hacked=1</script>").toString("base64"))}${part("image/svg+xml", "evil.svg", Buffer.from("<svg xmlns='http://www.w3.org/2000/svg'><script>1</script></svg>").toString("base64"))}--x--\n`);
  const page = await open();
  await signIn(page, "bob");
  await row(page, "Files to see").click();
  await page.waitForSelector(".files .file >> text=dot.png");
  assert.deepEqual(await page.$$eval(".files [aria-label^='Preview']", (l) => l.map((e) => e.title)), ["Preview dot.png", "Preview page.pdf", "Preview words.txt"]);
  await page.click("[aria-label='Preview dot.png']");
  await page.waitForFunction(() => document.querySelector(".looked img")?.naturalWidth === 1);
  assert.deepEqual(await barriers(page), []);
  const shown = page.waitForResponse((r) => r.url().includes("page.pdf"));
  await page.click("dialog[open] [aria-label='Next attachment']");
  await page.waitForSelector(".looked iframe[src*='preview=1']");
  const headers = await page.evaluate(async (url) => Object.fromEntries((await fetch(url)).headers), await page.getAttribute(".looked iframe", "src"));
  assert.match(headers["content-disposition"], /^inline/);
  assert.equal(headers["content-type"], "application/pdf");
  assert.match(headers["content-security-policy"], /default-src 'none'.*frame-ancestors 'self'/);
  await shown.catch(() => undefined);
  // The same address of anything else is a file to save, in a sandbox.
  const html = await page.evaluate(async () => Object.fromEntries((await fetch(`${[...document.querySelectorAll(".files a.file")].find((a) => a.href.includes("page.html")).href}&preview=1`)).headers));
  assert.match(html["content-disposition"], /^attachment/);
  assert.match(html["content-security-policy"], /^sandbox/);
  await page.keyboard.press("ArrowRight");
  await page.waitForSelector(".looked .scrolls:has-text('Words of a file')");
  await page.keyboard.press("Escape");
  await page.waitForSelector("dialog", { state: "detached" });
  const saved = page.waitForEvent("download");
  await page.click(".files .all");
  const file = readFileSync(await (await saved).path());
  assert.equal(file.subarray(0, 2).toString(), "PK");
  for (const name of ["dot.png", "page.pdf", "words.txt", "page.html", "evil.svg"]) assert.ok(file.includes(name), name);
  assert.deepEqual(page.foreign.filter((url) => !url.startsWith("chrome")), []); // the PDF viewer is of the browser itself
});

test("an .eml and an .mbox file are dropped into a folder; the folder is saved as one file", async () => {
  const page = await open();
  await signIn(page, "bob");
  await page.click("[aria-label='New folder']");
  await page.fill("dialog[open] input", "Imported");
  await page.click("dialog[open] .button.primary");
  await page.click(".folder[title='Imported']");
  await page.waitForSelector(".list .bar h2:has-text('Imported')");
  const drop = (files) => page.evaluate((list) => {
    const data = new DataTransfer();
    for (const [name, text] of list) data.items.add(new File([text], name));
    const target = document.querySelector(".list");
    target.dispatchEvent(new DragEvent("dragover", { dataTransfer: data, bubbles: true, cancelable: true }));
    target.dispatchEvent(new DragEvent("drop", { dataTransfer: data, bubbles: true, cancelable: true }));
  }, files);
  await drop([["one.eml", "From: Anna <anna@elsewhere.example>\nSubject: As a file\nDate: Tue, 3 Mar 2020 10:00:00 +0000\n\nText\n"]]);
  await page.waitForSelector(".toast:has-text('1 messages imported into Imported')");
  await row(page, "As a file").waitFor();
  await page.waitForSelector(".row:has-text('As a file') .date:has-text('2020')");
  await drop([["two.mbox", "From a@b Mon Jan  5 09:00:00 2026\nSubject: First of two\n\nFirst\n\n>From here on\n\nFrom c@d Mon Jan  5 09:00:00 2026\r\nSubject: Second of two\r\n\r\nSecond\r\n"]]);
  await row(page, "Second of two").waitFor();
  await row(page, "First of two").click();
  await page.waitForSelector(".mail .plain:has-text('From here on')");
  assert.ok(!(await page.textContent(".mail .plain")).includes(">From"));
  await drop([["notes.txt", "just words, and no header"]]);
  await page.waitForSelector(".toast:has-text('holds no mail')");
  const saved = page.waitForEvent("download");
  await page.click(".folder[title='Imported']", { button: "right" });
  await page.click("[role=menuitem]:has-text('Export as an mbox file')");
  const download = await saved;
  assert.equal(download.suggestedFilename(), "Imported.mbox");
  const text = readFileSync(await download.path(), "utf8");
  assert.equal(text.match(/^From MAILER-DAEMON /gmu)?.length, 3);
  assert.ok(text.includes("\n>From here on\n"));
  // Nobody else is given it.
  const other = await open();
  await signIn(other, "alice");
  const path = new URL(download.url());
  assert.equal(await other.evaluate(async (url) => (await fetch(url)).status, `${base}${path.pathname}`), 404);
  assert.deepEqual(page.wrong, []);
});
