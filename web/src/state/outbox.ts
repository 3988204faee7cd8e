// Actions that the server has not confirmed: kept in the browser, in order, and sent to the
// server when it answers. Everything here may be told twice and is done once: flags and folders are set to
// what they are to be, and what is sent carries a creation id by which a repetition is found.

import { signal } from "@preact/signals";
import type { Call, Id, SetError } from "../jmap/types";
import { Offline, Refused, SignedOut } from "../jmap/client";
import * as db from "./db";
import type { Answer } from "./invitation";
import type { Answered } from "./recorded";
import { client, online, phase, signedOut } from "./session";

/** A change of e-mails: patches by id (RFC 8620 §5.3), or their end. */
export interface Change {
  kind: "change";
  account: Id;
  update: Record<Id, Record<string, unknown>>;
  destroy: Id[];
}

/** A change of folders: new names and parents by id, or their end with their mail. */
export interface FolderChange {
  kind: "folders";
  account: Id;
  update: Record<Id, FolderPatch>;
  destroy: Id[];
}

export interface FolderPatch {
  name: string;
  parentId: Id | null;
}

/** A message to send at a time; until then it can be taken back. */
interface Submitted {
  account: Id;
  at: number;
  identity: Id;
  envelope: { mailFrom: { email: string; parameters?: Record<string, string> }; rcptTo: { email: string }[] };
  drafts: Id;
  sent: Id;
}

/** A message as somebody wrote it; only the writer looks into it. */
export type Written = object;

/** A message to send. */
export interface Sending extends Submitted {
  kind: "send";
  email: Record<string, unknown>;
  /** Drafts that it replaces. */
  replaces: Id[];
  answered: { account: Id; id: Id; keyword: string } | null;
  /** When to remind the sender if nobody has answered; absent: never. */
  remind?: string;
  /** The text in the writer, which opens again if the server refuses the message. */
  written?: Written;
}

/** A message of somebody that is sent on: fields go before its bytes. */
export interface Redirection extends Submitted {
  kind: "redirect";
  email: Id;
  blob: Id;
  fields: string;
  /** The Resent-Message-ID, in its brackets. */
  resentID: string;
}

/** The answer to an invitation: a message that is made already. */
export interface AnswerSent extends Submitted {
  kind: "answer";
  message: string;
  messageID: string;
  /** The message that invites, and the answer, which is kept with it. */
  email: Id;
  answer: Answer;
  /** The event, for the calendar; an older client kept none. */
  event?: Answered;
}

/** A deletion of events or contacts at a time; until then it can be taken back. A series may lose its end: that is an update. */
export interface Removal {
  kind: "remove";
  account: Id;
  at: number;
  type: "CalendarEvent" | "ContactCard";
  update?: Record<Id, Record<string, unknown>>;
  destroy?: Id[];
}

export type Intended = Change | FolderChange | Sending | Redirection | AnswerSent | Removal;
export type Intention = Intended & { key: string };

/** The most messages that one call changes or reads: every server accepts so many. */
export const mostAtOnce = 250;

export const waiting = signal<Intention[]>([]);
/** Refused actions, which the person sees. */
export const refusals = signal<{ key: string; text: string; intention: Intention }[]>([]);

let serial = 0;
const page = crypto.randomUUID().slice(0, 8);
type Answers = Map<string, Record<string, any>>;
let beside: (account: Id) => Call[] = () => [];
let told: ((i: Intention, answers: Answers | null) => void) | null = null;

/**
 * after is called when the server has done an intention, or with null when it has refused it. In the request that changes e-mails
 * the calls of ask go along: it is given their answers and that of the change ("set").
 */
export function onDone(ask: (account: Id) => Call[], after: (i: Intention, answers: Answers | null) => void): void {
  beside = ask;
  told = after;
}

/** The changes of e-mails that questions under way may not know of. */
const unknown = new Set<Change[]>();

/**
 * Asks the server something, and returns with the answer the changes of which it may not know: those that waited when it was asked,
 * and those that came since. They may all be done by now.
 */
export async function asking<T>(ask: () => Promise<T>): Promise<{ answer: T; since: Change[] }> {
  const since = waiting.value.filter((i) => i.kind === "change");
  unknown.add(since);
  try {
    return { answer: await ask(), since };
  } finally {
    unknown.delete(since);
  }
}

/** Reports if a change of messages is on its way to the server. */
export const telling = () => waiting.value.some((i) => i.key === running && i.kind === "change");

