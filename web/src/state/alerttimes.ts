// When the alerts of an event come.

import type { Alert, Calendar, CalendarEvent } from "../jmap/calendar";
import { parseDuration } from "./days";
import { instant, isZone } from "./zone";

export interface Due {
  /** Names the alert of one instance, in all browsers alike. */
  key: string;
  at: number;
}

interface Defaults {
  defaultAlertsWithTime?: Record<string, Alert> | null;
  defaultAlertsWithoutTime?: Record<string, Alert> | null;
}

/** The alerts that count for an event: its own, or those of its calendar. Alerts by mail are the server's. */
export function alertsOf(e: CalendarEvent, calendar: (Partial<Calendar> & Defaults) | undefined): Record<string, Alert> {
  const usual = (e.showWithoutTime ? calendar?.defaultAlertsWithoutTime : calendar?.defaultAlertsWithTime) ?? {};
  const all = e.useDefaultAlerts ? usual : (e.alerts ?? {});
  return Object.fromEntries(Object.entries(all).filter(([, a]) => (a.action ?? "display") === "display" && !(a as { acknowledged?: string }).acknowledged));
}

/** The moments of the alerts of an event. zone is that of events without one. */
export function dueTimes(e: CalendarEvent, alerts: Record<string, Alert>, zone: string): Due[] {
  const own = isZone(e.timeZone) ? e.timeZone : zone;
  const start = e.utcStart && !e.showWithoutTime ? Date.parse(e.utcStart) : instant(e.start, own);
  const { days, ms } = parseDuration(e.duration);
  const end = e.utcEnd && !e.showWithoutTime ? Date.parse(e.utcEnd) : start + days * 86_400_000 + ms;
  return Object.entries(alerts).flatMap(([id, a]) => {
    const at = momentOf(a, start, end);
    return Number.isNaN(at) ? [] : [{ key: `${e.uid} ${e.start} ${id} ${at}`, at }];
  });
}

function momentOf(a: Alert, start: number, end: number): number {
  if (a.trigger.when) return Date.parse(a.trigger.when);
  const offset = a.trigger.offset ?? "";
  if (!/^[-+]?P/u.test(offset)) return Number.NaN;
  const { days, ms } = parseDuration(offset.replace(/^[-+]/u, ""));
  const by = days * 86_400_000 + ms;
  return (a.trigger.relativeTo === "end" ? end : start) + (offset.startsWith("-") ? -by : by);
}
