// The folders of the account that is open, as the server told them with the changes that wait; and its quota.

import { computed, signal } from "@preact/signals";
import type { Id, Mailbox, Quota } from "../jmap/types";
import * as db from "./db";
import { withWaiting } from "./folders";
import { account, attempt, client } from "./session";

export const mailboxes = signal<Map<Id, Mailbox>>(new Map());
export const quota = signal<Quota | null>(null);

export const sortedMailboxes = computed(() => {
  const rank = (m: Mailbox) => ["inbox", "snoozed", "drafts", "sent", "archive", "junk", "trash"].indexOf(m.role ?? "");
  return [...mailboxes.value.values()].sort((a, b) => {
    const x = rank(a) < 0 ? 99 : rank(a);
    const y = rank(b) < 0 ? 99 : rank(b);
    return x - y || a.sortOrder - b.sortOrder || a.name.localeCompare(b.name);
  });
});

export function byRole(role: string): Mailbox | undefined {
  for (const m of mailboxes.value.values()) if (m.role === role) return m;
  return undefined;
}

/** The path of a folder, "Projects / 2026". */
export function pathOf(m: Mailbox): string {
  const parent = m.parentId ? mailboxes.value.get(m.parentId) : undefined;
  return parent ? `${pathOf(parent)} / ${m.name}` : m.name;
}

/** The folders as the server told them. */
let told = new Map<Id, Mailbox>();

/** Takes all folders as the server told them. */
export function takeMailboxes(list: Mailbox[]): void {
  readMailboxes(list);
  void db.put("mailboxes", account.value, list);
}

/** Takes folders that the browser keeps. */
export function readMailboxes(list: Mailbox[]): void {
  told = new Map(list.map((m) => [m.id, m]));
  showMailboxes();
}

/** Takes changes of folders: the new ones, properties of others, and the ids of those that are gone. */
export function changeMailboxes(made: Mailbox[], changed: (Partial<Mailbox> & { id: Id })[], destroyed: Id[]): void {
  const next = new Map(told);
  for (const id of destroyed) next.delete(id);
  for (const m of made) next.set(m.id, m);
  for (const m of changed) {
    const was = next.get(m.id);
    if (was) next.set(m.id, { ...was, ...m });
  }
  takeMailboxes([...next.values()]);
}

/** Shows the folders as the server told them, with the changes that wait. */
export function showMailboxes(): void {
  mailboxes.value = withWaiting(told, account.value);
}

export async function readQuota(): Promise<void> {
  await attempt(async () => {
    const answer = await client.call("Quota/get", { accountId: account.value, ids: null });
    quota.value = ((answer["list"] as Quota[]) ?? []).find((q) => q.resourceType === "octets") ?? null;
  }).catch(() => undefined); // a server without quotas
}
