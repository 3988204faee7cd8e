// A task from a message: it links to the message by its Message-ID (RFC 2392), which every program understands.

import { createApart } from "../state/tasks";
import { rows } from "../state/messages";
import { say } from "../state/screen";
import { t } from "../text";
import { tk } from "../text/calendar";
import { tt } from "../text/tasks";

/** Makes a task of a message, in the usual list, without a due time. */
export async function addTask(id: string): Promise<void> {
  const row = rows.value.get(id);
  if (!row) return;
  const title = row.subject || t("noSubject");
  const mid = row.messageId?.[0];
  const made = await createApart({ title, ...(mid ? { links: { message: { "@type": "Link", href: `mid:${encodeURIComponent(mid)}`, rel: "related", title } } } : {}) });
  if (!made) say(tt("notOffered"));
  else if (typeof made === "string") say(tt("created", title), { text: tt("show"), run: () => location.assign(`/calendar/tasks?task=${encodeURIComponent(made)}`) });
  else say("text" in made ? t("refusedByServer", made.text) : tk("offlineChange"));
}