export async function load(): Promise<void> {
  const kept = (await db.all<Intention>("outbox")) ?? [];
  // An intention that the browser could not keep is in memory alone.
  const here = waiting.value.filter((w) => !kept.some((k) => k.key === w.key));
  for (const k of kept) keptHere.add(k.key);
  waiting.value = [...kept, ...here].sort((a, b) => (a.key < b.key ? -1 : 1));
}

/** Those of them that the browser keeps, so that another page of this browser may have done them. */
const keptHere = new Set<string>();

/** The functions that are called at the end of intentions of this page, by key: with the refusal, if any. */
const endings = new Map<string, (problem?: string) => unknown>();

/** Takes an intention: kept before this returns, told to the server soon. ended is called then; without it a refusal is in refusals. */
export async function intend(i: Intended, ended?: (problem?: string) => unknown): Promise<Intention> {
  const whole = { ...i, key: `${Date.now().toString(36).padStart(10, "0")}-${(serial++).toString(36).padStart(4, "0")}-${page}` } as Intention;
  waiting.value = [...waiting.value, whole];
  if (ended) endings.set(whole.key, ended);
  if (whole.kind === "change") for (const since of unknown) since.push(whole);
  if (await db.keep("outbox", whole.key, whole)) keptHere.add(whole.key);
  void flush();
  return whole;
}

/** Runs work that no other page of this browser does at the same time. */
async function alone<T>(work: () => Promise<T>): Promise<T> {
  return navigator.locks ? navigator.locks.request("doublet:outbox", work) : work();
}

/**
 * Reports if an intention is still open: another page may have told it to the server, or taken it back. Storage that
 * fails as it is asked is no word of that.
 */
async function stands(key: string): Promise<boolean> {
  return !keptHere.has(key) || (await db.get("outbox", key)) !== undefined || db.storageDenied.value;
}

/** Takes one back that was not told yet. */
export async function takeBack(key: string): Promise<Intention | undefined> {
  const found = waiting.value.find((i) => i.key === key);
  if (!found || running === key) return undefined;
  waiting.value = waiting.value.filter((i) => i.key !== key);
  return alone(async () => {
    if (!(await stands(key))) return undefined;
    await db.remove("outbox", key);
    return found;
  });
}

/** The longest time that a person has to take something back, in milliseconds. */
export const longestUndo = 30_000;

/** Reports if an intention is due; a clock that was set back does not hold it up. */
const due = (i: Intention, now: number) => !("at" in i) || i.at <= now || i.at > now + longestUndo;

/** The server has too much to do, or is in trouble: what waits is told when it wants to be asked again. */
export const busy = signal(false);
let refusedForNow = 0;
let notBefore = 0;

/** After how many milliseconds a server that did it for now is asked the nth time, where it wants to be asked after so many at the earliest. */
export const pauseBefore = (n: number, asked: number) => asked + Math.min(60_000, 1000 * 2 ** n) * (0.75 + Math.random() / 2);

let running = "";
let timer: ReturnType<typeof setTimeout> | undefined;

/** Mail waits for a page that shows what is refused of it, as the pages of calendar and contacts do not. */
const isOurs = (i: Intention) => i.kind === "remove" || told !== null;

/** Sends the waiting actions to the server, in order. What is for later is passed over until its time. */
export async function flush(): Promise<void> {
  if (running || phase.value !== "in") return;
  clearTimeout(timer);
  if (Date.now() < notBefore && notBefore - Date.now() <= 12 * 60_000) {
    timer = setTimeout(() => void flush(), notBefore - Date.now());
    return;
  }
  for (;;) {
    const now = Date.now();
    const next = waiting.value.find((i) => isOurs(i) && due(i, now));
    if (!next) break;
    running = next.key;
    const goesOn = await alone(() => carryOut(next));
    running = "";
    if (!goesOn) return;
  }
  const later = waiting.value.flatMap((i) => (isOurs(i) && "at" in i ? [i.at] : []));
  if (later.length > 0) timer = setTimeout(() => void flush(), Math.max(0, Math.min(...later) - Date.now()));
}

