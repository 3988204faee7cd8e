// Folders, lists and messages as the screen shows them: read from the server in windows, kept in the
// browser, brought up to date by pushes, and changed at once where the person changes them.

import { batch, computed, signal } from "@preact/signals";
import { ref, Refused, type States } from "../jmap/client";
import { messageProperties, rowProperties } from "../jmap/types";
import type { Call, Filter, Id, Identity, Mailbox, Message, Part, Quota, Row, Snippet } from "../jmap/types";
import { briefs, type Brief } from "./briefs";
import * as db from "./db";
import { withWaiting } from "./folders";
import { answerPatch, asking, flush, intend, load as loadOutbox, onDone, telling, waiting, type Change, type Intention } from "./outbox";
import { account, attempt, client, home, online, phase } from "./session";
import { parseCall, searchFilter, understood, type Understood } from "./search";
import { readOwn, takeOwn } from "./own";
import { reading, selected } from "./screen";
import { hasPins, pin, sortOf, within } from "./view";

export const mailboxes = signal<Map<Id, Mailbox>>(new Map());
export const rows = signal<Map<Id, Row>>(new Map());
export const threads = signal<Map<Id, Id[]>>(new Map());
export const messages = signal<Map<Id, Message>>(new Map());
export const identities = signal<Identity[]>([]);
/** The folders of one's own account that writing needs. */
export const outgoing = signal<{ drafts: Id; sent: Id }>({ drafts: "", sent: "" });
export const quota = signal<Quota | null>(null);

/** What the list shows: a folder, or what is searched for in it (or everywhere). */
export interface Place {
  mailbox: Id;
  search: string;
  /** How it is filtered and sorted (view.ts). */
  view?: string;
}

export interface List extends Place {
  /** By position, without holes (filter would close them); undefined where the window was not read yet. */
  ids: (Id | undefined)[];
  total: number;
  snippets: Map<Id, Snippet>;
  state: "loading" | "ready" | "offline" | string;
}

export const place = signal<Place>({ mailbox: "", search: "" });
export const list = signal<List>({ mailbox: "", search: "", ids: [], total: 0, snippets: new Map(), state: "loading" });
export const byThread = signal(true);

/** How many entries a window has. */
export const windowSize = 60;
/** The positions that the list shows: what is near them stays in memory. */
export const inView = { from: 0, to: 0 };
/** How many rows are in memory before those are forgotten that are further than nearby positions from what is shown. */
const rowsInMemory = 2000;
const nearby = 600;
/** How many messages of a folder are kept for offline work, and for how many of them the bodies. */
const kept = 200;
const keptBodies = 50;

const states = { Email: "", Mailbox: "", Thread: "" };

export const sortedMailboxes = computed(() => {
  const rank = (m: Mailbox) => ["inbox", "snoozed", "drafts", "sent", "archive", "junk", "trash"].indexOf(m.role ?? "");
  return [...mailboxes.value.values()].sort((a, b) => {
    const x = rank(a) < 0 ? 99 : rank(a);
    const y = rank(b) < 0 ? 99 : rank(b);
    return x - y || a.sortOrder - b.sortOrder || a.name.localeCompare(b.name);
  });
});

export function byRole(role: string): Mailbox | undefined {
  for (const m of mailboxes.value.values()) if (m.role === role) return m;
  return undefined;
}

/** The path of a folder, "Projects / 2026". */
export function pathOf(m: Mailbox): string {
  const parent = m.parentId ? mailboxes.value.get(m.parentId) : undefined;
  return parent ? `${pathOf(parent)} / ${m.name}` : m.name;
}

