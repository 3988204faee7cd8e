// The calendars that the person may see and their events, a month at a time: in memory, and kept in the browser for when the server
// does not answer.

import { batch, computed, signal } from "@preact/signals";
import { ref, type States } from "../jmap/client";
import { shownProperties, type Calendar, type CalendarEvent } from "../jmap/calendar";
import type { Call, Id, Identity } from "../jmap/types";
import { addDays, addMonths, parseDuration, startOfMonth, type Day } from "./days";
import * as db from "./db";
import { hueOf } from "./hue";
import { Meanwhile } from "./meanwhile";
import { keyNow, newID, onRead, overlay, type Standing } from "./objects";
import { identities } from "./outgoing";
import { flush, load } from "./outbox";
import { own, readOwn, takeOwn } from "./own";
import { attempt, client, follow, home, offers, online, persistent, retryPause, session } from "./session";
import { browserZone, instant, isZone, localTime } from "./zone";

export const capability = "urn:ietf:params:jmap:calendars";

/** A calendar with its account: ids are of one account only. */
export interface Shelf extends Calendar {
  account: Id;
  /** The name of the person whose it is; "" for one's own. */
  owner: string;
  hue: number;
}

export const shelves = signal<Shelf[]>([]);
export const keyOf = (account: Id, id: Id) => `${account}/${id}`;
const shelfOf = (account: Id, id: Id): Shelf | undefined => shelves.value.find((s) => s.account === account && s.id === id);
export const mayWrite = (s: Shelf | undefined): boolean => !!s && (s.myRights.mayWriteAll || s.myRights.mayWriteOwn);
/** The calendar for new events. */
export const defaultShelf = computed(() => shelves.value.find((s) => s.isDefault && mayWrite(s)) ?? shelves.value.find(mayWrite));

/** The time zone in which the views show times. */
export const viewZone = computed(() => {
  const chosen = own.value.get("calendar:zone");
  return isZone(chosen) ? chosen : browserZone();
});

/** The first day of the week as the browser's region has it, 0 for Sunday. */
export function regionalWeekStart(): number {
  const locale = new Intl.Locale(navigator.language) as Intl.Locale & { getWeekInfo?: () => { firstDay: number }; weekInfo?: { firstDay: number } };
  return (locale.getWeekInfo?.().firstDay ?? locale.weekInfo?.firstDay ?? 1) % 7;
}

export const weekStart = computed(() => {
  const chosen = own.value.get("calendar:week");
  return chosen && /^[0-6]$/u.test(chosen) ? Number(chosen) : regionalWeekStart();
});

/** An event where the views show it. Times are milliseconds; days are those of the viewer's zone. */
export interface Shown {
  key: string;
  account: Id;
  event: CalendarEvent;
  shelf: Shelf;
  hue: number;
  from: number;
  to: number;
  allDay: boolean;
  first: Day;
  last: Day;
  /** The event repeats: what is shown is one instance. */
  repeats: boolean;
  /** It is shown as the person changed it, which the server does not know yet; "" for no change. */
  standing: Standing | "";
}

/** The moments at which an event begins and ends. */
export function span(e: Pick<CalendarEvent, "start" | "timeZone" | "duration" | "utcStart" | "utcEnd">, zone: string): { from: number; to: number } {
  if (e.timeZone && !isZone(e.timeZone) && e.utcStart && e.utcEnd) return { from: Date.parse(e.utcStart), to: Date.parse(e.utcEnd) };
  const own = isZone(e.timeZone) ? e.timeZone : zone;
  const { days, ms } = parseDuration(e.duration);
  const from = instant(e.start, own);
  return { from, to: (days > 0 ? instant(addDays(e.start.slice(0, 10), days) + e.start.slice(10), own) : from) + ms };
}

