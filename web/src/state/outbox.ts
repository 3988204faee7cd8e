// What the person did and the server has not confirmed: kept in the browser, in order, and told to the
// server when it answers. Everything here may be told twice and is done once: flags and folders are set to
// what they are to be, and what is sent carries a creation id by which a repetition is found.

import { signal } from "@preact/signals";
import type { Id, SetError } from "../jmap/types";
import { Offline, Refused, SignedOut } from "../jmap/client";
import * as db from "./db";
import { client, online, phase } from "./session";

/** A change of e-mails: patches by id (RFC 8620 §5.3), or their end. */
export interface Change {
  kind: "change";
  account: Id;
  update: Record<Id, Record<string, unknown>>;
  destroy: Id[];
}

/** A message to send at a time: until then it can be taken back. */
export interface Sending {
  kind: "send";
  account: Id;
  at: number;
  email: Record<string, unknown>;
  identity: Id;
  envelope: { mailFrom: { email: string }; rcptTo: { email: string }[] };
  drafts: Id;
  sent: Id;
  /** Drafts that it replaces. */
  replaces: Id[];
  answered: { id: Id; keyword: string } | null;
}

export type Intention = (Change | Sending) & { key: string };

export const waiting = signal<Intention[]>([]);
/** What the server refused, for the person to see. */
export const refusals = signal<{ key: string; text: string; intention: Intention }[]>([]);

let serial = 0;
let told: ((i: Intention) => void) | null = null;

/** after is called when the server has done an intention. */
export function onDone(after: (i: Intention) => void): void {
  told = after;
}

export async function load(): Promise<void> {
  const kept = (await db.all<Intention>("outbox")) ?? [];
  waiting.value = kept.sort((a, b) => (a.key < b.key ? -1 : 1));
}

/** Takes an intention: kept before this returns, told to the server soon. */
export async function intend(i: Change | Sending): Promise<Intention> {
  const whole = { ...i, key: `${Date.now().toString(36).padStart(10, "0")}-${(serial++).toString(36).padStart(4, "0")}` } as Intention;
  waiting.value = [...waiting.value, whole];
  await db.keep("outbox", whole.key, whole);
  void flush();
  return whole;
}

/** Takes one back that was not told yet. */
export async function takeBack(key: string): Promise<Intention | undefined> {
  const found = waiting.value.find((i) => i.key === key);
  if (!found || running === key) return undefined;
  waiting.value = waiting.value.filter((i) => i.key !== key);
  await db.remove("outbox", key);
  return found;
}

let running = "";
let timer: ReturnType<typeof setTimeout> | undefined;

/** Tells the server what waits, in order. What is to be sent later is passed over until its time. */
export async function flush(): Promise<void> {
  if (running || phase.value !== "in") return;
  clearTimeout(timer);
  for (;;) {
    const now = Date.now();
    const next = waiting.value.find((i) => i.kind !== "send" || i.at <= now);
    if (!next) break;
    running = next.key;
    try {
      const problem = next.kind === "change" ? await tellChange(next) : await tellSending(next);
      online.value = true;
      await settle(next, problem);
    } catch (e) {
      running = "";
      if (e instanceof SignedOut) phase.value = "signed-out";
      else if (e instanceof Offline) {
        online.value = false;
        timer = setTimeout(() => void flush(), 5000);
      } else await settle(next, e instanceof Error ? e.message : String(e));
      if (e instanceof Offline || e instanceof SignedOut) return;
    }
    running = "";
  }
  const later = waiting.value.flatMap((i) => (i.kind === "send" ? [i.at] : []));
  if (later.length > 0) timer = setTimeout(() => void flush(), Math.max(0, Math.min(...later) - Date.now()));
}

async function settle(i: Intention, problem: string | undefined): Promise<void> {
  waiting.value = waiting.value.filter((w) => w.key !== i.key);
  await db.remove("outbox", i.key);
  if (problem) refusals.value = [...refusals.value, { key: i.key, text: problem, intention: i }];
  told?.(i);
}

function first(errors: Record<string, SetError> | null | undefined, ...known: string[]): string | undefined {
  for (const e of Object.values(errors ?? {})) if (!known.includes(e.type)) return e.description || e.type;
  return undefined;
}

async function tellChange(i: Change): Promise<string | undefined> {
  const answer = await client.call("Email/set", { accountId: i.account, update: i.update, destroy: i.destroy });
  // What is gone meanwhile needs no change any more.
  return first(answer["notUpdated"], "notFound") ?? first(answer["notDestroyed"], "notFound");
}

async function tellSending(i: Sending & { key: string }): Promise<string | undefined> {
  const messageId = (i.email["messageId"] as string[])[0]!;
  // A request whose answer was lost may have been done: the message is looked for by its id first.
  const before = await client.call("Email/query", {
    accountId: i.account, filter: { operator: "AND", conditions: [{ inMailbox: i.sent }, { header: ["Message-ID", messageId] }] }, limit: 1,
  });
  if ((before["ids"] as Id[]).length > 0) return undefined;
  const answers = await client.calls([
    ["Email/set", { accountId: i.account, create: { m: { ...i.email, mailboxIds: { [i.drafts]: true }, keywords: { $draft: true, $seen: true } } } }, "0"],
    ["EmailSubmission/set", {
      accountId: i.account,
      create: { s: { emailId: "#m", identityId: i.identity, envelope: i.envelope } },
      onSuccessUpdateEmail: { "#s": { [`mailboxIds/${i.drafts}`]: null, [`mailboxIds/${i.sent}`]: true, "keywords/$draft": null } },
    }, "1"],
  ]);
  const problem = first(answers.get("0")!["notCreated"]) ?? first(answers.get("1")!["notCreated"]);
  if (problem) {
    const made = (answers.get("0")!["created"] as Record<string, { id: Id }> | null)?.["m"];
    if (made) await client.call("Email/set", { accountId: i.account, destroy: [made.id] });
    return problem;
  }
  const update = i.answered ? { [i.answered.id]: { [`keywords/${i.answered.keyword}`]: true } } : {};
  await client.call("Email/set", { accountId: i.account, destroy: i.replaces, update }).catch((e: unknown) => {
    if (!(e instanceof Refused)) throw e;
  });
  return undefined;
}
