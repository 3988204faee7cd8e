// Mail in HTML as big senders make it (letters/*.eml), mail of a size that nobody makes by hand, and keys and links in its frame.

import assert from "node:assert/strict";
import { readdirSync, readFileSync } from "node:fs";
import { after, test } from "node:test";
import { boxOf, browser, deliver, open, row, signIn, until } from "./world.mjs";

after(() => browser.close());

const run = Date.now().toString(36);
const folder = new URL("letters/", import.meta.url);
const letters = readdirSync(folder).filter((n) => n.endsWith(".eml")).map((n) => n.slice(0, -4));
const source = (name) => readFileSync(new URL(`${name}.eml`, folder), "utf8");
const htmlOf = (name) => source(name).slice(source(name).indexOf("\n\n") + 2);

const send = (subject, text) => deliver("news@letters.example", "harry@example.com", text.replace(/^Subject: .*/m, `Subject: ${subject}`).replace(/^Message-ID: .*/m, `Message-ID: <${subject.replace(/\W/g, "")}@letters.example>`));
const made = (html) => `From: Nora <nora@letters.example>\nTo: harry@example.com\nSubject: x\nMessage-ID: <x>\nDate: Sat, 21 Nov 2026 10:00:00 +0000\nMIME-Version: 1.0\nContent-Type: text/html; charset=utf-8\n\n${html}\n`;

const gif = "data:image/gif;base64,R0lGODlhAQABAIAAAAAAAP///yH5BAEAAAAALAAAAAABAAEAAAIBRAA7";

async function enter(options) {
  const page = await open(options);
  await send(`First letter ${run}`, made("<p>so that there is a row</p>"));
  await signIn(page, "harry");
  return page;
}

async function show(page, subject) {
  await row(page, subject).click();
  await page.locator(".mail iframe").waitFor();
  await page.waitForFunction((s) => document.querySelector(".reader h1")?.textContent === s && document.querySelector(".mail iframe")?.contentDocument?.head?.querySelector("style"), subject);
  // As it is once its pictures are there.
  await page.evaluate(async () => {
    const d = document.querySelector(".mail iframe").contentDocument;
    await Promise.all(Array.from(d.images, (i) => i.getAttribute("src") ? i.decode().catch(() => undefined) : undefined));
    await new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)));
  });
}

/** What of a document's layout can be compared: the widths of its cells and the sizes of its pictures. */
const layout = (d) => ({
  cells: Array.from(d.querySelectorAll("td,th"), (c) => Math.round(c.getBoundingClientRect().width)),
  pictures: Array.from(d.images, (i) => [Math.round(i.getBoundingClientRect().width), Math.round(i.getBoundingClientRect().height)]),
});

const shown = (page) => page.evaluate((layout) => {
  const f = document.querySelector(".mail iframe"), box = f.parentElement, d = f.contentDocument, root = d.documentElement;
  const scale = f.getBoundingClientRect().width / f.clientWidth;
  return {
    box: box.clientWidth, width: f.clientWidth, scale, scroll: root.scrollWidth, scrolls: getComputedStyle(root).overflowX === "auto", tone: box.dataset.tone,
    spare: Math.abs(box.clientHeight - f.getBoundingClientRect().height), cut: root.scrollHeight - f.clientHeight, text: d.body.innerText.trim(), ...(0, eval)(layout)(d),
  };
}, `(${layout})`);

test("letters of big senders are shown as the browser shows them, in no more than the column", { timeout: 120_000 }, async () => {
  const page = await enter({ width: 1440, height: 2000 }); // all of their rows are in sight
  const raw = await open();
  const listed = async () => Number(await page.getAttribute(".rows", "aria-rowcount"));
  const before = await listed();
  for (const name of letters) await send(`${name} ${run}`, source(name));
  await until(async () => (await listed()) === before + letters.length); // rows move until then
  for (const name of letters) {
    await show(page, `${name} ${run}`);
    const s = await shown(page);
    assert.ok(s.scroll <= s.width + 1 || s.scrolls, `${name}: ${s.scroll} px in ${s.width} cannot be reached`);
    assert.ok(s.width * s.scale <= s.box + 1, `${name}: a frame of ${s.width * s.scale} in ${s.box}`);
    assert.ok(s.scale >= 0.5 - 0.01 && s.spare <= 2 && s.cut <= 1, `${name}: ${JSON.stringify(s)}`);
    assert.ok(s.text.length > 0 || name === "spacers", `${name} is empty`);
    assert.doesNotMatch(s.text, /hidden line/, name);
    // The same in a sandbox, with what the client leaves open: the font and the border around it.
    await raw.setViewportSize({ width: s.width, height: 900 });
    await raw.setContent(`<!DOCTYPE html><style>body{font:15px/1.5 system-ui,sans-serif}</style><iframe sandbox="allow-same-origin" style="border:0;position:fixed;inset:0;width:100%;height:100%"></iframe>`);
    const expected = await raw.evaluate(async ([html, layout]) => {
      const f = document.querySelector("iframe");
      f.srcdoc = `<!DOCTYPE html>${document.querySelector("style").outerHTML}${html.replace(/<!doctype html>/i, "")}`;
      await new Promise((done) => f.addEventListener("load", done, { once: true }));
      return (0, eval)(layout)(f.contentDocument);
    }, [htmlOf(name), `(${layout})`]);
    assert.equal(s.cells.length, expected.cells.length, name);
    s.cells.forEach((w, i) => assert.ok(Math.abs(w - expected.cells[i]) <= 4, `${name}: cell ${i} has ${w} px, not ${expected.cells[i]}`));
  }
  assert.deepEqual([page.wrong, page.foreign], [[], []]);
});