function shown(account: Id, e: CalendarEvent, standing: Shown["standing"] = ""): Shown | undefined {
  const id = Object.keys(e.calendarIds)[0];
  const shelf = id ? shelfOf(account, id) : undefined;
  if (!shelf || Number.isNaN(Date.parse(`${e.start}Z`))) return undefined;
  const zone = viewZone.value;
  const allDay = !!e.showWithoutTime;
  const { from, to } = span(e, zone);
  const first = allDay ? e.start.slice(0, 10) : localTime(from, zone).slice(0, 10);
  const days = parseDuration(e.duration).days;
  // An event that ends at midnight does not reach into the day that begins then.
  const last = allDay ? addDays(first, Math.max(0, days - 1)) : localTime(Math.max(from, to - 1), zone).slice(0, 10);
  return { key: keyOf(account, e.id), account, event: e, shelf, hue: e.color ? hueOf(e.color, shelf.hue) : shelf.hue, from, to, allDay, first, last, repeats: !!e.recurrenceId, standing };
}

type Month = string;

interface Kept {
  account: Id;
  event: CalendarEvent;
}

/** Events by the months that they reach into, as the server answered them. */
const months = signal<Map<Month, Kept[]>>(new Map());
const changed = overlay<CalendarEvent>("CalendarEvent");
/** Months that neither the server nor the browser has told. */
export const missing = signal<Set<Month>>(new Set());
export const loading = signal(false);

const all = computed(() => {
  const out = new Map<string, Shown>();
  const take = (account: Id, e: CalendarEvent, standing: Shown["standing"] = "") => {
    const s = shown(account, e, standing);
    if (s) out.set(s.key, s);
  };
  for (const list of months.value.values()) for (const { account, event } of list) take(account, event);
  const uids = new Set(changed.value.size > 0 ? [...out.values()].map((s) => keyOf(s.account, newID(s.event.uid))) : []);
  for (const [key, { object, standing }] of changed.value) {
    if (uids.has(key)) continue; // a new one may be read before its answer comes
    if (object) take(key.slice(0, key.indexOf("/")), object, standing);
    else out.delete(key);
  }
  return out;
});

/** The event of a key, as far as it is in memory. */
export const eventOf = (key: string): Shown | undefined => all.value.get(key) ?? all.value.get(keyNow(key));

/** The instances of a series that are in memory, in their order. */
export const instancesOf = (account: Id, series: Id): Shown[] =>
  [...all.peek().values()].filter((s) => s.account === account && s.event.baseEventId === series).sort((a, b) => a.from - b.from);

/** The month of a day was read, from the server or the browser, or neither tells it. */
export const isKnown = (d: Day): boolean => months.value.has(d.slice(0, 7)) || missing.value.has(d.slice(0, 7));

const inOrder = (a: Shown, b: Shown) => Number(b.allDay) - Number(a.allDay) || a.from - b.from || b.to - a.to || (a.event.title ?? "").localeCompare(b.event.title ?? "");

/** The events of visible calendars that reach into the days from first to last, in their order. */
export const between = (first: Day, last: Day): Shown[] =>
  [...all.value.values()].filter((s) => s.shelf.isVisible && s.first <= last && s.last >= first).sort(inOrder);

const accounts = (): Id[] => Object.entries(session.value?.accounts ?? {}).filter(([, a]) => capability in a.accountCapabilities).map(([id]) => id).slice(0, 20);

/** Begins: what the browser keeps, then what the server says. */
export const openCalendars = (): Promise<void> => (opening ??= begin());

let opening: Promise<void> | null = null;

async function begin(): Promise<void> {
  onRead("CalendarEvent", readShown);
  await load();
  await readOwn();
  const kept = await db.get<Shelf[]>("facts", "calendars");
  identities.value = (await db.get<Identity[]>("facts", "identities")) ?? [];
  const offered = offers(capability);
  if (offered) follow(["Calendar", "CalendarEvent"], hear, renew); // before a month is read, which happens once calendars are known
  if (kept) shelves.value = kept;
  if (!offered) return;
  await attempt(readFirst).catch(readLater);
  void flush();
}

