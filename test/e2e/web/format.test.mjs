// Formatting in the writer: colours and fonts, what is pasted from Word and Google Docs, pictures that change their size, templates,
// and signatures.

import assert from "node:assert/strict";
import { after, test } from "node:test";
import { atOnce, barriers, boxOf, browser, open, row, signIn } from "./world.mjs";

after(() => browser.close());

async function written(options) {
  const page = await open(options);
  await atOnce(page);
  await signIn(page, "bob");
  await page.keyboard.press("c");
  await page.waitForSelector(".writer .ProseMirror");
  return page;
}

const paste = (page, html) => page.evaluate((text) => {
  const data = new DataTransfer();
  data.setData("text/html", text);
  data.setData("text/plain", "plain");
  document.querySelector(".writer .ProseMirror").dispatchEvent(new ClipboardEvent("paste", { clipboardData: data, bubbles: true, cancelable: true }));
}, html);
const html = (page) => page.$eval(".writer .ProseMirror", (e) => e.innerHTML);

test("words have a colour, a size and a font, which arrive and are edited again", async () => {
  const page = await written();
  await page.keyboard.type("alice@example.com,");
  await page.fill(".writer .subject input", "In colour");
  await page.click(".writer .ProseMirror");
  await page.click(".writer [aria-label='Text colour']");
  await page.click("[role=menuitem]:has-text('Red')");
  await page.keyboard.type("Red words");
  await page.click(".writer [aria-label='Font and size']");
  await page.click("[role=menuitem]:has-text('Large')");
  assert.deepEqual(await barriers(page), []);
  await page.keyboard.type(" large words");
  await page.waitForSelector(".writer .ProseMirror font[color='#b3261e']:has-text('Red words')");
  await page.waitForSelector(".writer .ProseMirror font[size='5']:has-text('large words')");
  // A draft is gone on with, its colours and all.
  await page.click(".writer .bar [aria-label='Close']");
  await page.waitForSelector(".writer", { state: "detached" });
  await page.keyboard.press("g");
  await page.keyboard.press("d");
  await row(page, "In colour").click();
  await page.waitForSelector(".writer .ProseMirror font[color='#b3261e']:has-text('Red words')");
  await page.click(".writer footer .primary");
  await page.waitForSelector(".writer", { state: "detached" });
  const alice = await open();
  await signIn(alice, "alice");
  await row(alice, "In colour").click();
  const letter = alice.frameLocator(".letter iframe").first();
  await letter.locator("font[color='#b3261e']", { hasText: "Red words" }).waitFor();
  assert.deepEqual(page.wrong, []);
});

