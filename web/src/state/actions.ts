// What a person does to messages, wherever it is asked for: buttons, keys, dragging. Each says what it did
// and can be undone.

import type { Id } from "../jmap/types";
import { t, count } from "../text";
import { byRole, change, list, mailboxes, pathOf, place, rows, threadOf } from "./mail";
import { cursor, reading, say, selected, sheet } from "./screen";
import { attempt, account, client } from "./session";
import { sync } from "./mail";

/** The e-mails that an action concerns: what is selected, else what is read, with their threads. */
export function chosen(): Id[] {
  const at = list.value.ids[cursor.value];
  const heads = selected.value.size > 0 ? [...selected.value] : reading.value ? [reading.value] : at ? [at] : [];
  return [...new Set(heads.flatMap(threadOf))].filter((id) => rows.value.has(id));
}

/** Those of a thread that are in the folder shown: what is elsewhere (in Sent, say) stays. */
function here(ids: Id[]): Id[] {
  const where = place.value;
  if (where.search) return ids;
  const in_ = ids.filter((id) => rows.value.get(id)?.mailboxIds[where.mailbox]);
  return in_.length > 0 ? in_ : ids;
}

function done(): void {
  selected.value = new Set();
  if (reading.value && !list.value.ids.includes(reading.value)) {
    // What takes its place in the list is shown next, as in a pile of paper.
    const next = list.value.ids[Math.min(cursor.value, list.value.ids.length - 1)];
    reading.value = innerWidth > 760 ? (next ?? null) : null;
  }
}

function undoable(before: Map<Id, Record<string, boolean>>, text: string): void {
  say(text, {
    text: t("undo"),
    run: () => {
      const update: Record<Id, Record<string, unknown>> = {};
      for (const [id, boxes] of before) update[id] = { mailboxIds: boxes };
      void change(update).then(sync);
    },
  });
}

export async function moveTo(target: Id, ids = here(chosen()), text?: string): Promise<void> {
  if (ids.length === 0) return;
  const before = new Map<Id, Record<string, boolean>>();
  const update: Record<Id, Record<string, unknown>> = {};
  for (const id of ids) {
    const row = rows.value.get(id);
    if (!row) continue;
    before.set(id, row.mailboxIds);
    update[id] = { mailboxIds: { [target]: true } };
  }
  await change(update);
  done();
  const folder = mailboxes.value.get(target);
  undoable(before, text ?? t("movedCount", count(ids.length), folder ? pathOf(folder) : ""));
}

export async function archive(): Promise<void> {
  const box = byRole("archive");
  const ids = here(chosen());
  if (box) await moveTo(box.id, ids, t("archivedCount", count(ids.length)));
}

export async function junk(): Promise<void> {
  const isJunk = mailboxes.value.get(place.value.mailbox)?.role === "junk";
  const box = byRole(isJunk ? "inbox" : "junk");
  const ids = here(chosen());
  if (!box || ids.length === 0) return;
  await moveTo(box.id, ids, isJunk ? undefined : t("junkCount", count(ids.length)));
  await change(Object.fromEntries(ids.map((id) => [id, { "keywords/$junk": isJunk ? null : true, "keywords/$notjunk": isJunk ? true : null }])));
}

export async function remove(): Promise<void> {
  const trash = byRole("trash");
  const where = mailboxes.value.get(place.value.mailbox);
  const ids = here(chosen());
  if (ids.length === 0) return;
  if (trash && where?.role !== "trash") return moveTo(trash.id, ids, t("deletedCount", count(ids.length)));
  await change({}, ids);
  done();
  say(t("destroyedCount", count(ids.length)));
}

export async function keyword(name: string, on: boolean, ids = chosen()): Promise<void> {
  const changed = ids.filter((id) => !!rows.value.get(id)?.keywords[name] !== on);
  if (changed.length > 0) await change(Object.fromEntries(changed.map((id) => [id, { [`keywords/${name}`]: on ? true : null }])));
}

export async function toggle(name: string): Promise<void> {
  const ids = chosen();
  const on = ids.some((id) => rows.value.get(id)?.keywords[name]);
  await keyword(name, !on, ids);
}

/** Deletes everything in a folder for good, in pieces that a server takes. */
export function empty(folder: Id): void {
  const m = mailboxes.value.get(folder);
  if (!m) return;
  sheet.value = {
    kind: "ask", title: t("emptyTrash"), text: t("emptyTrashAsk", m.name), yes: t("deleteForever"), danger: true,
    done: () =>
      void attempt(async () => {
        for (;;) {
          const found = await client.call("Email/query", { accountId: account.value, filter: { inMailbox: folder }, limit: 250 });
          const ids = found["ids"] as Id[];
          if (ids.length === 0) break;
          const answer = await client.call("Email/set", { accountId: account.value, destroy: ids });
          if (!(answer["destroyed"] as Id[] | null)?.length) break;
        }
        reading.value = null;
        await sync();
      }),
  };
}
