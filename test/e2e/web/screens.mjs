// Pictures of the main screens, for TestScreens to compare. They go to the folder OUT as SCREEN-WIDTH-THEME.png, and with -LANGUAGE behind
// THEME for one other than English. What follows from the
// hour, the machine or the build has the same words in all of them, and so have texts in scripts that the client ships no typeface for.
// A picture with ~CHANGE at the end of its name is that screen with its style changed on purpose.

import { join } from "node:path";
import { after, test } from "node:test";
import { base, browser, open, row, signIn } from "./world.mjs";

after(() => browser.close());

/** Changes of style, by name. What the comparison has to say of each stands in screens_test.go. */
const changes = {
  moved: ".read { transform: translateX(8px) }",
  color: ":root { --accent: #14539c !important }",
  paper: ":root { --paper: #e8ecef !important }",
  toolbar: ".read .bar { visibility: hidden }",
  raised: ":root { --raised: #f4f4f4 !important }",
  typeface: ":root { --font: 'DejaVu Sans', Arial, sans-serif !important }",
  raster: "* { text-rendering: geometricPrecision !important }",
};

const heights = { 1440: 900, 1024: 768, 390: 844 };

const still = `
  *, *::before, *::after { animation: none !important; transition: none !important; caret-color: transparent !important; scroll-behavior: auto !important; scrollbar-width: none !important }
  .charts svg, .charts strong, .charts small, .overview-tasks .dot, .log { visibility: hidden !important }
`;

/** Puts the same words in place of what differs between one day, machine or build and another. */
function settle() {
  const fixed = { "time, .rows .when": "Nov 3", ".row > .day": "Today", ".device .quiet": "Today", ".overview-tasks small, p.fine": "–", ".headline b": "0", ".headline li:last-child span": "up since" };
  for (const [where, words] of Object.entries(fixed)) for (const e of document.querySelectorAll(where)) if (e.textContent !== words) e.textContent = words;
  // The day and the hour decide which rows have a heading: the first always has one.
  for (const heading of [...document.querySelectorAll(".row > .day")].slice(1)) heading.style.visibility = "hidden";
  const texts = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  for (let n = texts.nextNode(); n; n = texts.nextNode()) {
    const data = /[\u0370-\u1dff\u2e80-\uffef]/.test(n.data) ? "Elsewhere" : n.data.replace(/\d[\d.,]* ([KMG]?B)\b/, "1 $1");
    if (data !== n.data) n.data = data;
  }
}

/** Adds a style sheet as the page's policy lets it, and returns what takes it away. */
async function styled(page, text) {
  const sheet = await page.evaluateHandle((text) => {
    const sheet = new CSSStyleSheet();
    sheet.replaceSync(text);
    document.adoptedStyleSheets.push(sheet);
    return sheet;
  }, text);
  return () => sheet.evaluate((sheet) => { document.adoptedStyleSheets = document.adoptedStyleSheets.filter((s) => s !== sheet); });
}

async function shoot(page, name) {
  await page.mouse.move(0, 0);
  await page.evaluate(async () => {
    await document.fonts.ready;
    await Promise.all([...document.images].map((i) => i.decode().catch(() => undefined)));
  });
  await styled(page, still);
  // What was still to come has come when two pictures are the same. A change of style comes at once.
  for (let before, now, i = 0; i < (name.includes("~") ? 1 : 20) && !(before && now.equals(before)); i++) {
    if (i > 0) await page.waitForTimeout(50);
    await page.evaluate(settle);
    before = now;
    now = await page.screenshot({ path: join(process.env.OUT, `${name}.png`), animations: "disabled", caret: "hide", scale: "css" });
  }
}

/** A page at a width in a theme and language, of a browser that is signed in where the sign-in's cookies are given. */
async function at(width, theme, cookies = [], language = "en-US") {
  const page = await open({ width, height: heights[width], dark: theme === "dark", language });
  await page.emulateMedia({ reducedMotion: "reduce" });
  await page.context().addCookies(cookies);
  return page;
}

/** The mail of the demo, with a conversation open that she has read, so that nothing of it changes. */
async function inbox(page, read = true) {
  await page.goto(base);
  await page.waitForFunction(() => document.querySelectorAll(".row .size-of-thread").length === 8); // the conversations of all rows are known
  if (!read) return;
  await row(page, "Welcome to Doublet").click();
  await page.waitForFunction(() => document.querySelectorAll(".reader .mail").length === 3);
  for (const text of ["I have eleven", "The yellow one"]) await page.locator(".reader .mail .body", { hasText: text }).waitFor();
}

