// The invitations in the calendar that wait for an answer: a part of its own, since each page shows their number.

import { signal } from "@preact/signals";
import type { CalendarEvent } from "../jmap/calendar";

/** The events of the next half year, the first one first. */
export const unanswered = signal<CalendarEvent[]>([]);