test("pictures keep the sizes that they state, on a wide and a narrow screen", async () => {
  for (const width of [1440, 390]) {
    const page = await enter({ width });
    await send(`Sizes ${width} ${run}`, source("spacers"));
    await show(page, `Sizes ${width} ${run}`);
    const { pictures, width: frame } = await shown(page);
    assert.deepEqual(pictures.slice(0, 5), [[10, 1], [560, 1], [10, 1], [560, 1], [1, 40]]);
    const [w, h] = pictures[5]; // 1200 by 300: narrower, and lower as much
    assert.ok(w <= frame && Math.abs(w / h - 4) < 0.1, `${w} by ${h}`);
    await page.context().close();
  }
});

test("what is too wide to be made smaller is scrolled, from right to left too", async () => {
  const page = await enter({ width: 390 });
  for (const [name, id] of [["wide-5050", "td:last-child"], ["rtl-wide", "td:last-child"]]) {
    const text = name === "rtl-wide" ? made(`<p>before</p><div dir="rtl"><table width="3000"><tr><td>ימין</td><td>שמאל</td></tr></table></div>`) : source(name);
    await send(`${name} narrow ${run}`, text);
    await show(page, `${name} narrow ${run}`);
    const seen = await page.frameLocator(".mail iframe").locator(id).first().evaluate((cell) => {
      cell.scrollIntoView({ inline: "center" });
      const box = cell.getBoundingClientRect(), w = document.documentElement.clientWidth;
      return box.left < w && box.right > 0;
    });
    assert.ok(seen, name);
    await page.getByRole("button", { name: "Back" }).click();
  }
});

test("on a dark page plain mail is dark and readable, designed mail is on a light sheet, mail with a dark design uses it", async () => {
  const page = await enter({ dark: true });
  const colours = () => page.frameLocator(".mail iframe").locator("body").evaluate((b) => {
    const e = b.querySelector("p,div,td") ?? b;
    let g = e;
    while (g.parentElement && /rgba\(0, 0, 0, 0\)/.test(getComputedStyle(g).backgroundColor)) g = g.parentElement;
    if (/rgba\(0, 0, 0, 0\)/.test(getComputedStyle(g).backgroundColor)) g = window.frameElement; // the sheet below the message
    const light = (c) => c.match(/\d+/g).slice(0, 3).reduce((a, x) => a + Number(x), 0) / 3;
    return { text: light(getComputedStyle(e).color), ground: light(getComputedStyle(g).backgroundColor) };
  });
  for (const [name, tone] of [["plain-div", "plain"], ["gmail-reply", "plain"], ["outlook-reply", "plain"], ["apple-reply", "plain"], ["dark-meta", "dark"], ["shop-600", "light"], ["dark-partial", "light"], ["body-colours", "light"]]) {
    await send(`${name} dark ${run}`, source(name));
    await show(page, `${name} dark ${run}`);
    assert.equal((await shown(page)).tone, tone, name);
    const c = await colours();
    assert.ok(Math.abs(c.text - c.ground) > 100, `${name}: ${JSON.stringify(c)}`);
    if (tone !== "light") assert.ok(c.ground < 60, `${name}: ${JSON.stringify(c)}`);
  }
});