/** Sends one action to the server; false: it cannot be sent now, nor can those behind it. */
async function carryOut(i: Intention): Promise<boolean> {
  try {
    const { problem, answers }: Outcome = (await stands(i.key)) ? await tell(i) : {};
    online.value = true;
    if (problem?.type === "rateLimit") throw new Refused(problem.type, problem.description, 0); // RFC 8620 §5.3: it may work later
    refusedForNow = 0;
    busy.value = false;
    await settle(i, problem && (problem.description || problem.type), answers);
  } catch (e) {
    if (e instanceof SignedOut) {
      signedOut();
      return false;
    }
    if (e instanceof Offline) {
      online.value = false;
      timer = setTimeout(() => void flush(), 5000);
      return false;
    }
    if (e instanceof Refused && e.later !== undefined) {
      const pause = pauseBefore(refusedForNow++, e.later);
      busy.value = true;
      notBefore = Date.now() + pause;
      timer = setTimeout(() => void flush(), pause);
      return false;
    }
    await settle(i, e instanceof Error ? e.message : String(e));
  }
  return true;
}

/** The result of an intention, and the answers to the calls beside it. */
interface Outcome {
  problem?: SetError | undefined;
  answers?: Answers;
}

async function tell(i: Intention): Promise<Outcome> {
  switch (i.kind) {
    case "change": return tellChange(i);
    case "folders": return { problem: await tellFolders(i) };
    case "send": return { problem: await tellSending(i) };
    case "redirect": return { problem: await tellRedirection(i) };
    case "answer": return { problem: await tellAnswer(i) };
    case "remove": return { problem: await tellRemoval(i) };
  }
}

async function settle(i: Intention, problem: string | undefined, answers?: Answers): Promise<void> {
  if (problem) for (const since of unknown) since.splice(0, since.length, ...since.filter((c) => (c as Intention).key !== i.key));
  const ended = endings.get(i.key);
  endings.delete(i.key);
  if (problem && !ended) refusals.value = [...refusals.value, { key: i.key, text: problem, intention: i }];
  waiting.value = waiting.value.filter((w) => w.key !== i.key);
  await db.remove("outbox", i.key);
  ended?.(problem);
  told?.(i, problem ? null : (answers ?? new Map()));
}

function first(errors: Record<string, SetError> | null | undefined, ...known: string[]): SetError | undefined {
  for (const e of Object.values(errors ?? {})) if (!known.includes(e.type)) return e;
  return undefined;
}

/** The refusal in the answer to a change. What is gone meanwhile needs no change any more. */
const lasting = (answer: Record<string, any>) => first(answer["notUpdated"], "notFound") ?? first(answer["notDestroyed"], "notFound");

async function tellChange(i: Change): Promise<Outcome> {
  const set: Call = ["Email/set", { accountId: i.account, update: i.update, destroy: i.destroy }, "set"];
  const along = beside(i.account);
  const answers = await client.calls([set, ...along]).catch((e: unknown) => {
    if (along.length === 0 || !(e instanceof Refused) || e.later !== undefined) throw e;
    return client.calls([set]); // it may not be the change that was refused
  });
  const answer = answers.get("set")!;
  return { problem: lasting(answer), answers };
}

async function tellFolders(i: FolderChange): Promise<SetError | undefined> {
  const destroy = i.destroy.length > 0 ? { destroy: i.destroy, onDestroyRemoveEmails: true } : {};
  const answer = await client.call("Mailbox/set", { accountId: i.account, update: i.update, ...destroy });
  return lasting(answer);
}

/** Deletes events, of which the people invited hear, or contacts. last: the page goes. */
async function tellRemoval(i: Removal, last = false): Promise<SetError | undefined> {
  const { account: accountId, type, update, destroy } = i;
  const answers = await client.calls([[`${type}/set`, { accountId, update, destroy, ...(type === "CalendarEvent" ? { sendSchedulingMessages: true } : {}) }, "set"]], undefined, last);
  const answer = answers.get("set")!;
  return lasting(answer);
}

/** Asks for all deletions in requests that outlive the page. What the browser keeps of them stays for another page, until the server has answered. */
export function removalsAtOnce(): void {
  for (const i of waiting.value) {
    if (i.kind !== "remove" || i.key === running) continue;
    waiting.value = waiting.value.filter((w) => w !== i);
    void tellRemoval(i, true).then((problem) => settle(i, problem && (problem.description || problem.type)), () => undefined);
  }
}

/** The id of a message that is in Sent already: a request whose answer was lost may have been carried out. */
async function findSent(i: Submitted, field: string, id: string): Promise<Id | undefined> {
  const found = await client.call("Email/query", {
    accountId: i.account, filter: { operator: "AND", conditions: [{ inMailbox: i.sent }, { header: [field, id] }] }, limit: 1,
  });
  return (found["ids"] as Id[])[0];
}

