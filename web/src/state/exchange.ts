// Mail that comes in as files (.eml, .mbox), and folders that go out as one.

import { signal } from "@preact/signals";
import type { Id, SetError } from "../jmap/types";
import { Offline, whyOf } from "../jmap/client";
import { sync } from "./sync";
import { account, client, home } from "./session";

/** The largest file that is read in a browser, in bytes. */
export const largest = 200_000_000;
/** The number of messages imported in one call. */
const together = 20;

/** The progress of an import, in messages; null: none is under way. */
export const importing = signal<{ done: number; of: number } | null>(null);

const from = [0x46, 0x72, 0x6f, 0x6d, 0x20]; // "From "
const startsFrom = (b: Uint8Array, at: number) => from.every((c, i) => b[at + i] === c);

/** The position of the line behind one that holds a position. */
function lineAfter(b: Uint8Array, at: number): number {
  const end = b.indexOf(10, at);
  return end < 0 ? b.length : end + 1;
}

/** Ends all lines with CRLF; with quoted, one ">" is taken from quoted From lines (mboxrd). */
export function toMessage(b: Uint8Array, quoted: boolean): Uint8Array {
  const out = new Uint8Array(b.length + b.reduce((n, c) => n + (c === 10 ? 1 : 0), 0));
  let n = 0;
  for (let at = 0; at < b.length;) {
    const next = lineAfter(b, at);
    let begin = at;
    if (quoted && b[at] === 0x3e) {
      let text = at;
      while (b[text] === 0x3e) text++;
      if (startsFrom(b, text)) begin++;
    }
    let end = next;
    const whole = end > begin && b[end - 1] === 10;
    if (whole) end--;
    if (whole && end > begin && b[end - 1] === 13) end--;
    out.set(b.subarray(begin, end), n);
    n += end - begin;
    if (whole) {
      out[n++] = 13;
      out[n++] = 10;
    }
    at = next;
  }
  return out.slice(0, n);
}

/** The messages of an mbox file: each begins behind a line "From …" at its beginning or behind an empty line. */
export function* messagesOf(b: Uint8Array): Generator<Uint8Array> {
  let begin = -1, empty = true;
  for (let at = 0; at <= b.length;) {
    const next = at < b.length ? lineAfter(b, at) : b.length + 1;
    if (at === b.length || (empty && startsFrom(b, at))) {
      if (begin >= 0) yield toMessage(b.subarray(begin, at), true);
      begin = next;
    }
    empty = at < b.length && (b[at] === 10 || (b[at] === 13 && b[at + 1] === 10));
    at = next;
  }
}

/** The time at which a message was received: of its newest Received field, else its Date. */
function receivedAt(b: Uint8Array): string | undefined {
  const head = new TextDecoder("latin1").decode(b.subarray(0, 65_536)).split("\r\n\r\n")[0]!.replace(/\r\n[ \t]+/gu, " ");
  const text = /^received:[^\n]*;([^;\n]+)$/imu.exec(head)?.[1] ?? /^date:([^\n]+)$/imu.exec(head)?.[1];
  const at = text ? Date.parse(text.replace(/\([^)]*\)/gu, "").trim()) : NaN;
  return Number.isNaN(at) || at > Date.now() ? undefined : new Date(at).toISOString().replace(/\.\d+Z$/u, "Z");
}

export interface Imported {
  done: number;
  refused: number;
  why: string;
  /** A file that holds no mail, or is too large. */
  unfit?: { name: string; large: boolean };
}

/** Reports if a file begins as a message does. */
const isMail = (b: Uint8Array) => /^(?:[!-9;-~]+:|From )/u.test(new TextDecoder("latin1").decode(b.subarray(0, 200)));

/** Imports the mail of files into a folder, read, with the times at which it was received. */
export async function importFiles(files: File[], mailbox: Id): Promise<Imported> {
  const out: Imported = { done: 0, refused: 0, why: "" };
  importing.value = { done: 0, of: 0 };
  try {
    for (const f of files) {
      if (f.size > largest) return { ...out, unfit: { name: f.name, large: true } };
      const bytes = new Uint8Array(await f.arrayBuffer());
      if (!isMail(bytes)) return { ...out, unfit: { name: f.name, large: false } };
      const list = startsFrom(bytes, 0) ? [...messagesOf(bytes)] : [toMessage(bytes, false)];
      importing.value = { done: out.done + out.refused, of: out.done + out.refused + list.length };
      for (let i = 0; i < list.length; i += together) {
        await importSome(list.slice(i, i + together), mailbox, out);
        importing.value = { ...importing.value!, done: out.done + out.refused };
      }
    }
    return out;
  } finally {
    importing.value = null;
    void sync();
  }
}

async function importSome(list: Uint8Array[], mailbox: Id, out: Imported): Promise<void> {
  const emails: Record<string, unknown> = {};
  for (const [i, raw] of list.entries()) {
    try {
      const blob = await client.upload(home.value, new Blob([raw as Uint8Array<ArrayBuffer>], { type: "message/rfc822" }), () => undefined);
      const at = receivedAt(raw);
      emails[`m${i}`] = { blobId: blob.blobId, mailboxIds: { [mailbox]: true }, keywords: { $seen: true }, ...(at ? { receivedAt: at } : {}) };
    } catch (e) {
      if (e instanceof Offline) throw e;
      out.refused++;
      out.why = e instanceof Error ? e.message : String(e);
    }
  }
  if (Object.keys(emails).length === 0) return;
  const answer = await client.call("Email/import", { accountId: account.value, emails });
  out.done += Object.keys((answer["created"] as object | null) ?? {}).length;
  for (const problem of Object.values((answer["notCreated"] as Record<string, SetError> | null) ?? {})) {
    if (problem.type === "alreadyExists") out.done++;
    else {
      out.refused++;
      out.why = whyOf(problem);
    }
  }
}

/** The address of a folder as an mbox file. */
export const exportURL = (mailbox: Id, name: string) => `/jmap/export/${encodeURIComponent(account.value)}/${encodeURIComponent(mailbox)}/${encodeURIComponent(`${name.replace(/[\\/]/gu, "_")}.mbox`)}`;