test("keys go on to work after a press into a message, and its text can be selected and copied", async () => {
  const page = await enter({ permissions: ["clipboard-read", "clipboard-write"] });
  await send(`Keys one ${run}`, made("<p>the first letter</p>"));
  await send(`Keys two ${run}`, made(`<p id="t">word <a href="https://shop.example/">shop</a></p>`));
  await row(page, `Keys one ${run}`).waitFor();
  await show(page, `Keys two ${run}`);
  const body = page.frameLocator(".mail iframe").locator("body");
  await body.locator("p").dblclick({ position: { x: 12, y: 8 } });
  assert.equal(await page.evaluate(() => document.activeElement.tagName), "IFRAME");
  await page.keyboard.press("Control+c");
  await until(async () => /^word ?$/.test(await page.evaluate(() => navigator.clipboard.readText())));
  await page.keyboard.press("s");
  await page.locator(".tool[aria-pressed=true]").waitFor(); // flagged
  await page.keyboard.press("j");
  await page.locator(".reader h1", { hasText: `Keys one ${run}` }).waitFor();
  await page.frameLocator(".mail iframe").getByText("the first letter").click();
  await page.keyboard.press("?");
  await page.locator("dialog.sheet .keys").first().waitFor();
  await page.keyboard.press("Escape");
  await page.frameLocator(".mail iframe").getByText("the first letter").click();
  await page.keyboard.press("u");
  await page.locator(".reader").waitFor({ state: "detached" });
  assert.deepEqual(page.wrong, []);
});

test("links show where they lead, by the pointer and by the keyboard; one that names another site is asked about", async () => {
  const page = await enter();
  await send(`Links ${run}`, source("links"));
  await show(page, `Links ${run}`);
  const links = page.frameLocator(".mail iframe").locator("a");
  const leads = page.locator(".leads");
  await links.nth(2).hover();
  assert.equal(await leads.textContent(), "https://shop.example/?q=1");
  assert.equal(await page.locator(".leads.warn").count(), 0);
  await links.nth(0).hover();
  await page.locator(".leads.warn", { hasText: "evil.example" }).waitFor();
  for (const i of [1, 3]) { // a host below the named one; a file
    await links.nth(i).focus();
    await page.waitForFunction((i) => !document.querySelector(".leads.warn") && document.querySelector(".leads")?.textContent.includes(i === 1 ? "secure.bank" : "files"), i);
  }
  await links.nth(0).click();
  const asked = page.locator("dialog.sheet");
  await asked.waitFor();
  assert.match(await asked.textContent(), /bank\.example.*evil\.example/);
  await asked.getByRole("button", { name: "Cancel" }).click();
  assert.deepEqual(page.foreign, []);
  await links.nth(0).focus();
  await page.keyboard.press("Enter");
  const [opened] = await Promise.all([page.context().waitForEvent("page"), asked.getByRole("button", { name: "Open link" }).click()]);
  await until(() => page.foreign.length > 0);
  assert.deepEqual(page.foreign, ["https://evil.example/login"]);
  await opened.close();
});

test("links within a letter lead to their place, and the areas of a picture to their pages", async () => {
  const page = await enter();
  await send(`Within ${run}`, made(`<p><a href="#far">the end</a></p><map name="m"><area shape="rect" coords="0,0,60,60" href="https://shop.example/area" alt="area"></map><img src="${gif}" usemap="#m" width="120" height="60" alt=""><div style="height:3000px"></div><p><a name="far"></a>far below</p><p><a href="#top">up</a> <a href="#%zz">nowhere</a></p>`));
  await show(page, `Within ${run}`);
  const frame = page.frameLocator(".mail iframe");
  const steps = await page.evaluate(() => history.length);
  await frame.getByText("the end").click();
  await page.waitForFunction(() => { const f = document.querySelector(".mail iframe"); return f.getBoundingClientRect().top + f.contentDocument.getElementById("far").getBoundingClientRect().top < innerHeight; });
  await frame.getByText("nowhere").click();
  await frame.getByText("up").click();
  await page.waitForFunction(() => document.querySelector(".mail iframe").getBoundingClientRect().top >= 0);
  assert.equal(await page.evaluate(() => history.length), steps);
  const opened = page.context().waitForEvent("page");
  await frame.locator("img").click({ position: { x: 20, y: 20 } });
  await (await opened).close();
  assert.ok(page.foreign.every((u) => u === "https://shop.example/area"), page.foreign.join());
  assert.deepEqual(page.wrong, []);
});

