// An event as the editor has it: what is read of one, and what is written of it. What the editor does not know stays as it is.

import { emailOf, type Alert, type CalendarEvent, type Link, type Participant } from "../jmap/calendar";
import type { Address, Id } from "../jmap/types";
import { addDays, daysBetween, formatDuration, parseDuration, type Day } from "./days";
import { readRepeat, rulesOf, type Repeat } from "./recur";
import { knownRooms } from "./rooms";
import { instant, isZone, localTime } from "./zone";

/** alert: minutes before the start, "none", or "asBefore" for what the editor has no words for. */
export interface Form {
  title: string;
  calendar: Id;
  allDay: boolean;
  /** The first and last day, and clock times "09:30". */
  first: Day;
  last: Day;
  from: string;
  to: string;
  /** "" is the same clock time everywhere. */
  zone: string;
  repeat: Repeat;
  place: string;
  link: string;
  people: Address[];
  description: string;
  links: Record<Id, Link> | null;
  alert: number | "none" | "asBefore";
  free: boolean;
  private: boolean;
}

interface Me {
  name: string;
  email: string;
}

const firstOf = <T>(map: Record<Id, T> | null | undefined): [Id, T] | undefined => Object.entries(map ?? {})[0];

const isOwner = (e: Partial<CalendarEvent>, p: Participant) => !!p.roles?.["owner"] || (!!e.replyTo?.["imip"] && `mailto:${emailOf(p)}` === e.replyTo["imip"].toLowerCase());

/** The people invited: everybody but the organizer. */
export const guests = (e: Partial<CalendarEvent>): [Id, Participant][] => Object.entries(e.participants ?? {}).filter(([, p]) => !isOwner(e, p));
export const owner = (e: Partial<CalendarEvent>): Participant | undefined => Object.values(e.participants ?? {}).find((p) => isOwner(e, p));

export function readAlert(alerts: Record<Id, Alert> | null | undefined, of: "start" | "end" = "start"): Form["alert"] {
  const list = Object.values(alerts ?? {});
  if (list.length === 0) return "none";
  const { offset = "", relativeTo = "start" } = list[0]!.trigger;
  const { days, ms } = parseDuration(offset.replace(/^[-+]/u, ""));
  const minutes = days * 1440 + ms / 60_000;
  return list.length === 1 && relativeTo === of && (offset.startsWith("-") || minutes === 0) && /^[-+]?P/u.test(offset) ? minutes : "asBefore";
}

export function readForm(e: Partial<CalendarEvent>, calendar: Id, people: Address[], zone: string): Form {
  const start = e.start!, allDay = !!e.showWithoutTime;
  const own = isZone(e.timeZone) ? e.timeZone : "";
  const { days, ms } = parseDuration(e.duration);
  const first = start.slice(0, 10);
  const base = own || zone;
  const end = allDay ? `${addDays(first, Math.max(1, days) - 1)}T10:00` : localTime(instant(addDays(first, days) + start.slice(10), base) + ms, base);
  return {
    title: e.title ?? "", calendar, allDay, first, last: end.slice(0, 10), from: allDay ? "09:00" : start.slice(11, 16), to: allDay ? "10:00" : end.slice(11, 16), zone: allDay ? zone : own,
    repeat: readRepeat(e.recurrenceRules, first), place: firstOf(e.locations)?.[1].name ?? "", link: firstOf(e.virtualLocations)?.[1].uri ?? "",
    people: guests(e).map(([, p]) => ({ name: p.name ?? null, email: emailOf(p) })).filter((a) => a.email).concat(people), description: e.description ?? "", links: e.links ?? null, alert: readAlert(e.alerts),
    free: e.freeBusyStatus === "free", private: !!e.privacy && e.privacy !== "public",
  };
}

type FormProblem = "badTime" | "endBeforeStart";

/** The moments of a form that is not for whole days. */
export function momentsOf(f: Form, zone: string): { from: number; to: number } {
  const own = f.zone || zone;
  return { from: instant(`${f.first}T${f.from}:00`, own), to: instant(`${f.last}T${f.to}:00`, own) };
}

/** Why a form cannot be saved; undefined: it can. */
export function checkForm(f: Form, zone: string): FormProblem | undefined {
  if (!f.first || !f.last || (!f.allDay && (!f.from || !f.to))) return "badTime";
  if (f.allDay) return f.last < f.first ? "endBeforeStart" : undefined;
  const { from, to } = momentsOf(f, zone);
  return to < from ? "endBeforeStart" : undefined;
}

