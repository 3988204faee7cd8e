// The corpus of letters (corpus/): each looks as the browser shows it in a sandbox, but for what is left out on purpose.

import assert from "node:assert/strict";
import { mkdirSync, writeFileSync } from "node:fs";
import { after, test } from "node:test";
import pixelmatch from "pixelmatch";
import { PNG } from "pngjs";
import { pictureAt, pictures } from "./corpus/chance.mjs";
import { expected, letters, message, otherwise } from "./corpus/index.mjs";
import { browser, deliver, open, row, signIn } from "./world.mjs";

after(() => browser.close());

const run = Date.now().toString(36);
const sender = "news@corpus.example";
const subjectOf = (letter) => `Corpus ${run} ${letter.name}`;
const byName = new Map(letters.map((l) => [l.name, l]));

/** A folder for both pictures of each letter that differs, and the difference. */
const differences = process.env.DIFFERENCES;

/** Answers for the server of pictures; nothing else is asked. */
async function withPictures(page) {
  await page.route(`${pictures}/**`, (route) => {
    const body = pictureAt(route.request().url());
    return body ? route.fulfill({ body, contentType: "image/png", headers: { "cache-control": "max-age=3600" } }) : route.abort();
  });
  return page;
}

/** Waits until what a frame shows is laid out. */
const settle = async (d) => {
  await Promise.all(Array.from(d.images, (i) => i.getAttribute("src") ? i.decode().catch(() => undefined) : undefined));
  await new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)));
};

/** Opens the next message of the list, and returns its subject and the size of its frame, which then covers the page. */
async function next(page, last) {
  await page.evaluate(() => document.querySelectorAll(".mail iframe").forEach((f) => { if (f.contentDocument?.body) f.contentDocument.body.style.zoom = 1; }));
  await page.keyboard.press("j");
  await page.waitForFunction((b) => {
    const d = document.querySelector(".mail iframe")?.contentDocument;
    return document.querySelector(".reader h1")?.textContent !== b && d?.head?.querySelector("style") && d.body.style.zoom === "";
  }, last);
  await page.evaluate(`(${settle})(document.querySelector(".mail iframe").contentDocument)`);
  return page.evaluate(() => {
    const f = document.querySelector(".mail iframe"), root = f.contentDocument.documentElement;
    const size = { subject: document.querySelector(".reader h1").textContent, width: f.clientWidth, height: f.clientHeight, cut: root.scrollHeight - f.clientHeight, text: f.contentDocument.body.innerText };
    for (const [name, value] of Object.entries({ position: "fixed", inset: "0 auto auto 0", "z-index": "99", transform: "none" })) f.style.setProperty(name, value, "important");
    document.getAnimations().forEach((a) => a.cancel()); // a message fades in
    return size;
  });
}

/** Shows a letter as it came, without scripts, and returns its height and text. */
async function sandboxed(raw, letter, width) {
  return raw.evaluate(async ([html, width, settle]) => {
    const f = document.querySelector("iframe");
    f.style.width = `${width}px`;
    f.style.height = "24px";
    f.srcdoc = html;
    await new Promise((done) => f.addEventListener("load", done, { once: true }));
    await (0, eval)(settle)(f.contentDocument);
    const height = f.contentDocument.documentElement.scrollHeight;
    f.style.height = `${height}px`;
    return { height, text: f.contentDocument.body.innerText };
  }, [expected(letter), width, `(${settle})`]);
}

/** The share of points that may differ. */
const tolerance = 0.0005;

/** As much of a letter is compared. */
const highest = 1600;

/** A picture of the upper left part of a page, as PNG. */
async function shot(cdp, width, height) {
  const { data } = await cdp.send("Page.captureScreenshot", { format: "png", optimizeForSpeed: true, clip: { x: 0, y: 0, width, height: Math.min(height, highest), scale: 1 } });
  return Buffer.from(data, "base64");
}

