// The actions on messages, for buttons, keys and dragging alike. Each reports its effect
// and can be undone.

import type { Id } from "../jmap/types";
import { t, count } from "../text";
import { change } from "./change";
import { list } from "./list";
import { byRole, mailboxes, pathOf } from "./mailboxes";
import { rows, threadOf } from "./messages";
import { place } from "./place";
import { briefs, type Brief } from "./briefs";
import { cursor, reading, say, selected, sheet, turning } from "./screen";
import { inTrash } from "./folders";
import { sync } from "./sync";

/** The e-mails that an action concerns: what is selected, else what is read, with their threads. */
export function chosen(): Id[] {
  const at = list.value.ids[cursor.value];
  return ofThreads(selected.value.size > 0 ? [...selected.value] : reading.value ? [reading.value] : at ? [at] : []);
}

/** The e-mails of the threads of e-mails. */
export function ofThreads(heads: Id[]): Id[] {
  return [...new Set(heads.flatMap(threadOf))].filter((id) => !!known(id));
}

/** The known properties of a message, also of one that is not in the list. */
const known = (id: Id): Brief | undefined => rows.value.get(id) ?? briefs.get(id);

/** Those of a thread that are in the folder shown: what is elsewhere (in Sent, say) stays. */
export function here(ids: Id[]): Id[] {
  const where = place.value;
  if (where.search) return ids;
  const in_ = ids.filter((id) => known(id)?.mailboxIds[where.mailbox]);
  return in_.length > 0 ? in_ : ids;
}

/** Ends what was chosen; the next message is shown where the one that was read has left the list. */
export function done(): void {
  selected.value = new Set();
  if (reading.value && !list.value.ids.includes(reading.value)) {
    // The message that takes its place in the list is shown next, as in a pile of paper.
    const next = list.value.ids[Math.min(cursor.value, list.value.ids.length - 1)];
    turning.page = true;
    reading.value = innerWidth > 760 ? (next ?? null) : null;
  }
}

/** For how many seconds an action can be undone, and one that concerned many e-mails. */
const undoFor = (n: number) => (n > 100 ? 20 : 6);

function undoable(before: Map<Id, Record<string, boolean>>, text: string): void {
  say(text, {
    text: t("undo"),
    run: () => {
      const update: Record<Id, Record<string, unknown>> = {};
      for (const [id, boxes] of before) update[id] = { mailboxIds: boxes };
      void change(update).then(sync);
    },
  }, undoFor(before.size));
}

export async function moveTo(target: Id, ids = here(chosen()), text?: string): Promise<void> {
  if (ids.length === 0) return;
  const before = new Map<Id, Record<string, boolean>>();
  const update: Record<Id, Record<string, unknown>> = {};
  for (const id of ids) {
    const row = known(id);
    if (!row) continue;
    before.set(id, row.mailboxIds);
    update[id] = { mailboxIds: { [target]: true } };
  }
  await change(update);
  done();
  const folder = mailboxes.value.get(target);
  undoable(before, text ?? t("movedCount", count(ids.length), folder ? pathOf(folder) : ""));
}

export async function archive(of = chosen()): Promise<void> {
  const box = byRole("archive");
  const ids = here(of);
  if (box) await moveTo(box.id, ids, t("archivedCount", count(ids.length)));
}

export async function junk(of = chosen()): Promise<void> {
  const isJunk = mailboxes.value.get(place.value.mailbox)?.role === "junk";
  const box = byRole(isJunk ? "inbox" : "junk");
  const ids = here(of);
  if (!box || ids.length === 0) return;
  await moveTo(box.id, ids, isJunk ? undefined : t("junkCount", count(ids.length)));
  await change(Object.fromEntries(ids.map((id) => [id, { "keywords/$junk": isJunk ? null : true, "keywords/$notjunk": isJunk ? true : null }])));
}

export async function remove(of = chosen()): Promise<void> {
  const trash = byRole("trash");
  const where = mailboxes.value.get(place.value.mailbox);
  const ids = here(of);
  if (ids.length === 0) return;
  if (trash && !(where && inTrash(mailboxes.value, where))) return moveTo(trash.id, ids, t("deletedCount", count(ids.length)));
  sheet.value = {
    kind: "ask", title: t("deleteForever"), text: t("destroyAsk", count(ids.length)), yes: t("deleteForever"), danger: true,
    done: () => void destroy(ids, where?.id),
  };
}

/** Destroys e-mails; those that are in other folders too only leave the one that is looked at. */
async function destroy(ids: Id[], from: Id | undefined): Promise<void> {
  const elsewhere = ids.filter((id) => from && Object.keys(known(id)?.mailboxIds ?? {}).some((box) => box !== from));
  await change(Object.fromEntries(elsewhere.map((id) => [id, { [`mailboxIds/${from}`]: null }])), ids.filter((id) => !elsewhere.includes(id)));
  done();
  say(t("destroyedCount", count(ids.length)));
}

export async function keyword(name: string, on: boolean, ids = chosen()): Promise<void> {
  const changed = ids.filter((id) => !!known(id)?.keywords[name] !== on);
  if (changed.length > 0) await change(Object.fromEntries(changed.map((id) => [id, { [`keywords/${name}`]: on ? true : null }])));
}

export async function toggle(name: string, ids = chosen()): Promise<void> {
  const on = ids.some((id) => known(id)?.keywords[name]);
  await keyword(name, !on, ids);
}
