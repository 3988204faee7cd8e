// Words of the calendar that have cases: how events repeat, and when alerts come.

import type { CalendarEvent, WeekDay } from "../../jmap/calendar";
import { addDays, startOfWeek, weekday, type Day } from "../../state/days";
import { nthOf, readRepeat, weekDays, type Kind, type Repeat } from "../../state/recur";
import { language } from "../../text";
import { tk } from "../../text/calendar";
import { dayText } from "./view";

/** The name of a day of the week; 0 is Sunday. */
export const weekdayName = (n: number, width: "long" | "short" | "narrow" = "long"): string => dayText(addDays(startOfWeek("2026-11-25", 0), n), { weekday: width });

/** A way to repeat, for an event that begins on a day. */
export function kindText(k: Kind, first: Day): string {
  switch (k) {
    case "monthly": return tk("monthly", Number(first.slice(8)));
    case "monthlyBy": return tk("monthlyBy", tk((["first", "second", "third", "fourth"] as const)[nthOf(first) - 1] ?? "last"), weekdayName(weekday(first)));
    default: return tk(k);
  }
}

const units = { daily: "unitDaily", weekly: "unitWeekly", monthly: "unitMonthly", monthlyBy: "unitMonthly", yearly: "unitYearly" } as const;
export const unitOf = (k: Kind): string => (k in units ? tk(units[k as keyof typeof units]) : "");

const dayNames = (days: WeekDay[]) => new Intl.ListFormat(language.value, { type: "conjunction", style: "short" }).format(days.map((d) => weekdayName(weekDays.indexOf(d), "short")));

function repeatText(r: Repeat, first: Day): string {
  const words = [r.interval > 1 && r.kind in units ? tk("everyN", r.interval, unitOf(r.kind)) : kindText(r.kind, first)];
  if (r.kind === "weekly" && (r.days.length > 1 || r.days[0] !== weekDays[weekday(first)])) words.push(dayNames(r.days));
  if (r.end === "until") words.push(tk("untilDay", dayText(r.until, { day: "numeric", month: "long", year: "numeric" })));
  if (r.end === "count") words.push(tk("nTimes", r.count));
  return words.join(", ");
}

/** The repetition of an event in words; "" if it does not repeat. */
export function repeats(e: CalendarEvent): string {
  if (!e.recurrenceRules?.length) return "";
  const r = readRepeat(e.recurrenceRules, e.start.slice(0, 10));
  return r.kind === "asBefore" ? tk("repeats") : repeatText(r, e.start.slice(0, 10));
}

/** An alert so many minutes before the start. */
export function alertText(minutes: number): string {
  if (minutes === 0) return tk("alertAt");
  if (minutes === 60) return tk("alertHour");
  if (minutes === 1440) return tk("alertDay");
  if (minutes === 10_080) return tk("alertWeek");
  return minutes % 60 === 0 && minutes < 1440 ? tk("alertHours", minutes / 60) : tk("alertMinutes", minutes);
}
