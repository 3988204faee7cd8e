// Events as an .ics file (RFC 5545): the properties that the editor knows. Times of time zones are written with the name of the zone,
// whose rules every program has.

import { emailOf, type CalendarEvent, type RecurrenceRule } from "../jmap/calendar";
import { parseDuration } from "./days";
import { basic, fold, quoted, text } from "./invitation";
import { owner } from "./written";

function rule(r: RecurrenceRule, e: CalendarEvent): string {
  const parts = [`FREQ=${r.frequency.toUpperCase()}`];
  if (r.interval && r.interval > 1) parts.push(`INTERVAL=${r.interval}`);
  if (r.byDay) parts.push(`BYDAY=${r.byDay.map((d) => `${d.nthOfPeriod ?? ""}${d.day.toUpperCase()}`).join(",")}`);
  if (r.byMonthDay) parts.push(`BYMONTHDAY=${r.byMonthDay.join(",")}`);
  if (r.count !== undefined) parts.push(`COUNT=${r.count}`);
  // RFC 5545 §3.3.10: the end is a date where the start is one.
  else if (r.until) parts.push(`UNTIL=${e.showWithoutTime ? basic(r.until.slice(0, 10)) : basic(r.until)}`);
  return parts.join(";");
}

/** A time as a property has it, in the zone of its event. */
function time(name: string, local: string, e: CalendarEvent): string {
  if (e.showWithoutTime) return `${name};VALUE=DATE:${basic(local.slice(0, 10))}`;
  if (e.timeZone === "Etc/UTC" || e.timeZone === "UTC") return `${name}:${basic(local)}Z`;
  return e.timeZone ? `${name};TZID=${e.timeZone}:${basic(local)}` : `${name}:${basic(local)}`;
}

function people(e: CalendarEvent): string[] {
  const from = owner(e);
  const out = from ? [`ORGANIZER${from.name ? `;CN=${quoted(from.name)}` : ""}:mailto:${emailOf(from)}`] : [];
  for (const p of Object.values(e.participants ?? {})) {
    if (emailOf(p)) out.push(`ATTENDEE;PARTSTAT=${(p.participationStatus ?? "needs-action").toUpperCase()}${p.name ? `;CN=${quoted(p.name)}` : ""}:mailto:${emailOf(p)}`);
  }
  return out;
}

function alarms(e: CalendarEvent): string[] {
  return Object.values(e.alerts ?? {}).flatMap(({ trigger }) => (trigger.offset ? ["BEGIN:VALARM", "ACTION:DISPLAY", `DESCRIPTION:${text(e.title ?? "")}`, `TRIGGER${trigger.relativeTo === "end" ? ";RELATED=END" : ""}:${trigger.offset}`, "END:VALARM"] : []));
}

/** The lines of an event or, with instance, of one that differs from its series. */
function component(e: CalendarEvent, now: string, instance?: string): string[] {
  const { days } = parseDuration(e.duration);
  const excluded = Object.entries(e.recurrenceOverrides ?? {}).filter(([, p]) => p["excluded"] === true).map(([id]) => id);
  const first = <T>(map: Record<string, T> | null | undefined) => Object.values(map ?? {})[0];
  const place = first(e.locations)?.name, link = first(e.virtualLocations)?.uri;
  return [
    "BEGIN:VEVENT", `UID:${text(e.uid)}`, `DTSTAMP:${now}`, time("DTSTART", e.start, e), `DURATION:${e.showWithoutTime && days === 0 ? "P1D" : (e.duration ?? "PT0S")}`,
    ...(instance ? [time("RECURRENCE-ID", instance, e)] : []), ...(e.title ? [`SUMMARY:${text(e.title)}`] : []), ...(e.description ? [`DESCRIPTION:${text(e.description)}`] : []),
    ...(place ? [`LOCATION:${text(place)}`] : []), ...(link ? [`URL:${link}`] : []), ...(e.status && e.status !== "confirmed" ? [`STATUS:${e.status.toUpperCase()}`] : []),
    ...(e.freeBusyStatus === "free" ? ["TRANSP:TRANSPARENT"] : []), ...(e.privacy && e.privacy !== "public" ? [`CLASS:${e.privacy === "secret" ? "CONFIDENTIAL" : "PRIVATE"}`] : []),
    ...(instance ? [] : (e.recurrenceRules ?? []).map((r) => `RRULE:${rule(r, e)}`)), ...(instance ? [] : excluded.map((id) => time("EXDATE", id, e))), ...people(e), ...alarms(e), "END:VEVENT",
  ];
}

/** Writes events, each with the instances that differ from its series. */
export function writeCalendar(list: CalendarEvent[], now: Date): string {
  const stamp = basic(now.toISOString());
  const events = list.flatMap((e) => [
    ...component(e, stamp),
    ...Object.entries(e.recurrenceOverrides ?? {}).filter(([, p]) => p["excluded"] !== true).flatMap(([id, p]) => {
      const plain = Object.fromEntries(Object.entries(p).filter(([k]) => !k.includes("/")));
      return component({ ...e, start: id, ...plain, recurrenceOverrides: null }, stamp, id);
    }),
  ]);
  return fold(["BEGIN:VCALENDAR", "VERSION:2.0", "PRODID:-//Doublet//EN", ...events, "END:VCALENDAR"]);
}
