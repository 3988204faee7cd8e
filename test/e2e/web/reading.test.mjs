// Opened messages: the picture of their sender, and conversations shown together or one by one.

import assert from "node:assert/strict";
import { after, test } from "node:test";
import { deflateSync } from "node:zlib";
import { browser, counts, deliver, inChromium, open, row, signIn, until } from "./world.mjs";

after(() => browser.close());
const run = Date.now();

const svg = '<svg xmlns="http://www.w3.org/2000/svg" version="1.2" baseProfile="tiny-ps" viewBox="0 0 9 9"><title>Brand</title><path d="M0 0h9v9z"/></svg>';

/** A message to Bob from an address; dmarc is the server's verdict on its domain, if any. */
const from = (address, subject, dmarc = "") => deliver(address, "bob@example.com", `Message-ID: <${subject.replace(/\W/gu, "")}.${run}@x.example>\nFrom: Nina News <${address}>\nTo: bob@example.com\nSubject: ${subject}\n${dmarc && `Authentication-Results: mx.example.com; dmarc=${dmarc} header.from=${address.split("@")[1]}\n`}\nWords\n`);

async function show(page, subject) {
  await row(page, subject).click();
  await page.waitForSelector(`.reader h1:has-text('${subject}')`);
  await page.waitForSelector(".mail .body .plain");
}

/** A PNG of one point. */
function png() {
  const chunk = (type, data) => {
    const body = Buffer.concat([Buffer.from(type), data]);
    const out = Buffer.alloc(8);
    let crc = ~0;
    for (const b of body) for (crc ^= b, out[0] = 0; out[0] < 8; out[0]++) crc = (crc >>> 1) ^ (0xedb88320 & -(crc & 1));
    out.writeUInt32BE(data.length);
    out.writeUInt32BE(~crc >>> 0, 4);
    return Buffer.concat([out.subarray(0, 4), body, out.subarray(4)]);
  };
  const head = Buffer.from([0, 0, 0, 1, 0, 0, 0, 1, 8, 2, 0, 0, 0]);
  return Buffer.concat([Buffer.from([137, 80, 78, 71, 13, 10, 26, 10]), chunk("IHDR", head), chunk("IDAT", deflateSync(Buffer.from([0, 200, 30, 60]))), chunk("IEND", Buffer.alloc(0))]).toString("base64");
}

async function addContact(page, address, photo) {
  const refused = await page.evaluate(async ([address, photo]) => {
    const { csrf } = await (await fetch("/auth/session", { headers: { Accept: "application/json" } })).json();
    const session = await (await fetch("/jmap/session")).json();
    const accountId = session.primaryAccounts["urn:ietf:params:jmap:contacts"];
    const call = async (...methodCalls) => (await (await fetch(session.apiUrl, { method: "POST", headers: { "Content-Type": "application/json", "X-CSRF-Token": csrf }, body: JSON.stringify({ using: Object.keys(session.capabilities), methodCalls }) })).json()).methodResponses;
    const book = (await call(["AddressBook/get", { accountId, ids: null }, "b"]))[0][1].list[0].id;
    const card = { "@type": "Card", version: "1.0", uid: `face-${address}`, addressBookIds: { [book]: true }, name: { full: "Nina" }, emails: { e: { address } }, media: { p: { "@type": "Media", kind: "photo", mediaType: "image/png", uri: `data:image/png;base64,${photo}` } } };
    return (await call(["ContactCard/set", { accountId, create: { a: card } }, "s"]))[0][1].notCreated;
  }, [address, photo]);
  assert.equal(refused, null);
}

test("the face of a sender is a contact's photo, else the logo of a verified domain, else initials", async () => {
  await from("nina@friend.example", "With a photo");
  await from("nina@friend.example", "A photo that is not earned", "fail (p=none)");
  await from("news@brand.example", "With a logo", "pass (p=reject applied=none)");
  await from("news@plain.example", "A domain without a logo", "pass (p=reject applied=none)");
  await from("news@brand.example", "A logo that is not earned");
  const page = await open({ worker: false });
  const asked = [];
  await page.route("**/.well-known/jmap", async (route) => {
    const session = await (await route.fetch()).json();
    session.capabilities["urn:doublet:jmap:senders"] = { logos: true };
    return route.fulfill({ json: session });
  });
  await page.route("**/jmap/logo/**", (route) => {
    asked.push(route.request().url());
    return asked.length === 1 ? route.fulfill({ contentType: "image/svg+xml", body: svg }) : route.fulfill({ status: 404, body: "" });
  });
  await signIn(page, "bob");
  await addContact(page, "Nina@friend.example", png());

  await show(page, "With a photo");
  await page.waitForFunction(() => document.querySelector(".mail header img.face-photo:not(.logo)")?.naturalWidth === 1);
  await show(page, "A photo that is not earned");
  await page.waitForSelector(".mail header .domino");
  assert.equal(await page.locator(".mail header img").count(), 0);
  await show(page, "With a logo");
  await page.waitForFunction(() => document.querySelector(".mail header img.logo")?.naturalWidth > 0);
  assert.equal(asked.length, 1);
  await show(page, "A domain without a logo");
  await page.waitForSelector(".mail header .domino");
  await until(() => asked.length === 2); // the initials stand there before the logo is asked for
  await show(page, "A logo that is not earned");
  await page.waitForSelector(".mail header .domino");
  assert.equal(await page.locator(".mail header img").count(), 0);
  assert.equal(asked.length, 2);
  assert.deepEqual(page.wrong, []);
  assert.deepEqual(page.foreign, []);
});

