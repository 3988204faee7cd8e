// A folder of 100,000 messages (made by TestBrowserMany): any part of it is reached, and what the page holds of it has a bound.

import assert from "node:assert/strict";
import { after, test } from "node:test";
import { boxOf, browser, deliver, heap, open, row, signIn, until } from "./world.mjs";

after(() => browser.close());

const many = 100_000;
const scroll = ".list .scroll";

/** The rows that are in sight, once each is there: their positions and subjects. */
async function inSight(page, from, to) {
  await page.waitForFunction(([from, to]) => {
    const at = new Set([...document.querySelectorAll(".row[aria-rowindex] .subject")].map((s) => Number(s.closest(".row").getAttribute("aria-rowindex")) - 1));
    for (let i = from; i < to; i++) if (!at.has(i)) return false;
    return true;
  }, [from, to]);
  return page.evaluate(() => [...document.querySelectorAll(".row[aria-rowindex]")].map((r) => [Number(r.getAttribute("aria-rowindex")) - 1, r.querySelector(".subject").textContent]));
}

/** The rows at positions are those that belong there; at most as many are drawn as one sees, and a few. */
async function right(page, from, to, offset = 0) {
  const rows = await inSight(page, from, to);
  for (const [at, subject] of rows) assert.equal(subject, `Number ${at - offset} of many`);
  assert.equal(new Set(rows.map(([at]) => at)).size, rows.length);
  const drawn = await page.locator(".row").count();
  assert.ok(drawn < 40, `${drawn} rows are drawn`);
}

const jump = (page, top) => page.evaluate(([s, top]) => { document.querySelector(s).scrollTop = top; }, [scroll, top]);
const rowHeight = 76;

test("100,000 messages: the top, the middle and the end are right, by the scrollbar and by the keys", async () => {
  const page = await open();
  await signIn(page, "many");
  assert.equal(await page.getAttribute(".rows", "aria-rowcount"), String(many));
  await right(page, 0, 10);
  await jump(page, many / 2 * rowHeight);
  await right(page, many / 2, many / 2 + 10);
  await page.keyboard.press("End");
  await right(page, many - 8, many);
  assert.equal(await page.locator(".row.at .subject").textContent(), `Number ${many - 1} of many`);
  await page.keyboard.press("ArrowUp");
  await page.keyboard.press("x");
  await page.keyboard.press("ArrowUp");
  await page.keyboard.press("x");
  await page.waitForSelector(".bar h2:text-is('2 selected')");
  assert.deepEqual(await page.locator(".row[aria-selected=true] .subject").allTextContents(), [many - 3, many - 2].map((i) => `Number ${i} of many`));
  await page.keyboard.press("Home");
  await right(page, 0, 10);
  await page.waitForSelector(".bar h2:text-is('2 selected')"); // far away, and still chosen
  await page.keyboard.press("Escape");
  // The scrollbar, taken with the mouse and drawn down to its end.
  const box = await boxOf(page.locator(scroll));
  const bar = await page.evaluate((s) => { const e = document.querySelector(s); return e.offsetWidth - e.clientWidth; }, scroll);
  if (bar > 0) {
    await page.mouse.move(box.x + box.width - bar / 2, box.y + bar + 4);
    await page.mouse.down();
    await page.mouse.move(box.x + box.width - bar / 2, box.y + box.height + 50, { steps: 30 });
    await page.mouse.up();
  } else await jump(page, many * rowHeight); // a browser whose scrollbars lie above the page
  await right(page, many - 8, many);
  await page.locator(".row", { hasText: `Number ${many - 1} of many` }).click();
  await page.waitForSelector(`.reader h1:text-is("Number ${many - 1} of many")`);
  assert.deepEqual(page.wrong, []);
});

test("100,000 messages from end to end: what the page holds of them has a bound, and the way back is right too", async () => {
  const page = await open();
  await signIn(page, "many");
  await right(page, 0, 10);
  const sizes = [];
  const stops = 300; // each a screen of its own
  for (let i = 0; i <= stops; i++) {
    const at = Math.floor((many - 20) / stops * i);
    await jump(page, at * rowHeight);
    await right(page, at, at + 8);
    if (i % 100 === 0) sizes.push(await heap(page));
  }
  // After a hundred stops the page holds as much as it ever will.
  assert.ok(sizes[3].usedSize < sizes[1].usedSize + 8_000_000, JSON.stringify(sizes));
  assert.ok(sizes[3].nodes < sizes[1].nodes + 2000, JSON.stringify(sizes));
  await jump(page, 0);
  await right(page, 0, 10);
  assert.deepEqual(page.wrong, []);
});

