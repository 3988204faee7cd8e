// Opening the writer: for a new message, an answer, a forward, a draft, or a mailto: link. The writer itself
// is loaded when it is needed first.

import { signal } from "@preact/signals";
import { Offline, SignedOut } from "../jmap/client";
import * as db from "../state/db";
import type { Address, Id, Message } from "../jmap/types";
import { messages, readMessages, readPart } from "../state/messages";
import { identities, outgoing } from "../state/outgoing";
import { account, attempt, client, home } from "../state/session";
import { say } from "../state/screen";
import { fullDate, t } from "../text";

export interface Attached {
  blobId: Id;
  name: string;
  type: string;
  size: number;
  cid?: string;
}

export interface Draft {
  /** Of no other message that is written, in this page or another. */
  key: string;
  /** The Message-ID of the draft at the server, which stays the same as it changes: by it the address of the page names the message. */
  address: string;
  /** The e-mail of the draft at the server, if it is there. */
  id: Id | null;
  identity: Id;
  to: Address[];
  cc: Address[];
  bcc: Address[];
  subject: string;
  html: string;
  attachments: Attached[];
  inReplyTo: string[] | null;
  references: string[] | null;
  answered: { account: Id; id: Id; keyword: string } | null;
  /** After so many days the sender gets a reminder if nobody has answered; absent: never. */
  remind?: number;
  /** The table of the people who get the message apart, as text (state/table.ts); this browser keeps it. */
  table?: string;
}

export type Asked =
  | { kind: "new"; to?: Address[]; cc?: Address[]; bcc?: Address[]; subject?: string; text?: string }
  | { kind: "reply" | "replyAll" | "forward"; id: Id }
  | { kind: "draft"; id: Id };

export const writers = signal<Draft[]>([]);
/** The key of the writer that lies above the others: the one that was used last. */
export const frontWriter = signal("");

/** Functions that close a writer and keep its message, by its key. */
export const closers = new Map<string, () => Promise<void>>();
/** Writers that were left and are being saved; they are not shown. */
export const leaving = signal<Set<string>>(new Set());

/** Leaves a writer: what is written is kept as a draft. */
export async function leaveWriter(key: string): Promise<void> {
  leaving.value = new Set([...leaving.value, key]);
  await closers.get(key)?.();
  closeWriter(key);
  leaving.value = new Set([...leaving.value].filter((k) => k !== key));
}

const newAddress = () => `${crypto.randomUUID()}@${identities.value[0]?.email.split("@")[1] ?? "localhost"}`;

/** Opens the writer with the draft at the server that has a Message-ID; false: there is none. */
export async function writeDraft(address: string): Promise<boolean> {
  const found = await attempt(() => client.call("Email/query", {
    accountId: home.value, filter: { operator: "AND", conditions: [{ inMailbox: outgoing.value.drafts }, { header: ["Message-ID", address] }] }, limit: 1,
  }));
  const id = (found?.["ids"] as Id[] | undefined)?.[0];
  if (!id || account.value !== home.value) return false;
  await write({ kind: "draft", id });
  return writers.value.some((d) => d.id === id);
}

/** An unfinished message in this browser; saved: the server has all of it as the draft with its id. */
export interface Kept {
  draft: Draft;
  account: Id;
  at: number;
  saved: boolean;
}

/** Messages that were being written when a page ended, to be offered again. */
export const unfinished = signal<Kept[]>([]);

export const factOf = (key: string) => `writing:${key}`;
const lockOf = (key: string) => `doublet:writing:${key}`;

/** Keeps a message as it is written; false: the browser does not. */
export async function keepWriting(draft: Draft, saved: boolean): Promise<boolean> {
  const kept: Kept = { draft: { ...draft }, account: home.value, at: Date.now(), saved };
  return db.keep("facts", factOf(draft.key), kept);
}

/** Forgets it: it was sent, or discarded, or is a draft at the server. */
export async function forgetWriting(key: string): Promise<void> {
  unfinished.value = unfinished.value.filter((k) => k.draft.key !== key);
  await db.remove("facts", factOf(key));
}

