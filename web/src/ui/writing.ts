// Opening the writer: for a new message, an answer, a forward, a draft, or a mailto: link. The writer itself
// is loaded when it is needed first.

import { signal } from "@preact/signals";
import { SignedOut } from "../jmap/client";
import * as db from "../state/db";
import type { Address, Id } from "../jmap/types";
import { identities } from "../state/outgoing";
import { typedAhead } from "../state/screen";
import { client, home, outdated } from "../state/session";

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
  /** The table of the people who get the message apart, as text (state/table.ts). */
  table?: string | undefined;
  /** The server does not have all of it, as the writer begins. */
  unsaved?: boolean;
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

/** A new Message-ID, without its brackets. */
export const newAddress = () => `${crypto.randomUUID()}@${identities.value[0]?.email.split("@")[1] ?? "localhost"}`;

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
  k.draft.unsaved = !k.saved;
  writers.value = [...writers.value, k.draft];
}

/** Opens the writer with what was given away to be sent, and is not. */
export function writeAgain(draft: Draft): void {
  void keepWriting(draft, false);
  writers.value = [...writers.value, { ...draft, unsaved: true }];
}

/** The part that begins with drafts. */
export const drafts = () => import("./drafts");

/** Opens a writer; the keys that are pressed until it is there are kept for it. */
export async function write(asked: Asked): Promise<void> {
  Object.assign(typedAhead, { keys: "", writer: true });
  // A part that is not there any more is one of a client that the server had before.
  await drafts().then((m) => m.open(asked), () => (outdated.value = !(typedAhead.writer = false)));
}

export function closeWriter(key: string): void {
  writers.value = writers.value.filter((d) => d.key !== key);
}
