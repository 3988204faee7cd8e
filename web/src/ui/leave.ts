// Signing out forgets all that this browser keeps: what it alone has is not thrown away unasked, on whatever page one is.

import * as db from "../state/db";
import { load, waiting } from "../state/outbox";
import { sheet } from "../state/screen";
import { home, signOut } from "../state/session";
import { t } from "../text";
import type { Kept } from "./writing";

/** Signs out, after asking where something waits for the server or is written and not kept there. */
export async function leave(): Promise<void> {
  await load();
  let n = waiting.value.length;
  for (const k of (await db.keys("facts")) ?? []) {
    if (typeof k !== "string" || !k.startsWith("writing:")) continue;
    const kept = await db.get<Kept>("facts", k);
    if (kept && !kept.saved && kept.account === home.value) n++;
  }
  if (n === 0) return signOut();
  sheet.value = { kind: "ask", title: t("signOut"), text: t("signOutWaiting", n), yes: t("signOut"), danger: true, done: () => void signOut() };
}
