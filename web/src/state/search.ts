// The words of a search, as people type them, into a JMAP filter (RFC 8621 §4.4.1).
//
//   from:anna to:ben cc:… subject:"two words" in:Archive has:attachment is:unread is:flagged
//   before:2026-05-01 after:2026-01 larger:1M smaller:20K -word "a phrase" word*

import type { Filter, Id, Mailbox } from "../jmap/types";

/** The operators, for completion and for the help sheet. */
export const operators = ["from:", "to:", "cc:", "subject:", "body:", "in:", "has:attachment", "is:unread", "is:read", "is:flagged", "is:draft", "before:", "after:", "larger:", "smaller:"];

interface Token {
  not: boolean;
  field: string;
  value: string;
}

/** Takes a search apart; quotes keep words together. */
export function tokens(text: string): Token[] {
  const out: Token[] = [];
  const pattern = /(-?)(?:([a-z]+):)?("[^"]*"?|[^\s"]+)/giu;
  for (const [, minus, field, raw] of text.matchAll(pattern)) {
    const quoted = raw!.startsWith('"');
    const value = quoted ? raw!.replaceAll('"', "") : raw!;
    if (!value.trim()) continue;
    const known = field && operators.some((o) => o.startsWith(`${field.toLowerCase()}:`));
    const word = known || !field ? value : `${field}:${value}`;
    out.push({ not: minus === "-", field: known ? field!.toLowerCase() : "", value: quoted && !known ? `"${word}"` : word });
  }
  return out;
}

function bytes(text: string): number {
  const m = /^(\d+(?:\.\d+)?)\s*([kmg]?)b?$/iu.exec(text);
  if (!m) return 0;
  return Math.round(Number(m[1]) * { "": 1, k: 1e3, m: 1e6, g: 1e9 }[m[2]!.toLowerCase() as "" | "k" | "m" | "g"]);
}

function day(text: string): string | undefined {
  const m = /^(\d{4})(?:-(\d{1,2}))?(?:-(\d{1,2}))?$/u.exec(text);
  if (!m) return undefined;
  const date = new Date(Number(m[1]), m[2] ? Number(m[2]) - 1 : 0, m[3] ? Number(m[3]) : 1);
  return Number.isNaN(date.getTime()) ? undefined : date.toISOString().replace(/\.\d+Z$/u, "Z");
}

function condition(t: Token, mailboxes: Map<Id, Mailbox>): Filter {
  switch (t.field) {
    case "from":
    case "to":
    case "cc":
    case "subject":
    case "body":
      return { [t.field]: t.value };
    case "in": {
      const wanted = t.value.toLowerCase();
      const found = [...mailboxes.values()].find((m) => m.name.toLowerCase() === wanted || m.role === wanted);
      return found ? { inMailbox: found.id } : { text: `in:${t.value}` };
    }
    case "has":
      return t.value.toLowerCase().startsWith("attach") ? { hasAttachment: true } : { text: t.value };
    case "is":
      switch (t.value.toLowerCase()) {
        case "unread": return { notKeyword: "$seen" };
        case "read": return { hasKeyword: "$seen" };
        case "flagged": return { hasKeyword: "$flagged" };
        case "draft": return { hasKeyword: "$draft" };
        default: return { hasKeyword: t.value };
      }
    case "before": {
      const at = day(t.value);
      return at ? { before: at } : { text: t.value };
    }
    case "after": {
      const at = day(t.value);
      return at ? { after: at } : { text: t.value };
    }
    case "larger": return { minSize: bytes(t.value) };
    case "smaller": return { maxSize: bytes(t.value) };
    default: return { text: t.value };
  }
}

/** Makes the filter of a search: everywhere but Trash and Junk, unless in: says where. */
export function parseSearch(text: string, _mailbox: Id, mailboxes: Map<Id, Mailbox>): Filter {
  const list = tokens(text);
  const conditions: Filter[] = list.map((t) => {
    const c = condition(t, mailboxes);
    return t.not ? { operator: "NOT" as const, conditions: [c] } : c;
  });
  if (!list.some((t) => t.field === "in" && !t.not)) {
    const hidden = [...mailboxes.values()].filter((m) => m.role === "trash" || m.role === "junk").map((m) => m.id);
    if (hidden.length > 0) conditions.push({ inMailboxOtherThan: hidden });
  }
  return conditions.length === 1 ? conditions[0]! : { operator: "AND", conditions };
}
