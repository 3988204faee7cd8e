// The address of the page: it names where one is, and Back and Forward lead through it.

import assert from "node:assert/strict";
import { after, test } from "node:test";
import { jmap } from "./objects.mjs";
import { base, begin, boxOf, browser, counts, deliver, inChromium, kept, open, row, signIn } from "./world.mjs";

after(() => browser.close());

const mail = (subject) => `From: Mallory <mallory@elsewhere.example>\nTo: bob@example.com\nSubject: ${subject}\nMessage-ID: <${subject.replace(/\W/g, "")}@elsewhere.example>\nDate: Sat, 21 Nov 2026 10:00:00 +0000\n\nText of ${subject}`;
const send = (subject) => deliver("mallory@elsewhere.example", "bob@example.com", mail(subject));
/** The address as the page has it: page.url() hears of a step later. */
const address = (page) => page.evaluate(() => location.href);
const at = (page) => page.evaluate(() => decodeURIComponent(location.pathname + location.search));
const until = (page, pattern) => page.waitForFunction((p) => new RegExp(p).test(decodeURIComponent(location.pathname + location.search)), pattern);
const searched = (page, text) => page.waitForFunction((t) => document.getElementById("search").value === t, text);
const title = (page, text) => page.waitForSelector(`.list .bar h2:has-text('${text}')`);
const reads = (page, subject) => page.waitForSelector(`.reader h1:has-text('${subject}')`);

test("folders, searches, messages and settings have addresses that Back, Forward, a reload and another tab follow", async () => {
  const page = await open();
  await signIn(page, "bob");
  await send("First address");
  await send("Second address");
  await row(page, "Second address").waitFor();
  await until(page, "^/mail/inbox$");
  await page.click(".folder:has-text('Sent')");
  await until(page, "^/mail/sent$");
  await page.click(".folder:has-text('Inbox')");
  await until(page, "^/mail/inbox$");
  await row(page, "First address").click();
  await reads(page, "First address");
  await until(page, "^/mail/inbox.message=");
  const first = await address(page);
  await row(page, "Second address").click();
  await reads(page, "Second address");
  await page.goBack();
  await reads(page, "First address");
  await page.goForward();
  await reads(page, "Second address");
  await page.reload();
  await reads(page, "Second address");
  await page.goBack();
  await reads(page, "First address");
  await page.goBack();
  await page.waitForSelector(".reader", { state: "detached" });
  await until(page, "^/mail/inbox$");
  await page.goBack();
  await title(page, "Sent");
  await page.goForward();
  await title(page, "Inbox");

  // What is typed is one step; what is opened from it another.
  await page.fill("#search", "first");
  await row(page, "First address").waitFor();
  await page.fill("#search", "subject:first address");
  await until(page, "^/mail/inbox.search=subject:first.address$");
  await row(page, "First address").click();
  await reads(page, "First address");
  await page.goBack();
  await until(page, "^/mail/inbox.search=subject:first.address$");
  const found = await address(page);
  await page.goBack();
  await until(page, "^/mail/inbox$");
  await searched(page, "");
  await page.goForward();
  await until(page, "search=subject");
  await searched(page, "subject:first address");
  await page.focus("#search"); // the box follows Back while it has the focus, too
  await page.goBack();
  await searched(page, "");

  // Sheets.
  await page.click(".top [aria-label='Settings']");
  await until(page, "^/mail/inbox.open=settings$");
  await page.waitForSelector("dialog >> text=Language");
  await page.goBack();
  await page.waitForSelector("dialog", { state: "detached" });
  await page.goForward();
  await page.waitForSelector("dialog >> text=Language");
  await page.click("dialog .ends .primary");
  await until(page, "^/mail/inbox$");

  // In another tab.
  const other = await page.context().newPage();
  await other.goto(first);
  await reads(other, "First address");
  await title(other, "Inbox");
  await other.goto(found);
  await row(other, "First address").waitFor();
  await searched(other, "subject:first address");
  await other.goto(`${base}/mail/inbox?open=settings`);
  await other.waitForSelector("dialog >> text=Language");
  await other.goto(`${base}/mail/sent`);
  await title(other, "Sent");
  assert.deepEqual(page.wrong, []);
});

