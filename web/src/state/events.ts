// Changing events: one, one instance, an instance and what follows, or a whole series. The screen shows it at once.

import { formatDuration } from "./days";
import { defer } from "./deferred";
import { eventOf, instancesOf, keyOf, span, viewZone, type Shown } from "./calendars";
import { amend, applied, asChanged, idOf, newID, perform, presumed, takeCreation, type Performed } from "./objects";
import { shiftLocal, shiftSeries } from "./recur";
import { intend, takeBack, type Removal } from "./outbox";
import * as db from "./db";
import { attempt, client } from "./session";
import { statusPatch, type CalendarEvent, type Participation } from "../jmap/calendar";
import type { Id } from "../jmap/types";
import { isZone, localTime } from "./zone";

export type Scope = "this" | "following" | "all";

/** Why something was not done: the server's words, that it did not answer, or that the rule of a series cannot follow it to another day. */
export type Problem = { offline: true } | { offline: false; text: string } | { offline: false; fixed: true };

/** A patch (RFC 8620 §5.3): paths and their values. */
export type Patch = Record<string, unknown>;

type Shows = [key: string, event: CalendarEvent | null][];

interface Carried {
  create?: Record<string, { uid: string }>;
  update?: Record<Id, Patch>;
  destroy?: Id[];
  /** The events that change, as the person knows them. */
  known: CalendarEvent[];
  shows: Shows;
  title: string | undefined;
}

const isProblem = (x: object): x is Problem => "offline" in x;

/** Carries changes of events out; people are told of those that concern them. */
async function set(account: Id, { known, update, destroy, ...change }: Carried): Promise<Performed | Problem> {
  const was = presumed("CalendarEvent", update ?? {}, destroy ?? [], new Map(known.map((e) => [e.id, e])));
  const done = await perform({ account, type: "CalendarEvent", ...change, update, destroy, was });
  return "why" in done ? { offline: false, text: done.why } : done;
}

/** So many whole events are kept for when the server does not answer, each of at most so many characters. */
const mostWhole = 100;
const longestWhole = 20_000;

const keptWhole = async () => (await db.get<[string, CalendarEvent][]>("facts", "wholeEvents")) ?? [];
/** One after the other: each adds to what the one before has kept. */
let keeping: Promise<unknown> = Promise.resolve();

/** The whole event of an id, as the server has it, or had it when it was read last, with the changes that wait; undefined: it is not known. */
export async function readEvent(account: Id, id: Id): Promise<CalendarEvent | undefined> {
  const key = keyOf(account, id);
  const fresh = eventOf(key)?.event;
  if (fresh && id === newID(fresh.uid)) return fresh;
  const answer = await attempt(() => client.call("CalendarEvent/get", { accountId: account, ids: [id] }));
  const event = answer ? (answer["list"] as CalendarEvent[])[0] : (await keptWhole()).find(([k]) => k === key)?.[1];
  if (answer && event && JSON.stringify(event).length <= longestWhole) await (keeping = keeping.then(async () => db.put("facts", "wholeEvents", [...(await keptWhole()).filter(([k]) => k !== key), [key, event]].slice(-mostWhole))));
  return event && asChanged("CalendarEvent", account, event);
}

/** Creates an event, and returns its id. */
export async function createEvent(account: Id, event: Omit<CalendarEvent, "id">): Promise<Id | Problem> {
  const id = newID(event.uid);
  const done = await set(account, { create: { e: event }, known: [], shows: [[keyOf(account, id), { ...event, id }]], title: event.title });
  return isProblem(done) ? done : (done.created["e"]?.id ?? id);
}

/** The patch that undoes another one of top-level properties. */
const reverse = (e: CalendarEvent, patch: Patch): Patch => Object.fromEntries(Object.keys(patch).map((k) => [k, (e as unknown as Patch)[k] ?? null]));

export type Undo = () => Promise<Problem | undefined>;

/** Takes a change back as long as it waits, else does the rest. */
async function takenBack({ waits, key }: Performed, undo: () => Promise<unknown>): Promise<Problem | undefined> {
  if (waits && (await takeBack(key))) return undefined;
  const back = (await undo()) as object;
  return isProblem(back) ? back : undefined;
}

/** Changes an event, or the instance that an id names. The answer undoes it. */
async function update(account: Id, e: CalendarEvent, patch: Patch, shows: Shows = [[keyOf(account, e.id), applied(e, patch)]]): Promise<Undo | Problem> {
  const before = shows.flatMap(([key]): Shows => (eventOf(key) ? [[key, eventOf(key)!.event]] : []));
  const amended = await amend(account, e.id, patch);
  const done = amended ?? await set(account, { update: { [e.id]: patch }, known: [e], shows, title: e.title });
  if (isProblem(done)) return done;
  const undo = () => update(account, applied(e, patch), reverse(e, patch), before);
  return amended ? async () => { const back = await undo(); return typeof back === "function" ? undefined : back; } : () => takenBack(done, undo);
}

