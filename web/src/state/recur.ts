// The usual ways in which events repeat, as the editor offers them, and as rules (RFC 8984 §4.3.3).

import type { CalendarEvent, RecurrenceRule, WeekDay } from "../jmap/calendar";
import { addDays, daysBetween, weekday, type Day } from "./days";

export const weekDays: WeekDay[] = ["su", "mo", "tu", "we", "th", "fr", "sa"];
const work: WeekDay[] = ["mo", "tu", "we", "th", "fr"];

export type Kind = "never" | "daily" | "weekdays" | "weekly" | "monthly" | "monthlyBy" | "yearly" | "asBefore";

export interface Repeat {
  kind: Kind;
  interval: number;
  /** For weekly ones. */
  days: WeekDay[];
  end: "never" | "until" | "count";
  until: Day;
  count: number;
}

const noRepeat = (d: Day): Repeat => ({ kind: "never", interval: 1, days: [weekDays[weekday(d)]!], end: "never", until: addDays(d, 90), count: 10 });

/** Which of its weekday in the month a day is: 1 to 4, or -1 for the last one. */
export const nthOf = (d: Day): number => (addDays(d, 7).slice(0, 7) !== d.slice(0, 7) ? -1 : Math.ceil(Number(d.slice(8)) / 7));

const known = new Set(["@type", "frequency", "interval", "byDay", "byMonthDay", "count", "until", "firstDayOfWeek", "rscale", "skip"]);

/** Reads the rules of an event that begins on a day; asBefore: the editor has no words for them. */
export function readRepeat(rules: RecurrenceRule[] | null | undefined, start: Day): Repeat {
  const out = noRepeat(start);
  const [r, ...others] = rules ?? [];
  if (!r) return out;
  out.interval = r.interval ?? 1;
  if (r.count !== undefined) Object.assign(out, { end: "count", count: r.count });
  else if (r.until) Object.assign(out, { end: "until", until: r.until.slice(0, 10) });
  out.kind = others.length > 0 || Object.keys(r).some((k) => !known.has(k)) ? "asBefore" : kindOf(r, start, out);
  return out;
}

function kindOf(r: RecurrenceRule, start: Day, out: Repeat): Kind {
  const by = r.byDay ?? [];
  const plain = by.every((d) => d.nthOfPeriod === undefined);
  const monthDay = !r.byMonthDay || (r.byMonthDay.length === 1 && r.byMonthDay[0] === Number(start.slice(8)));
  if (r.frequency === "daily") return by.length === 0 && !r.byMonthDay ? "daily" : "asBefore";
  if (r.frequency === "weekly" && plain && !r.byMonthDay) {
    if (by.length > 0) out.days = by.map((d) => d.day);
    const isWork = by.length === 5 && out.interval === 1 && work.every((w) => out.days.includes(w));
    return isWork ? "weekdays" : "weekly";
  }
  if (r.frequency === "monthly" && by.length === 0 && monthDay) return "monthly";
  if (r.frequency === "monthly" && by.length === 1 && !r.byMonthDay && by[0]!.day === weekDays[weekday(start)] && by[0]!.nthOfPeriod === nthOf(start)) return "monthlyBy";
  if (r.frequency === "yearly" && by.length === 0 && !r.byMonthDay) return "yearly";
  return "asBefore";
}

/** The rules of what the editor offers; start is the day on which the event begins. */
export function rulesOf(r: Repeat, start: Day): RecurrenceRule[] | null {
  const rule = (of: Pick<RecurrenceRule, "frequency" | "byDay">): RecurrenceRule[] => [{
    "@type": "RecurrenceRule", ...of, ...(r.interval > 1 && r.kind !== "weekdays" ? { interval: r.interval } : {}),
    ...(r.end === "count" ? { count: r.count } : r.end === "until" ? { until: `${r.until}T23:59:59` } : {}),
  }];
  const days = (list: WeekDay[]) => list.map((day) => ({ "@type": "NDay" as const, day }));
  switch (r.kind) {
    case "never": case "asBefore": return null;
    case "daily": case "monthly": case "yearly": return rule({ frequency: r.kind });
    case "weekdays": return rule({ frequency: "weekly", byDay: days(work) });
    case "weekly": return rule({ frequency: "weekly", byDay: days(r.days.length > 0 ? r.days : [weekDays[weekday(start)]!]) });
    case "monthlyBy": return rule({ frequency: "monthly", byDay: [{ "@type": "NDay", day: weekDays[weekday(start)]!, nthOfPeriod: nthOf(start) }] });
  }
}

/** The first day on or after one that is among the weekdays of a way to repeat. */
export function firstFitting(r: Repeat, start: Day): Day {
  const days = r.kind === "weekdays" ? work : r.kind === "weekly" ? r.days : [];
  for (let i = 0; i < 7 && days.length > 0; i++) if (days.includes(weekDays[weekday(addDays(start, i))]!)) return addDays(start, i);
  return start;
}

/**
 * A rule after its event was moved: weekdays move with it, and a single month, day of the month or numbered weekday follows it. undefined: the new
 * day does not say where several of them go, nor what is counted otherwise. The client without scripts refuses the same (serve/lite/eventmove.go).
 */
function movedRule(r: RecurrenceRule, from: Day, to: Day): RecurrenceRule | undefined {
  const by = daysBetween(from, to);
  if (by === 0) return r;
  const days = r.byDay ?? [], months = r.byMonth ?? [];
  const numbered = days.some((d) => d.nthOfPeriod !== undefined);
  if (numbered && (days.length > 1 || (r.frequency === "yearly" && months.length === 0))) return undefined;
  if ((r.byMonthDay ?? []).length > 1 || (months.length > 1 && from.slice(5, 7) !== to.slice(5, 7))) return undefined;
  if (["byYearDay", "byWeekNo", "bySetPosition"].some((k) => r[k] !== undefined)) return undefined;
  const out = { ...r };
  if (numbered) out.byDay = [{ ...days[0]!, day: weekDays[weekday(to)]!, nthOfPeriod: nthOf(to) }];
  else if (r.byDay) out.byDay = days.map((d) => ({ ...d, day: weekDays[(weekDays.indexOf(d.day) + (by % 7) + 7) % 7]! }));
  if (months.length === 1) out.byMonth = [String(Number(to.slice(5, 7)))];
  if (r.byMonthDay?.length === 1) out.byMonthDay = [Number(to.slice(8))];
  return out;
}

/** Shifts a local time by whole minutes. */
export const shiftLocal = (local: string, minutes: number): string => new Date(Date.parse(`${local}Z`) + minutes * 60_000).toISOString().slice(0, 19);

/** A whole series after one of its instances moved by some minutes of local time: exceptions move too. undefined: a rule cannot follow. */
export function shiftSeries(base: CalendarEvent, minutes: number): Partial<CalendarEvent> | undefined {
  if (minutes === 0) return {};
  const start = shiftLocal(base.start, minutes);
  const out: Partial<CalendarEvent> = { start };
  if (base.recurrenceRules) out.recurrenceRules = [];
  for (const rule of base.recurrenceRules ?? []) {
    const r = movedRule(rule, base.start.slice(0, 10), start.slice(0, 10));
    if (!r) return undefined;
    // The end of the series moves too: else a later or earlier time of day would lose or win an instance.
    out.recurrenceRules!.push(r.until ? { ...r, until: shiftLocal(r.until, minutes) } : r);
  }
  const overrides = Object.entries(base.recurrenceOverrides ?? {});
  if (overrides.length > 0) out.recurrenceOverrides = Object.fromEntries(overrides.map(([id, patch]) => [shiftLocal(id, minutes), patch]));
  return out;
}
