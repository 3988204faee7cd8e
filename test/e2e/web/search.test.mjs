// A search means the same in both clients, says how it was understood, and marks what it found.

import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { barriers, base, browser, counts, deliver, inChromium, kept, open, row, signIn, until } from "./world.mjs";

after(() => browser.close());

const word = `quokka${Date.now().toString(36)}`;
const letter = (n, head, body) => `From: Quentin Quill <quill${n}@elsewhere.example>\nTo: alice@example.com\nMessage-ID: <${word}${n}@elsewhere.example>\nDate: Sat, 21 Nov 2026 10:0${n}:00 +0000\nMIME-Version: 1.0\n${head}\n\n${body}\n`;

before(async () => {
  await deliver("quill@elsewhere.example", "alice@example.com", letter(1, `Subject: first ${word}\nContent-Type: text/plain`, `A ${word} and a Café near https://x.example/.\n${word}s are none.`));
  await deliver("quill@elsewhere.example", "alice@example.com", letter(2, `Subject: second\nContent-Type: text/html; charset=utf-8`, `<p>Here sits <b>${word.toUpperCase()}</b> in a <i>frame</i>.</p>`));
  await deliver("quill@elsewhere.example", "alice@example.com", letter(3, `Subject: third\nContent-Type: multipart/mixed; boundary=b`, `--b\nContent-Type: text/plain\n\nother ${word}x words\n--b\nContent-Type: application/pdf\nContent-Disposition: attachment; filename="${word}-plan.pdf"\n\nnone\n--b--`));
});

/** Searches, and waits for the answer. */
async function search(page, text) {
  await page.fill("#search", text);
  await page.press("#search", "Enter");
  await page.waitForFunction((text) => document.querySelector(".terms")?.dataset.search === text, text);
}

/** Searches, and waits for so many results: the box may have searched before Enter, whose search empties the list again. */
async function finds(page, text, n) {
  await search(page, text);
  await counts(page.locator(".scroll .row[role=row]"), n);
  if (n === 0) await page.waitForSelector(".list .empty");
}

const chips = (page) => page.locator(".term bdi").allTextContents();

/** Waits until the server has indexed the mail. */
async function ready(page) {
  await page.waitForFunction(async (word) => {
    const session = await (await fetch("/.well-known/jmap")).json();
    const { csrf } = await (await fetch("/auth/session", { headers: { Accept: "application/json" } })).json();
    const r = await fetch(session.apiUrl, { method: "POST", headers: { "Content-Type": "application/json", "X-CSRF-Token": csrf }, body: JSON.stringify({ using: ["urn:ietf:params:jmap:core", "urn:ietf:params:jmap:mail"], methodCalls: [["Email/query", { accountId: Object.values(session.primaryAccounts)[0], filter: { text: `${word}*` } }, "q"]] }) });
    return (await r.json()).methodResponses[0][1].ids?.length === 3;
  }, word, { polling: 500 });
}

test("both clients find the same and say how they understood it", async () => {
  const page = await open();
  await signIn(page);
  await ready(page);
  const lite = await page.context().newPage();
  for (const [text, n, said] of [
    [`${word} OR ${word}x`, 3, [`${word} or ${word}x`]], [`filename:${word}`, 1, [`File name: ${word}`]], [`from:quill1@elsewhere.example ${word}`, 1, [`From: quill1@elsewhere.example`, word]],
    [`{subject:first subject:second} ${word}`, 2, [`Subject: first or Subject: second`, word]], [`${word} -is:unread older_than:1y`, 0, [word, "not Unread"]], [`${word}* in:inbox larger:1K`, 0, [`${word}*`]],
  ]) {
    await finds(page, text, n);
    const terms = await chips(page);
    for (const s of said) assert.ok(terms.includes(s), `${text}: ${terms}`);
    await lite.goto(`${base}/lite/?q=${encodeURIComponent(text)}`);
    assert.equal(await lite.locator(".rows li").count(), n, `lite: ${text}`);
    const shown = await lite.locator(".terms bdi").allTextContents();
    for (const s of said) assert.ok(shown.includes(s), `lite: ${text}: ${shown}`);
  }
  assert.deepEqual(page.wrong, []);
});

test("Enter while the box has already asked for the same finds it", async () => {
  const page = await open({ worker: false });
  await signIn(page);
  await ready(page);
  let asked = 0;
  await page.route("**/jmap/api", (route) => {
    if (!(route.request().postData() ?? "").includes('"SearchSnippet/get"') || asked++ > 0) return route.continue();
    return undefined; // it is never answered
  });
  await page.fill("#search", `${word} OR ${word}x`);
  await until(() => asked === 1);
  await page.press("#search", "Enter");
  await counts(page.locator(".scroll .row[role=row]"), 3);
  assert.deepEqual(page.wrong, []);
});

