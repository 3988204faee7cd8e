// The list of a place: read from the server in windows, kept in the browser.

import { batch, signal } from "@preact/signals";
import { ref, Refused } from "../jmap/client";
import { rowProperties } from "../jmap/types";
import type { Call, Id, Row, Snippet } from "../jmap/types";
import * as db from "./db";
import { fetchMessages, fetchRows, messages, rows, takeRows, takeThreads, threadOf, threads } from "./messages";
import { asking, mostAtOnce, waiting, type Change } from "./outbox";
import { byThread, filterOf, place, type Place } from "./place";
import { parseCall, understood, type Understood } from "./search";
import { reading, selected } from "./screen";
import { account, attempt, client, online, reachable } from "./session";
import { hasPins, leaves, sortOf } from "./view";

export interface List extends Place {
  /** By position, without holes (filter would close them); undefined where the window was not read yet. */
  ids: (Id | undefined)[];
  total: number;
  snippets: Map<Id, Snippet>;
  state: "loading" | "ready" | "offline" | string;
}

export const list = signal<List>({ mailbox: "", search: "", ids: [], total: 0, snippets: new Map(), state: "loading" });

/** Resolves when the first list is drawn, or cannot be read: parts that it does not need are loaded behind it. */
export const firstList = new Promise<void>((done) => {
  const stop = list.subscribe(({ state }) => {
    if (state === "loading") return;
    setTimeout(() => { stop(); done(); }); // the drawing comes before
  });
});

/** The number of entries in a window. */
export const windowSize = 60;
/** The positions that the list shows; rows near them stay in memory. */
export const inView = { from: 0, to: 0 };
/** With more rows in memory, those further than nearby positions from the shown ones are dropped. */
const rowsInMemory = 2000;
const nearby = 600;
/** The number of messages of a folder that are kept for offline work, and how many of them with bodies. */
const kept = 200;
const keptBodies = 50;

let showing: AbortController | null = null;
/** The place whose list is one that the server answered. */
let answered: Place | null = null;
/** The last of its answers: the server's number of entries, the messages that were taken away then, the total that was shown, and the short windows. */
let last = { whole: 0, removed: "", total: 0, short: new Set<number>() };

/** Shows a place: the kept rows at once, then the answer of the server. */
export async function show(where: Place): Promise<void> {
  showing?.abort();
  showing = new AbortController();
  if (place.value.search !== where.search) understood.value = null;
  place.value = where;
  answered = null;
  taken.clear();
  const keptIds = where.search || where.view ? undefined : await db.get<Id[]>("lists", `${account.value}:${where.mailbox}`);
  if (place.value !== where || answered === where) return; // sync was quicker
  const gone = takenAway(where);
  const ids = (keptIds ?? []).filter((id) => !gone.has(id));
  list.value = { ...where, ids, total: ids.length, snippets: new Map(), state: "loading" };
  await loadWindow(0, true);
}

// A list of conversations becomes one of messages, or the other way, when the person wants it.
let threaded = byThread.peek();
byThread.subscribe((on) => {
  if (on === threaded) return;
  threaded = on;
  const where = place.peek();
  if (where.mailbox) void show(where);
});

/** The windows under way, each with the number of the last read of it; and those that were shown, with that of the read. */
const asked = new Map<string, number>();
const taken = new Map<string, number>();
let reads = 0;
const keyOf = (where: Place, from: number) => `${where.mailbox} ${where.search} ${where.view ?? ""} ${from}`;
/** The number of windows under way: a dragged scrollbar passes hundreds that nobody looks at. */
const atOnce = 2;

const startOf = (position: number) => Math.floor(position / windowSize) * windowSize;

/** Reports if a position is to be read: the same question about a short window has the same answer, as long as the list is the same. */
export const isMissing = (position: number) => list.value.ids[position] === undefined && !(answered === place.value && last.total === list.value.total && last.short.has(startOf(position)));

/** Reads the window of a position; if again is set, also one that is there. */
export async function loadWindow(position: number, again = false): Promise<void> {
  const from = startOf(position);
  if (!again && (asked.size >= atOnce || !isMissing(position))) return;
  await loadWindows([from], () => false, again);
}

