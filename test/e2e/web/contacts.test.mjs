// The contacts. Each test has people of its own, so that none sees those of another.

import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { after, test } from "node:test";
import { cards } from "./objects.mjs";
import { atOnce, barriers, base, browser, controlled, deliver, keptIn, open, row, signIn, signInAt, until } from "./world.mjs";

after(() => browser.close());

const line = (page, name) => page.locator(".contact-row", { hasText: name }).first();
const toast = (page, text) => page.waitForSelector(`.toast:has-text("${text}")`);
const undo = (page, text) => page.locator(".toast", { hasText: text }).locator("button").click();
const field = (page, label) => page.locator(".contact-form").getByLabel(label, { exact: true });

async function add(page, { given, surname = "", email = "", phone = "", company = "" }) {
  await page.keyboard.press("n");
  await page.waitForSelector(".contact-form");
  await field(page, "First name").fill(given);
  await field(page, "Last name").fill(surname);
  await field(page, "Company").fill(company);
  await field(page, "Mail").first().fill(email);
  await field(page, "Phone").first().fill(phone);
  await page.click(".contact-form button:has-text('Save')");
  await page.waitForSelector(".contact-form", { state: "detached" });
  await page.waitForSelector(`.person h1:has-text("${given}")`);
}

test("a contact is written with all its fields, found, changed and deleted; deleting is undone", async () => {
  const page = await open();
  await signInAt(page, "/contacts/", ".contact-rows");
  await page.keyboard.press("n");
  await page.waitForSelector(".contact-form");
  await page.click("button:has-text('More about the name')");
  const values = { "First name": "Ada", "Last name": "Lovelace", "Middle name": "Augusta", Nickname: "Enchantress", Company: "Analytical Engines", Department: "Notes", "Job title": "Analyst", Birthday: "1815-12-10", Notes: "Note G." };
  for (const [label, value] of Object.entries(values)) await field(page, label).fill(value);
  await field(page, "Mail").first().fill("ada@engines.example");
  await page.click("button[aria-label='Add: Mail']");
  await field(page, "Mail").nth(1).fill("countess@home.example");
  await field(page, "Phone").first().fill("+44 20 7946 0000");
  await page.click("button[aria-label='Add: Addresses']");
  for (const [label, value] of [["Street", "12 St James's Square"], ["Postal code", "SW1Y"], ["City", "London"], ["Country", "England"]]) await field(page, label).fill(value);
  await page.click("button[aria-label='Add: Web pages']");
  await field(page, "Web pages").first().fill("example.com/ada");
  const [chooser] = await Promise.all([page.waitForEvent("filechooser"), page.click(".photo-button")]);
  const dot = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==";
  await chooser.setFiles({ name: "a.png", mimeType: "image/png", buffer: Buffer.from(dot, "base64") });
  await page.waitForSelector(".photo-button img");
  await page.click(".contact-form button:has-text('Save')");
  const person = page.locator(".person");
  for (const words of ["Ada Augusta Lovelace", "Enchantress", "Analytical Engines, Notes", "Analyst", "ada@engines.example", "countess@home.example", "+44 20 7946 0000", "mobile", "12 St James's Square", "SW1Y London", "England", "example.com/ada", "December 10, 1815", "Note G."]) {
    await person.getByText(words, { exact: false }).first().waitFor();
  }
  await page.waitForSelector(".person .face-photo");
  assert.match(page.url(), /[?&]card=/u);
  await page.reload();
  await page.waitForSelector(".person h1:has-text('Ada Augusta Lovelace')");
  await page.waitForSelector(".person .face-photo");

  await page.keyboard.press("e");
  await page.waitForSelector(".contact-form");
  await field(page, "Phone").first().fill("+44 1");
  await page.click(".contact-form button:has-text('Save')");
  await page.waitForSelector(".contact-form", { state: "detached" });
  await person.getByText("+44 1", { exact: true }).waitFor();
  await person.getByText("SW1Y London").waitFor();

  await page.keyboard.press("/");
  await page.keyboard.type("engines notes");
  await page.waitForFunction(() => document.querySelectorAll(".contact-row").length === 1);
  await line(page, "Ada").click();
  await page.waitForSelector(".person h1");
  await page.keyboard.press("#");
  await line(page, "Ada").waitFor({ state: "detached" });
  await undo(page, "deleted");
  await line(page, "Ada").click();
  await page.waitForSelector(".person h1");
  const told = page.waitForResponse((r) => (r.request().postData() ?? "").includes('"destroy"'));
  await page.keyboard.press("#");
  await told;
  assert.deepEqual(await cards("alice", "Lovelace"), []);
  await page.goto(`${base}/contacts/all`);
  await page.waitForSelector(".contact-row, .no-contacts");
  await page.waitForFunction(() => !document.body.textContent.includes("Lovelace"));
  assert.deepEqual(page.wrong, []);
});

