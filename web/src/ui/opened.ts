// Opening messages of the list in the reading pane, and going from one to the next.

import type { Id } from "../jmap/types";
import { list } from "../state/list";
import { mailboxes } from "../state/mailboxes";
import { rows } from "../state/messages";
import { place } from "../state/place";
import { cursor, reading, turning } from "../state/screen";
import { write } from "./writing";

/** Opens a message in the reading pane: a draft in the writer. */
export async function open(id: Id): Promise<void> {
  const row = rows.value.get(id);
  if (row?.keywords["$draft"] && mailboxes.value.get(place.value.mailbox)?.role === "drafts") return write({ kind: "draft", id });
  reading.value = id;
}

/** Goes to the next or previous message of the list. */
export function step(by: number): void {
  const to = Math.max(0, Math.min(list.value.total - 1, cursor.value + by));
  cursor.value = to;
  const id = list.value.ids[to];
  turning.page = !!reading.value && reading.value !== id;
  if (id && reading.value) void open(id);
}
