// Actions that the server has not confirmed: kept in the browser, in order, and sent to the
// server when it answers. Everything here may be told twice and is done once: flags and folders are set to
// what they are to be, and what is sent carries a creation id by which a repetition is found.

import { signal } from "@preact/signals";
import type { Call, Id } from "../jmap/types";
import { Offline, Refused, SignedOut } from "../jmap/client";
import * as db from "./db";
import type { Answer } from "./invitation";
import type { Answered } from "./recorded";
import type { Merged } from "./merge";
import { client, online, pauseBefore, phase, signedOut } from "./session";
import { tell, tellRemoval, type Answers, type Outcome } from "./tell";

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
export interface Submitted {
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

/** A message to send to each of several people apart, as their values make it; envelope.rcptTo is empty. */
export interface Merge extends Submitted, Merged {
  kind: "merge";
  email: Record<string, unknown>;
  replaces: Id[];
  remind?: string;
  written: Written;
  /** So many of the people, from the first one on, were sent their message, or were refused. */
  done: number;
  refused: { at: number; why: string }[];
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

/** Objects that change in one request: events, tasks or contacts. */
interface Changed {
  account: Id;
  type: "CalendarEvent" | "ContactCard" | "Task";
  update?: Record<Id, Record<string, unknown>> | undefined;
  destroy?: Id[] | undefined;
  /** The values that it presumes at the server, by id and path of the property. */
  was?: Record<Id, Record<string, unknown>> | undefined;
  /** The objects as the views show them meanwhile, by account/id; null hides one. */
  shows?: [key: string, object: object | null][] | undefined;
  title?: string | undefined;
  /** The server could not be asked at once: others may have changed the objects meanwhile, or it may be done. */
  waited?: boolean;
  /** Why the server refused it after it had waited: it is kept until the person decides. */
  refused?: string;
}

/** A change of events, tasks or contacts. */
export interface ObjectChange extends Changed {
  kind: "set";
  create?: Record<string, object> | undefined;
}

/** A deletion of events, tasks or contacts at a time; until then it can be taken back. A series may lose its end: that is an update. */
export interface Removal extends Changed {
  kind: "remove";
  at: number;
}

export type Intended = Change | FolderChange | Sending | Merge | Redirection | AnswerSent | ObjectChange | Removal;
export type Intention = Intended & { key: string };

/** The ids of objects that the server has not made yet begin so. */
export const beforeMade = "new-";

/** The most messages that one call changes or reads: every server accepts so many. */
export const mostAtOnce = 250;

export const waiting = signal<Intention[]>([]);
/** The number of actions that wait, and a change of objects that was refused. */
export const standing = () => {
  const bad = waiting.value.filter((i) => !isOpen(i)) as ObjectChange[];
  return { n: waiting.value.length - bad.length, bad: bad[0] };
};
/** Refused actions, which the person sees. */
export const refusals = signal<{ key: string; text: string; intention: Intention }[]>([]);

let serial = 0;
const page = crypto.randomUUID().slice(0, 8);
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
  waiting.value = [...kept.map(noteWait), ...here].sort((a, b) => (a.key < b.key ? -1 : 1));
}

/** Those of them that the browser keeps, so that another page of this browser may have done them. */
const keptHere = new Set<string>();

/** The functions that are called at the end of intentions of this page, by key: with the refusal, if any. */
const endings = new Map<string, Ended>();
type Ended = (problem?: string, answers?: Answers) => unknown;

/** Nobody waits for the end of an intention any more; false: it has ended. */
export const forget = (key: string): boolean => endings.delete(key);

const listeners = new Set<(i: Intention) => unknown>();
/** fn is called at the end of each intention of this browser's page, before it leaves those that wait. */
export const onEnd = (fn: (i: Intention) => unknown): void => void listeners.add(fn);

const isObjects = (i: Intended): i is ObjectChange | Removal => i.kind === "set" || i.kind === "remove";
const noteWait = <T extends Intended>(i: T): T => (isObjects(i) ? { ...i, waited: true } : i);

/**
 * Takes an intention: kept before this returns, told to the server soon. ended is called then; without it a refusal is in refusals. instead
 * names what the browser keeps of a message until it is given to be sent: it goes in the same step.
 */
export async function intend(i: Intended, ended?: Ended, instead?: db.Place): Promise<Intention> {
  const whole = { ...(online.value ? i : noteWait(i)), key: `${Date.now().toString(36).padStart(10, "0")}-${(serial++).toString(36).padStart(4, "0")}-${page}` } as Intention;
  waiting.value = [...waiting.value, whole];
  if (ended) endings.set(whole.key, ended);
  if (whole.kind === "change") for (const since of unknown) since.push(whole);
  if (await db.keep("outbox", whole.key, whole, instead)) keptHere.add(whole.key);
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
  if (!found || running === key || (found.kind === "merge" && found.done > 0)) return undefined;
  waiting.value = waiting.value.filter((i) => i.key !== key);
  return alone(async () => {
    if (!(await stands(key))) return undefined;
    await db.remove("outbox", key);
    return found;
  });
}

/** Puts another intention in the place of one that waits; false: the server has that one, or is asked for it. */
export async function replace(i: Intention): Promise<boolean> {
  if (running === i.key || !waiting.value.some((w) => w.key === i.key)) return false;
  waiting.value = waiting.value.map((w) => (w.key === i.key ? i : w));
  const done = await alone(async () => (await stands(i.key)) && (await db.put("outbox", i.key, i), true));
  void flush();
  return done;
}

/** The longest time that a person has to take something back, in milliseconds. */
export const longestUndo = 30_000;

/** Reports if an intention is due; a clock that was set back does not hold it up. */
const due = (i: Intention, now: number) => !("at" in i) || i.at <= now || i.at > now + longestUndo;
/** Refused changes of objects are told no more. */
const isOpen = (i: Intention) => !(isObjects(i) && i.refused);

/** The server has too much to do, or is in trouble: what waits is told when it wants to be asked again. */
export const busy = signal(false);
let refusedForNow = 0;
let notBefore = 0;

let running = "";
let timer: ReturnType<typeof setTimeout> | undefined;

/** Mail waits for a page that shows what is refused of it, as the pages of calendar and contacts do not. */
const isOurs = (i: Intention) => isObjects(i) || told !== null;

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
    const next = waiting.value.find((i) => isOurs(i) && isOpen(i) && due(i, now));
    if (!next) break;
    running = next.key;
    const goesOn = await alone(() => carryOut(next));
    running = "";
    if (!goesOn) return;
  }
  const later = waiting.value.flatMap((i) => (isOurs(i) && isOpen(i) && "at" in i ? [i.at] : []));
  if (later.length > 0) timer = setTimeout(() => void flush(), Math.max(0, Math.min(...later) - Date.now()));
}

