// The layer above the calendar's view: the card of an event, or the editor with its form.

import { signal } from "@preact/signals";
import type { CalendarEvent } from "../../jmap/calendar";
import type { Address, Id } from "../../jmap/types";
import { between, capability, defaultShelf, eventOf, mayWrite, openCalendars, viewZone, type Shelf, type Shown } from "../../state/calendars";
import { addDays, formatDuration, type Day } from "../../state/days";
import { change, copyOf, createEvent, movedTo, readEvent, remove, type Patch, type Problem, type Scope, type Undo } from "../../state/events";
import { preferences } from "../../state/prefs";
import { closeQuery, goQuery, route } from "../../state/route";
import { say } from "../../state/screen";
import { offers } from "../../state/session";
import { localTime } from "../../state/zone";
import { t } from "../../text";
import { tk } from "../../text/calendar";
import { dayText, days, timeText, today } from "./view";

/** The place where the event was pressed; its card lies beside it. */
export const anchor = signal<DOMRect | null>(null);

/** The first state of the editor; event is null for a new one. */
export interface Begun {
  account: Id;
  event: CalendarEvent | null;
  with: Partial<CalendarEvent>;
  calendar: Id;
  people: Address[];
  /** The server does not answer, and the event was never opened here: the views know a part of it. */
  partly?: boolean;
}

export const begun = signal<Begun | null>(null);

/** The calendar whose links are looked at. */
export const feedOf = signal<Shelf | null>(null);

/** Asks which part of a series a change is for. */
export const asking = signal<{ title: string; series: boolean; done: (scope: Scope | null) => void } | null>(null);

/** Asks for which of a series a change is; series: it cannot be for one instance. null: the person wants none of it. */
export function askScope(title: string, series = false): Promise<Scope | null> {
  return new Promise((done) => (asking.value = { title, series, done: (scope) => { asking.value = null; done(scope); } }));
}

export function tell(p: Problem): void {
  say(p.offline ? tk("offlineChange") : "text" in p ? t("refusedByServer", p.text) : tk("cannotMove"), undefined, 10);
}

export function openEvent(s: Shown, at?: Element | null): void {
  anchor.value = at?.getBoundingClientRect() ?? null;
  goQuery({ event: s.key });
}

/** The event that the address says is open. */
export const opened = (): Shown | undefined => eventOf(route.value.query["event"] ?? "");

const rounded = (minutes: number) => Math.ceil(minutes / 30) * 30;

/** The local time at minutes after midnight of a day. */
export const localAt = (d: Day, minutes: number): string => {
  const day = addDays(d, Math.floor(minutes / 1440)), m = ((minutes % 1440) + 1440) % 1440;
  return `${day}T${String(Math.floor(m / 60)).padStart(2, "0")}:${String(m % 60).padStart(2, "0")}:00`;
};

/** The calendar for new events, once the calendars are known. If there is none, the person is told why. */
export async function shelfForNew(): Promise<Shelf | undefined> {
  await openCalendars();
  if (!defaultShelf.value) say(tk(offers(capability) ? "offlineChange" : "notOffered"));
  return defaultShelf.value;
}

/** Opens the editor for a new event on a day: at minutes after midnight, or all day with null; without either at the next half hour. */
export async function newEvent(d: Day, minutes?: number | null, length = 60): Promise<void> {
  const shelf = await shelfForNew();
  if (!shelf) return;
  const clock = localTime(Date.now(), viewZone.value);
  const next = d === today.value ? rounded(Number(clock.slice(11, 13)) * 60 + Number(clock.slice(14, 16))) : 9 * 60;
  const timed = minutes === null ? { start: `${d}T00:00:00`, showWithoutTime: true, timeZone: null, duration: `P${length}D` } : { start: localAt(d, minutes ?? next), timeZone: viewZone.value, duration: formatDuration(length) };
  begun.value = { account: shelf.account, event: null, calendar: shelf.id, people: [], with: timed };
  goQuery({ edit: "new", event: "" });
}

/** Opens the editor for an event: the whole of it is read first. */
export async function editEvent(s: Shown, copy = false): Promise<void> {
  const known = await readEvent(s.account, s.event.id);
  const whole = known ?? s.event;
  const base = whole.recurrenceId && whole.baseEventId ? await readEvent(s.account, whole.baseEventId) : undefined;
  const event = { ...whole, recurrenceRules: base?.recurrenceRules ?? whole.recurrenceRules ?? null };
  begun.value = copy
    ? { account: s.account, event: null, calendar: s.shelf.id, people: [], with: copyOf({ ...whole, recurrenceId: null }) }
    : { ...(known ? {} : { partly: true }), account: s.account, event, calendar: s.shelf.id, people: [], with: event };
  goQuery({ edit: copy ? "new" : s.key, event: "" });
}

const offer = (undo: Undo) => ({ text: t("undo"), run: () => void undo().then((p) => p && tell(p)) });

/** Changes what is shown of an event, asking for which of a series, and offers to undo it. False: nothing was changed. */
export async function carryOut(s: Shown, patch: Patch, words: string): Promise<boolean> {
  if (Object.keys(patch).length === 0) return true;
  const scope = s.repeats ? await askScope(tk("scopeChange")) : "this";
  if (!scope) return false;
  const done = await change(s.account, s.event, patch, scope);
  if (typeof done === "function") say(words, offer(done));
  else tell(done);
  return typeof done === "function";
}

export const titleOf = (s: Shown | { event: CalendarEvent }): string => s.event.title?.trim() || tk("noTitle");

/** Moves an event to begin and end at other moments. */
export function moveEvent(s: Shown, from: number, to: number): void {
  if (!mayWrite(s.shelf) || to <= from) return;
  void carryOut(s, movedTo(s.event, from, to), tk("moved", titleOf(s), `${dayText(localTime(from, viewZone.value).slice(0, 10), { weekday: "short", day: "numeric", month: "short" })}, ${timeText(from)}`));
}

/** Moves an event by whole days; the time of day stays. */
export function moveDays(s: Shown, n: number): void {
  if (!mayWrite(s.shelf) || n === 0) return;
  const start = addDays(s.event.start.slice(0, 10), n) + s.event.start.slice(10);
  void carryOut(s, { start }, tk("moved", titleOf(s), dayText(addDays(s.first, n), { weekday: "short", day: "numeric", month: "short" })));
}

export async function deleteEvent(s: Shown): Promise<void> {
  const scope = s.repeats ? await askScope(tk("scopeDelete")) : "this";
  if (!scope) return;
  closeQuery("event", "edit");
  const seconds = Math.max(4, preferences.value.undoSeconds);
  const back = await remove(s, scope, between(days.value[0]!, days.value.at(-1)!), seconds, tell);
  if (typeof back !== "function") return tell(back);
  say(tk("deleted", titleOf(s)), { text: t("undo"), run: back }, seconds);
}

/** Creates an event at once, as the quick entry does, and offers to take it back. False: there is none, and the person was told why. */
export async function createAtOnce(account: Id, event: Omit<CalendarEvent, "id">): Promise<boolean> {
  const made = await createEvent(account, event);
  if (typeof made !== "string") {
    tell(made);
    return false;
  }
  say(tk("created", event.title ?? ""), {
    text: t("undo"),
    run: () => {
      const s = eventOf(`${account}/${made}`);
      if (s) void remove(s, "all", [s], 0, tell);
    },
  });
  return true;
}