/** Submits the draft that the calls before make as "m"; where it is refused the draft goes again. */
async function submit(i: Submitted, ...make: Call[]): Promise<{ problem: SetError | undefined; made: Id | undefined }> {
  const answers = await client.calls([
    ...make,
    ["EmailSubmission/set", {
      accountId: i.account,
      create: { s: { emailId: "#m", identityId: i.identity, envelope: i.envelope } },
      onSuccessUpdateEmail: { "#s": { [`mailboxIds/${i.drafts}`]: null, [`mailboxIds/${i.sent}`]: true, "keywords/$draft": null } },
    }, "submit"],
  ]);
  const last = make[make.length - 1]![2];
  const problem = make.map((c) => first(answers.get(c[2])!["notCreated"])).find(Boolean) ?? first(answers.get("submit")!["notCreated"]);
  const made = (answers.get(last)!["created"] as Record<string, { id: Id }> | null)?.["m"]?.id;
  if (problem && made) await client.call("Email/set", { accountId: i.account, destroy: [made] });
  return { problem, made };
}

async function tellSending(i: Sending): Promise<SetError | undefined> {
  let sent = await findSent(i, "Message-ID", (i.email["messageId"] as string[])[0]!);
  if (!sent) {
    const { problem, made } = await sendNew(i);
    if (problem) return problem;
    sent = made;
  }
  if (i.remind && sent) await afterwards(client.call("SnoozedEmail/set", { accountId: i.account, update: { [sent]: { until: i.remind, unlessAnswered: true } } }));
  return undefined;
}

async function sendNew(i: Sending): ReturnType<typeof submit> {
  const done = await submit(i, ["Email/set", { accountId: i.account, create: { m: { ...i.email, mailboxIds: { [i.drafts]: true }, keywords: { $draft: true, $seen: true } } } }, "make"]);
  if (done.problem) return done;
  await afterwards(client.call("Email/set", { accountId: i.account, destroy: i.replaces }));
  const a = i.answered;
  if (a) await afterwards(client.call("Email/set", { accountId: a.account ?? i.account, update: { [a.id]: { [`keywords/${a.keyword}`]: true } } }));
  return done;
}

/** Waits for a change after sending; its refusal is no refusal of the message. */
async function afterwards(done: Promise<unknown>): Promise<void> {
  await done.catch((e: unknown) => {
    if (!(e instanceof Refused) || e.later !== undefined) throw e;
  });
}

/** The message goes on as it is, byte for byte, behind the fields that say who sent it on (RFC 5322 §3.6.6). */
async function tellRedirection(i: Redirection): Promise<SetError | undefined> {
  if (await findSent(i, "Resent-Message-ID", i.resentID)) return undefined;
  return submitWhole(i, [{ "data:asText": i.fields }, { blobId: i.blob }], { [i.email]: { "keywords/$forwarded": true } });
}

/** The patch that records an answer with the invitation. */
export const answerPatch = (answer: Answer) => Object.fromEntries(["accepted", "tentative", "declined"].map((a) => [`keywords/$${a}`, a === answer || null]));

async function tellAnswer(i: AnswerSent): Promise<SetError | undefined> {
  const problem = (await findSent(i, "Message-ID", i.messageID)) ? undefined : await submitWhole(i, [{ "data:asText": i.message }], { [i.email]: answerPatch(i.answer) });
  const event = i.event;
  if (problem || !event) return problem;
  // The answer is on its way: what the calendar refuses is no refusal of it.
  await afterwards(import("./recorded").then((m) => m.record(i.account, event, i.answer)));
  return undefined;
}

/** Submits a message of which all bytes are given, and then changes e-mails. */
async function submitWhole(i: Submitted, data: object[], then: Change["update"]): Promise<SetError | undefined> {
  const { problem } = await submit(i,
    ["Blob/upload", { accountId: i.account, create: { b: { type: "message/rfc822", data } } }, "upload"],
    ["Email/import", { accountId: i.account, emails: { m: { blobId: "#b", mailboxIds: { [i.drafts]: true }, keywords: { $draft: true, $seen: true } } } }, "make"]);
  if (!problem) await afterwards(client.call("Email/set", { accountId: i.account, update: then }));
  return problem;
}
