// Changing events: one, one instance, an instance and what follows, or a whole series. The screen shows it at once.

import { formatDuration } from "./days";
import { defer } from "./deferred";
import { keyOf, pending, showChange, span, viewZone, type Shown } from "./calendars";
import { shiftLocal, shiftSeries } from "./recur";
import type { Removal } from "./outbox";
import { attempt, client } from "./session";
import { statusPatch, type CalendarEvent, type Participation } from "../jmap/calendar";
import { refusalIn, whyOf } from "../jmap/client";
import type { Id } from "../jmap/types";
import { isZone, localTime } from "./zone";

export type Scope = "this" | "following" | "all";

/** Why something was not done: the server's words, that it did not answer, or that the rule of a series cannot follow it to another day. */
export type Problem = { offline: true } | { offline: false; text: string } | { offline: false; fixed: true };

/** A patch (RFC 8620 §5.3): paths and their values. */
export type Patch = Record<string, unknown>;

interface SetArguments {
  create?: Record<string, unknown>;
  update?: Record<Id, Patch>;
  destroy?: Id[];
}

interface Done {
  created: Record<string, { id: Id }>;
}

const isProblem = (x: object): x is Problem => "offline" in x;

/** Carries changes of events out; people are told of those that concern them. */
async function set(account: Id, args: SetArguments): Promise<Done | Problem> {
  try {
    const answer = await attempt(() => client.call("CalendarEvent/set", { accountId: account, ...args, sendSchedulingMessages: true }));
    if (!answer) return { offline: true };
    const bad = refusalIn(answer);
    return bad ? { offline: false, text: whyOf(bad) } : { created: (answer["created"] as Done["created"] | null) ?? {} };
  } catch (e) {
    return { offline: false, text: e instanceof Error ? e.message : String(e) };
  }
}

/** The whole event of an id, as the server has it. */
export async function readEvent(account: Id, id: Id): Promise<CalendarEvent | undefined> {
  const answer = await attempt(() => client.call("CalendarEvent/get", { accountId: account, ids: [id] }));
  return (answer?.["list"] as CalendarEvent[] | undefined)?.[0];
}

/** Creates an event, and returns its id. */
export async function createEvent(account: Id, event: Omit<CalendarEvent, "id">): Promise<Id | Problem> {
  const key = keyOf(account, `new-${event.uid}`);
  const settle = showChange([[key, { ...event, id: `new-${event.uid}` }]]);
  const done = await set(account, { create: { e: event } });
  await settle();
  return isProblem(done) ? done : done.created["e"]!.id;
}

/** An event with a patch of top-level properties. */
const patched = (e: CalendarEvent, patch: Patch): CalendarEvent => ({ ...e, ...Object.fromEntries(Object.entries(patch).filter(([k]) => !k.includes("/"))) }) as CalendarEvent;

/** The patch that undoes another one of top-level properties. */
const reverse = (e: CalendarEvent, patch: Patch): Patch => Object.fromEntries(Object.keys(patch).map((k) => [k, (e as unknown as Patch)[k] ?? null]));

export type Undo = () => Promise<Problem | undefined>;

/** Changes an event, or the instance that an id names. The answer undoes it. */
async function update(account: Id, e: CalendarEvent, patch: Patch): Promise<Undo | Problem> {
  const settle = showChange([[keyOf(account, e.id), patched(e, patch)]]);
  const done = await set(account, { update: { [e.id]: patch } });
  await settle();
  if (isProblem(done)) return done;
  return async () => {
    const back = await update(account, patched(e, patch), reverse(e, patch));
    return typeof back === "function" ? undefined : back;
  };
}

const minutesBetween = (from: string, to: string) => Math.round((Date.parse(`${to}Z`) - Date.parse(`${from}Z`)) / 60_000);

/** A series as far as it moves with its start: rules that a patch replaces do not. */
const ruled = (base: CalendarEvent, patch: Patch): CalendarEvent => ("recurrenceRules" in patch ? { ...base, recurrenceRules: null } : base);

/** Changes what is shown of an event. start in the patch is that of the instance. */
export async function change(account: Id, e: CalendarEvent, patch: Patch, scope: Scope): Promise<Undo | Problem> {
  if (!e.recurrenceId || scope === "this") return update(account, e, patch);
  const base = await readEvent(account, e.baseEventId ?? "");
  if (!base) return { offline: true };
  const isFirst = e.recurrenceId === base.start;
  if (scope === "all" || isFirst) {
    const moved = typeof patch["start"] === "string" ? shiftSeries(ruled(base, patch), minutesBetween(e.start, patch["start"])) : {};
    return moved ? update(account, base, { ...patch, ...moved }) : { offline: false, fixed: true };
  }
  return split(account, base, e, patch);
}

/** The series before an instance, as a patch; what follows it goes. */
function cut(base: CalendarEvent, at: string): Patch {
  const until = shiftLocal(at, -1);
  const overrides = Object.entries(base.recurrenceOverrides ?? {});
  return {
    recurrenceRules: (base.recurrenceRules ?? []).map(({ count: _, ...r }) => ({ ...r, until })),
    ...(overrides.length > 0 ? { recurrenceOverrides: Object.fromEntries(overrides.filter(([id]) => id < at)) } : {}),
  };
}

