// Messages, their rows and conversations in memory.

import { batch, signal } from "@preact/signals";
import { Refused } from "../jmap/client";
import { messageProperties, rowProperties } from "../jmap/types";
import type { Id, Message, Part, Row } from "../jmap/types";
import type { Brief } from "./briefs";
import * as db from "./db";
import { byRole } from "./mailboxes";
import { asking, type Change } from "./outbox";
import { byThread, place } from "./place";
import { account, attempt, client } from "./session";

export const rows = signal<Map<Id, Row>>(new Map());
export const threads = signal<Map<Id, Id[]>>(new Map());
export const messages = signal<Map<Id, Message>>(new Map());

/** Takes rows as the server answered them, with the changes of which the answer may not know. */
export function takeRows(list: Row[], since: Change[]): void {
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

export async function fetchRows(ids: Id[]): Promise<void> {
  const { answer, since } = await asking(() => client.call("Email/get", { accountId: account.value, ids, properties: rowProperties }));
  takeRows(answer["list"] as Row[], since);
}

export function takeThreads(list: { id: Id; emailIds: Id[] }[]): void {
  const next = new Map(threads.value);
  for (const t of list) next.set(t.id, t.emailIds);
  threads.value = next;
}

/** The messages that the server is being asked for. */
const underway = new Map<Id, Promise<Message[]>>();

/** Reads messages whole from the server, each once at a time, and keeps them in the browser. */
export async function fetchMessages(ids: Id[]): Promise<Message[]> {
  const fresh = ids.filter((id) => !underway.has(id));
  if (fresh.length > 0) {
    const asked = askFor(fresh).finally(() => fresh.forEach((id) => underway.delete(id)));
    for (const id of fresh) underway.set(id, asked);
  }
  const got = await Promise.all(new Set(ids.map((id) => underway.get(id)!)));
  return got.flat().filter((m) => ids.includes(m.id));
}

async function askFor(ids: Id[]): Promise<Message[]> {
  const answer = await client.call("Email/get", {
    accountId: account.value, ids, properties: messageProperties, fetchHTMLBodyValues: true, fetchTextBodyValues: true, maxBodyValueBytes: 2_000_000,
  });
  const got = answer["list"] as Message[];
  await db.putAll("messages", got.map((m) => [m.id, m]));
  return got;
}

/** Reads the whole text of a part: with its message, a long text comes cut. */
export async function readPart(p: Pick<Part, "blobId" | "type" | "charset">): Promise<string> {
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

/** The number of whole messages in memory. */
const inMemory = 200;

/** Reads messages whole: from memory, from what the browser keeps, or from the server. False: the server was asked and not reached. */
export async function readMessages(ids: Id[]): Promise<boolean> {
  const missing: Id[] = [];
  const found: Message[] = [];
  for (const id of ids) {
    if (messages.value.has(id)) continue;
    const m = await db.get<Message>("messages", id);
    if (m) found.push(m);
    else missing.push(id);
  }
  const got = missing.length > 0 ? await attempt(() => fetchMessages(missing)) : [];
  found.push(...(got ?? []));
  if (found.length === 0) return !!got;
  const next = new Map(messages.value);
  for (const m of found) next.set(m.id, m);
  for (const id of next.keys()) {
    if (next.size <= inMemory) break;
    if (!ids.includes(id)) next.delete(id);
  }
  messages.value = next;
  return !!got;
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

export function patched<T extends Brief>(r: T, patch: Record<string, unknown>): T {
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

export function forget(destroyed: Id[]): void {
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