/** Reads what the first page needs. */
async function readFirst(): Promise<void> {
  const mine = ++reads;
  const answers = await client.calls([
    ["Identity/get", { accountId: home.value, ids: null }, "i"],
    ["Preferences/get", { accountId: home.value, ids: null }, "own"],
    ...calendarCalls(),
  ]);
  identities.value = answers.get("i")!["list"] as Identity[];
  await takeOwn(answers.get("own")!);
  takeCalendars(answers, mine);
}

/** Reads what the first page needs after a pause, again and again while the server refuses it. */
const readLater = (): unknown => setTimeout(() => void attempt(readFirst).then(renew, readLater), Math.max(retryPause, client.pause));

const calendarCalls = (): Call[] => accounts().map((accountId) => ["Calendar/get", { accountId, ids: null }, `c${accountId}`]);

const hueOfName = (s: string) => [...s].reduce((h, c) => (h * 31 + c.charCodeAt(0)) % 360, 7);

/** Calendars that the person changes. */
export const changing = new Meanwhile<Shelf>();

/** The number of the last reading of calendars, and of the last one whose answer was taken. */
let reads = 0;
let taken = 0;

/** Takes the answer to a reading, unless that of a later one was taken. */
function takeCalendars(answers: Map<string, Record<string, unknown>>, mine: number): void {
  if (mine < taken) return;
  taken = mine;
  const out: Shelf[] = [];
  for (const account of accounts()) {
    const owner = account === session.value?.primaryAccounts[capability] || account === home.value ? "" : (session.value?.accounts[account]?.name ?? "");
    for (const c of (answers.get(`c${account}`)?.["list"] ?? []) as Calendar[]) {
      out.push(changing.of(keyOf(account, c.id), { ...c, account, owner, hue: hueOf(c.color, hueOfName(c.id)) }));
    }
  }
  out.sort((a, b) => a.owner.localeCompare(b.owner) || Number(b.isDefault) - Number(a.isDefault) || a.sortOrder - b.sortOrder || a.name.localeCompare(b.name));
  shelves.value = out;
  void db.put("facts", "calendars", out);
}

/** Reads the calendars again. */
export async function readCalendars(): Promise<void> {
  const mine = ++reads;
  if (offers(capability)) await attempt(async () => takeCalendars(await client.calls(calendarCalls()), mine));
}

/** The months that the views show now: they are read again when something changes. */
let wanted: Month[] = [];

const monthsOf = (first: Day, last: Day): Month[] => {
  const out: Month[] = [];
  for (let m = startOfMonth(first); m <= last; m = addMonths(m, 1)) out.push(m.slice(0, 7));
  return out;
};

/** Shows the days from first to last: reads the months that are not in memory, and the next one ahead. */
export async function showDays(first: Day, last: Day): Promise<void> {
  wanted = monthsOf(first, last);
  const missed = wanted.filter((m) => !months.value.has(m));
  if (missed.length > 0) {
    loading.value = true;
    await Promise.all(missed.map(readMonth)).finally(() => (loading.value = false));
  }
  const ahead = monthsOf(addDays(last, 1), addDays(last, 1))[0]!;
  if (online.peek() && !months.peek().has(ahead)) await readMonth(ahead);
}

/** So many events of a month are asked for at once, and so many months are in memory and in the browser. */
const pageSize = 500;
const mostPages = 10;
const inMemory = 18;
const inBrowser = 12;

const under = new Map<Month, Promise<boolean>>();

function readMonth(month: Month): Promise<boolean> {
  const there = under.get(month);
  if (there) return there;
  const work = untilKnown(month);
  under.set(month, work);
  return work;
}

/** Reads a month until nothing changed since it was asked for, the time included in which the browser keeps it. */
async function untilKnown(month: Month): Promise<boolean> {
  const kept = months.peek().has(month) ? undefined : db.get<Kept[]>("facts", `events:${month}`).then((list) => { if (!months.peek().has(month)) show(month, list); });
  try {
    for (;;) {
      const before = edits;
      const told = await askMonth(month, before, kept);
      if (!told || before === edits) return told;
    }
  } finally {
    under.delete(month); // in the same step as the last look at edits
  }
}

