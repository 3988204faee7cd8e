// Deleted messages of the person's own account that can be restored.

import { whyOf } from "../jmap/client";
import type { Address, Id, SetError } from "../jmap/types";
import { client, home } from "./session";
import { sync } from "./sync";

/** The most messages that the server lists. */
export const mostDeleted = 500;

export interface Deleted {
  id: Id;
  from: Address[];
  subject: string;
  size: number;
  deletedAt: string;
  /** The folders that it goes back to. */
  mailboxIds: Record<Id, boolean>;
}

/** Reads the deleted messages, the newest first. */
export async function readDeleted(): Promise<Deleted[]> {
  const answers = await client.calls([["DeletedEmail/get", { accountId: home.value, ids: null }, "d"]]);
  return answers.get("d")!["list"] as Deleted[];
}

/** Restores a message, and returns its folders, or the reason why not: undefined if it is no longer there. */
export async function restoreDeleted(id: Id): Promise<{ folders: Id[] } | { why?: string }> {
  const answers = await client.calls([["DeletedEmail/restore", { accountId: home.value, ids: [id] }, "d"]]);
  const { restored, notRestored } = answers.get("d") as { restored: Record<Id, { mailboxIds: Record<Id, boolean> }> | null; notRestored: Record<Id, SetError> | null };
  const refused = notRestored?.[id];
  if (refused) return refused.type === "notFound" ? {} : { why: whyOf(refused) };
  await sync();
  return { folders: Object.keys(restored?.[id]?.mailboxIds ?? {}) };
}