test("a table is made, filled by Tab, changed, edited again as a draft, and arrives with its borders", async () => {
  const page = await written();
  await page.keyboard.type("alice@example.com,");
  await page.fill(".writer .subject input", "A table of prices");
  await page.click(".writer .ProseMirror");
  await page.click(".writer [aria-label='Table']");
  await page.click("[role=menuitem]:has-text('2 rows, 2 columns')");
  await page.keyboard.type("Bread");
  for (const cell of ["2.40", "Milk", "1.10"]) {
    await page.keyboard.press("Tab");
    await page.keyboard.type(cell);
  }
  await page.click(".writer [aria-label='Table']");
  await page.click("[role=menuitem]:has-text('Row above')");
  await page.click(".writer [aria-label='Table']");
  await page.click("[role=menuitem]:has-text('Column after')");
  assert.deepEqual(await barriers(page), []);
  const cells = () => page.$$eval(".writer .ProseMirror tr", (rows) => rows.map((r) => [...r.cells].map((c) => c.textContent)));
  assert.deepEqual(await cells(), [["Bread", "2.40", ""], ["", "", ""], ["Milk", "1.10", ""]]);
  await page.click(".writer .bar [aria-label='Close']");
  await page.waitForSelector(".writer", { state: "detached" });
  await page.keyboard.press("g");
  await page.keyboard.press("d");
  await row(page, "A table of prices").click();
  await page.waitForSelector(".writer .ProseMirror td:has-text('Milk')");
  assert.equal(await page.locator(".writer .kept").count(), 0);
  await page.click(".writer .ProseMirror td:has-text('Bread')");
  await page.click(".writer [aria-label='Table']");
  await page.click("[role=menuitem]:has-text('Heading row')");
  await page.click(".writer footer .primary");
  await page.waitForSelector(".writer", { state: "detached" });
  const alice = await open();
  await signIn(alice, "alice");
  await row(alice, "A table of prices").click();
  const letter = alice.frameLocator(".letter iframe").first();
  await letter.locator("table[border='1'] th", { hasText: "Bread" }).waitFor();
  await letter.locator("td", { hasText: "1.10" }).waitFor();
  // The text for programs without HTML has a line for each row.
  const text = await alice.evaluate(async () => {
    const { csrf } = await (await fetch("/auth/session", { headers: { Accept: "application/json" } })).json();
    const session = await (await fetch("/jmap/session")).json();
    const accountId = session.primaryAccounts["urn:ietf:params:jmap:mail"];
    const answer = await (await fetch(session.apiUrl, { method: "POST", headers: { "Content-Type": "application/json", "X-CSRF-Token": csrf }, body: JSON.stringify({ using: ["urn:ietf:params:jmap:core", "urn:ietf:params:jmap:mail"], methodCalls: [
      ["Email/query", { accountId, filter: { subject: "table of prices" } }, "q"],
      ["Email/get", { accountId, "#ids": { resultOf: "q", name: "Email/query", path: "/ids" }, properties: ["textBody", "bodyValues"], fetchTextBodyValues: true }, "g"],
    ] }) })).json();
    return Object.values(answer.methodResponses[1][1].list[0].bodyValues)[0].value;
  });
  assert.match(text, /^Bread \| 2\.40 \|$/m);
  assert.deepEqual(page.wrong, []);
});

test("what is pasted from Word and Google Docs keeps its words, emphasis, lists and links, and no looks", async () => {
  const page = await written();
  await page.click(".writer .ProseMirror");
  await paste(page, `<html xmlns:o="urn:schemas-microsoft-com:office:office"><head><style>p.MsoNormal{color:red}</style><!--[if gte mso 9]><xml><o:x/></xml><![endif]--></head><body><!--StartFragment--><p class=MsoNormal style='margin:0cm;font-family:"Calibri"'>Hello <b style='mso-bidi-font-weight:normal'>bold</b><o:p></o:p></p><p class=MsoListParagraphCxSpFirst style='text-indent:-18pt;mso-list:l0 level1 lfo1'><span style='font-family:Symbol;mso-list:Ignore'>·<span>      </span></span>first point</p><p class=MsoListParagraphCxSpLast style='mso-list:l0 level1 lfo1'><span style='mso-list:Ignore'>·   </span>second point</p><p class=MsoNormal><span style='color:#C00000;font-style:italic'>slanted</span></p><!--EndFragment--></body></html>`);
  let got = await html(page);
  assert.match(got, /Hello <strong>bold<\/strong>/);
  assert.match(got, /<ul><li><p>first point<\/p><\/li><li><p>second point<\/p><\/li><\/ul>/);
  assert.match(got, /<em>slanted<\/em>/);
  assert.doesNotMatch(got, /style=|Mso|o:p|kept/);
  await page.keyboard.press("Control+a");
  await paste(page, `<meta charset="utf-8"><b style="font-weight:normal;" id="docs-internal-guid-1"><p dir="ltr" style="line-height:1.38"><span style="font-size:11pt;font-weight:400;color:#ff0000">plain </span><span style="font-weight:700">strong</span> <a href="https://example.com/" style="text-decoration:none"><span style="text-decoration:underline;color:#1155cc">link</span></a></p><ul><li style="list-style-type:disc"><p>point</p></li></ul></b>`);
  got = await html(page);
  assert.match(got, /plain <strong>strong<\/strong> <a href="https:\/\/example.com\/"[^>]*>link<\/a>/);
  assert.match(got, /<ul><li><p>point<\/p><\/li><\/ul>/);
  assert.doesNotMatch(got, /<strong>plain|style=|kept|<u>/);
  assert.deepEqual(page.wrong, []);
});