test("messages of a conversation are listed one by one where the settings say so", async () => {
  const page = await open();
  await signIn(page, "bob");
  const text = (id, more) => `Message-ID: <talk${id}.${run}@x.example>\n${more}From: Tom Talk <tom@x.example>\nTo: bob@example.com\nSubject: Talk of two\n\nWords ${id}\n`;
  await deliver("tom@x.example", "bob@example.com", text(1, ""));
  await deliver("tom@x.example", "bob@example.com", text(2, `In-Reply-To: <talk1.${run}@x.example>\nReferences: <talk1.${run}@x.example>\n`));
  await page.waitForFunction(() => [...document.querySelectorAll(".row")].some((r) => r.textContent.includes("Talk of two") && r.querySelector(".size-of-thread")?.textContent === "2"));
  await counts(page.locator(".row", { hasText: "Talk of two" }), 1);
  await page.click("[aria-label='Settings']");
  await page.getByLabel("Show conversations together").uncheck();
  await page.keyboard.press("Escape");
  await page.waitForFunction(() => [...document.querySelectorAll(".row")].filter((r) => r.textContent.includes("Talk of two")).length === 2);
  assert.equal(await page.locator(".size-of-thread").count(), 0);
  await page.reload();
  await page.waitForFunction(() => [...document.querySelectorAll(".row")].filter((r) => r.textContent.includes("Talk of two")).length === 2);
  assert.deepEqual(page.wrong, []);
});

const wholeOnly = (data) => /"Email\/get".*"fetchHTMLBodyValues"/u.test(data ?? "");

test("a message that the server refuses to give says so, and is there when one tries again", inChromium("bodies of requests"), async () => {
  const page = await open({ worker: false });
  let isRefused = true;
  await page.route("**/jmap/api", (route) => {
    const data = route.request().postData();
    if (!isRefused || !wholeOnly(data)) return route.fallback();
    return route.fulfill({ json: { methodResponses: JSON.parse(data).methodCalls.map(([, , tag]) => ["error", { type: "serverFail" }, tag]), sessionState: "" } });
  });
  await signIn(page, "bob");
  await from("tom@x.example", "Refused at first");
  await row(page, "Refused at first").click();
  await page.waitForSelector(".reader h1:has-text('Refused at first')");
  await page.waitForSelector(".mail .body [role=alert]:has-text('serverFail')");
  isRefused = false;
  await page.click(".mail .body [role=alert] button:has-text('Try again')");
  await page.waitForSelector(".mail .body .plain:has-text('Words')");
  await counts(page.locator(".mail .body [role=alert]"), 0);
  assert.deepEqual(page.wrong, []);
});

test("a message that was opened while the server could not be reached is shown when it can", inChromium("bodies of requests"), async () => {
  const page = await open({ worker: false });
  let isAway = true;
  await page.route("**/jmap/api", (route) => (isAway && wholeOnly(route.request().postData()) ? route.abort() : route.fallback()));
  await signIn(page, "bob");
  await from("tom@x.example", "Opened offline");
  await row(page, "Opened offline").click();
  await page.waitForSelector(".mail .body .ghost");
  await page.context().setOffline(true);
  isAway = false;
  await page.context().setOffline(false);
  await page.waitForSelector(".mail .body .plain:has-text('Words')");
  assert.deepEqual(page.wrong, []);
});

test("a message that is opened while it is read ahead is asked for once", inChromium("bodies of requests"), async () => {
  const page = await open({ worker: false });
  let go;
  const gone = new Promise((done) => (go = done));
  const asked = [];
  await page.route("**/jmap/api", async (route) => {
    const data = route.request().postData();
    if (!wholeOnly(data)) return route.fallback();
    for (const [name, { ids }] of JSON.parse(data).methodCalls) if (name === "Email/get") asked.push(...ids);
    await gone;
    return route.fallback();
  });
  await from("tom@x.example", "Asked for once");
  await signIn(page, "bob");
  await row(page, "Asked for once").waitFor();
  await until(() => asked.length > 0); // the newest are read ahead
  await row(page, "Asked for once").click();
  const id = await page.getAttribute(".mail", "data-id");
  const marked = page.waitForResponse((r) => /"keywords\/\$seen"/u.test(r.request().postData() ?? "")); // follows the reading
  go();
  await marked;
  await page.waitForSelector(".mail .body .plain:has-text('Words')");
  assert.equal(asked.filter((i) => i === id).length, 1);
  assert.deepEqual(page.wrong, []);
});