test("an address that names nothing, or what is another person's, leads to the inbox with a word", async () => {
  const page = await open();
  await signIn(page, "bob");
  for (const path of ["/mail/nowhere", "/mail/~nothing", "/mail/inbox/below", "/mail/%ff", "/mail/inbox?account=Aother"]) {
    await page.goto(base + path);
    await page.waitForSelector(".toast:has-text('nothing at this address')");
    await title(page, "Inbox");
    await until(page, "^/mail/inbox$");
  }
  await page.goto(`${base}/mail/sent?message=Mffffffffffffffffffffffffffffffff`);
  await page.waitForSelector(".toast:has-text('nothing at this address')");
  await title(page, "Sent");
  await until(page, "^/mail/sent$");
  await page.goto(`${base}/mail/inbox?write=nobody@nowhere.example`);
  await page.waitForSelector(".toast:has-text('nothing at this address')");
  await until(page, "^/mail/inbox$");
  assert.equal(await page.locator(".writer").count(), 0);
});

test("folders of any name have an address, readable where it can be", async () => {
  const page = await open();
  await signIn(page, "bob");
  for (const name of ["Reisen & Größe 2026?#%", "~tilde"]) {
    await page.click("[aria-label='New folder']");
    await page.fill("dialog input", name);
    await page.click("dialog .primary");
    const folder = page.locator(".folder", { has: page.locator(`.name:text-is("${name}")`) });
    await folder.waitFor();
    await page.waitForSelector("dialog", { state: "detached" });
    await folder.click();
    await title(page, name);
    await until(page, name.startsWith("~") ? "^/mail/~" : "^/mail/Reisen");
    await page.reload();
    await title(page, name);
    if (name.startsWith("Reisen")) assert.equal(await at(page), `/mail/${name}`);
    else assert.match(await at(page), /^\/mail\/~[^t]/);
  }
  assert.deepEqual(page.wrong, []);
});

test("a writer that is left by Back is kept as a draft; Forward, a reload and another tab go on with it", async () => {
  const page = await open();
  page.on("dialog", (d) => void d.accept());
  await signIn(page, "bob");
  await begin(page, "carol@example.com", "Left by Back", "Words before Back");
  await until(page, "write=");
  const written = await address(page);
  await page.goBack();
  await page.waitForSelector(".writer", { state: "detached" });
  await until(page, "^/mail/inbox$");
  await page.click(".folder:has-text('Drafts')");
  await row(page, "Left by Back").waitFor();
  await page.goBack();
  await page.goForward();
  await page.goBack();
  await page.goto(written);
  await page.waitForSelector(".writer .ProseMirror:has-text('Words before Back')");
  await page.reload();
  await page.waitForSelector(".writer .ProseMirror:has-text('Words before Back')");
  await counts(page.locator(".writer"), 1);
  assert.equal(await page.locator(".unfinished").count(), 0);
  await page.click(".writer [aria-label='Discard draft']");
  await page.waitForSelector(".writer", { state: "detached" });
  await until(page, "^/mail/inbox$");

  // Forward opens it again, and what was sent or discarded is not opened by its step.
  await begin(page, "carol@example.com", "Forward again", "Goes forward");
  await page.goBack();
  await page.waitForSelector(".writer", { state: "detached" });
  await page.goForward();
  await page.waitForSelector(".writer .ProseMirror:has-text('Goes forward')");
  await page.click(".folder:has-text('Sent')");
  await title(page, "Sent");
  await page.click(".writer [aria-label='Discard draft']");
  await page.waitForSelector(".writer", { state: "detached" });
  await page.goBack();
  await title(page, "Inbox");
  await until(page, "^/mail/inbox$");
  assert.equal(await page.locator(".writer").count(), 0);
  assert.deepEqual(page.wrong, []);
});