/** The share of a picture's points that differ; what is lower ends in white. */
function differ(pngA, pngB, name) {
  if (pngA.equals(pngB)) return 0;
  const [a, b] = [PNG.sync.read(pngA), PNG.sync.read(pngB)];
  const width = Math.max(a.width, b.width), height = Math.max(a.height, b.height);
  const grown = (p) => {
    if (p.width === width && p.height === height) return p;
    const out = new PNG({ width, height });
    out.data.fill(255);
    PNG.bitblt(p, out, 0, 0, p.width, p.height, 0, 0);
    return out;
  };
  const [x, y] = [grown(a), grown(b)];
  const seen = new PNG({ width, height });
  const n = pixelmatch(x.data, y.data, seen.data, width, height, { threshold: 0.1 });
  if (differences && n > 0) {
    mkdirSync(differences, { recursive: true });
    const side = new PNG({ width: 3 * width, height });
    [x, y, seen].forEach((p, i) => PNG.bitblt(p, side, 0, 0, width, height, i * width, 0));
    writeFileSync(`${differences}/${name}.png`, PNG.sync.write(side));
  }
  return n / (width * height);
}

test("each letter of the corpus looks as the browser shows it", { timeout: 300_000 }, async () => {
  const page = await withPictures(await open({ width: 1440, height: highest, worker: false }));
  const raw = await withPictures(await open({ width: 1440, height: highest }));
  await raw.setContent(`<!DOCTYPE html><style>body{margin:0}iframe{border:0;position:fixed;top:0;left:0}</style><iframe sandbox="allow-same-origin"></iframe>`);
  for (const letter of letters) await deliver(sender, "harry@example.com", message(letter, subjectOf(letter)));
  await deliver(sender, "harry@example.com", message({ html: `<img src="${pictures}/9x9-112233.png">`, cids: {} }, `Corpus ${run} begins`));
  await signIn(page, "harry");
  await row(page, `Corpus ${run} begins`).click();
  await page.getByRole("button", { name: "Always show pictures from" }).click();
  await page.waitForFunction(() => document.querySelector(".mail iframe")?.src.endsWith("pictures=1"));
  const cdps = await Promise.all([page, raw].map((p) => p.context().newCDPSession(p)));
  const squeeze = (text) => text.replace(/\s+/g, " ").trim();
  const wrong = [];
  const compare = async (letter, shown, seen) => {
    const plain = await sandboxed(raw, letter, shown.width);
    const share = differ(seen, await shot(cdps[1], shown.width, plain.height), letter.name);
    const faults = [
      share > (letter.tolerance ?? tolerance) && `${(share * 100).toFixed(3)} % differs`, Math.abs(shown.height - plain.height) > 1 && `${shown.height} px high, not ${plain.height}`,
      shown.cut > 1 && `${shown.cut} px are cut`, squeeze(shown.text) !== squeeze(plain.text) && "its text differs",
    ].filter(Boolean);
    if (otherwise.has(letter.name)) assert.notEqual(faults.length, 0, `${letter.name} is as the browser shows it`);
    else if (faults.length > 0) wrong.push(`${letter.name} in ${shown.width} px: ${faults.join(", ")}`);
  };
  const left = new Set(byName.keys());
  let last = `Corpus ${run} begins`, compared = Promise.resolve();
  while (left.size > 0) {
    const shown = await next(page, last);
    last = shown.subject;
    const letter = byName.get(last.split(" ").at(-1));
    assert.ok(left.delete(letter.name), letter.name);
    const seen = await shot(cdps[0], shown.width, shown.height);
    await compared;
    compared = compare(letter, shown, seen); // while the next one is opened
  }
  await compared;
  assert.deepEqual(page.foreign.filter((url) => !/\.(?:png|gif|jpe?g)$/.test(url)), []); // pictures alone: no fonts, frames, sheets
  assert.equal(wrong.length, 0, wrong.join("\n"));
});