async function compose(page) {
  await page.keyboard.press("c");
  await page.waitForSelector(".writer .ProseMirror");
}

async function settings(page) {
  const [account, word] = { en: ["Account", "Settings"], de: ["Konto", "Einstellungen"], zh: ["账户", "设置"] }[await page.evaluate(() => document.documentElement.lang.slice(0, 2))];
  if (page.viewportSize().width > 760) await page.click(`button[aria-label='${word}']`);
  else {
    await page.click(`button[aria-label^='${account}']`);
    await page.click(`[role=menuitem]:has-text('${word}')`);
  }
  await page.waitForSelector("dialog[open] .devices .device");
}

async function lite(page, read) {
  await page.goto(`${base}/lite/`);
  if (read) await page.getByRole("link", { name: "Welcome to Doublet" }).first().click();
  await page.waitForSelector(read ? ".mail h1" : ".rows li");
}

async function admin(page, where, sign) {
  await page.goto("about:blank"); // another part behind # is no new page
  await page.goto(`${base}/admin/#/${where}`);
  for (const s of [sign].flat()) await page.waitForSelector(s);
}

// All of it that is asked for.
const overview = [".overview-tasks >> text=Router", ".overview-tasks >> text=imaps", ".pane .badge", ".block >> text=Nothing here"];

test("the main screens", async () => {
  const first = await at(1440, "light");
  await first.goto(base);
  await first.waitForSelector("input[name=user]");
  await shoot(first, "signin-1440-light");
  await signIn(first);
  const cookies = await first.context().cookies();

  await inbox(first);
  await shoot(first, "inbox-1440-light");
  for (const [name, text] of Object.entries(changes)) {
    const undo = await styled(first, text);
    await shoot(first, `inbox-1440-light~${name}`);
    await undo();
  }
  await compose(first);
  await shoot(first, "compose-1440-light");
  await inbox(first);
  await settings(first);
  await shoot(first, "settings-1440-light");
  await lite(first, false);
  await shoot(first, "lite-list-1440-light");
  await admin(first, "", overview);
  await shoot(first, "admin-1440-light");
  await admin(first, "people", ".lines .line");
  await first.locator(".lines .line").first().click();
  await first.waitForSelector(".detail .block a:has-text('Details')");
  await shoot(first, "admin-people-1440-light");
  await first.context().close();

  const dark = await at(1440, "dark", cookies);
  await inbox(dark);
  await shoot(dark, "inbox-1440-dark");
  await lite(dark, true);
  await shoot(dark, "lite-message-1440-dark");
  await admin(dark, "queue", ".lines-box .nothing");
  await shoot(dark, "admin-queue-1440-dark");
  await dark.context().close();

  const narrow = await at(1024, "light", cookies);
  await inbox(narrow);
  await shoot(narrow, "inbox-1024-light");
  await narrow.context().close();

  const phone = await at(390, "light", cookies);
  await inbox(phone, false);
  await shoot(phone, "inbox-390-light");
  await settings(phone);
  await shoot(phone, "settings-390-light");
  await inbox(phone);
  await shoot(phone, "message-390-light");
  await lite(phone, false);
  await shoot(phone, "lite-list-390-light");
  await lite(phone, true);
  await shoot(phone, "lite-message-390-light");
  await admin(phone, "", overview);
  await shoot(phone, "admin-390-light");
  await phone.context().close();

  const german = await at(1440, "light", cookies, "de-DE");
  await inbox(german);
  await shoot(german, "inbox-1440-light-de");
  await compose(german);
  await shoot(german, "compose-1440-light-de");
  await admin(german, "", overview.slice(1, 3));
  await shoot(german, "admin-1440-light-de");
  await german.context().close();

  const handy = await at(390, "dark", cookies, "de-DE");
  await inbox(handy, false);
  await shoot(handy, "inbox-390-dark-de");
  await settings(handy);
  await shoot(handy, "settings-390-dark-de");
  await lite(handy, false);
  await shoot(handy, "lite-list-390-dark-de");
  await handy.context().close();

  // The client ships no Chinese typeface, so that these show where texts are, and not the texts.
  const chinese = await at(1024, "dark", cookies, "zh-CN");
  await inbox(chinese);
  await shoot(chinese, "inbox-1024-dark-zh");
  await settings(chinese);
  await shoot(chinese, "settings-1024-dark-zh");
  await chinese.context().close();

  const night = await at(390, "dark", cookies);
  await inbox(night, false);
  await compose(night);
  await shoot(night, "compose-390-dark");
  await night.context().clearCookies();
  await night.goto(`${base}/`);
  await night.waitForSelector("input[name=user]");
  await shoot(night, "signin-390-dark");
});