/** Marks a message as written by this page, so that no other page offers it. The function returned ends that, as does the page's end. */
export function holdWriting(key: string): () => void {
  let release: () => void = () => undefined;
  const held = new Promise<void>((done) => (release = done));
  void navigator.locks?.request(lockOf(key), () => held).catch(() => undefined);
  return release;
}

/** Looks what was being written when a page ended, and offers it. */
export async function findUnfinished(): Promise<void> {
  const keys = ((await db.keys("facts")) ?? []).filter((k): k is string => typeof k === "string" && k.startsWith("writing:"));
  if (keys.length === 0) return;
  const held = new Set((await navigator.locks?.query().catch(() => undefined))?.held?.map((l) => l.name));
  const found: Kept[] = [];
  for (const k of keys) {
    const kept = await db.get<Kept>("facts", k);
    if (!kept?.draft || held.has(lockOf(kept.draft.key)) || kept.account !== home.value) continue;
    found.push(kept);
  }
  // A draft of the server that is there no more was sent or discarded elsewhere meanwhile.
  const ids = found.flatMap((k) => (k.saved && k.draft.id ? [k.draft.id] : []));
  let gone = new Set<Id>();
  if (ids.length > 0) {
    await client.call("Email/get", { accountId: home.value, ids, properties: ["id"] }).then(
      (answer) => (gone = new Set(answer["notFound"] as Id[])),
      (e: unknown) => { if (e instanceof SignedOut) throw e; },
    );
  }
  for (const k of found) if (k.saved && k.draft.id && gone.has(k.draft.id)) await forgetWriting(k.draft.key);
  unfinished.value = found.filter((k) => !(k.saved && k.draft.id && gone.has(k.draft.id))).sort((a, b) => b.at - a.at);
}

/** Goes on with what was being written. */
export function resume(k: Kept): void {
  unfinished.value = unfinished.value.filter((x) => x !== k);
  k.draft.address ||= newAddress();
  writers.value = [...writers.value, k.draft];
}

/** Opens the writer with what was given away to be sent, and is not. */
export function writeAgain(draft: Draft): void {
  void keepWriting(draft, false);
  writers.value = [...writers.value, draft];
}

const escaped = (s: string) => s.replaceAll("&", "&amp;").replaceAll("<", "&lt;").replaceAll(">", "&gt;").replaceAll('"', "&quot;");
export const textToHTML = (s: string) => s.split("\n").map((l) => `<p>${escaped(l)}</p>`).join("");

/** Makes foreign markup harmless; the part that does is loaded when it is needed first. */
async function harmless(html: string, picture?: (cid: string) => string | undefined): Promise<string> {
  const { safeHTML } = await import("./html");
  return safeHTML(html, false, picture).html;
}

async function signature(identity: Id): Promise<string> {
  const i = identities.value.find((x) => x.id === identity);
  if (!i) return "";
  const html = i.htmlSignature ? await harmless(i.htmlSignature) : i.textSignature ? textToHTML(i.textSignature) : "";
  return html && `<p></p><p>-- </p>${html}`;
}

const mine = () => new Set(identities.value.map((i) => i.email.toLowerCase()));

/** The text of a message as the editor takes it; pictures that it brings along are shown, and named by their part behind the "#". */
async function bodyOf(m: Message): Promise<string> {
  const picture = (cid: string) => {
    const part = m.attachments.find((a) => a.cid === cid && a.blobId);
    return part && `${client.blobURL(account.value, part.blobId!, part.type, part.name ?? "image")}#cid:${cid}`;
  };
  const html = m.htmlBody.map(async (p) => {
    const value = p.partId ? m.bodyValues[p.partId] : undefined;
    if (!value) return "";
    return (p.type === "text/html" ? await harmless(value.value, picture) : textToHTML(value.value)) + (value.isTruncated ? "<p>[…]</p>" : "");
  });
  return (await Promise.all(html)).join("");
}