/** A window as the server answered it. isEnd: the answer reached the end of the list; isShort: it has too few rows, and did not. */
interface Window {
  from: number;
  ids: Id[];
  total: number;
  isEnd: boolean;
  isShort: boolean;
}

/**
 * Reads windows in one request, and shows them at once. Where moved tells that entries have come or gone, those of other
 * windows are not where they were: they are read again when they come into sight. Windows under way are read if again is set: their
 * answer may be of before. False: the server refused for now.
 */
export async function loadWindows(froms: number[], moved: () => boolean, again: boolean): Promise<boolean> {
  const where = place.value;
  const list_ = froms.filter((from) => again || !asked.has(keyOf(where, from)));
  if (list_.length === 0) return true;
  const mine = ++reads;
  for (const from of list_) asked.set(keyOf(where, from), mine);
  const total = list.value.total;
  /** No later read of these windows was shown. */
  const isLast = () => place.value === where && list_.some((from) => (taken.get(keyOf(where, from)) ?? 0) < mine);
  try {
    const done = await attempt(async () => {
      const read = await readWindows(where, list_);
      const newer = place.value === where ? list_.filter((from) => (taken.get(keyOf(where, from)) ?? 0) < mine) : [];
      for (const from of newer) taken.set(keyOf(where, from), mine);
      if (newer.length > 0) takeWindows(where, newer, read, moved(), total);
      return true;
    });
    if (!done && isLast()) await showKept(where);
    return true;
  } catch (e) {
    if (e instanceof DOMException && e.name === "AbortError") return true;
    if (isLast()) list.value = { ...list.value, state: e instanceof Error ? e.message : String(e) };
    return !(e instanceof Refused) || e.later === undefined;
  } finally {
    for (const from of list_) if (asked.get(keyOf(where, from)) === mine) asked.delete(keyOf(where, from));
  }
}

/** Counts the moves and removals of messages. */
let moves = 0;

/** Notes that the person moves or destroys messages: windows that are being read are read again. */
export function noteMove(): void {
  moves++;
}

/** The most reads of windows that changed while they were read. */
const mostReads = 4;

/** Answers for windows, the messages that were taken away when they were asked for, and the changes that they may not have. */
interface Read {
  answers: Answers;
  gone: Set<Id>;
  since: Change[];
}

/** Reads windows until the person moves nothing meanwhile: an older answer would bring back what was taken away. */
async function readWindows(where: Place, froms: number[]): Promise<Read> {
  for (let reads = 1; ; reads++) {
    const before = moves;
    const gone = takenAway(where);
    const { answer, since } = await asking(() => client.calls(froms.flatMap((from) => windowCalls(where, from, limitOf(gone))), showing?.signal));
    if (moves === before || reads === mostReads || place.value !== where) return { answers: answer, gone, since };
  }
}

/** The most messages that a window reads in place of removed ones: a server answers only some hundreds at once. */
const mostGone = 400;
const limitOf = (gone: Set<Id>) => windowSize + Math.min(gone.size, mostGone);

export type Answers = Awaited<ReturnType<typeof client.calls>>;

function windowCalls(where: Place, from: number, limit: number): Call[] {
  const accountId = account.value;
  const calls: Call[] = [
    ["Email/query", {
      accountId, filter: filterOf(where), sort: sortOf(where.view, hasPins.peek() && !where.search),
      collapseThreads: byThread.value && !where.search, position: from, limit, calculateTotal: true,
    }, `q${from}`],
    ["Email/get", { accountId, "#ids": ref(`q${from}`, "Email/query", "/ids"), properties: rowProperties }, `g${from}`],
    ["Thread/get", { accountId, "#ids": ref(`g${from}`, "Email/get", "/list/*/threadId") }, `t${from}`],
  ];
  if (where.search) calls.push(["SearchSnippet/get", { accountId, filter: filterOf(where), "#emailIds": ref(`q${from}`, "Email/query", "/ids") }, `s${from}`]);
  if (where.search && from === 0) calls.push(parseCall(accountId, where.search, "p"));
  return calls;
}