/** Begins with an account: what the browser keeps first, then what the server says. named returns the place to begin with, if not the inbox. */
export async function openAccount(named: () => Place | undefined): Promise<void> {
  stop?.();
  await loadOutbox();
  await readOwn();
  const [folders, rowsKept, outgoingKept] = await Promise.all([db.get<Mailbox[]>("mailboxes", account.value), db.all<Row>("rows"), db.get<{ drafts: Id; sent: Id }>("facts", "outgoing")]);
  batch(() => {
    if (outgoingKept && !outgoing.value.drafts) outgoing.value = outgoingKept;
    told = new Map((folders ?? []).map((m) => [m.id, m]));
    mailboxes.value = withWaiting(told, account.value);
    rows.value = new Map((rowsKept ?? []).map((r) => [r.id, r]));
    rowsKept?.forEach((r) => lasting.add(r.id));
  });
  await attempt(async () => {
    const answers = await client.calls([
      ["Mailbox/get", { accountId: account.value, ids: null }, "m"],
      ["Identity/get", { accountId: home.value, ids: null }, "i"],
      ["Email/get", { accountId: account.value, ids: [] }, "e"],
      ["Mailbox/get", { accountId: home.value, ids: null, properties: ["role"] }, "h"],
      ["Email/query", { accountId: account.value, filter: { hasKeyword: pin }, limit: 1 }, "pins"],
      ["Preferences/get", { accountId: home.value, ids: null }, "own"],
    ]);
    await takeOwn(answers.get("own")!);
    hasPins.value = (answers.get("pins")!["ids"] as Id[]).length > 0;
    await findOutgoing(answers.get("h")!["list"] as { id: Id; role: string | null }[]);
    states.Mailbox = answers.get("m")!["state"] as string;
    states.Email = answers.get("e")!["state"] as string;
    identities.value = answers.get("i")!["list"] as Identity[];
    takeMailboxes(answers.get("m")!["list"] as Mailbox[]);
    await db.put("facts", "identities", identities.value);
  });
  if (identities.value.length === 0) identities.value = (await db.get<Identity[]>("facts", "identities")) ?? [];
  if (!mailboxes.value.has(place.value.mailbox)) {
    const inbox = byRole("inbox") ?? sortedMailboxes.value[0];
    const first = named() ?? (inbox && { mailbox: inbox.id, search: "" });
    if (first) place.value = first;
  }
  listen();
  void readQuota();
}

/** Finds the folders that writing needs, and creates the missing ones; and Trash, without which deleting is for good. */
async function findOutgoing(list: { id: Id; role: string | null }[]): Promise<void> {
  const of = (role: string) => list.find((m) => m.role === role)?.id;
  const make = Object.fromEntries([["drafts", "Drafts"], ["sent", "Sent"], ["trash", "Trash"]].filter(([role]) => !of(role!)).map(([role, name]) => [role!, { name, role, isSubscribed: true }]));
  let made: Record<string, { id: Id }> = {};
  if (Object.keys(make).length > 0) made = ((await client.call("Mailbox/set", { accountId: home.value, create: make }))["created"] as typeof made | null) ?? {};
  outgoing.value = { drafts: of("drafts") ?? made["drafts"]?.id ?? "", sent: of("sent") ?? made["sent"]?.id ?? "" };
  await db.put("facts", "outgoing", outgoing.value);
}

async function readQuota(): Promise<void> {
  await attempt(async () => {
    const answer = await client.call("Quota/get", { accountId: account.value, ids: null });
    quota.value = ((answer["list"] as Quota[]) ?? []).find((q) => q.resourceType === "octets") ?? null;
  }).catch(() => undefined); // a server without quotas
}

/** The folders as the server has told them. */
let told = new Map<Id, Mailbox>();

function takeMailboxes(list: Mailbox[]): void {
  told = new Map(list.map((m) => [m.id, m]));
  mailboxes.value = withWaiting(told, account.value);
  void db.put("mailboxes", account.value, list);
}

/** Takes the changes of folders, or all of them where the server could not tell what changed. */
function takeFolders(answers: Answers): void {
  const all = answers.get("all");
  if (all) {
    states.Mailbox = all["state"] as string;
    takeMailboxes(all["list"] as Mailbox[]);
    return;
  }
  const boxes = answers.get("boxes")!;
  states.Mailbox = boxes["newState"] as string;
  if ([boxes["created"], boxes["updated"], boxes["destroyed"]].every((ids) => (ids as Id[]).length === 0)) return;
  const next = new Map(told);
  for (const id of boxes["destroyed"] as Id[]) next.delete(id);
  for (const m of answers.get("made")!["list"] as Mailbox[]) next.set(m.id, m);
  for (const m of answers.get("counts")!["list"] as Mailbox[]) {
    const was = next.get(m.id);
    if (was) next.set(m.id, { ...was, ...m });
  }
  takeMailboxes([...next.values()]);
}