/** The number of instances of a series before one, with those that were removed. */
async function countBefore(account: Id, base: CalendarEvent, at: string): Promise<number> {
  const answer = await attempt(() => client.call("CalendarEvent/query", {
    accountId: account, filter: { uid: base.uid, after: shiftLocal(base.start, -1), before: shiftLocal(at, 0) }, expandRecurrences: true, timeZone: isZone(base.timeZone) ? base.timeZone : viewZone.peek(), limit: 0, calculateTotal: true,
  }));
  const out = Object.entries(base.recurrenceOverrides ?? {}).filter(([id, patch]) => id < at && patch["excluded"] === true).length;
  return Number(answer?.["total"] ?? 0) + out;
}

const mine = new Set(["id", "baseEventId", "uid", "recurrenceId", "recurrenceIdTimeZone", "utcStart", "utcEnd", "isOrigin", "isDraft", "created", "updated", "sequence", "method", "prodId"]);

/** An event as a new one: without what the server sets. */
export function copyOf(e: CalendarEvent): Omit<CalendarEvent, "id"> {
  const rest = Object.fromEntries(Object.entries(e).filter(([k, v]) => !mine.has(k) && v !== null)) as unknown as CalendarEvent;
  return { ...rest, uid: crypto.randomUUID() };
}

/** Ends a series before an instance, and begins another one with it, changed. */
async function split(account: Id, base: CalendarEvent, e: CalendarEvent, patch: Patch): Promise<Undo | Problem> {
  const at = e.recurrenceId!;
  const by = typeof patch["start"] === "string" ? minutesBetween(e.start, patch["start"]) : 0;
  const later = Object.entries(base.recurrenceOverrides ?? {}).filter(([id]) => id > at);
  const counted = base.recurrenceRules?.[0]?.count;
  const before = counted === undefined ? 0 : await countBefore(account, base, at);
  const rules = (base.recurrenceRules ?? []).map((r) => (r.count === undefined ? r : { ...r, count: Math.max(1, r.count - before) }));
  const rest = { ...base, start: at, recurrenceRules: rules, recurrenceOverrides: later.length > 0 ? Object.fromEntries(later) : null };
  const moved = shiftSeries(ruled(rest, patch), by);
  if (!moved) return { offline: false, fixed: true };
  const next = copyOf(patched({ ...rest, ...moved }, { ...patch, start: shiftLocal(at, by) }));
  const cutting = cut(base, at);
  const settle = showChange([[keyOf(account, e.id), patched(e, patch)]]);
  const done = await set(account, { create: { n: next }, update: { [base.id]: cutting } });
  await settle();
  if (isProblem(done)) return done;
  return async () => {
    const again = showChange([]);
    const back = await set(account, { update: { [base.id]: reverse(base, cutting) }, destroy: [done.created["n"]!.id] });
    await again();
    return isProblem(back) ? back : undefined;
  };
}

/** The request that deletes at the server; undefined: it did not answer. */
async function deletion(account: Id, e: CalendarEvent, scope: Scope): Promise<Pick<Removal, "update" | "destroy"> | undefined> {
  if (!e.recurrenceId || scope === "this") return { destroy: [e.id] };
  if (scope === "all") return { destroy: [e.baseEventId!] };
  const base = await readEvent(account, e.baseEventId ?? "");
  if (!base) return undefined;
  return base.start === e.recurrenceId ? { destroy: [base.id] } : { update: { [base.id]: cut(base, e.recurrenceId) } };
}

/**
 * Deletes an event after some seconds; the answer takes it back until then. The server is told late, since people who were invited
 * hear of it, and no mail can be taken back. all: the events that are shown.
 */
export async function remove(s: Shown, scope: Scope, all: Shown[], seconds: number, failed: (p: Problem) => void): Promise<(() => void) | Problem> {
  const { account, event: e } = s;
  const args = await deletion(account, e, scope);
  if (!args) return { offline: true };
  const sameSeries = (x: Shown) => scope !== "this" && !!e.baseEventId && x.event.baseEventId === e.baseEventId && (scope === "all" || x.from >= s.from);
  const gone = all.filter((x) => x.account === account && (x.key === s.key || sameSeries(x)));
  const settle = showChange(gone.map((x) => [x.key, null]));
  const back = defer({ account, type: "CalendarEvent", ...args }, seconds, async (problem) => {
    if (problem) failed({ offline: false, text: problem });
    await settle();
  });
  return async () => {
    if (await back()) pending.value = new Map([...pending.value].filter(([k]) => !gone.some((x) => x.key === k)));
  };
}

/** The patch that moves what is shown of an event to begin and end at other moments; of a whole-day one, days. */
export function movedTo(e: CalendarEvent, from: number, to: number): Patch {
  const zone = isZone(e.timeZone) ? e.timeZone : viewZone.peek();
  const was = span(e, viewZone.peek());
  const start = localTime(from, zone);
  return { ...(start === e.start ? {} : { start }), ...(to - from === was.to - was.from ? {} : { duration: formatDuration(Math.round((to - from) / 60_000)) }) };
}

/** Answers an invitation: the organizer is told by the server. */
export async function respond(account: Id, e: CalendarEvent, participant: Id, status: Participation, scope: Scope): Promise<Problem | undefined> {
  const id = scope === "all" && e.baseEventId ? e.baseEventId : e.id;
  const was = e.participants![participant]!;
  const settle = showChange([[keyOf(account, e.id), { ...e, participants: { ...e.participants, [participant]: { ...was, participationStatus: status } } }]]);
  const done = await set(account, { update: { [id]: statusPatch(participant, status) } });
  await settle();
  return isProblem(done) ? done : undefined;
}