test("what is no address is said, and nothing written is thrown away unasked", async () => {
  const page = await open();
  await signInAt(page, "/contacts/all", ".contact-rows", "carol");
  await page.keyboard.press("n");
  await page.waitForSelector(".contact-form");
  await page.click(".contact-form button:has-text('Save')");
  await page.waitForSelector(".said:has-text('Enter at least a name')");
  await field(page, "Mail").first().fill("no address");
  await page.click(".contact-form button:has-text('Save')");
  await page.waitForSelector(".said:has-text('no address')");
  await page.click(".contact-form button:has-text('Cancel')");
  await page.click(".said button:has-text('Discard')");
  await page.waitForSelector(".contact-form", { state: "detached" });
  assert.deepEqual(page.wrong, []);
});

test("groups hold people; doubles become one; another browser sees it; it is there offline", async () => {
  const page = await open();
  await signInAt(page, "/contacts/all", ".contact-rows", "bob");
  const other = await open();
  await signInAt(other, "/contacts/all", ".contact-rows", "bob");
  await add(page, { given: "Tim", surname: "Cratchit", email: "tim@cratchit.example" });
  await add(page, { given: "Tiny Tim", surname: "Cratchit", email: "TIM@cratchit.example", phone: "+44 2" });
  await line(other, "Tiny Tim").waitFor();
  await page.click(".side button[aria-label='New group']");
  await page.fill("dialog input", "Family");
  await page.click("dialog button.primary");
  await page.waitForURL("**/contacts/group/**");
  await page.click(".side .folder:has-text('All contacts')");
  await line(page, "Tiny Tim").click();
  await page.waitForSelector(".person h1:has-text('Tiny Tim')");
  await page.click("button[aria-label^='Groups of']");
  await page.click(".menu button:has-text('Family')");
  await page.waitForSelector(".person .chip:has-text('Family')");
  await page.click(".person .chip:has-text('Family')");
  await page.waitForFunction(() => document.querySelectorAll(".contact-row").length === 1);

  await page.click(".side .folder:has-text('Doubles')");
  const told = page.waitForResponse((r) => (r.request().postData() ?? "").includes('"destroy"'));
  await page.click(".double button:has-text('Merge')");
  await toast(page, "2 contacts merged");
  await told;
  await page.goto(`${base}/contacts/all`);
  await page.waitForFunction(() => document.querySelectorAll(".contact-row").length === 1);
  await page.locator(".contact-row").click();
  await page.locator(".person").getByText("+44 2").waitFor();
  await page.waitForSelector(".person .chip:has-text('Family')");
  await other.waitForFunction(() => document.querySelectorAll(".contact-row").length === 1);
  await until(async () => (await keptIn(page, "bob", "facts")).contacts.cards.filter(({ card }) => card.kind !== "group").length === 1);
  await controlled(page);
  await page.context().setOffline(true);
  await page.reload();
  await page.locator(".person").getByText("+44 2").waitFor();
  await page.context().setOffline(false);
  assert.deepEqual([...page.wrong, ...other.wrong], []);
});

test("contacts are imported from a file of any version, and exported", async () => {
  const page = await open();
  await signInAt(page, "/contacts/all", ".contact-rows", "carol");
  const vcf = [
    "BEGIN:VCARD", "VERSION:3.0", "N:Zola;Émile;;;", "FN:Émile Zola", "item1.EMAIL;TYPE=INTERNET,HOME:emile@zola.example", "TEL;TYPE=CELL:+33 1", "ADR;TYPE=HOME:;;21 rue\\, de Bruxelles;Paris;;75009;France", "NOTE:J'accuse\\nand more", "BDAY:1840-04-02", "END:VCARD",
    "BEGIN:VCARD", "VERSION:2.1", "N;CHARSET=UTF-8;ENCODING=QUOTED-PRINTABLE:M=C3=BCller;J=C3=B6rg", "FN;CHARSET=UTF-8;ENCODING=QUOTED-PRINTABLE:J=C3=B6rg M=C3=BC=", "ller", "TEL;WORK;VOICE:+49 2", "END:VCARD",
    "BEGIN:VCARD", "VERSION:4.0", "FN:王小明", "N:王;小明;;;", "EMAIL;PREF=1:wang@example.cn", "END:VCARD", "",
  ].join("\r\n");
  await page.locator(".shelf", { hasText: "Contacts" }).locator(".tool").click();
  const [chooser] = await Promise.all([page.waitForEvent("filechooser"), page.click(".menu button:has-text('Import')")]);
  await chooser.setFiles({ name: "a.vcf", mimeType: "text/vcard", buffer: Buffer.from(vcf) });
  await toast(page, "3 contacts imported");
  await line(page, "Émile Zola").click();
  for (const words of ["emile@zola.example", "+33 1", "21 rue, de Bruxelles", "75009 Paris", "April 2, 1840", "J'accuse"]) await page.locator(".person").getByText(words, { exact: false }).first().waitFor();
  await line(page, "Jörg Müller").click();
  await page.locator(".person").getByText("+49 2").waitFor();
  await page.waitForSelector(".letter-head:text-is('W')"); // 王, by its Pinyin
  await page.locator(".shelf", { hasText: "Contacts" }).locator(".tool").click();
  const [file] = await Promise.all([page.waitForEvent("download"), page.click(".menu button:has-text('Export')")]);
  const lines = readFileSync(await file.path(), "utf8").split("\r\n");
  for (const l of ["FN:Émile Zola", "N:Zola;Émile;;;", "EMAIL;TYPE=home:emile@zola.example", "BDAY:18400402", "ADR;TYPE=home:;;21 rue\\, de Bruxelles;Paris;;75009;France", "FN:王小明"]) assert.ok(lines.includes(l), `${l} in ${lines.join("\n")}`);
  assert.deepEqual(page.wrong, []);
});