/** Sends one action to the server; false: it cannot be sent now, nor can those behind it. */
async function carryOut(i: Intention): Promise<boolean> {
  try {
    const { problem, answers }: Outcome = (await stands(i.key)) ? await tell(i, beside) : {};
    online.value = true;
    if (problem?.type === "rateLimit") throw new Refused(problem.type, problem.description, 0); // RFC 8620 §5.3: it may work later
    refusedForNow = 0;
    busy.value = false;
    await settle(i, problem && (problem.description || problem.type), answers);
  } catch (e) {
    if (e instanceof SignedOut || e instanceof Offline || (e instanceof Refused && e.later !== undefined)) waiting.value = waiting.value.map(noteWait);
    if (e instanceof SignedOut) {
      signedOut();
      return false;
    }
    if (e instanceof Offline) {
      if (i.kind === "remove") endings.delete(i.key); // the person may be elsewhere by the time of its end: a refusal is kept
      online.value = false;
      timer = setTimeout(() => void flush(), Math.max(5000, client.pause));
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

async function settle(i: Intention, problem: string | undefined, answers?: Answers): Promise<void> {
  if (problem) for (const since of unknown) since.splice(0, since.length, ...since.filter((c) => (c as Intention).key !== i.key));
  const ended = endings.get(i.key);
  endings.delete(i.key);
  const end = problem && isObjects(i) ? { ...i, refused: problem } : i;
  for (const fn of listeners) fn(end);
  if (problem && !ended) {
    if (isObjects(i)) {
      waiting.value = waiting.value.map((w) => (w.key === i.key ? end : w));
      return db.put("outbox", i.key, end);
    }
    refusals.value = [...refusals.value, { key: i.key, text: problem, intention: i }];
  }
  waiting.value = waiting.value.filter((w) => w.key !== i.key);
  await db.remove("outbox", i.key);
  ended?.(problem, answers);
  told?.(i, problem ? null : (answers ?? new Map()));
}

/**
 * Asks for all deletions in requests that outlive the page. What the browser keeps of them stays for another page, until the server has
 * answered. That page tells the deletion of what is being made: this one does not know its id.
 */
export function removalsAtOnce(): void {
  for (const i of waiting.value) {
    if (i.kind !== "remove" || i.waited || i.key === running || i.destroy?.some((id) => id.startsWith(beforeMade))) continue;
    waiting.value = waiting.value.filter((w) => w !== i);
    void tellRemoval(i).then((problem) => settle(i, problem && (problem.description || problem.type)), () => undefined);
  }
}
