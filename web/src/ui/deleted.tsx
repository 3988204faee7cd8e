// The sheet of deleted messages that can be restored.

import { useSignal } from "@preact/signals";
import { useEffect } from "preact/hooks";
import type { Id } from "../jmap/types";
import { mostDeleted, readDeleted, restoreDeleted, type Deleted as Lost } from "../state/deleted";
import { mailboxes } from "../state/mailboxes";
import { say, sheet } from "../state/screen";
import { attempt } from "../state/session";
import { nameOrAddress } from "../state/shown";
import { count, fullDate, refusal, size, t } from "../text";
import { td } from "../text/deleted";
import { Frame } from "./above";
import { roleName } from "./side";

const names = (folders: Id[]): string => folders.map((id) => mailboxes.value.get(id)).filter((m) => !!m).map(roleName).join(", ");

export function Deleted() {
  const list = useSignal<Lost[] | null>(null);
  const problem = useSignal("");
  const busy = useSignal("");
  useEffect(() => {
    attempt(readDeleted).then((all) => (all ? (list.value = all) : (problem.value = t("cannotReach"))), (e: unknown) => (problem.value = refusal(e)));
  }, []);
  const restore = async (x: Lost) => {
    busy.value = x.id;
    try {
      const done = await attempt(() => restoreDeleted(x.id));
      if (!done) return void say(t("cannotReach"));
      if (!("folders" in done) && done.why) return void say(t("refusedByServer", done.why));
      say("folders" in done ? td("restored", names(done.folders)) : td("gone"));
      list.value = list.value!.filter((y) => y.id !== x.id);
    } catch (e) {
      say(refusal(e));
    } finally {
      busy.value = "";
    }
  };
  const all = list.value;
  return (
    <Frame title={td("recover")}>
      {problem.value ? <p class="said" role="alert">{problem.value}</p> : all === null ? <p class="quiet">{t("loading")}</p> : all.length === 0 && <p class="quiet">{td("none")}</p>}
      {all && all.length >= mostDeleted && <p class="quiet">{td("more", count(mostDeleted))}</p>}
      <ul class="held">
        {(all ?? []).map((x) => (
          <li key={x.id}>
            <div><b dir="auto">{x.subject || t("noSubject")}</b><div class="quiet" dir="auto">{x.from.map(nameOrAddress).join(", ")} · {size(x.size)}</div><div class="quiet">{td("deletedAt", fullDate(x.deletedAt), names(Object.keys(x.mailboxIds)))}</div></div>
            <button class="button" disabled={busy.value !== ""} onClick={() => void restore(x)}>{td("restore")}</button>
          </li>
        ))}
      </ul>
    </Frame>
  );
}

/** The button in the Trash that opens the sheet. */
export function RecoverLink() {
  return <p class="recover"><button class="button" onClick={() => (sheet.value = { kind: "deleted" })}>{td("recover")}</button></p>;
}