test("100,000 messages: what is chosen from here to far there is all that lies between", async () => {
  const page = await open();
  await signIn(page, "many");
  await right(page, 0, 10);
  await page.locator(".row", { hasText: "Number 2 of many" }).first().click({ modifiers: ["Control"] });
  await jump(page, 900 * rowHeight);
  await right(page, 900, 908);
  await page.locator(".row", { hasText: "Number 901 of many" }).click({ modifiers: ["Shift"] });
  await page.waitForSelector(".bar h2:text-is('900 selected')");
  assert.deepEqual(page.wrong, []);
});

test("offline in the middle of 100,000 the server is not asked over and over, and what is missing comes when it answers", async () => {
  const page = await open();
  await signIn(page, "many");
  await right(page, 0, 10);
  let newest = Date.now();
  page.on("request", () => (newest = Date.now()));
  await until(() => Date.now() - newest > 500); // the parts of the client that come behind the list are there
  const asked = [];
  await page.context().setOffline(true);
  page.on("requestfailed", (r) => asked.push(r.url()));
  await jump(page, 30_000 * rowHeight);
  await page.waitForSelector(".banner:has-text('No connection')");
  await page.waitForTimeout(1500); // what would be asked over and over is asked hundreds of times meanwhile
  assert.ok(asked.length < 20, `${asked.length} requests:\n${asked.join("\n")}`);
  await page.context().setOffline(false);
  await right(page, 30_000, 30_008);
});

test("select all takes all that a search finds, moves them with progress, and brings them back", async () => {
  const page = await open();
  await signIn(page, "many");
  await page.fill("#search", "from:s7@elsewhere.example");
  await page.waitForSelector(`.rows[aria-rowcount="4348"]`);
  await page.locator(".row .pick").first().click();
  await page.click(".list .bar [aria-label='More']");
  await page.click(".menu >> text=Select all");
  await page.waitForSelector(".bar h2:text-is('4,348 selected')");
  await page.click(".list .bar [aria-label='Archive']");
  await page.waitForSelector(".toast.telling progress");
  await page.waitForSelector(".toast:has-text('4,348')");
  await page.click(".side .folder[title=Archive]");
  await page.waitForFunction((n) => document.querySelector(".list .bar .quiet")?.textContent === n, "4,348");
  await page.click(".toast >> text=Undo"); // the server may still be told of the moves: the word stays for 20 s
  await page.waitForSelector(".toast.telling", { state: "detached", timeout: 60_000 });
  await page.waitForSelector(".list .empty");
  await page.click(".side .folder[title=Inbox]");
  await page.waitForSelector(`.rows[aria-rowcount="${many}"]`);
  await right(page, 0, 10);
  assert.deepEqual(page.wrong, []);
});

test("what is deleted in the middle of 100,000, and what comes meanwhile, moves the rest by as much", async () => {
  const page = await open();
  await signIn(page, "many");
  await jump(page, 70_000 * rowHeight);
  await right(page, 70_000, 70_008);
  // What is far from the top comes late: until then no row may be where it was while the number of rows is the new one.
  await page.route("**/jmap/**", async (route) => {
    const calls = JSON.parse(route.request().postData() ?? "{}").methodCalls ?? [];
    if (calls[0]?.[0] === "Email/query" && calls[0][1].position > 0) await new Promise((done) => setTimeout(done, 500));
    await route.continue();
  });
  await page.locator(".row", { hasText: "Number 70003 of many" }).click({ modifiers: ["Control"] });
  await page.keyboard.press("Delete");
  await page.waitForSelector(`.rows[aria-rowcount="${many - 1}"]`);
  await inSight(page, 70_003, 70_008);
  assert.equal(await page.locator('.row[aria-rowindex="70004"] .subject').textContent(), "Number 70004 of many");
  await page.click(".toast >> text=Undo");
  await page.waitForSelector(`.rows[aria-rowcount="${many}"]`);
  await right(page, 70_000, 70_008);
  await deliver("mallory@elsewhere.example", "many@example.com", "From: m@elsewhere.example\nTo: many@example.com\nSubject: On top\nMessage-ID: <top@elsewhere.example>\n\nx");
  await page.waitForSelector(`.rows[aria-rowcount="${many + 1}"]`);
  await page.waitForFunction(() => document.querySelector('.row[aria-rowindex="70005"] .subject')?.textContent === "Number 70003 of many");
  await right(page, 70_000, 70_008, 1);
  await jump(page, 40_000 * rowHeight);
  await right(page, 40_000, 40_008, 1);
});
