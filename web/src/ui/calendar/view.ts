// Which days the calendar shows: its address names a view and a day.

import { computed, signal } from "@preact/signals";
import { addDays, addMonths, dateOf, daysFrom, isDay, startOfMonth, startOfWeek, weekday, weeksOfMonth, type Day } from "../../state/days";
import { go, route } from "../../state/route";
import { viewZone, weekStart } from "../../state/calendars";
import { narrow } from "../../state/screen";
import { client, localStorageGet, localStorageSet } from "../../state/session";
import { localTime } from "../../state/zone";
import { language } from "../../text";
import { tk } from "../../text/calendar";
import { tt } from "../../text/tasks";

export const views = ["day", "workweek", "week", "month", "agenda", "tasks"] as const;
export type View = (typeof views)[number];

const lastView = "doublet:calendar-view";

const usual = (): View => {
  const kept = localStorageGet(lastView) as View | null;
  return kept && views.includes(kept) ? kept : narrow.value ? "agenda" : "week";
};

/** The time now, renewed every half minute. */
export const now = signal(client.now().getTime());
setInterval(() => (now.value = client.now().getTime()), 30_000);

export const today = computed<Day>(() => localTime(now.value, viewZone.value).slice(0, 10));

export const view = computed<View>(() => {
  const named = route.value.path[1] as View | undefined;
  return named && views.includes(named) ? named : usual();
});
export const day = computed<Day>(() => (isDay(route.value.path[2]) ? route.value.path[2] : today.value));

/** The number of days in the agenda. */
const agendaDays = 42;

/** The days that a view shows. */
export const days = computed<Day[]>(() => {
  switch (view.value) {
    case "day": return [day.value];
    case "workweek": return daysFrom(startOfWeek(day.value, 1), 5);
    case "week": return daysFrom(startOfWeek(day.value, weekStart.value), 7);
    case "month": return weeksOfMonth(day.value, weekStart.value).flat();
    case "agenda": return daysFrom(day.value, agendaDays);
    case "tasks": return [day.value];
  }
});

/** Shows a view at a day; what is open above it closes. replace: it is no step of its own. */
export function showView(v: View, d: Day, replace = false): void {
  localStorageSet(lastView, v);
  go({ path: ["calendar", v, d], query: {} }, replace);
}

/** The day that is n pages of the view on. */
export function paged(n: number): Day {
  switch (view.value) {
    case "day": case "tasks": return addDays(day.value, n);
    case "month": return addMonths(startOfMonth(day.value), n);
    case "agenda": return addDays(day.value, n * agendaDays);
    default: return addDays(day.value, n * 7);
  }
}

/** Goes n days on; in the work week Saturday and Sunday are left out. */
export function stepDay(n: number): void {
  let to = addDays(day.value, n);
  if (view.value === "workweek") while (weekday(to) % 6 === 0) to = addDays(to, Math.sign(n));
  showView(view.value, to, true);
}

const formatters = new Map<string, Intl.DateTimeFormat>();

/** A format of the client's language. Days are formatted in UTC; times in the zone that is given. */
export function formatter(options: Intl.DateTimeFormatOptions): Intl.DateTimeFormat {
  const key = `${language.value} ${JSON.stringify(options)}`;
  let f = formatters.get(key);
  if (!f) formatters.set(key, (f = new Intl.DateTimeFormat(language.value, options)));
  return f;
}

export const dayText = (d: Day, options: Intl.DateTimeFormatOptions = { weekday: "long", day: "numeric", month: "long" }): string => formatter({ ...options, timeZone: "UTC" }).format(dateOf(d));
export const timeText = (at: number): string => formatter({ hour: "numeric", minute: "2-digit", timeZone: viewZone.value }).format(at);
export const timeRange = (from: number, to: number): string => formatter({ hour: "numeric", minute: "2-digit", timeZone: viewZone.value }).formatRange(from, to);

/** The title of the view: "November 2026", "23 – 29 November 2026". */
export function heading(): string {
  const list = days.value;
  const month = narrow.value ? "short" : "long", year = narrow.value && list[0]!.slice(0, 4) === today.value.slice(0, 4) ? {} : ({ year: "numeric" } as const);
  if (view.value === "day") return dayText(day.value, { weekday: month, day: "numeric", month, ...year });
  if (view.value === "tasks") return tt("tasks");
  if (view.value === "month") return dayText(day.value, { month: "long", ...year });
  return formatter({ day: "numeric", month, ...year, timeZone: "UTC" }).formatRange(dateOf(list[0]!), dateOf(list[list.length - 1]!));
}

export const viewName = (v: View): string => (v === "tasks" ? tt("tasks") : tk(v));
