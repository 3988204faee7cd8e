// The filter and the order of a list. A view is written as "only.order"; "" is all messages, the newest first.

import { signal } from "@preact/signals";
import type { Filter } from "../jmap/types";

const only = ["", "unread", "flagged", "files"] as const;
const orders = ["", "oldest", "from", "subject", "size", "unread"] as const;
export type Only = (typeof only)[number];
export type Order = (typeof orders)[number];

/** Reads a view; what it does not know is as if it were not there. */
export function readView(view = ""): { only: Only; order: Order } {
  const [a = "", b = ""] = view.split(".");
  return { only: only.find((x) => x === a) ?? "", order: orders.find((x) => x === b) ?? "" };
}

export const writeView = (v: { only: Only; order: Order }) => (v.order ? `${v.only}.${v.order}` : v.only);

const conditions: Record<Exclude<Only, "">, Filter> = {
  unread: { notKeyword: "$seen" },
  flagged: { hasKeyword: "$flagged" },
  files: { hasAttachment: true },
};

/** A filter that lets only what a view shows through. */
export function within(filter: Filter, view: string | undefined): Filter {
  const { only } = readView(view);
  return only ? { operator: "AND", conditions: [filter, conditions[only]] } : filter;
}

/** Reports if a change of a message takes it out of what a view shows. */
export function leaves(patch: Record<string, unknown>, view: string | undefined): boolean {
  const { only } = readView(view);
  return (only === "unread" && patch["keywords/$seen"] === true) || (only === "flagged" && patch["keywords/$flagged"] === null);
}

/** Some message is pinned: lists show pinned ones first. */
export const hasPins = signal(false);
export const pin = "$pinned";
export const muted = "$muted";

type Comparator = { property: string; isAscending: boolean; keyword?: string };
const newest: Comparator = { property: "receivedAt", isAscending: false };

/** The order of a list (RFC 8621 §4.4.2). */
export function sortOf(view: string | undefined, pins: boolean): Comparator[] {
  switch (readView(view).order) {
    case "oldest": return [{ ...newest, isAscending: true }];
    case "from": return [{ property: "from", isAscending: true }, newest];
    case "subject": return [{ property: "subject", isAscending: true }, newest];
    case "size": return [{ property: "size", isAscending: false }, newest];
    case "unread": return [{ property: "hasKeyword", keyword: "$seen", isAscending: true }, newest];
    default: return pins ? [{ property: "someInThreadHaveKeyword", keyword: pin, isAscending: false }, newest] : [newest];
  }
}

/** The times at which snoozed messages come back, by id, as far as they were read. */
export const snoozedUntil = signal<Map<string, string>>(new Map());
/** The times of reminders of messages that nobody has answered, by id, as far as they were read. */
export const remindedAt = signal<Map<string, string>>(new Map());