/** Asks for a month. False: the server did not answer, and what the browser keeps is shown. */
async function askMonth(month: Month, before: number, kept: Promise<void> | undefined): Promise<boolean> {
  // A refusal, of a server with too much to do for one, is no empty month.
  const list = offers(capability) ? await attempt(() => fetchMonth(month)).catch(() => undefined) : [];
  // An answer from before a change of the person does not undo it on the screen.
  if (list && edits !== before) return true;
  if (!list) await kept;
  show(month, list ?? months.peek().get(month), true);
  if (list) await keepMonth(month, list);
  return !!list;
}

/** Shows a month as it is known. asked: the server was, and the month is missing if it did not tell it. */
const show = (month: Month, known: Kept[] | undefined, asked = false) => batch(() => {
  const left = new Set(missing.value);
  if (known) left.delete(month);
  else if (asked) left.add(month);
  missing.value = left;
  if (known) months.value = remembered(month, known);
});

/** The months in memory with one more; those read longest ago go, unless they are shown. */
function remembered(month: Month, list: Kept[]): Map<Month, Kept[]> {
  const others = [...months.value].filter(([m]) => m !== month);
  const stay = others.filter(([m], i) => wanted.includes(m) || i >= others.length - inMemory);
  return new Map([...stay, [month, list]]);
}

/** Keeps a month for when the server does not answer; the one that was kept longest ago goes. */
async function keepMonth(month: Month, list: Kept[]): Promise<void> {
  const order = ((await db.get<Month[]>("facts", "eventMonths")) ?? []).filter((m) => m !== month).concat(month);
  await db.put("facts", `events:${month}`, list);
  await db.remove("facts", ...order.slice(0, -inBrowser).map((m) => `events:${m}`));
  await db.put("facts", "eventMonths", order.slice(-inBrowser));
}

async function fetchMonth(month: Month): Promise<Kept[]> {
  const first = `${month}-01`;
  const filter = { after: `${first}T00:00:00`, before: `${addMonths(first, 1)}T00:00:00` };
  const out: Kept[] = [];
  let open = accounts();
  for (let page = 0; open.length > 0 && page < mostPages; page++) {
    const answers = await client.calls(open.flatMap((accountId): Call[] => [
      ["CalendarEvent/query", { accountId, filter, sort: [{ property: "start", isAscending: true }], expandRecurrences: true, timeZone: viewZone.peek(), position: page * pageSize, limit: pageSize }, `q${accountId}`],
      ["CalendarEvent/get", { accountId, "#ids": ref(`q${accountId}`, "CalendarEvent/query", "/ids"), properties: shownProperties }, `g${accountId}`],
    ]));
    for (const account of open) for (const event of answers.get(`g${account}`)!["list"] as CalendarEvent[]) out.push({ account, event });
    open = open.filter((account) => (answers.get(`q${account}`)!["ids"] as Id[]).length === pageSize);
  }
  return out;
}

/** Counts the changes of the person. */
let edits = 0;

/** Grows with each change of calendars or events, of the person or pushed. */
export const revision = signal(0);

/** Reads calendars and events again. */
const renew = persistent(async () => {
  const told = await readCalendars().then(() => true, () => false);
  const all = online.peek() && (await readShown());
  await flush();
  return told && all;
});

async function readShown(): Promise<boolean> {
  edits++;
  revision.value++;
  const told = await Promise.all(wanted.map(readMonth));
  months.value = new Map([...months.value].filter(([m]) => wanted.includes(m)));
  return told.every(Boolean);
}

/** Reads again what is shown; other months are read again when they are shown. */
export const refresh = persistent(readShown);

function hear(news: States): void {
  const types = Object.values(news).flatMap((of) => Object.keys(of));
  if (types.includes("Calendar")) void renew();
  else void refresh();
}