/** A message with all of its text: a draft that is gone on with must lose nothing. */
async function whole(m: Message): Promise<Message> {
  const values = { ...m.bodyValues };
  for (const p of m.htmlBody) if (p.partId && p.blobId && values[p.partId]?.isTruncated) values[p.partId] = { ...values[p.partId]!, value: await readPart(p), isTruncated: false };
  return { ...m, bodyValues: values };
}

function filesOf(m: Message): Attached[] {
  return m.attachments.flatMap((p) => (p.blobId ? [{ blobId: p.blobId, name: p.name ?? (p.type === "message/rfc822" ? "message.eml" : "file"), type: p.type, size: p.size, ...(p.cid ? { cid: p.cid } : {}) }] : []));
}

/** Copies into one's own account what a message of somebody else's mail file brings along. */
async function copyFiles(d: Draft): Promise<void> {
  if (account.value === home.value || d.attachments.length === 0) return;
  const answer = await client.call("Blob/copy", { fromAccountId: account.value, accountId: home.value, blobIds: d.attachments.map((a) => a.blobId) });
  const copied = (answer["copied"] ?? {}) as Record<Id, Id>;
  for (const a of d.attachments) if (copied[a.blobId]) d.html = d.html.replaceAll(encodeURIComponent(a.blobId), encodeURIComponent(copied[a.blobId]!)).replaceAll(`/${encodeURIComponent(account.value)}/`, `/${encodeURIComponent(home.value)}/`);
  d.attachments = d.attachments.flatMap((a) => (copied[a.blobId] ? [{ ...a, blobId: copied[a.blobId]! }] : []));
}

const list = (a: Address[] | null) => (a ?? []).map((x) => (x.name ? `${x.name} <${x.email}>` : x.email)).join(", ");

function without(addresses: Address[], known: Set<string>): Address[] {
  return addresses.filter((a) => {
    const e = a.email.toLowerCase();
    if (known.has(e)) return false;
    known.add(e);
    return true;
  });
}

function prefixed(prefix: string, subject: string | null): string {
  const plain = (subject ?? "").replace(/^((re|aw|fwd?|wg|回复|转发)\s*:\s*)+/iu, "");
  return `${prefix}: ${plain}`;
}

/** Opens a writer. */
export async function write(asked: Asked): Promise<void> {
  const identity = identities.value[0]?.id ?? "";
  const draft: Draft = { key: crypto.randomUUID(), address: newAddress(), id: null, identity, to: [], cc: [], bcc: [], subject: "", html: "", attachments: [], inReplyTo: null, references: null, answered: null };
  if (asked.kind === "new") {
    Object.assign(draft, { to: asked.to ?? [], cc: asked.cc ?? [], bcc: asked.bcc ?? [], subject: asked.subject ?? "", html: (asked.text ? textToHTML(asked.text) : "<p></p>") + await signature(identity) });
  } else {
    await readMessages([asked.id]);
    const m = messages.value.get(asked.id);
    if (!m) return;
    try {
      if (asked.kind === "draft") await fromDraft(draft, await whole(m));
      else await answer(draft, m, asked.kind);
      await copyFiles(draft);
    } catch (e) {
      say(e instanceof Offline ? t("cannotReach") : t("refusedByServer", e instanceof Error ? e.message : ""));
      return;
    }
  }
  if (writers.value.some((d) => d.address === draft.address)) return; // it is written already
  writers.value = [...writers.value, draft];
}

async function fromDraft(d: Draft, m: Message): Promise<void> {
  Object.assign(d, {
    ...(account.value === home.value ? { id: m.id, address: m.messageId?.[0] ?? d.address } : {}), to: m.to ?? [], cc: m.cc ?? [], bcc: m.bcc ?? [], subject: m.subject ?? "", html: await bodyOf(m), inReplyTo: m.inReplyTo, references: m.references,
    identity: identities.value.find((i) => i.email.toLowerCase() === m.from?.[0]?.email.toLowerCase())?.id ?? d.identity,
    attachments: filesOf(m),
  });
}

