// The pictures of the README: make screenshots. It starts a demo of its own, and leaves small PNGs in doc/pictures.

import { execFileSync, spawn } from "node:child_process";
import { mkdirSync, mkdtempSync, readdirSync, rmSync, statSync } from "node:fs";
import { createServer } from "node:net";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";

const root = resolve(import.meta.dirname, "../../..");
const out = join(root, "doc/pictures");
const data = mkdtempSync(join(tmpdir(), "doublet-pictures-"));
const free = () => new Promise((done) => {
  const s = createServer().listen(0, "127.0.0.1", () => { const { port } = s.address(); s.close(() => done(port)); });
});
const doublet = join(root, "bin/doublet");
const http = await free();
const smtp = await free();
const server = spawn(doublet, ["demo", "--data", join(data, "d"), "--http", `127.0.0.1:${http}`, "--smtp", `127.0.0.1:${smtp}`, ...["https", "imap", "imaps", "pop3", "pop3s", "submission", "submissions", "lmtp"].flatMap((d) => [`--${d}`, "off"])], { stdio: ["ignore", "pipe", "inherit"] });
await new Promise((done) => server.stdout.once("data", done));
process.env.WEB = `http://127.0.0.1:${http}`;
process.env.SMTP = String(smtp);
const verb = (...args) => execFileSync(doublet, ["--data", join(data, "d"), ...args], { input: "a-password-of-words\n" });
for (const name of ["Ada Lindqvist", "Boris Okafor", "Chen Wei", "Dana Petrov", "Emil Fischer", "Fatima Costa", "Gunnar Hansen", "Hana Tanaka"]) verb("user", "add", name);
const { browser, deliver, open, row, signIn } = await import("./world.mjs");

// Fewer colours make small files: PNG of Chromium, with a palette where pngquant is there.
async function shot(page, name) {
  const path = join(out, `${name}.png`);
  await page.mouse.move(page.viewportSize().width / 2, page.viewportSize().height - 2);
  await page.waitForTimeout(250);
  await page.screenshot({ path });
  try {
    execFileSync("pngquant", ["--force", "--skip-if-larger", "--speed", "1", "--strip", "--output", path, "64", path]);
  } catch {
    // the file stays as it is
  }
}

/** Puts a week of events, an invitation and contacts into the account of the person who is signed in. */
const fill = (page) => page.evaluate(async () => {
  const { csrf } = await (await fetch("/auth/session", { headers: { Accept: "application/json" } })).json();
  const session = await (await fetch("/jmap/session")).json();
  const accountId = session.primaryAccounts["urn:ietf:params:jmap:mail"];
  const call = async (...methodCalls) => (await (await fetch(session.apiUrl, {
    method: "POST", headers: { "Content-Type": "application/json", "X-CSRF-Token": csrf },
    body: JSON.stringify({ using: Object.keys(session.capabilities), methodCalls }),
  })).json()).methodResponses;
  const two = (n) => String(n).padStart(2, "0");
  const at = (day, time) => {
    const now = new Date();
    const d = new Date(now.getFullYear(), now.getMonth(), now.getDate() - now.getDay() + day);
    return `${d.getFullYear()}-${two(d.getMonth() + 1)}-${two(d.getDate())}T${time}:00`;
  };
  await call(["Calendar/set", { accountId, create: { school: { name: "School", color: "#a8421a" }, home: { name: "Family", color: "#6a1b9a" } } }, "c"]);
  const calendars = Object.fromEntries((await call(["Calendar/get", { accountId, ids: null }, "c"]))[0][1].list.map((c) => [c.name, c.id]));
  const timeZone = Intl.DateTimeFormat().resolvedOptions().timeZone;
  const event = (calendar, title, day, time, duration, more = {}) => ({ "@type": "Event", calendarIds: { [calendars[calendar]]: true }, title, start: at(day, time), duration, timeZone, ...more });
  const attendee = (name, address, participationStatus = "needs-action") => ({ "@type": "Participant", name, sendTo: { imip: `mailto:${address}` }, roles: { attendee: true }, participationStatus, expectReply: true });
  await call(["CalendarEvent/set", { accountId, sendSchedulingMessages: true, create: {
    council: event("Calendar", "Town council", 1, "14:00", "PT2H", { locations: { l: { "@type": "Location", name: "Town hall" } } }),
    standup: event("Calendar", "Morning round", 1, "09:00", "PT30M", { recurrenceRules: [{ "@type": "RecurrenceRule", frequency: "weekly", byDay: ["mo", "tu", "we", "th", "fr"].map((day) => ({ "@type": "NDay", day })) }] }),
    party: event("Calendar", "Garden party: the last list", 3, "12:30", "PT1H", { participants: { bob: attendee("Bob Cratchit", "bob@example.com"), carol: attendee("Carol Müller-Ångström", "carol@example.com") } }),
    board: event("School", "School board", 2, "10:30", "PT2H"), parents: event("School", "Parents' evening", 4, "18:00", "PT1H30M"),
    budget: event("Calendar", "Budget of the third quarter", 2, "11:30", "PT1H30M"), dentist: event("Family", "Dentist", 4, "11:00", "PT45M"),
    trip: { ...event("Family", "At the sea", 5, "00:00", "P2D"), showWithoutTime: true, timeZone: null }, choir: event("Family", "Choir", 2, "19:00", "PT2H"),
    review: event("Calendar", "Review with Ada", 5, "10:00", "PT1H"),
  } }, "e"]);
  const book = (await call(["AddressBook/get", { accountId, ids: null }, "b"]))[0][1].list[0].id;
  const people = [["Ada", "Lindqvist", "ada@harbour.example", "Harbour office"], ["Boris", "Okafor", "boris@okafor.example", ""], ["Chen", "Wei", "chen@press.example", "Town press"], ["Dana", "Petrov", "dana@school.example", "School"], ["Emil", "Fischer", "emil@bakery.example", "Bakery Fischer"], ["Fatima", "Costa", "fatima@costa.example", ""], ["Hana", "Tanaka", "hana@library.example", "Library"]];
  await call(["ContactCard/set", { accountId, create: Object.fromEntries(people.map(([given, surname, address, company], i) => [`p${i}`, {
    "@type": "Card", version: "1.0", addressBookIds: { [book]: true },
    name: { components: [{ kind: "given", value: given }, { kind: "surname", value: surname }], isOrdered: true }, emails: { e: { address, contexts: { work: true } } },
    phones: { p: { number: `+44 20 7946 0${100 + i}` } }, ...(company ? { organizations: { o: { name: company } } } : {}),
  }])) }, "p"]);
});

