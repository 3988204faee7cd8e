// The widths of the panes; and what is seen of new mail outside the page: the number on the icon, the notice of the desktop.

import assert from "node:assert/strict";
import { after, test } from "node:test";
import { barriers, boxOf, browser, counts, deliver, open, row, settled, signIn } from "./world.mjs";

after(() => browser.close());

const widthOf = async (page, pane) => Math.round((await boxOf(page.locator(`.frame > .${pane}`))).width);
const border = (page, of) => page.locator(`.border-${of}`);

async function drag(page, of, by) {
  const box = await boxOf(border(page, of));
  const x = box.x + box.width / 2;
  await page.mouse.move(x, 500);
  await page.mouse.down();
  await page.mouse.move(x + by / 2, 500);
  await page.mouse.move(x + by, 510);
  await page.mouse.up();
}

test("panes are made wider by dragging and by keys, keep their widths, and get the usual ones back", async () => {
  const page = await open();
  await signIn(page, "bob");
  await page.locator(".row .subject").first().click();
  await page.waitForSelector(".reader h1");
  assert.deepEqual([await widthOf(page, "side"), await widthOf(page, "list")], [236, 400]);
  await drag(page, "side", 64);
  await drag(page, "list", 100);
  assert.deepEqual([await widthOf(page, "side"), await widthOf(page, "list")], [300, 500]);
  await page.reload();
  await page.waitForSelector(".row .subject");
  assert.deepEqual([await widthOf(page, "side"), await widthOf(page, "list")], [300, 500]);

  const cursor = await page.locator(".row.at").count();
  await border(page, "list").focus();
  await page.keyboard.press("ArrowLeft");
  await page.keyboard.press("ArrowLeft");
  assert.equal(await widthOf(page, "list"), 468);
  await page.waitForSelector(".border-list[aria-valuenow='468']");
  await page.keyboard.press("ArrowRight");
  assert.equal(await widthOf(page, "list"), 484);
  await page.keyboard.press("ArrowDown"); // the list's own
  await counts(page.locator(".row.at"), cursor);
  // The message keeps its room, and no pane goes.
  await page.keyboard.press("End");
  assert.ok(Math.abs(await widthOf(page, "read") - 400) <= 1);
  await page.keyboard.press("Home");
  assert.equal(await widthOf(page, "list"), 280);
  await drag(page, "side", -900);
  assert.equal(await widthOf(page, "side"), 180);
  await drag(page, "side", 900);
  assert.equal(await widthOf(page, "side"), 400);
  assert.deepEqual(await barriers(page), []);

  await border(page, "side").dblclick();
  await border(page, "list").focus();
  await page.keyboard.press("Enter");
  assert.deepEqual([await widthOf(page, "side"), await widthOf(page, "list")], [236, 400]);
  await page.reload();
  await page.waitForSelector(".row .subject");
  assert.deepEqual([await widthOf(page, "side"), await widthOf(page, "list")], [236, 400]);
  assert.deepEqual(page.wrong, []);
});

test("a width that is kept leaves room on a smaller screen, and one pane is as wide as the screen", async () => {
  const page = await open();
  await signIn(page, "bob");
  await drag(page, "list", 380);
  assert.equal(await widthOf(page, "list"), 780);
  await page.setViewportSize({ width: 1024, height: 800 });
  await border(page, "side").waitFor({ state: "hidden" });
  assert.equal(await widthOf(page, "side"), 84);
  assert.ok(Math.abs(await widthOf(page, "read") - 300) <= 1);
  await page.setViewportSize({ width: 390, height: 800 });
  await page.waitForFunction(() => !document.querySelector(".border"));
  assert.equal(await widthOf(page, "list"), 390);
  await page.setViewportSize({ width: 1440, height: 900 });
  await page.waitForSelector(".border-list");
  assert.equal(await widthOf(page, "list"), 780);
  assert.deepEqual(page.wrong, []);
});

const mail = (subject) => `From: Dora <dora@elsewhere.example>
To: bob@example.com
Subject: ${subject}
Message-ID: <${subject.replace(/\W/gu, "")}@elsewhere.example>
Date: Thu, 26 Nov 2026 08:00:00 +0000

Hello.
`;

/** A browser that shows numbers on icons, and notices, which this one without a screen does not. */
const withDesktop = (page) => page.addInitScript(() => {
  window.badges = [];
  window.notices = [];
  navigator.setAppBadge = async (n) => void window.badges.push(n);
  window.Notification = class {
    static permission = "granted";
    constructor(title, options) {
      Object.assign(this, { title, ...options });
      window.notices.push(this);
    }
    close() { this.closed = true; }
  };
  document.hasFocus = () => !window.away;
});

test("the icon has the number of unread messages in the inbox, until one signs out", async () => {
  const page = await open();
  await withDesktop(page);
  await signIn(page, "bob");
  const last = () => page.evaluate(() => window.badges.at(-1));
  const unread = async () => Number(/^\((\d+)\)/u.exec(await page.title())?.[1] ?? 0);
  await page.waitForFunction(() => window.badges.length > 0);
  const before = await last();
  assert.equal(before, await unread());
  await deliver("dora@elsewhere.example", "bob@example.com", mail("One more"));
  await page.waitForFunction((n) => window.badges.at(-1) === n, before + 1);
  await row(page, "One more").click();
  await page.waitForFunction((n) => window.badges.at(-1) === n, before);
  await settled(page); // signing out asks about what the server was not told yet
  await page.click(".top [aria-label^='Account']");
  await page.evaluate(() => (sessionStorage.badges = "")); // the page goes
  await page.evaluate(() => { const was = window.badges; addEventListener("pagehide", () => (sessionStorage.badges = was.at(-1))); });
  await page.click("[role=menuitem]:has-text('Sign out')");
  await page.waitForSelector("input[name=password]");
  assert.equal(await page.evaluate(() => sessionStorage.badges), "0");
  assert.deepEqual(page.wrong, []);
});

test("a notice opens its message, wherever one is", async () => {
  const page = await open();
  await withDesktop(page);
  await page.addInitScript(() => localStorage.setItem("doublet:preferences", JSON.stringify({ notify: true })));
  await signIn(page, "bob");
  await page.keyboard.press("g");
  await page.keyboard.press("t");
  await page.waitForURL(/\/mail\/sent/u);
  await page.evaluate(() => (window.away = true));
  await deliver("dora@elsewhere.example", "bob@example.com", mail("Ring the bell"));
  await page.waitForFunction(() => window.notices.length === 1);
  assert.deepEqual(await page.evaluate(() => [window.notices[0].title, window.notices[0].body]), ["New mail from Dora", "Ring the bell"]);
  await page.evaluate(() => window.notices[0].onclick());
  await page.waitForSelector(".reader h1:has-text('Ring the bell')");
  assert.ok(await page.evaluate(() => window.notices[0].closed));
  // It was seen by its reader: nothing tells of it again.
  await page.evaluate(() => (window.away = false));
  await deliver("dora@elsewhere.example", "bob@example.com", mail("In sight"));
  await page.keyboard.press("g");
  await page.keyboard.press("i");
  await row(page, "In sight").waitFor();
  assert.equal(await page.evaluate(() => window.notices.length), 1);
  assert.deepEqual(page.wrong, []);
});