async function answer(d: Draft, m: Message, kind: "reply" | "replyAll" | "forward"): Promise<void> {
  const own = mine();
  const received = [...(m.to ?? []), ...(m.cc ?? [])].find((a) => own.has(a.email.toLowerCase()));
  d.identity = identities.value.find((i) => i.email.toLowerCase() === received?.email.toLowerCase())?.id ?? d.identity;
  d.references = [...(m.references ?? m.inReplyTo ?? []), ...(m.messageId ?? [])].slice(-50);
  const who = list(m.from);
  if (kind === "forward") {
    d.subject = prefixed("Fwd", m.subject);
    d.attachments = filesOf(m);
    // A text too long to quote is attached as it is.
    if (m.htmlBody.some((p) => p.partId && m.bodyValues[p.partId]?.isTruncated)) d.attachments.push({ blobId: m.blobId, name: "message.eml", type: "message/rfc822", size: m.size });
    const head = [`${t("from")}: ${who}`, `${t("date")}: ${fullDate(m.sentAt ?? m.receivedAt)}`, `${t("subject")}: ${m.subject ?? ""}`, `${t("to")}: ${list(m.to)}`];
    d.html = `<p></p>${await signature(d.identity)}<p>---------- ${escaped(t("forwarded"))} ----------</p>${head.map((h) => `<p>${escaped(h)}</p>`).join("")}<p></p>${await bodyOf(m)}`;
    d.answered = { account: account.value, id: m.id, keyword: "$forwarded" };
    return;
  }
  d.subject = prefixed("Re", m.subject);
  d.inReplyTo = m.messageId;
  const sentByMe = (m.from ?? []).some((a) => own.has(a.email.toLowerCase()));
  const target = sentByMe ? (m.to ?? []) : (m.replyTo?.length ? m.replyTo : (m.from ?? []));
  const known = new Set<string>(sentByMe ? [] : own);
  d.to = without(target, known);
  if (d.to.length === 0) d.to = target;
  if (kind === "replyAll") d.cc = without([...(sentByMe ? [] : (m.to ?? [])), ...(m.cc ?? [])], new Set([...known, ...own]));
  d.html = `<p></p>${await signature(d.identity)}<p>${escaped(t("wrote", fullDate(m.sentAt ?? m.receivedAt), who))}</p><blockquote>${await bodyOf(m)}</blockquote>`;
  d.attachments = filesOf(m).filter((a) => a.cid && d.html.includes(`#cid:${a.cid}`));
  d.answered = { account: account.value, id: m.id, keyword: "$answered" };
}

/** Reads a mailto: link (RFC 6068); what it may not set is left out. */
export function mailto(link: string): Asked | undefined {
  const m = /^mailto:([^?]*)(?:\?(.*))?$/isu.exec(link);
  if (!m) return undefined;
  const decoded = (s: string) => {
    try {
      return decodeURIComponent(s);
    } catch {
      return s; // a "%" that stands for itself
    }
  };
  const addresses = (s: string) => s.split(",").map((a) => decoded(a).trim()).filter(Boolean).map((email) => ({ name: null, email }));
  const asked: Extract<Asked, { kind: "new" }> = { kind: "new", to: addresses(m[1] ?? "") };
  for (const part of (m[2] ?? "").split("&")) {
    const at = part.indexOf("=");
    const [name, value] = at < 0 ? [part, ""] : [part.slice(0, at), part.slice(at + 1)];
    switch (name?.toLowerCase()) {
      case "to": asked.to = [...asked.to!, ...addresses(value)]; break;
      case "cc": asked.cc = addresses(value); break;
      case "bcc": asked.bcc = addresses(value); break;
      case "subject": asked.subject = decoded(value).replace(/[\r\n]+/gu, " "); break;
      case "body": asked.text = decoded(value); break;
    }
  }
  return asked;
}

export function closeWriter(key: string): void {
  writers.value = writers.value.filter((d) => d.key !== key);
}