test("a picture changes its size by keys and by its corner; what is sent says its width", async () => {
  const page = await written();
  await page.keyboard.type("alice@example.com,");
  await page.fill(".writer .subject input", "Sized picture");
  await page.click(".writer .ProseMirror");
  await page.evaluate(async () => {
    const canvas = new OffscreenCanvas(200, 100);
    canvas.getContext("2d").fillRect(0, 0, 200, 100);
    const data = new DataTransfer();
    data.items.add(new File([await canvas.convertToBlob()], "box.png", { type: "image/png" }));
    document.querySelector(".writer .ProseMirror").dispatchEvent(new ClipboardEvent("paste", { clipboardData: data, bubbles: true, cancelable: true }));
  });
  await page.waitForFunction(() => document.querySelector(".writer .picture img")?.naturalWidth === 200);
  await page.click(".writer .picture img");
  await page.waitForSelector(".writer .picture.chosen");
  await page.keyboard.press("+");
  await page.waitForFunction(() => document.querySelector(".writer .picture img").width === 240);
  const corner = await boxOf(page.locator(".writer .picture .corner"));
  await page.mouse.move(corner.x + 7, corner.y + 7);
  await page.mouse.down();
  await page.mouse.move(corner.x - 43, corner.y - 20);
  await page.mouse.move(corner.x - 93, corner.y - 40);
  await page.mouse.up();
  await page.waitForFunction(() => Math.abs(document.querySelector(".writer .picture img").width - 140) <= 2);
  const sent = page.waitForRequest((r) => (r.postData() ?? "").includes("EmailSubmission/set"));
  await page.click(".writer footer .primary");
  assert.match((await sent).postData(), /<img src=\\"cid:[^"]+\\"[^>]* width=\\"1(?:38|39|40|41|42)\\"/);
  assert.deepEqual(page.wrong, []);
});

test("a template is kept, put in elsewhere, and removed", async () => {
  const page = await written();
  await page.fill(".writer .subject input", "Weekly report");
  await page.click(".writer .ProseMirror");
  await page.keyboard.press("Control+b");
  await page.keyboard.type("All is well");
  await page.click(".writer [aria-label='Templates']");
  await page.click("[role=menuitem]:has-text('Save as a template')");
  await page.fill("dialog[open] input", "Report");
  await page.click("dialog[open] .button.primary");
  await page.waitForSelector(".toast:has-text('Template “Report” saved')");
  await page.click(".writer [aria-label='Discard draft']");
  const other = await written();
  await other.click(".writer .ProseMirror");
  await other.click(".writer [aria-label='Templates']");
  await other.click("[role=menuitem]:has-text('Report')");
  await other.waitForSelector(".writer .ProseMirror strong:has-text('All is well')");
  assert.equal(await other.inputValue(".writer .subject input"), "Weekly report");
  await other.click(".writer [aria-label='Templates']");
  await other.click("[role=menuitem]:has-text('Remove a template')");
  const removed = other.waitForResponse((r) => r.request().postData()?.includes('"Preferences/set"'));
  await other.click("[role=menuitem]:has-text('Report')");
  await removed;
  await other.click(".writer [aria-label='Templates']");
  assert.deepEqual(await other.$$eval("[role=menuitem]", (l) => l.map((e) => e.textContent)), ["Save as a template …"]);
  assert.deepEqual([...page.wrong, ...other.wrong], []);
});

test("a signature has formatting, and stands below what is written", async () => {
  const page = await open();
  await signIn(page, "carol");
  await page.click(".top [aria-label='Settings']");
  await page.click(".signature .ProseMirror");
  await page.keyboard.press("Control+b");
  await page.keyboard.type("Carol, in bold");
  assert.deepEqual(await barriers(page), []);
  await page.click("dialog[open] form:has(.signature) .button");
  await page.waitForSelector(".toast:has-text('Saved')");
  await page.keyboard.press("Escape");
  await page.waitForSelector("dialog", { state: "detached" });
  await page.keyboard.press("c");
  await page.waitForSelector(".writer .ProseMirror strong:has-text('Carol, in bold')");
  assert.deepEqual(page.wrong, []);
});