/** A window as it is shown behind the ids before it. */
function windowOf(answers: Answers, from: number, gone: Set<Id>, before: Set<Id | undefined>): Window {
  const answer = answers.get(`q${from}`)!;
  const found = answer["ids"] as Id[];
  const whole = answer["total"] as number;
  const shown = found.filter((id) => !gone.has(id) && !before.has(id));
  const ids = shown.slice(0, windowSize);
  const isEnd = gone.size > 0 && from + found.length >= whole && (found.length > 0 || from === 0);
  const least = found.length > 0 ? from + ids.length : 0;
  const isShort = ids.length < windowSize && from + found.length < whole;
  return { from, ids, isEnd, isShort, total: isEnd ? from + shown.length : Math.max(least, whole - (gone.size > mostGone ? gone.size : 0)) };
}

/**
 * Shows windows that were read, all at once: no row is drawn where it was while others are where they are now. before: the total that was
 * shown when they were asked for.
 */
function takeWindows(where: Place, froms: number[], { answers, gone, since }: Read, moved: boolean, before: number): void {
  const known = list.value.mailbox === where.mailbox && list.value.search === where.search && list.value.view === where.view ? list.value.ids : [];
  const at = new Map<number, Id>();
  const windows = froms.map((from) => {
    // While messages are removed that the server still has, its window begins with rows that are shown before it.
    const ahead = new Set<Id | undefined>(at.values());
    for (let i = from - gone.size; i < from; i++) ahead.add(at.get(i) ?? known[i]);
    const w = windowOf(answers, from, gone, ahead);
    w.ids.forEach((id, i) => at.set(from + i, id));
    return w;
  });
  const whole = Math.max(...froms.map((from) => answers.get(`q${from}`)!["total"] as number));
  const removed = [...gone].join();
  // Only the end of a list tells how many of the removed messages are in it: other windows keep its total until something changes.
  const isSame = answered === where && last.whole === whole && last.removed === removed && last.total === list.value.total;
  const total = windows.find((w) => w.isEnd)?.total ?? (isSame && gone.size > 0 ? list.value.total : Math.max(...windows.map((w) => w.total)));
  const isRead = (i: number) => windows.some((w) => i >= w.from && i < w.from + windowSize);
  const forget = moved || (!isSame && total !== before);
  // These ids have moved here from other positions.
  const here = new Set(at.values());
  answered = where;
  const short = windows.flatMap((w) => (w.isShort ? w.from : []));
  last = { whole, removed, total, short: new Set(isSame && !forget ? [...last.short, ...short] : short) };
  batch(() => {
    for (const w of windows) {
      takeRows(answers.get(`g${w.from}`)!["list"] as Row[], since);
      takeThreads(answers.get(`t${w.from}`)!["list"] as { id: Id; emailIds: Id[] }[]);
    }
    const next = Array.from({ length: total }, (_, i) => {
      if (isRead(i)) return at.get(i);
      const id = forget ? undefined : known[i];
      return id && here.has(id) ? undefined : id;
    });
    if (answers.has("p")) understood.value = answers.get("p") as Understood;
    const snippets = new Map(list.value.snippets);
    for (const w of windows) for (const s of (answers.get(`s${w.from}`)?.["list"] as Snippet[] | undefined) ?? []) snippets.set(s.emailId, s);
    list.value = { ...where, ids: next, total, snippets, state: "ready" };
    for (const w of windows) forgetFar(w.from);
  });
  if (where.search) return;
  if (byThread.value) void readMembers([...here]).catch(() => undefined);
  if (!where.view && windows.some((w) => w.from === 0)) void keep(where);
}

/** Shows kept rows, because the server does not answer; a search looks through them. */
async function showKept(where: Place): Promise<void> {
  list.value = { ...list.value, state: "offline" };
  if (!where.search) return;
  const { searchKept } = await import("./keptsearch");
  const found = await searchKept(where.search);
  if (place.value !== where) return;
  batch(() => {
    understood.value = found.understood;
    list.value = { ...where, ids: found.ids, total: found.ids.length, snippets: new Map(), state: "offline" };
  });
}

// Any answer may be the first one after that: a list that could not be read is read then.
reachable.subscribe((is) => { if (is && list.peek().state === "offline") void loadWindows(inSight(), () => false, true); });

/** Reads the rows of conversations that lie in other folders: with them it is known how many messages there are, each once. */
async function readMembers(heads: Id[]): Promise<void> {
  const missing = [...new Set(heads.flatMap(threadOf))].filter((id) => !rows.value.has(id));
  for (let i = 0; i < missing.length; i += mostAtOnce) {
    await attempt(() => fetchRows(missing.slice(i, i + mostAtOnce)));
  }
}

