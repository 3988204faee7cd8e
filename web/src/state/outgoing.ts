// The identities and folders that writing needs.

import { signal } from "@preact/signals";
import type { Id, Identity } from "../jmap/types";
import * as db from "./db";
import { client, home } from "./session";

export const identities = signal<Identity[]>([]);
/** The folders of one's own account that writing needs. */
export const outgoing = signal<{ drafts: Id; sent: Id }>({ drafts: "", sent: "" });

/** Finds the folders that writing needs, and creates the missing ones; and Trash, without which deleting is for good. */
export async function findOutgoing(list: { id: Id; role: string | null }[]): Promise<void> {
  const of = (role: string) => list.find((m) => m.role === role)?.id;
  const make = Object.fromEntries([["drafts", "Drafts"], ["sent", "Sent"], ["trash", "Trash"]].filter(([role]) => !of(role!)).map(([role, name]) => [role!, { name, role, isSubscribed: true }]));
  let made: Record<string, { id: Id }> = {};
  if (Object.keys(make).length > 0) made = ((await client.call("Mailbox/set", { accountId: home.value, create: make }))["created"] as typeof made | null) ?? {};
  outgoing.value = { drafts: of("drafts") ?? made["drafts"]?.id ?? "", sent: of("sent") ?? made["sent"]?.id ?? "" };
  await db.put("facts", "outgoing", outgoing.value);
}