/** The pictures of the calendar and the contacts. */
async function groupware() {
  for (const [width, height, theme, view] of [[1440, 900, "light", "week"], [1440, 900, "dark", "month"], [390, 844, "light", "month"]]) {
    const page = await open({ width, height, dark: theme === "dark" });
    await page.emulateMedia({ reducedMotion: "reduce" });
    await signIn(page);
    if (width > 390 && theme === "light") await fill(page);
    await page.goto(`${process.env.WEB}/calendar/${view}`);
    await page.locator("text=Morning round").first().waitFor({ state: "attached" });
    await page.waitForTimeout(500);
    await shot(page, `calendar-${width}-${theme}`);
    if (width > 390) {
      await page.goto(`${process.env.WEB}/contacts/all`);
      await page.locator(".contact-row", { hasText: "Chen Wei" }).click();
      await page.waitForSelector(".person h1");
      await shot(page, `contacts-${width}-${theme}`);
    }
    await page.context().close();
  }
}

mkdirSync(out, { recursive: true });
try {
  for (const [width, height, theme] of [[1440, 900, "light"], [1440, 900, "dark"], [390, 844, "light"], [390, 844, "dark"]]) {
    const page = await open({ width, height, dark: theme === "dark" });
    await page.emulateMedia({ reducedMotion: "reduce" });
    await signIn(page);
    await page.waitForTimeout(800);
    if (width > 390 || theme === "dark") {
      await row(page, "garden party").click();
      await page.waitForSelector(".reader .mail .body");
      await page.waitForTimeout(600);
    }
    await shot(page, `mail-${width}-${theme}`);
    if (width > 390) {
      await page.goto(`${process.env.WEB}/admin/#/${theme === "light" ? "people" : "statistics"}`);
      await page.waitForSelector(".stage");
      if (theme === "light") {
        await page.locator(".lines .line").first().click();
        await page.waitForSelector(".detail .block");
      } else {
        // Something to see: mail that comes in for a while.
        for (let i = 0; i < 60; i++) {
          await deliver("mallory@elsewhere.example", "bob@example.com", `From: mallory@elsewhere.example\nTo: bob@example.com\nSubject: figures ${i}\n\nx`);
          await page.waitForTimeout(150 + 400 * Math.abs(Math.sin(i / 5)));
        }
        await page.waitForTimeout(2500);
      }
      await shot(page, `admin-${width}-${theme}`);
      await page.goto(`${process.env.WEB}/lite/`);
      if (theme === "dark") await page.getByRole("link", { name: "garden party" }).first().click();
      await shot(page, `lite-${width}-${theme}`);
    }
    await page.context().close();
  }
  await groupware();
} finally {
  await browser.close();
  server.kill();
  await new Promise((done) => server.once("exit", done));
  rmSync(data, { recursive: true, force: true });
}
let total = 0;
for (const f of readdirSync(out)) total += statSync(join(out, f)).size;
console.log(`${out}: ${Math.round(total / 1024)} KB`);