/** The instances of a series that are shown, as a patch changes them, by minutes and from a moment on. */
function instancesShown(account: Id, series: Id, patch: Patch, by: number, from = Number.NEGATIVE_INFINITY): Shows {
  const { start: _, recurrenceRules: _rules, recurrenceOverrides: _overrides, ...rest } = patch;
  return instancesOf(account, series).filter((s) => s.from >= from).map((s) => [s.key, { ...applied(s.event, rest), start: shiftLocal(s.event.start, by) }]);
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
    const by = typeof patch["start"] === "string" ? minutesBetween(e.start, patch["start"]) : 0;
    const moved = typeof patch["start"] === "string" ? shiftSeries(ruled(base, patch), by) : {};
    return moved ? update(account, base, { ...patch, ...moved }, instancesShown(account, base.id, patch, by)) : { offline: false, fixed: true };
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

/** The number of instances of a series before one, with those that were removed; undefined: the server did not answer. */
async function countBefore(account: Id, base: CalendarEvent, at: string): Promise<number | undefined> {
  const answer = await attempt(() => client.call("CalendarEvent/query", {
    accountId: account, filter: { uid: base.uid, after: shiftLocal(base.start, -1), before: shiftLocal(at, 0) }, expandRecurrences: true, timeZone: isZone(base.timeZone) ? base.timeZone : viewZone.peek(), limit: 0, calculateTotal: true,
  }));
  const out = Object.entries(base.recurrenceOverrides ?? {}).filter(([id, patch]) => id < at && patch["excluded"] === true).length;
  return answer && Number(answer["total"] ?? 0) + out;
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
  if (before === undefined) return { offline: true };
  const rules = (base.recurrenceRules ?? []).map((r) => (r.count === undefined ? r : { ...r, count: Math.max(1, r.count - before) }));
  const rest = { ...base, start: at, recurrenceRules: rules, recurrenceOverrides: later.length > 0 ? Object.fromEntries(later) : null };
  const moved = shiftSeries(ruled(rest, patch), by);
  if (!moved) return { offline: false, fixed: true };
  const next = copyOf(applied({ ...rest, ...moved } as CalendarEvent, { ...patch, start: shiftLocal(at, by) }));
  const cutting = cut(base, at);
  const from = span(e, viewZone.peek()).from;
  const done = await set(account, { create: { n: next }, update: { [base.id]: cutting }, known: [base], shows: instancesShown(account, base.id, patch, by, from), title: e.title });
  if (isProblem(done)) return done;
  return () => takenBack(done, () =>
    set(account, { update: { [base.id]: reverse(base, cutting) }, destroy: [done.created["n"]?.id ?? idOf(account, newID(next.uid))], known: [], shows: [], title: e.title }));
}

/** The request that deletes at the server; undefined: it did not answer. */
async function deletion(account: Id, e: CalendarEvent, scope: Scope): Promise<Pick<Removal, "update" | "destroy" | "was"> | undefined> {
  const of = (update: Record<Id, Patch>, destroy: Id[], ...known: CalendarEvent[]) =>
    ({ ...(destroy.length > 0 ? { destroy } : { update }), was: presumed("CalendarEvent", update, destroy, new Map(known.map((x) => [x.id, x]))) });
  if (!e.recurrenceId || scope === "this") return of({}, [e.id], e);
  if (scope === "all") return of({}, [e.baseEventId!]);
  const base = await readEvent(account, e.baseEventId ?? "");
  if (!base) return undefined;
  return base.start === e.recurrenceId ? of({}, [base.id], base) : of({ [base.id]: cut(base, e.recurrenceId) }, [], base);
}

/**
 * Deletes an event after some seconds; the answer takes it back until then. The server is told late, since people who were invited
 * hear of it, and no mail can be taken back. all: the events that are shown.
 */
export async function remove(s: Shown, scope: Scope, all: Shown[], seconds: number, failed: (p: Problem) => void): Promise<(() => void) | Problem> {
  const { account, event: e } = s;
  const creation = await takeCreation(account, e.id);
  if (creation) return () => void intend(creation);
  const args = await deletion(account, e, scope);
  if (!args) return { offline: true };
  const sameSeries = (x: Shown) => scope !== "this" && !!e.baseEventId && x.event.baseEventId === e.baseEventId && (scope === "all" || x.from >= s.from);
  const gone = all.filter((x) => x.account === account && (x.key === s.key || sameSeries(x)));
  const shows = gone.map((x): Shows[number] => [x.key, null]);
  return defer({ account, type: "CalendarEvent", ...args, shows, title: e.title }, seconds, (problem) => failed({ offline: false, text: problem }));
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
  const patch = statusPatch(participant, status);
  const done = await set(account, { update: { [id]: patch }, known: id === e.id ? [e] : [], shows: [[keyOf(account, e.id), applied(e, patch)]], title: e.title });
  return isProblem(done) ? done : undefined;
}