test("a part is taken out, and what was not understood is said", async () => {
  const page = await open();
  await signIn(page);
  await ready(page);
  await finds(page, `${word} subject:second category:social before:tomorrow in:Nowhere_`, 0);
  const said = (await page.locator(".not-understood").allTextContents()).join("\n");
  for (const s of ["category:social", "before:tomorrow", "in:Nowhere_"]) assert.ok(said.includes(s), said);
  await page.click(".term[data-kind=folder] button");
  await page.waitForSelector(".row[role=row]");
  assert.equal(await page.inputValue("#search"), `${word} subject:second category:social before:tomorrow`);
  await page.click(".term[data-kind=subject] button");
  await page.waitForFunction(() => document.querySelectorAll(".scroll .row[role=row]").length === 3);
  assert.deepEqual(await barriers(page), []);
  assert.deepEqual(page.wrong, []);
});

/** The texts that are marked in the message and in its frames. */
const marked = (page) => page.evaluate(() => [window, ...[...document.querySelectorAll(".mail iframe")].map((f) => f.contentWindow)].flatMap((w) => [
  ...[...(w.CSS.highlights?.get("search-hit") ?? [])].map(String), ...[...w.document.querySelectorAll("mark.search-hit")].map((m) => m.textContent)]));

for (const plain of [false, true]) {
  test(`hits are marked in the opened message${plain ? ", without highlights too" : ""}`, async () => {
    const page = await open();
    if (plain) await page.addInitScript(() => delete globalThis.Highlight);
    await signIn(page);
    await ready(page);
    await search(page, `${word} OR cafe`);
    await row(page, "first").click();
    await page.waitForSelector(".mail .plain");
    await page.waitForFunction((w) => document.querySelector(".mail .plain")?.textContent.includes(w), word);
    await assertSoon(page, plain ? [word, "Café"] : [word, word, "Café"]); // without highlights, not in the subject
    await row(page, "second").click();
    await page.waitForSelector(".mail iframe");
    await assertSoon(page, [word.toUpperCase()]);
    await search(page, "subject:second");
    await row(page, "second").click();
    await assertSoon(page, plain ? [] : ["second"]);
    await page.click(`button[aria-label="End the search"]`);
    await assertSoon(page, []);
    assert.deepEqual(page.wrong, []);
    await page.context().close();
  });
}

async function assertSoon(page, want) {
  let got;
  for (let i = 0; i < 100; i++) {
    got = (await marked(page)).sort();
    if (JSON.stringify(got) === JSON.stringify([...want].sort())) return;
    await page.waitForTimeout(100);
  }
  assert.deepEqual(got, [...want].sort());
}

test("the box suggests operators, people, folders and recent searches", async () => {
  const page = await open();
  await signIn(page);
  const options = () => page.locator(".suggestion .name").allTextContents();
  await page.focus("#search");
  await page.waitForSelector(".suggestion");
  assert.ok((await options()).includes("has:attachment"));
  await page.keyboard.type("in:tra");
  await page.waitForFunction(() => document.querySelector(".suggestion .name")?.textContent === "in:trash");
  await page.keyboard.press("ArrowDown");
  await page.waitForSelector("#search[aria-activedescendant=suggestion-0]");
  assert.deepEqual(await barriers(page), []);
  await page.keyboard.press("Enter");
  await page.waitForSelector(".term[data-kind=folder]");
  assert.equal(await page.inputValue("#search"), "in:trash ");
  await page.fill("#search", "quil");
  await page.waitForFunction(() => [...document.querySelectorAll(".suggestion .name")].some((s) => s.textContent.startsWith("from:quill")));
  await page.fill("#search", "");
  await page.waitForFunction(() => document.querySelector(".suggestion .name")?.textContent === "in:trash");
  assert.deepEqual(page.wrong, []);
});

test("offline a search finds in what is here and says so", inChromium("offline"), async () => {
  const page = await open();
  await signIn(page);
  await ready(page);
  await page.evaluate(() => navigator.serviceWorker.ready);
  await row(page, "first").waitFor();
  await kept(page, "alice");
  await page.context().setOffline(true);
  await page.fill("#search", `${word} first has:attachment`);
  await page.press("#search", "Enter");
  await page.waitForSelector(".terms .notice:has-text('Offline: searched only')");
  await page.waitForSelector(".not-understood:has-text('has:attachment')");
  await counts(page.locator(".scroll .row[role=row]"), 1);
  await page.context().setOffline(false);
  assert.deepEqual(page.wrong, []);
});