test("on a telephone Back closes the message, the folders and a sheet, and returns to the list at its place", async () => {
  const page = await open({ width: 390, height: 420 });
  await signIn(page, "alice");
  const list = page.locator(".list .scroll");
  await list.evaluate((e) => { e.scrollTop = 150; });
  await page.waitForFunction(() => document.querySelector(".list .scroll").scrollTop > 100);
  await page.waitForTimeout(200);
  const top = await list.evaluate((e) => e.scrollTop);
  const box = await boxOf(list);
  await page.mouse.click(box.x + 200, box.y + 150);
  await page.waitForSelector(".reader h1");
  await until(page, "message=");
  await page.goBack();
  await page.waitForSelector(".frame[data-pane=list]");
  await page.waitForFunction((t) => Math.abs(document.querySelector(".list .scroll").scrollTop - t) < 2, top);
  await page.goForward();
  await page.waitForSelector(".reader h1");
  await page.click(".read [aria-label='Back']");
  await page.waitForSelector(".frame[data-pane=list]");
  await until(page, "^/mail/inbox$");
  await page.waitForFunction((t) => Math.abs(document.querySelector(".list .scroll").scrollTop - t) < 2, top);

  await page.click("[aria-label='Menu']");
  await page.waitForSelector(".side.open");
  await page.goBack();
  await page.waitForSelector(".side.open", { state: "detached" });
  await page.click("[aria-label='Menu']");
  await page.click(".folder:has-text('Sent')");
  await title(page, "Sent");
  await page.goBack();
  await title(page, "Inbox");
  await page.waitForFunction((t) => Math.abs(document.querySelector(".list .scroll").scrollTop - t) < 2, top);
  // Back at once, before the folder was painted.
  for (let i = 0; i < 5; i++) {
    await page.click("[aria-label='Menu']");
    await page.waitForSelector(".side.open");
    await page.evaluate(() => {
      const bar = document.querySelector(".list .bar");
      const sent = new Promise((done) => new MutationObserver((_, watch) => {
        if (bar.textContent.includes("Sent")) done(watch.disconnect());
      }).observe(bar, { subtree: true, childList: true, characterData: true }));
      [...document.querySelectorAll(".folder")].find((f) => f.textContent.includes("Sent")).click();
      return sent.then(() => history.back());
    });
    await title(page, "Inbox");
    await page.waitForFunction((t) => Math.abs(document.querySelector(".list .scroll").scrollTop - t) < 2, top);
    await page.waitForTimeout(100);
    assert.ok(Math.abs(await list.evaluate((e) => e.scrollTop) - top) < 2);
  }
  await page.click(".button.float");
  await page.waitForSelector(".writer .ProseMirror");
  await page.goBack();
  await page.waitForSelector(".writer", { state: "detached" });
  await until(page, "^/mail/inbox$");
  assert.deepEqual(page.wrong, []);
});

test("signing in and a lost network keep the address", inChromium("offline"), async () => {
  const page = await open();
  await page.goto(`${base}/mail/sent?open=settings`);
  await page.fill("input[name=user]", "bob");
  await page.fill("input[name=password]", "demo");
  await page.click("button.primary");
  await title(page, "Sent");
  await page.waitForSelector("dialog >> text=Language");
  await kept(page); // what a page that goes has not kept of this folder is not kept by the next one
  await page.goto(`${base}/mail/inbox`);
  await page.locator(".row .subject").first().click();
  await page.waitForSelector(".reader h1");
  const subject = await page.textContent(".reader h1");
  await page.waitForFunction(() => navigator.serviceWorker.controller);
  await kept(page); // it is kept after it is shown
  await page.context().setOffline(true);
  await page.reload();
  await page.waitForSelector(".banner");
  await reads(page, subject);
  await until(page, "^/mail/inbox.message=");
  assert.deepEqual(page.wrong, []);
});

/** Presses keys, each before the page has heard of the steps that the one before it made; back is a step back. */
const pressed = (page, ...keys) => page.evaluate(async (keys) => {
  for (const key of keys) {
    if (key === "back") history.back();
    else (document.activeElement ?? document.body).dispatchEvent(new KeyboardEvent("keydown", { key, bubbles: true, cancelable: true }));
    for (let i = 0; i < 5; i++) await Promise.resolve();
  }
}, keys);