function participantsOf(f: Form, e: Partial<CalendarEvent>, me: Me): Record<Id, Participant> | null {
  if (f.people.length === 0) return null;
  const before = new Map(guests(e).map(([id, p]) => [emailOf(p), [id, p] as const]));
  const out: Record<Id, Participant> = Object.fromEntries(Object.entries(e.participants ?? {}).filter(([, p]) => isOwner(e, p)));
  if (Object.keys(out).length === 0) {
    out["owner"] = { "@type": "Participant", name: me.name, email: me.email, sendTo: { imip: `mailto:${me.email}` }, roles: { owner: true, attendee: true }, participationStatus: "accepted" };
  }
  f.people.forEach((a, i) => {
    const [id, was] = before.get(a.email.toLowerCase()) ?? [];
    const key = id ?? `p${i}-${a.email.replace(/\W/gu, "").slice(0, 20)}`;
    out[key] = was ?? { "@type": "Participant", ...(a.name ? { name: a.name } : {}), email: a.email, sendTo: { imip: `mailto:${a.email}` }, kind: knownRooms.peek().get(a.email.toLowerCase())?.kind ?? "individual", roles: { attendee: true }, participationStatus: "needs-action", expectReply: true };
  });
  return out;
}

function alertsOf(f: Form, e: Partial<CalendarEvent>): Record<Id, Alert> | null {
  if (f.alert === "none") return null;
  if (f.alert === "asBefore" || f.alert === readAlert(e.alerts)) return e.alerts ?? null;
  return alertAt(f.alert, "start");
}

/** An alert so many minutes before the start or the end. */
export const alertAt = (minutes: number, relativeTo: "start" | "end"): Record<Id, Alert> =>
  ({ a1: { "@type": "Alert", trigger: { "@type": "OffsetTrigger", offset: minutes === 0 ? "PT0S" : `-${minutes % 1440 === 0 ? `P${minutes / 1440}D` : formatDuration(minutes)}`, relativeTo }, action: "display" } });


function timesOf(f: Form, zone: string): Partial<CalendarEvent> {
  if (f.allDay) return { showWithoutTime: true, start: `${f.first}T00:00:00`, timeZone: null, duration: `P${daysBetween(f.first, f.last) + 1}D` };
  const { from, to } = momentsOf(f, zone);
  return { showWithoutTime: false, start: `${f.first}T${f.from}:00`, timeZone: f.zone || null, duration: formatDuration(Math.round((to - from) / 60_000)) };
}

/** The properties that a form stands for. e is the event that it was read from. */
export function writeForm(f: Form, e: Partial<CalendarEvent>, me: Me, zone: string): Partial<CalendarEvent> {
  const participants = participantsOf(f, e, me);
  const place = firstOf(e.locations), link = firstOf(e.virtualLocations);
  return {
    ...timesOf(f, zone), calendarIds: { [f.calendar]: true }, title: f.title.trim(), description: f.description,
    locations: f.place.trim() ? { ...e.locations, [place?.[0] ?? "l1"]: { "@type": "Location", ...place?.[1], name: f.place.trim() } } : null,
    virtualLocations: f.link.trim() ? { ...e.virtualLocations, [link?.[0] ?? "v1"]: { "@type": "VirtualLocation", ...link?.[1], uri: f.link.trim() } } : null,
    participants, replyTo: participants ? (e.replyTo ?? { imip: `mailto:${me.email}` }) : null,
    links: f.links, alerts: alertsOf(f, e), freeBusyStatus: f.free ? "free" : "busy", privacy: f.private ? (e.privacy && e.privacy !== "public" ? e.privacy : "private") : "public",
    recurrenceRules: f.repeat.kind === "asBefore" ? (e.recurrenceRules ?? null) : rulesOf(f.repeat, f.first),
  };
}

/** The differences of an event between two forms that were read from it: nothing else is sent. */
export function difference(before: Form, after: Form, e: Partial<CalendarEvent>, me: Me, zone: string): Record<string, unknown> {
  const was = writeForm(before, e, me, zone) as Record<string, unknown>, is = writeForm(after, e, me, zone) as Record<string, unknown>;
  return Object.fromEntries(Object.entries(is).filter(([k, v]) => JSON.stringify(v) !== JSON.stringify(was[k])));
}
