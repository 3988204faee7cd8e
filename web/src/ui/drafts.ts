// The drafts with which writers begin: new ones, answers, forwards, and those of the server. Loaded when a writer is opened first.

import { Offline, SignedOut } from "../jmap/client";
import type { Address, Id, Message } from "../jmap/types";
import { messages, readMessages, readPart } from "../state/messages";
import { tableIn } from "../state/mergetable";
import { identities, outgoing } from "../state/outgoing";
import { say, typedAhead } from "../state/screen";
import { account, attempt, client, home, outdated, phase } from "../state/session";
import { fullDate, refusal, t } from "../text";
import { newAddress, resume, unfinished, write, writers, type Asked, type Attached, type Draft } from "./writing";

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

/** The e-mails of drafts that writers of this page saved anew, each with the one in its place: a list may have the older one for a while. */
export const replaced = new Map<Id, Id>();
/** The ends of writers that are closing, by their keys. */
export const closing = new Map<string, Promise<void>>();

/** The drafts that were asked for, until their writers are there: these take the keys that were typed ahead, and no others do. */
export const typedFor = new WeakSet<Draft>();

/** Returns the e-mail that a draft is now, once no writer that is closing saves it. */
async function newest(id: Id): Promise<Id> {
  const next = replaced.get(id);
  if (next) return newest(next);
  const end = closing.get(writers.value.find((d) => d.id === id)?.key ?? "");
  if (!end) return id;
  await end;
  return newest(id);
}

/** Opens the writer of the draft that is asked for; without one, the keys are those of the page again. */
export async function open(asked: Asked): Promise<void> {
  try {
    // A part that is not there any more is one of a client that the server had before.
    const isThere = await import("./writer").then(() => true, () => !(outdated.value = true));
    const draft = isThere ? await draftOf(asked) : undefined;
    if (!draft || writers.value.some((d) => d.address === draft.address)) return; // it cannot be made, or is written already
    typedFor.add(draft);
    writers.value = [...writers.value, draft];
  } finally {
    if (!writers.value.some((d) => typedFor.has(d))) typedAhead.writer = false;
  }
}

/** Opens the writer with the draft at the server that has a Message-ID, or says why not. False: there is none, or the page is outdated. */
export async function writeDraft(address: string): Promise<boolean> {
  let found;
  try {
    found = await attempt(() => client.call("Email/query", {
      accountId: home.value, filter: { operator: "AND", conditions: [{ inMailbox: outgoing.value.drafts }, { header: ["Message-ID", address] }] }, limit: 1,
    }));
  } catch (e) {
    say(refusal(e));
    return true;
  }
  const id = (found?.["ids"] as Id[] | undefined)?.[0];
  if (!id || account.value !== home.value) return false;
  await write({ kind: "draft", id });
  return !outdated.value || writers.value.some((d) => d.address === address);
}

/** Makes the draft that is asked for; undefined: it cannot be made, which the person is told, or another writer goes on with it. */
async function draftOf(asked: Asked): Promise<Draft | undefined> {
  if (asked.kind !== "draft") return told(await make(asked));
  const id = await newest(asked.id);
  const unsaved = () => unfinished.value.find((k) => k.draft.id === id);
  const here = unsaved();
  if (here) {
    typedFor.add(here.draft);
    return void resume(here);
  }
  const made = await make({ kind: "draft", id });
  // A writer that closed meanwhile may have changed it.
  return (await newest(id)) !== id || unsaved() ? draftOf(asked) : told(made);
}

/** Says why a draft was not made. */
const told = (made: Draft | string): Draft | undefined => (typeof made === "string" ? void (made && say(made)) : made);

/** Makes the draft that is asked for, or returns the reason why it cannot be made; "": the page asks to sign in again. */
async function make(asked: Asked): Promise<Draft | string> {
  const identity = identities.value[0]?.id ?? "";
  const draft: Draft = { key: crypto.randomUUID(), address: newAddress(), id: null, identity, to: [], cc: [], bcc: [], subject: "", html: "", attachments: [], inReplyTo: null, references: null, answered: null };
  if (asked.kind === "new") {
    Object.assign(draft, { to: asked.to ?? [], cc: asked.cc ?? [], bcc: asked.bcc ?? [], subject: asked.subject ?? "", html: (asked.text ? textToHTML(asked.text) : "<p></p>") + await signature(identity) });
  } else {
    try {
      const made = await attempt(async () => {
        const isReached = await readMessages([asked.id]);
        const m = messages.value.get(asked.id);
        if (!m && isReached) return t("messageGone");
        if (!m) throw phase.value === "in" ? new Offline() : new SignedOut();
        if (asked.kind === "draft") await fromDraft(draft, await whole(m));
        else await answer(draft, m, asked.kind);
        await copyFiles(draft);
        return draft;
      });
      return made ?? (phase.value === "in" ? t("cannotReach") : "");
    } catch (e) {
      return refusal(e);
    }
  }
  return draft;
}

async function fromDraft(d: Draft, m: Message): Promise<void> {
  Object.assign(d, {
    ...(account.value === home.value ? { id: m.id, address: m.messageId?.[0] ?? d.address } : {}), to: m.to ?? [], cc: m.cc ?? [], bcc: m.bcc ?? [], subject: m.subject ?? "", html: await bodyOf(m), inReplyTo: m.inReplyTo, references: m.references,
    identity: identities.value.find((i) => i.email.toLowerCase() === m.from?.[0]?.email.toLowerCase())?.id ?? d.identity,
    attachments: filesOf(m), table: tableIn(m),
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