test("what is opened or closed while a step back is under way is a step of its own, and Back leads where it should", async () => {
  await send("Quick first");
  await send("Quick second");
  const page = await open();
  await signIn(page, "bob");
  await row(page, "Quick second").waitFor();
  await page.click(".folder:has-text('Sent')");
  await until(page, "^/mail/sent$");
  await page.click(".folder:has-text('Inbox')");
  await until(page, "^/mail/inbox$");
  const opened = async () => {
    await row(page, "Quick first").click();
    await reads(page, "Quick first");
    await until(page, "^/mail/inbox.message=");
  };
  const leadsToSent = async () => {
    await page.goBack();
    await title(page, "Sent");
    await page.goForward();
    await title(page, "Inbox");
  };
  // A message that is opened as another closes.
  await opened();
  await pressed(page, "u", "o");
  await reads(page, "Quick first");
  await until(page, "^/mail/inbox.message=");
  await page.goBack();
  await page.waitForSelector(".reader", { state: "detached" });
  await until(page, "^/mail/inbox$");
  await leadsToSent();
  // A folder that is gone to, as the palette closes.
  await page.keyboard.press("Control+k");
  await page.fill(".palette input", "Go to Drafts");
  await page.keyboard.press("Enter");
  await title(page, "Drafts");
  await until(page, "^/mail/drafts$");
  await page.goBack();
  await title(page, "Inbox");
  await until(page, "^/mail/inbox$");
  // A message that closes behind the palette.
  await opened();
  await page.keyboard.press("Control+k");
  await page.fill(".palette input", "Back to the list");
  await page.keyboard.press("Enter");
  await page.waitForSelector(".reader", { state: "detached" });
  await until(page, "^/mail/inbox$");
  await leadsToSent();
  // Back by the person.
  await opened();
  await pressed(page, "u", "back");
  await title(page, "Sent");
  await until(page, "^/mail/sent$");
  await page.goForward();
  await title(page, "Inbox");
  await until(page, "^/mail/inbox$");
  assert.deepEqual(page.wrong, []);
});

/** Gives a page another mail file: another name of the person's own, whose folders have a word before their names. Its first questions may be held. */
async function another(page) {
  const other = { held: null, name: "Aother" };
  await page.route("**/.well-known/jmap", async (route) => {
    const response = await route.fetch();
    const session = await response.json();
    const own = session.primaryAccounts["urn:ietf:params:jmap:mail"];
    return route.fulfill({ response, json: { ...session, accounts: { ...session.accounts, [other.name]: { ...session.accounts[own], name: "Another file", isPersonal: false } } } });
  });
  await page.route("**/jmap/api", async (route) => {
    const asked = route.request().postData() ?? "";
    if (!asked.includes(`"${other.name}"`)) return route.fallback();
    if (asked.includes('"pins"')) await other.held;
    const session = await (await page.request.get(`${base}/jmap/session`)).json();
    const response = await route.fetch({ postData: asked.replaceAll(`"${other.name}"`, JSON.stringify(session.primaryAccounts["urn:ietf:params:jmap:mail"])) });
    const answer = await response.json();
    for (const [name, args, id] of answer.methodResponses) if (name === "Mailbox/get" && id === "m") for (const m of args.list) if (!m.role) m.name = `Not own ${m.name}`;
    return route.fulfill({ response, json: answer });
  });
  return other;
}

test("an account that one leaves before it is open shows nothing in the place of the next one", inChromium("bodies of requests"), async () => {
  const [{ created }] = await jmap("bob", ["Mailbox/set", { create: { f: { name: "Of accounts" } } }]);
  const page = await open({ worker: false });
  const other = await another(page);
  await signIn(page, "bob");
  await until(page, "^/mail/inbox$");
  let go;
  other.held = new Promise((done) => (go = done));
  const asked = page.waitForRequest((r) => /"Aother".*"pins"/.test(r.postData() ?? ""));
  await page.click(".side .folder:has-text('Another file')");
  await asked;
  const own = page.waitForResponse((r) => (r.request().postData() ?? "").includes('"pins"') && !(r.request().postData() ?? "").includes("Aother"));
  await page.click(".side .side-title:has-text('Shared mailboxes') + .folders .folder"); // from here it is the own one
  await own;
  await title(page, "Inbox");
  const answered = page.waitForResponse((r) => /"Aother".*"pins"/.test(r.request().postData() ?? ""));
  go();
  await answered;
  await send("Behind the account");
  await row(page, "Behind the account").waitFor();
  await page.waitForSelector(".side .folder:has-text('Of accounts')");
  await counts(page.locator(".side .folder:has-text('Not own')"), 0);
  await until(page, "^/mail/inbox$");
  await jmap("bob", ["Mailbox/set", { destroy: [created.f.id] }]);
  assert.deepEqual(page.wrong, []);
});