test("what is higher than its place is not cut, and a picture that is not loaded keeps its place", async () => {
  const page = await enter();
  await send(`Places ${run}`, made(`<div style="height:50px">${"<p>line</p>".repeat(20)}<p>last line</p></div>`));
  await show(page, `Places ${run}`);
  const s = await shown(page);
  assert.ok(s.cut <= 1, String(s.cut));
  assert.ok(await page.frameLocator(".mail iframe").getByText("last line").evaluate((e) => e.getBoundingClientRect().bottom <= window.frameElement.clientHeight));
  await send(`Unloaded ${run}`, made(`<img src="https://pictures.example/one.png" width="300" height="90" alt="one"><br><img src="https://pictures.example/two.png" width="2000" height="500">`));
  await show(page, `Unloaded ${run}`);
  const { pictures, width } = await shown(page);
  assert.deepEqual(pictures[0], [300, 90]);
  assert.ok(pictures[1][0] <= width && Math.abs(pictures[1][0] / pictures[1][1] - 4) < 0.1, pictures[1].join());
  assert.deepEqual([page.wrong, page.foreign], [[], []]);
});

test("pictures of a sender are shown always when that is asked for, and no longer when it is taken back", async () => {
  const page = await enter();
  await send(`Pictures one ${run}`, source("remote-pictures"));
  await show(page, `Pictures one ${run}`);
  assert.deepEqual(page.foreign, []);
  await page.getByRole("button", { name: "Always show pictures from news@pictures.example" }).click();
  await page.waitForFunction(() => document.querySelector(".mail iframe")?.src.endsWith("pictures=1"));
  await send(`Pictures two ${run}`, source("remote-pictures"));
  await show(page, `Pictures two ${run}`);
  await until(() => new Set(page.foreign).size > 1); // the picture behind the text is asked for when it is drawn
  assert.equal(await page.locator(".notice").count(), 0);
  const asked = [...new Set(page.foreign)].sort();
  assert.deepEqual(asked, ["https://pictures.example/ground.png", "https://pictures.example/logo.png"]); // no font, no import
  await page.getByRole("button", { name: "Settings", exact: true }).first().click();
  await page.getByRole("button", { name: "Ask again for pictures from news@pictures.example" }).click();
  await page.keyboard.press("Escape");
  page.foreign.length = 0;
  await send(`Pictures three ${run}`, source("remote-pictures"));
  await show(page, `Pictures three ${run}`);
  await page.locator(".notice").waitFor();
  assert.deepEqual(page.foreign, []);
});

test("style sheets load nothing, leave nothing out of its place, and make no frame that grows by itself", async () => {
  const page = await enter();
  const css = [
    `@import "https://evil.example/i.css"; @import url(//evil.example/j.css);`, `@font-face{font-family:E;src:url(https://evil.example/f.woff)} p{font-family:E}`,
    `p{background:url(https://evil.example/1)} .a{background:\\75rl(https://evil.example/2)} p::before{content:url(https://evil.example/3)}`,
    `.a{position:fixed;inset:0} .a{posi\\74ion:absolute} .a{transform:scale(9)} html{position:fixed}`, `p{--u:url(https://evil.example/4);background:var(--u)}`,
    `@media (min-width:1px){.a{background:image-set("https://evil.example/5" 1x);position:sticky}}`, `@keyframes k{to{background:url(https://evil.example/6)}} p{animation:k 1s}`,
    `body{min-height:101vh} .a{height:calc(100vh + 10px)} @media (min-height:600px){.a{height:9999px}} @media (orientation:portrait){p{height:8888px}}`,
    `</style><img src=x onerror=top.hacked=1>`, `p{color:red}/*`, `@page{size:url(https://evil.example/7)} @namespace url(https://evil.example/8); @layer x{p{background:url(https://evil.example/9)}}`,
    `html,body{overflow:hidden!important;height:10px!important}`,
  ];
  await send(`Sheets ${run}`, made(`<html><head>${css.map((c) => `<style>${c}</style>`).join("")}<style media="all and (min-width: 2px)">#mark{color:rgb(1,2,3)}</style></head><body><p class="a">begin</p><p id="mark">end</p></body></html>`));
  await show(page, `Sheets ${run}`);
  await page.waitForTimeout(300);
  const got = await page.evaluate(() => {
    const f = document.querySelector(".mail iframe"), d = f.contentDocument;
    return {
      places: [...new Set(Array.from(d.querySelectorAll("html,body,body *"), (e) => getComputedStyle(e).position))], mark: getComputedStyle(d.querySelector("#mark")).color,
      sheets: Array.from(d.querySelectorAll("style"), (s) => s.textContent).join("\n"), high: f.clientHeight, hacked: window.hacked,
    };
  });
  assert.deepEqual(got.places, ["static"]);
  assert.equal(got.mark, "rgb(1, 2, 3)");
  assert.doesNotMatch(got.sheets, /url|image-set|@import|@font|position:|\banimation|--u|::/i);
  assert.ok(got.high > 40 && got.high < 400, String(got.high));
  assert.deepEqual([got.hacked, page.foreign], [undefined, []]);
});