/** Messages that the person took away from a place, of which the server has not heard yet. */
function takenAway(where: Place): Set<Id> {
  const gone = new Set<Id>();
  for (const i of waiting.value) {
    if (i.kind !== "change") continue;
    for (const id of i.destroy) gone.add(id);
    for (const [id, patch] of Object.entries(i.update)) {
      if (leaves(patch, where.view)) gone.add(id);
      const boxes = patch["mailboxIds"] as Record<Id, boolean> | undefined;
      if ((boxes && !boxes[where.mailbox] && !where.search) || patch[`mailboxIds/${where.mailbox}`] === null) gone.add(id);
    }
  }
  return gone;
}

/** Rows that the browser keeps for offline work: they stay in memory too. */
const lasting = new Set<Id>();

/** Keeps rows in memory that the browser keeps. */
export function stay(ids: Id[]): void {
  for (const id of ids) lasting.add(id);
}

/** Drops rows far from the shown ones and from the window just read: a list may have any length. */
function forgetFar(read: number): void {
  if (rows.value.size - lasting.size < rowsInMemory) return;
  const stay = new Set([...lasting, ...selected.value, ...messages.value.keys()]);
  if (reading.value) stay.add(reading.value);
  const near = (i: number, at: number) => Math.abs(i - at) <= nearby;
  list.value.ids.forEach((id, i) => {
    if (id && (i < kept || near(i, inView.from) || near(i, read))) stay.add(id);
  });
  const nextThreads = new Map<Id, Id[]>();
  for (const id of [...stay]) {
    const of = rows.value.get(id)?.threadId ?? "";
    const all = threads.value.get(of);
    if (!all) continue;
    nextThreads.set(of, all);
    all.forEach((x) => stay.add(x));
  }
  const nextRows = new Map([...rows.value].filter(([id]) => stay.has(id)));
  rows.value = nextRows;
  threads.value = nextThreads;
  // A short window that loses rows is to be read again.
  list.value.ids.forEach((id, i) => { if (id && !nextRows.has(id)) last.short.delete(startOf(i)); });
  list.value = {
    ...list.value, ids: list.value.ids.map((id) => (id && nextRows.has(id) ? id : undefined)),
    snippets: new Map([...list.value.snippets].filter(([id]) => nextRows.has(id))),
  };
}

/** Keeps the beginning of a folder for offline work, and the bodies of its newest messages. */
async function keep(where: Place): Promise<void> {
  const ids = list.value.ids.slice(0, kept).filter((id): id is Id => !!id);
  stay(ids);
  await db.put("lists", `${account.value}:${where.mailbox}`, ids);
  await db.putAll("rows", ids.flatMap((id) => (rows.value.has(id) ? [[id, rows.value.get(id)] as [Id, Row]] : [])));
  const have = new Set((await db.keys("messages")) ?? []);
  const missing = ids.slice(0, keptBodies).filter((id) => !have.has(id) && (rows.value.get(id)?.size ?? 0) < 500_000);
  for (let i = 0; i < missing.length; i += 10) {
    if (place.value !== where || !online.value) return;
    const next = missing.slice(i, i + 10).filter((id) => !messages.value.has(id)); // opened meanwhile
    await attempt(() => fetchMessages(next)).catch(() => undefined);
  }
  await trim();
}

/** The numbers of rows and messages in the browser beside those of the kept beginnings of folders: what was read last stays a while. */
const beside = { rows: 2000, messages: 500 };

/** Drops copies beyond these numbers, those with the lowest ids first. */
async function trim(): Promise<void> {
  const stay = new Set(((await db.all<Id[]>("lists")) ?? []).flat());
  for (const store of ["rows", "messages"] as const) {
    const others = ((await db.keys(store)) ?? []).filter((id) => !stay.has(String(id)));
    await db.remove(store, ...others.slice(0, Math.max(0, others.length - beside[store])));
  }
}

/** The windows that are kept up to date: the first, and those that are shown. */
export function inSight(): number[] {
  const out = [0];
  const end = Math.min(inView.to, list.value.total);
  for (let at = Math.max(windowSize, startOf(inView.from)); at < end; at += windowSize) out.push(at);
  return out;
}
