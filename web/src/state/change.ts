// Changes of messages by the person.

import { batch } from "@preact/signals";
import type { Id, Row } from "../jmap/types";
import { briefs, type Brief } from "./briefs";
import * as db from "./db";
import { list, noteMove } from "./list";
import { mailboxes } from "./mailboxes";
import { messages, patched, rows } from "./messages";
import { intend, mostAtOnce } from "./outbox";
import { place } from "./place";
import { account } from "./session";

/** Changes e-mails: on the screen at once, at the server as soon as it answers. */
export async function change(update: Record<Id, Record<string, unknown>>, destroy: Id[] = []): Promise<void> {
  if (destroy.length > 0 || Object.values(update).some((patch) => Object.keys(patch).some((k) => k.startsWith("mailboxIds")))) noteMove();
  const counts = new Map<Id, { total: number; unread: number }>();
  const count = (row: Brief, by: number) => {
    for (const box of Object.keys(row.mailboxIds)) {
      const c = counts.get(box) ?? { total: 0, unread: 0 };
      c.total += by;
      if (!row.keywords["$seen"] && !row.keywords["$draft"]) c.unread += by;
      counts.set(box, c);
    }
  };
  batch(() => {
    const nextRows = new Map(rows.value);
    const nextMessages = new Map(messages.value);
    for (const [id, patch] of Object.entries(update)) {
      const row = nextRows.get(id);
      const brief = row ? undefined : briefs.get(id);
      if (brief) {
        const after = patched(brief, patch);
        count(brief, -1);
        count(after, 1);
        briefs.set(id, after);
      }
      if (!row) continue;
      count(row, -1);
      const after = patched(row, patch);
      count(after, 1);
      nextRows.set(id, after);
      const m = nextMessages.get(id);
      if (m) nextMessages.set(id, patched(m, patch));
    }
    for (const id of destroy) {
      const row = nextRows.get(id) ?? briefs.get(id);
      if (row) count(row, -1);
    }
    rows.value = nextRows;
    messages.value = nextMessages;
    const where = place.value;
    const ended = new Set(destroy);
    const stays = (id: Id | undefined) =>
      !id || (!ended.has(id) && (where.search !== "" || !update[id] || !!nextRows.get(id)?.mailboxIds[where.mailbox]));
    const ids = list.value.ids.filter(stays);
    list.value = { ...list.value, ids, total: list.value.total - (list.value.ids.length - ids.length) };
    const boxes = new Map(mailboxes.value);
    for (const [id, c] of counts) {
      const m = boxes.get(id);
      if (m) boxes.set(id, { ...m, totalEmails: Math.max(0, m.totalEmails + c.total), unreadEmails: Math.max(0, m.unreadEmails + c.unread) });
    }
    mailboxes.value = boxes;
  });
  const touched = [...Object.keys(update)].flatMap((id) => (rows.value.has(id) ? [[id, rows.value.get(id)] as [Id, Row]] : []));
  // In pieces that a server takes at once. They wait from the moment in which the screen shows them: a list that is read meanwhile
  // knows of them.
  const updates = Object.entries(update);
  const intended: Promise<unknown>[] = [];
  for (let i = 0; i === 0 || i < Math.max(updates.length, destroy.length); i += mostAtOnce) {
    intended.push(intend({ kind: "change", account: account.value, update: Object.fromEntries(updates.slice(i, i + mostAtOnce)), destroy: destroy.slice(i, i + mostAtOnce) }));
  }
  await db.putAll("rows", touched);
  await Promise.all(intended);
}