const big = {
  "5,000 rows": `<table border="1">${Array.from({ length: 5000 }, (_, i) => `<tr><td style="color:#333">${i}</td><td>Name ${i}</td><td align="right">${i * 3}.50</td><td>text</td></tr>`).join("\n")}</table>`,
  "2,000 pictures": Array.from({ length: 2000 }, (_, i) => `<img src="${gif}" width="${20 + i % 30}" height="20" alt="">`).join("\n"),
  "1 MB of CSS": `<style>${Array.from({ length: 24_000 }, (_, i) => `.c${i} td, * .d${i} > p { color: #${(i % 900 + 100)} }`).join("\n")}</style>${`<p class="c1">text</p>\n`.repeat(500)}`,
  "selectors that are slow": `<style>${`* * * * * *:not(.x) { color: #111 }\n`.repeat(20_000)}</style>${"<div>".repeat(200)}${"<b>x</b>\n".repeat(3000)}`,
  "both directions": Array.from({ length: 1500 }, (_, i) => `<div dir="${i % 2 ? "rtl" : "ltr"}"><table width="${900 + i}"><tr><td>שלום ${i}</td></tr></table></div>`).join("\n"),
};

// The bounds are for machines under load: each takes a second, and one that grows with the square of its size an hour.
test("mail of a size that nobody makes by hand is shown in bounded time, down to its end", { timeout: 240_000 }, async () => {
  const page = await enter();
  for (const [name, html] of Object.entries(big)) {
    await send(`${name} ${run}`, made(`${html}<p>the end</p>`));
    await row(page, `${name} ${run}`).waitFor();
    await show(page, `${name} ${run}`);
    const s = await shown(page);
    assert.ok(s.cut <= 1 && s.spare <= 2 && (s.scroll <= s.width + 1 || s.scrolls), `${name}: ${JSON.stringify({ ...s, cells: 0, pictures: 0, text: 0 })}`);
    // The work is bounded by numbers, not by time: rules are kept, and tried on elements, up to these.
    const work = await page.evaluate(() => {
      const d = document.querySelector(".mail iframe").contentDocument;
      return { rules: Array.from(d.styleSheets).reduce((n, sheet) => n + sheet.cssRules.length, 0), elements: d.querySelectorAll("*").length };
    });
    assert.ok(work.rules <= 2020 && (work.rules <= 120 || work.rules * work.elements <= 6_000_000), `${name}: ${JSON.stringify(work)}`);
    const end = page.frameLocator(".mail iframe").getByText("the end");
    await end.scrollIntoViewIfNeeded();
    assert.ok((await boxOf(end)).y < 900, name);
  }
  assert.deepEqual(page.wrong, []);
});

test("one leaves a list by a message to it, else on its page", async () => {
  const list = (subject, urls) => deliver("news@letters.example", "harry@example.com", made("<p>News</p>").replace("Subject: x", `Subject: ${subject}\nList-Unsubscribe: ${urls}`).replace("<x>", `<${subject.replace(/\W/g, "")}.${run}@letters.example>`));
  await list("List by mail", "<https://letters.example/leave?me=1>, <mailto:leave@letters.example?subject=leave%20me>");
  await list("List by page", "<https://letters.example/leave?me=1>");
  await list("List of nothing", "<javascript:alert(1)>, <http://letters.example/>");
  const page = await enter();
  await show(page, "List of nothing");
  assert.equal(await page.locator(".mail .who .chip").count(), 0);
  await show(page, "List by page");
  await page.click(".mail .who .chip");
  await page.waitForSelector("dialog[open]:has-text('The page letters.example opens in a new window')");
  const opened = page.context().waitForEvent("page");
  await page.click("dialog[open] .button.primary");
  await (await opened).close();
  await show(page, "List by mail");
  await page.click(".mail .who .chip");
  await page.waitForSelector(".writer .ProseMirror");
  await page.waitForSelector(".writer >> text=leave@letters.example");
  assert.equal(await page.inputValue(".writer .subject input"), "leave me");
  await page.click(".writer [aria-label='Discard draft']");
  await page.waitForSelector(".writer", { state: "detached" });
  assert.deepEqual(page.wrong, []);
});