test("a sender becomes a contact, and contacts complete recipients", async () => {
  await deliver("grace@navy.example", "bob@example.com", "From: Grace Hopper <grace@navy.example>\nTo: bob@example.com\nSubject: A bug in the relay\nMessage-ID: <relay@navy.example>\nDate: Sat, 21 Nov 2026 10:00:00 +0000\n\nFound.\n");
  const page = await open();
  await atOnce(page);
  await signIn(page, "bob");
  await row(page, "A bug in the relay").click();
  await page.waitForSelector(".reader h1:has-text('A bug in the relay')");
  await page.click(".read .bar button[aria-label='More']");
  await page.click(".menu button:has-text('Add sender to contacts')");
  await toast(page, "“Grace Hopper” added");
  await page.click(".read .bar button[aria-label='More']");
  await page.click(".menu button:has-text('Add sender to contacts')");
  await toast(page, "already");
  await page.goto(`${base}/contacts/all`);
  await line(page, "Grace Hopper").waitFor();
  await add(page, { given: "Katherine", surname: "Johnson", email: "katherine@nasa.example" });
  await page.click(".switch a:has-text('Mail')");
  await page.waitForSelector(".row .subject");
  await page.keyboard.press("c");
  await page.waitForSelector(".writer .ProseMirror");
  await page.keyboard.type("john");
  await page.locator(".suggest li", { hasText: "katherine@nasa.example" }).click();
  await page.waitForSelector(".writer .token:has-text('Katherine Johnson')");
  assert.deepEqual(page.wrong, []);
});

test("nobody is kept out of the contacts", async () => {
  for (const [width, height, dark] of [[1440, 900, false], [1024, 768, true], [390, 844, false]]) {
    const page = await open({ width, height, dark });
    await signInAt(page, "/contacts/all", ".contact-row", "carol");
    assert.deepEqual(await barriers(page), [], `list at ${width}`);
    await line(page, "Zola").click();
    await page.waitForSelector(".person h1");
    assert.deepEqual(await barriers(page), [], `person at ${width}`);
    await page.keyboard.press("e");
    await page.waitForSelector(".contact-form");
    assert.deepEqual(await barriers(page), [], `editor at ${width}`);
    await page.keyboard.press("Escape");
    await page.waitForSelector(".contact-form", { state: "detached" });
    if (width < 760) {
      await page.goBack();
      await line(page, "Zola").waitFor();
      await page.waitForSelector("nav.switch a[aria-current=page]:has-text('Contacts')");
    }
    assert.deepEqual(page.wrong, []);
    await page.context().close();
  }
});

test("what is closed twice at once is closed once: a step back that is under way is not taken again, and none leaves the page", async () => {
  const page = await open();
  await signInAt(page, "/contacts/", ".contact-rows");
  await add(page, { given: "Step", surname: "Firstly" });
  await add(page, { given: "Step", surname: "Secondly" });
  await page.goto(`${base}/contacts/all?search=Step`);
  await line(page, "Firstly").click();
  await page.waitForSelector(".person h1:has-text('Firstly')");
  const address = () => page.evaluate(() => location.pathname + location.search);
  const pressed = (...keys) => page.evaluate((keys) => keys.forEach((key) => document.body.dispatchEvent(new KeyboardEvent("keydown", { key, bubbles: true }))), keys);
  await pressed("Escape", "Escape", "Escape");
  await page.waitForSelector(".person", { state: "detached" });
  await until(async () => (await address()) === "/contacts/all?search=Step");
  // What is opened while a step back is under way is a step after it.
  await line(page, "Firstly").click();
  await page.waitForSelector(".person h1:has-text('Firstly')");
  await pressed("Escape", "n");
  await page.waitForSelector(".contact-form");
  await until(async () => (await address()) === "/contacts/all?search=Step&edit=new");
  await page.goBack();
  await page.waitForSelector(".contact-form", { state: "detached" });
  assert.equal(await address(), "/contacts/all?search=Step");
  // A contact that is deleted is closed by the deletion, and again by the page, which does not find it any more.
  await line(page, "Secondly").click();
  await page.waitForSelector(".person h1:has-text('Secondly')");
  await pressed("#", "#");
  await line(page, "Secondly").waitFor({ state: "detached" });
  await until(async () => (await address()) === "/contacts/all?search=Step");
  assert.equal(await page.locator(".toast", { hasText: "does not exist" }).count(), 0);
  assert.deepEqual(page.wrong, []);
});
