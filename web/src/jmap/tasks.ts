// The objects of JMAP Tasks (draft-ietf-jmap-tasks) and JSCalendar (RFC 8984 §5.2) that the client uses.

import type { Alert, CalendarRights, RecurrenceRule } from "./calendar";
import type { Id } from "./types";

export interface TaskList {
  id: Id;
  /** "inbox": the list that the server made. */
  role: string | null;
  name: string;
  color: string | null;
  sortOrder: number;
  isVisible: boolean;
  myRights: CalendarRights;
}

export type Progress = "needs-action" | "in-process" | "completed" | "cancelled" | "failed";

export interface TaskLink {
  "@type"?: "Link";
  href: string;
  rel?: string;
  title?: string;
}

/** A task, or an instance of one that repeats: then baseTaskId and recurrenceId are set. */
export interface Task {
  id: Id;
  baseTaskId?: Id | null;
  uid: string;
  taskListId: Id;
  title?: string;
  description?: string;
  /** Local times in timeZone; those of showWithoutTime are days. */
  start?: string | null;
  due?: string | null;
  timeZone?: string | null;
  showWithoutTime?: boolean;
  priority?: number;
  progress?: Progress;
  progressUpdated?: string | null;
  percentComplete?: number | null;
  recurrenceRules?: RecurrenceRule[] | null;
  recurrenceOverrides?: Record<string, Record<string, unknown>> | null;
  recurrenceId?: string | null;
  links?: Record<Id, TaskLink> | null;
  alerts?: Record<Id, Alert> | null;
}

/** The properties that the client reads of tasks, and of instances: without the server the editor has these, and a change presumes them. */
export const taskProperties = [
  "id", "baseTaskId", "uid", "taskListId", "title", "description", "start", "due", "timeZone", "showWithoutTime", "priority", "progress", "progressUpdated", "percentComplete",
  "recurrenceRules", "recurrenceId", "links", "alerts",
] as const;
