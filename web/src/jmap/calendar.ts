// The objects of JMAP Calendars (draft-ietf-jmap-calendars) and JSCalendar (RFC 8984) that the client uses.

import { pointer } from "./client";
import type { Id } from "./types";

export interface CalendarRights {
  mayReadFreeBusy: boolean;
  mayReadItems: boolean;
  mayWriteAll: boolean;
  mayWriteOwn: boolean;
  mayUpdatePrivate: boolean;
  mayRSVP: boolean;
  mayShare?: boolean;
  mayAdmin?: boolean;
  mayDelete: boolean;
}

export interface Calendar {
  id: Id;
  name: string;
  color: string | null;
  sortOrder: number;
  isSubscribed: boolean;
  isVisible: boolean;
  isDefault: boolean;
  timeZone: string | null;
  myRights: CalendarRights;
}

export type Frequency = "daily" | "weekly" | "monthly" | "yearly" | "hourly" | "minutely" | "secondly";
export type WeekDay = "mo" | "tu" | "we" | "th" | "fr" | "sa" | "su";

/** RFC 8984 §4.3.3. Properties that the editor does not offer are kept as they are. */
export interface RecurrenceRule {
  "@type"?: "RecurrenceRule";
  frequency: Frequency;
  interval?: number;
  byDay?: { "@type"?: "NDay"; day: WeekDay; nthOfPeriod?: number }[];
  byMonth?: string[];
  byMonthDay?: number[];
  count?: number;
  until?: string;
  [other: string]: unknown;
}

export type Participation = "needs-action" | "accepted" | "tentative" | "declined" | "delegated";

/** RFC 8984 §4.4.6. */
export interface Participant {
  "@type"?: "Participant";
  name?: string;
  email?: string;
  sendTo?: Record<string, string>;
  kind?: string;
  roles: Record<string, boolean>;
  participationStatus?: Participation;
  expectReply?: boolean;
}

/** The address of a participant, in small letters; "" for none. Some servers and files have it in sendTo alone. */
export const emailOf = (p: Participant): string => (p.email ?? p.sendTo?.["imip"]?.replace(/^mailto:/iu, "") ?? "").toLowerCase();

/** The patch that records the answer of a participant. */
export const statusPatch = (participant: Id, status: Participation): Record<string, unknown> => ({ [`participants/${pointer(participant)}/participationStatus`]: status });

/** RFC 8984 §4.5.2. */
export interface Alert {
  "@type"?: "Alert";
  trigger: { "@type"?: string; offset?: string; relativeTo?: "start" | "end"; when?: string; [other: string]: unknown };
  action?: "display" | "email";
}

/** RFC 8984 §1.4.11. blobId: an attachment that the server keeps (draft-ietf-jmap-calendars §5.2). */
export interface Link {
  "@type"?: "Link";
  href?: string;
  blobId?: Id;
  contentType?: string;
  size?: number;
  rel?: string;
  title?: string;
}

/** An event, or an instance of one that repeats: then baseEventId and recurrenceId are set. */
export interface CalendarEvent {
  id: Id;
  baseEventId?: Id | null;
  uid: string;
  calendarIds: Record<Id, boolean>;
  title?: string;
  description?: string;
  /** Local time in timeZone, "2026-11-26T09:30:00". */
  start: string;
  /** null: the clock time counts, wherever one is. */
  timeZone?: string | null;
  duration?: string;
  showWithoutTime?: boolean;
  status?: "confirmed" | "tentative" | "cancelled";
  freeBusyStatus?: "free" | "busy";
  privacy?: "public" | "private" | "secret";
  color?: string | null;
  locations?: Record<Id, { "@type"?: "Location"; name?: string }> | null;
  virtualLocations?: Record<Id, { "@type"?: "VirtualLocation"; uri: string; name?: string }> | null;
  links?: Record<Id, Link> | null;
  participants?: Record<Id, Participant> | null;
  replyTo?: Record<string, string> | null;
  recurrenceRules?: RecurrenceRule[] | null;
  recurrenceOverrides?: Record<string, Record<string, unknown>> | null;
  recurrenceId?: string | null;
  recurrenceIdTimeZone?: string | null;
  alerts?: Record<Id, Alert> | null;
  useDefaultAlerts?: boolean;
  /** false: somebody else organizes it. */
  isOrigin?: boolean;
  utcStart?: string;
  utcEnd?: string;
}

/** The properties of an event that the views show. */
export const shownProperties = [
  "id", "baseEventId", "uid", "calendarIds", "title", "start", "timeZone", "duration", "showWithoutTime", "status", "freeBusyStatus", "privacy", "color", "locations",
  "virtualLocations", "participants", "recurrenceId", "utcStart", "utcEnd",
] as const;

/** A time in which somebody is not free (Principal/getAvailability). */
export interface BusyPeriod {
  utcStart: string;
  utcEnd: string;
  busyStatus?: "confirmed" | "tentative" | "unavailable" | null;
}
