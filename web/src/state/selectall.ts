// Selecting all that a place shows, however much of it was read.

import { ref } from "../jmap/client";
import type { Id, Row } from "../jmap/types";
import { refusal, t } from "../text";
import { selecting } from "./all";
import { briefs } from "./briefs";
import { filterOf, place } from "./place";
import { say, selected } from "./screen";
import { account, attempt, client } from "./session";

/** The most messages of one query: every server answers so many. */
const page = 250;

/** Selects all e-mails of the place that is shown. Leaving it, or selecting something else, ends that. */
export async function selectAll(): Promise<void> {
  const where = place.value, accountId = account.value;
  const before = selected.value;
  const found = new Map<Id, Row>();
  const goesOn = () => place.value === where && selected.value === before;
  selecting.value = { done: 0, of: 0 };
  try {
    const whole = await attempt(async () => {
      for (let at = 0, total = 1; at < total && goesOn(); at += page) {
        const answers = await client.calls([
          ["Email/query", { accountId, filter: filterOf(where), sort: [{ property: "receivedAt", isAscending: false }], position: at, limit: page, calculateTotal: true }, "q"],
          ["Email/get", { accountId, "#ids": ref("q", "Email/query", "/ids"), properties: ["id", "mailboxIds", "keywords"] }, "g"],
        ]);
        total = answers.get("q")!["total"] as number;
        for (const r of answers.get("g")!["list"] as Row[]) found.set(r.id, r);
        selecting.value = { done: found.size, of: total };
      }
      return true;
    });
    if (!goesOn()) return;
    if (!whole) return void say(t("cannotReach"));
    briefs.clear();
    for (const [id, { mailboxIds, keywords }] of found) briefs.set(id, { mailboxIds, keywords });
    selected.value = new Set(found.keys());
  } catch (e) {
    say(refusal(e));
  } finally {
    selecting.value = null;
  }
}