let showing: AbortController | null = null;
/** The place whose list is one that the server answered. */
let answered: Place | null = null;

/** Shows a place: what is kept of it at once, then what the server says. */
export async function show(where: Place): Promise<void> {
  showing?.abort();
  showing = new AbortController();
  if (place.value.search !== where.search) understood.value = null;
  place.value = where;
  answered = null;
  const keptIds = where.search || where.view ? undefined : await db.get<Id[]>("lists", `${account.value}:${where.mailbox}`);
  if (place.value !== where || answered === where) return; // sync was quicker
  const gone = takenAway(where);
  const ids = (keptIds ?? []).filter((id) => !gone.has(id));
  list.value = { ...where, ids, total: ids.length, snippets: new Map(), state: "loading" };
  await loadWindow(0, true);
}

/** The condition of what a place shows. */
export function filterOf(where: Place): Filter {
  return within(where.search ? searchFilter(where.search) : { inMailbox: where.mailbox }, where.view);
}

const asked = new Set<string>();
/** So many windows are asked for at once: behind a scrollbar that is dragged lie hundreds that nobody looks at. */
const atOnce = 2;

/** Reads the window that position lies in; again reads it though it is there. */
export async function loadWindow(position: number, again = false): Promise<void> {
  const from = Math.floor(position / windowSize) * windowSize;
  if (!again && (asked.size >= atOnce || list.value.ids[position] !== undefined)) return;
  await loadWindows([from], () => false);
}

/** A window as the server answered it. */
interface Window {
  from: number;
  ids: Id[];
  total: number;
}

/**
 * Reads windows in one request, and shows them at once. Where moved tells that entries have come or gone, those of other
 * windows are not where they were: they are read again when they come into sight.
 */
async function loadWindows(froms: number[], moved: () => boolean): Promise<void> {
  const where = place.value;
  const keyOf = (from: number) => `${where.mailbox} ${where.search} ${where.view ?? ""} ${from}`;
  const list_ = froms.filter((from) => !asked.has(keyOf(from)));
  if (list_.length === 0) return;
  for (const from of list_) asked.add(keyOf(from));
  const total = list.value.total;
  try {
    const done = await attempt(async () => {
      const { answers, gone, since } = await readWindows(where, list_);
      if (place.value === where) takeWindows(where, list_.map((from) => windowOf(answers, from, gone)), answers, since, (now) => moved() || now !== total);
      return true;
    });
    if (!done && place.value === where) await showKept(where);
  } catch (e) {
    if (e instanceof DOMException && e.name === "AbortError") return;
    if (place.value === where) list.value = { ...list.value, state: e instanceof Error ? e.message : String(e) };
  } finally {
    for (const from of list_) asked.delete(keyOf(from));
  }
}

/** How often e-mails were moved or destroyed. */
let moves = 0;
/** So often windows are read again that changed while they were read. */
const mostReads = 4;

/** Reads windows until the person moves nothing meanwhile: an older answer would bring back what was taken away. */
async function readWindows(where: Place, froms: number[]): Promise<{ answers: Answers; gone: Set<Id>; since: Change[] }> {
  for (let reads = 1; ; reads++) {
    const before = moves;
    const gone = takenAway(where);
    const { answer, since } = await asking(() => client.calls(froms.flatMap((from) => windowCalls(where, from, limitOf(gone))), showing?.signal));
    if (moves === before || reads === mostReads || place.value !== where) return { answers: answer, gone, since };
  }
}

/** How many e-mails that are taken away a window reads beyond: the server answers no more than some hundreds at once. */
const mostGone = 400;
const limitOf = (gone: Set<Id>) => windowSize + Math.min(gone.size, mostGone);

type Answers = Awaited<ReturnType<typeof client.calls>>;

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

function windowOf(answers: Answers, from: number, gone: Set<Id>): Window {
  const answer = answers.get(`q${from}`)!;
  const found = answer["ids"] as Id[];
  const ids = found.filter((id) => !gone.has(id)).slice(0, windowSize);
  const isEnd = gone.size > 0 && found.length < limitOf(gone) && (ids.length > 0 || from === 0);
  return { from, ids, total: isEnd ? from + ids.length : Math.max(from + ids.length, (answer["total"] as number) - (gone.size > mostGone ? gone.size : 0)) };
}

/** Shows windows that were read, all at once: no row is drawn where it was while others are where they are now. */
function takeWindows(where: Place, windows: Window[], answers: Answers, since: Change[], moved: (total: number) => boolean): void {
  const total = Math.max(...windows.map((w) => w.total));
  const at = new Map<number, Id>();
  for (const w of windows) w.ids.forEach((id, i) => at.set(w.from + i, id));
  const isRead = (i: number) => windows.some((w) => i >= w.from && i < w.from + windowSize);
  // What stood elsewhere has moved here.
  const here = new Set(at.values());
  const known = list.value.mailbox === where.mailbox && list.value.search === where.search && list.value.view === where.view ? list.value.ids : [];
  answered = where;
  batch(() => {
    for (const w of windows) {
      takeRows(answers.get(`g${w.from}`)!["list"] as Row[], since);
      takeThreads(answers.get(`t${w.from}`)!["list"] as { id: Id; emailIds: Id[] }[]);
    }
    const forget = moved(total);
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

/** The server does not answer: a folder shows what is kept of it, a search finds in what is kept. */
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

/** Reads the rows of conversations that lie in other folders: with them it is known how many messages there are, each once. */
async function readMembers(heads: Id[]): Promise<void> {
  const missing = [...new Set(heads.flatMap(threadOf))].filter((id) => !rows.value.has(id));
  for (let i = 0; i < missing.length; i += piece) {
    await attempt(() => fetchRows(missing.slice(i, i + piece)));
  }
}

/** What the person took away stays away, though the server was not told yet. */
function takenAway(where: Place): Set<Id> {
  const gone = new Set<Id>();
  for (const i of waiting.value) {
    if (i.kind !== "change") continue;
    for (const id of i.destroy) gone.add(id);
    for (const [id, patch] of Object.entries(i.update)) {
      const boxes = patch["mailboxIds"] as Record<Id, boolean> | undefined;
      if ((boxes && !boxes[where.mailbox] && !where.search) || patch[`mailboxIds/${where.mailbox}`] === null) gone.add(id);
    }
  }
  return gone;
}

/** Rows that the browser keeps for offline work: they stay in memory too. */
const lasting = new Set<Id>();

/** Forgets rows that are far from what is looked at, and from the window that was just read: a list may have any length. */
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
  list.value = {
    ...list.value, ids: list.value.ids.map((id) => (id && nextRows.has(id) ? id : undefined)),
    snippets: new Map([...list.value.snippets].filter(([id]) => nextRows.has(id))),
  };
}

/** Takes rows as the server answered them, with the changes of which the answer may not know. */
function takeRows(list: Row[], since: Change[]): void {
  const next = new Map(rows.value);
  for (const r of list) next.set(r.id, since.reduce((out, c) => (c.update[r.id] ? patched(out, c.update[r.id]!) : out), r));
  rows.value = next;
}

/** Reads the row of an e-mail that no list brought; false: there is none, or the server was not reached. */
export async function readRow(id: Id): Promise<boolean> {
  if (!rows.value.has(id)) {
    await attempt(() => fetchRows([id]));
  }
  return rows.value.has(id);
}

async function fetchRows(ids: Id[]): Promise<void> {
  const { answer, since } = await asking(() => client.call("Email/get", { accountId: account.value, ids, properties: rowProperties }));
  takeRows(answer["list"] as Row[], since);
}

function takeThreads(list: { id: Id; emailIds: Id[] }[]): void {
  const next = new Map(threads.value);
  for (const t of list) next.set(t.id, t.emailIds);
  threads.value = next;
}

/** Keeps the beginning of a folder for offline work, and the bodies of its newest messages. */
async function keep(where: Place): Promise<void> {
  const ids = list.value.ids.slice(0, kept).filter((id): id is Id => !!id);
  ids.forEach((id) => lasting.add(id));
  await db.put("lists", `${account.value}:${where.mailbox}`, ids);
  await db.putAll("rows", ids.flatMap((id) => (rows.value.has(id) ? [[id, rows.value.get(id)] as [Id, Row]] : [])));
  const have = new Set((await db.keys("messages")) ?? []);
  const missing = ids.slice(0, keptBodies).filter((id) => !have.has(id) && (rows.value.get(id)?.size ?? 0) < 500_000);
  for (let i = 0; i < missing.length; i += 10) {
    if (place.value !== where || !online.value) return;
    await attempt(() => fetchMessages(missing.slice(i, i + 10))).catch(() => undefined);
  }
}

async function fetchMessages(ids: Id[]): Promise<Message[]> {
  const answer = await client.call("Email/get", {
    accountId: account.value, ids, properties: messageProperties, fetchHTMLBodyValues: true, fetchTextBodyValues: true, maxBodyValueBytes: 2_000_000,
  });
  const got = answer["list"] as Message[];
  await db.putAll("messages", got.map((m) => [m.id, m]));
  return got;
}

/** The whole text of a part: what came with its message is cut where it is long. */
export async function readPart(p: Part): Promise<string> {
  const answer = await client.fetch(client.blobURL(account.value, p.blobId!, p.type, "text"));
  if (!answer.ok) throw new Refused(String(answer.status), answer.statusText);
  const bytes = await answer.arrayBuffer();
  // UTF-8 that nobody named, or called ASCII, is read as the server reads it.
  let decoder = new TextDecoder();
  try {
    if (p.charset && !/^us-ascii$/iu.test(p.charset)) decoder = new TextDecoder(p.charset);
  } catch {
    // a charset that no browser knows
  }
  return decoder.decode(bytes).replaceAll("\r\n", "\n");
}

/** How many whole messages stay in memory. */
const inMemory = 200;

/** Reads messages whole: from memory, from what the browser keeps, or from the server. */
export async function readMessages(ids: Id[]): Promise<void> {
  const missing: Id[] = [];
  const found: Message[] = [];
  for (const id of ids) {
    if (messages.value.has(id)) continue;
    const m = await db.get<Message>("messages", id);
    if (m) found.push(m);
    else missing.push(id);
  }
  if (missing.length > 0) found.push(...((await attempt(() => fetchMessages(missing))) ?? []));
  if (found.length === 0) return;
  const next = new Map(messages.value);
  for (const m of found) next.set(m.id, m);
  for (const id of next.keys()) {
    if (next.size <= inMemory) break;
    if (!ids.includes(id)) next.delete(id);
  }
  messages.value = next;
}

/** The e-mails of a thread, oldest first; alone where threads are off. */
export function threadOf(id: Id): Id[] {
  const row = rows.value.get(id);
  const all = row && byThread.value ? threads.value.get(row.threadId) : undefined;
  return all && all.includes(id) ? all : [id];
}

/**
 * The e-mails of a conversation with each message once: who writes to a group that they are in has it as it was sent and as it
 * came. The one that is asked for is shown, else the one of the folder that is looked at, else the one that came.
 */
export function onceEach(ids: Id[], asked: Id): Id[] {
  const sent = byRole("sent")?.id ?? "";
  const rank = (id: Id) => {
    const boxes = rows.value.get(id)?.mailboxIds ?? {};
    return id === asked ? 3 : boxes[place.value.mailbox] ? 2 : boxes[sent] ? 0 : 1;
  };
  const best = new Map<string, Id>();
  for (const id of ids) {
    const key = rows.value.get(id)?.messageId?.[0] ?? id;
    const other = best.get(key);
    if (other === undefined || rank(id) > rank(other)) best.set(key, id);
  }
  return [...best.values()];
}

export async function readThread(id: Id): Promise<Id[]> {
  const row = rows.value.get(id);
  if (row && byThread.value && !threads.value.get(row.threadId)) {
    await attempt(async () => {
      const answers = await client.calls([["Thread/get", { accountId: account.value, ids: [row.threadId] }, "t"]]);
      takeThreads(answers.get("t")!["list"] as { id: Id; emailIds: Id[] }[]);
    });
  }
  const ids = threadOf(id);
  const missing = ids.filter((i) => !rows.value.has(i));
  if (missing.length > 0) await attempt(() => fetchRows(missing));
  return ids;
}

function patched<T extends Brief>(r: T, patch: Record<string, unknown>): T {
  const out = { ...r, keywords: { ...r.keywords }, mailboxIds: { ...r.mailboxIds } };
  for (const [path, value] of Object.entries(patch)) {
    const [what, key] = path.split("/") as ["keywords" | "mailboxIds", string | undefined];
    if (what !== "keywords" && what !== "mailboxIds") continue;
    if (key === undefined) out[what] = { ...(value as Record<string, boolean>) };
    else if (value === null) delete out[what][key];
    else out[what][key] = true;
  }
  return out;
}

/** Changes e-mails: on the screen at once, at the server as soon as it answers. */
export async function change(update: Record<Id, Record<string, unknown>>, destroy: Id[] = []): Promise<void> {
  if (destroy.length > 0 || Object.values(update).some((patch) => Object.keys(patch).some((k) => k.startsWith("mailboxIds")))) moves++;
  const counts = new Map<Id, { total: number; unread: number }>();
  const count = (row: Brief, by: number) => {
    for (const box of Object.keys(row.mailboxIds)) {
      const c = counts.get(box) ?? { total: 0, unread: 0 };
      c.total += by;
      if (!row.keywords["$seen"] && !row.keywords["$draft"]) c.unread += by;
      counts.set(box, c);
    }
  };
  batch(() => {
    const nextRows = new Map(rows.value);
    const nextMessages = new Map(messages.value);
    for (const [id, patch] of Object.entries(update)) {
      const row = nextRows.get(id);
      const brief = row ? undefined : briefs.get(id);
      if (brief) {
        const after = patched(brief, patch);
        count(brief, -1);
        count(after, 1);
        briefs.set(id, after);
      }
      if (!row) continue;
      count(row, -1);
      const after = patched(row, patch);
      count(after, 1);
      nextRows.set(id, after);
      const m = nextMessages.get(id);
      if (m) nextMessages.set(id, patched(m, patch));
    }
    for (const id of destroy) {
      const row = nextRows.get(id) ?? briefs.get(id);
      if (row) count(row, -1);
    }
    rows.value = nextRows;
    messages.value = nextMessages;
    const where = place.value;
    const ended = new Set(destroy);
    const stays = (id: Id | undefined) =>
      !id || (!ended.has(id) && (where.search !== "" || !update[id] || !!nextRows.get(id)?.mailboxIds[where.mailbox]));
    const ids = list.value.ids.filter(stays);
    list.value = { ...list.value, ids, total: list.value.total - (list.value.ids.length - ids.length) };
    const boxes = new Map(mailboxes.value);
    for (const [id, c] of counts) {
      const m = boxes.get(id);
      if (m) boxes.set(id, { ...m, totalEmails: Math.max(0, m.totalEmails + c.total), unreadEmails: Math.max(0, m.unreadEmails + c.unread) });
    }
    mailboxes.value = boxes;
  });
  const touched = [...Object.keys(update)].flatMap((id) => (rows.value.has(id) ? [[id, rows.value.get(id)] as [Id, Row]] : []));
  // In pieces that a server takes at once. They wait from the moment in which the screen shows them: a list that is read meanwhile
  // knows of them.
  const updates = Object.entries(update);
  const intended: Promise<unknown>[] = [];
  for (let i = 0; i === 0 || i < Math.max(updates.length, destroy.length); i += piece) {
    intended.push(intend({ kind: "change", account: account.value, update: Object.fromEntries(updates.slice(i, i + piece)), destroy: destroy.slice(i, i + piece) }));
  }
  await db.putAll("rows", touched);
  await Promise.all(intended);
}

/** How many e-mails are changed in one call: no more than any server takes. */
const piece = 250;

let stop: (() => void) | null = null;
let syncing = false;
let syncAgain = false;

function listen(): void {
  if (!client.session) return;
  stop = client.listen(
    ["Mailbox", "Email", "EmailDelivery"],
    hear,
    (up) => {
      // Its end may be that of the server: the next answer, a mate's maybe, tells.
      if (!up && online.value) {
        online.value = false;
        void sync().then(flush);
      } else if (up) void sync().then(flush);
    },
  );
  onDone((of) => (of === account.value && states.Email ? syncCalls(of) : []), settled);
}

/** How often a server that does not answer is asked again, in milliseconds. */
const retryPause = 4000;
let retry: ReturnType<typeof setInterval> | undefined;
online.subscribe((is) => {
  clearInterval(retry);
  if (!is) retry = setInterval(() => void sync().then(flush), retryPause);
});

/** Brings what is shown up to date with the server. */
export const sync = () => catchUp();

/** Brings what is shown up to date; known is what the server answered already. */
async function catchUp(known?: Changes): Promise<void> {
  if (phase.value !== "in") return;
  if (syncing) {
    syncAgain = true;
    return;
  }
  syncing = true;
  try {
    await attempt(() => syncOnce(known));
    while (syncAgain) {
      syncAgain = false;
      await attempt(() => syncOnce());
    }
  } finally {
    syncing = false;
  }
}

/** Told when mail came that was not there before. */
export let arrived: (list: Row[]) => void = () => undefined;
export function onArrival(fn: (list: Row[]) => void): void {
  arrived = fn;
}

/** The calls that ask for what changed since the known states: folders, most often their counts alone, and e-mails. */
function syncCalls(accountId: Id): Call[] {
  return [
    ["Mailbox/changes", { accountId, sinceState: states.Mailbox }, "boxes"],
    ["Mailbox/get", { accountId, "#ids": ref("boxes", "Mailbox/changes", "/created") }, "made"],
    ["Mailbox/get", { accountId, "#ids": ref("boxes", "Mailbox/changes", "/updated"), "#properties": ref("boxes", "Mailbox/changes", "/updatedProperties") }, "counts"],
    ["Email/changes", { accountId, sinceState: states.Email, maxChanges: 500 }, "changes"],
  ];
}

/** What was answered to syncCalls; whether all that changed is what the person did, who sees it already; whether lists may be others. */
interface Changes {
  answers: Answers;
  own: boolean;
  lists: boolean;
}

async function askChanges(): Promise<Changes> {
  try {
    return { answers: await client.calls(syncCalls(account.value)), own: false, lists: true };
  } catch (e) {
    if (!(e instanceof Refused) || e.type !== "cannotCalculateChanges") throw e;
    return { answers: await startAnew(account.value), own: false, lists: true };
  }
}

/** What the server refused is on the screen again as the server has it. */
function undo(i: Intention): void {
  mailboxes.value = withWaiting(told, account.value);
  if (i.kind !== "change" || i.account !== account.value) return;
  const shown = Object.keys(i.update).filter((id) => rows.value.has(id));
  if (shown.length > 0) void attempt(() => fetchRows(shown)).catch(() => undefined); // sync reads the list in any case
}

/** Takes what was answered beside a change, if it tells what changed since the known state; else that is asked. null: it was refused. */
function settled(i: Intention, answers: Answers | null): void {
  if (!answers) undo(i);
  const row = answers && i.kind === "answer" && i.account === account.value ? rows.value.get(i.email) : undefined;
  if (row && i.kind === "answer") rows.value = new Map(rows.value).set(row.id, patched(row, answerPatch(i.answer)));
  const set = answers?.get("set"), changes = answers?.get("changes");
  const heard = unheeded;
  unheeded = null;
  if (i.kind !== "change" || i.account !== account.value || syncing || !changes || changes["oldState"] !== states.Email) return void sync();
  const alone = set!["oldState"] === states.Email && set!["newState"] === changes["newState"] && !changes["hasMoreChanges"] && changes["created"].length === 0;
  const own = alone && (changes["updated"] as Id[]).every((id) => id in i.update) && (changes["destroyed"] as Id[]).every((id) => i.destroy.includes(id));
  const flags = i.destroy.length === 0 && Object.values(i.update).every((patch) => Object.keys(patch).every((k) => k.startsWith("keywords/") && k !== `keywords/${pin}`));
  void catchUp({ answers: answers!, own, lists: !own || !flags || place.value.search !== "" }).then(() => {
    if (heard && news(heard)) return sync();
  });
}

/** What was pushed while a change was being told, which may be what it is about. */
let unheeded: States | null = null;

/** Reports whether a push tells of a state of the account that is not known. */
function news(pushed: States): boolean {
  const { Email, Mailbox } = pushed[account.value] ?? {};
  return (Email !== undefined && Email !== states.Email) || (Mailbox !== undefined && Mailbox !== states.Mailbox);
}

function hear(pushed: States): void {
  if (telling()) unheeded = { ...unheeded, ...pushed };
  else if (news(pushed)) void sync();
}

async function syncOnce(known?: Changes): Promise<void> {
  const accountId = account.value;
  let { answers, own, lists } = known ?? await askChanges();
  const where = place.value;
  const isHere = (id: Id) => !!rows.value.get(id)?.mailboxIds[where.mailbox];
  let created: Id[] = [];
  let moved = false;
  for (;;) {
    if (account.value !== accountId) return; // another one was opened meanwhile
    takeFolders(answers);
    const changes = answers.get("changes")!;
    const came = changes["created"] as Id[];
    const updated = own ? [] : [...came, ...(changes["updated"] as Id[]).filter((id) => rows.value.has(id))];
    created = created.concat(came);
    const were = updated.filter(isHere);
    if (updated.length > 0) {
      const { answer, since } = await asking(() => client.calls([
        ["Email/get", { accountId, ids: updated, properties: rowProperties }, "g"],
        ["Thread/get", { accountId, "#ids": ref("g", "Email/get", "/list/*/threadId") }, "t"],
      ]));
      if (account.value !== accountId) return;
      takeRows(answer.get("g")!["list"] as Row[], since);
      takeThreads(answer.get("t")!["list"] as { id: Id; emailIds: Id[] }[]);
    }
    moved ||= updated.filter(isHere).join() !== were.join();
    forget(changes["destroyed"] as Id[]);
    states.Email = changes["newState"] as string;
    if (!changes["hasMoreChanges"] && !answers.get("boxes")?.["hasMoreChanges"]) break;
    ({ answers, own, lists } = await askChanges());
  }
  const inbox = byRole("inbox")?.id;
  const fresh = created.flatMap((id) => rows.value.get(id) ?? []).filter((r) => inbox && r.mailboxIds[inbox] && !r.keywords["$seen"]);
  if (fresh.length > 0) arrived(fresh);
  if (lists || list.value.state !== "ready") await loadWindows(inSight(), () => moved && place.value === where);
}

/** The windows that are kept up to date: the first, and those that are shown. */
function inSight(): number[] {
  const out = [0];
  const end = Math.min(inView.to, list.value.total);
  for (let at = Math.max(windowSize, Math.floor(inView.from / windowSize) * windowSize); at < end; at += windowSize) out.push(at);
  return out;
}

/** The server cannot tell what changed: what is in memory is forgotten, lists are read anew. */
async function startAnew(accountId: Id): Promise<Answers> {
  const answers = await client.calls([["Mailbox/get", { accountId, ids: null }, "all"], ["Email/get", { accountId, ids: [] }, "e"]]);
  batch(() => {
    messages.value = new Map();
    threads.value = new Map();
    list.value = { ...list.value, ids: list.value.ids.map((id, i) => (i < windowSize ? id : undefined)) };
  });
  return answers.set("changes", { created: [], updated: [], destroyed: [], newState: answers.get("e")!["state"], hasMoreChanges: false });
}

function forget(destroyed: Id[]): void {
  if (destroyed.length === 0) return;
  batch(() => {
    const nextRows = new Map(rows.value);
    const nextMessages = new Map(messages.value);
    for (const id of destroyed) {
      nextRows.delete(id);
      nextMessages.delete(id);
    }
    rows.value = nextRows;
    messages.value = nextMessages;
  });
  void db.remove("rows", ...destroyed);
  void db.remove("messages", ...destroyed);
}
