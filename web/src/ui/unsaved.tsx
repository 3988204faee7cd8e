// Changes of events, tasks and contacts that wait for the server, and those that it refused after they had waited.

import { changedElsewhere, deletedElsewhere, giveUp, insist, unsaved, type Kind, type Standing } from "../state/objects";
import { t } from "../text";
import { tw } from "../text/unsaved";
import { Icon } from "./icons";

type Refused = ReturnType<typeof unsaved>[number];

/** The state of a change in words; "" for one that is under way. */
export const standingText = (s: Standing | ""): string => (s === "waits" || s === "refused" ? tw(s) : "");

/** The mark of something that is not at the server yet. */
export function Mark({ of }: { of: Standing | "" }) {
  const text = standingText(of);
  return text ? <span class="waits" title={text}><Icon name={of === "waits" ? "clock" : "warning"} /><span class="visually-hidden">{text}</span></span> : null;
}

const hidden = new Set(["@type", "@version", "uid", "id", "timeZone", "calendarIds", "taskListId", "addressBookIds", "version", "kind", "roles", "sendTo", "replyTo", "participantId", "href"]);

/** The values of a change that a person wrote or chose, in their order. */
function wordsOf(v: unknown): string[] {
  if (typeof v === "string") return v.trim() ? [v.replace(/^(\d{4}-\d\d-\d\d)T(\d\d:\d\d):00$/u, "$1 $2")] : [];
  if (typeof v === "number") return [String(v)];
  if (typeof v !== "object" || v === null) return [];
  return Object.entries(v).flatMap(([k, x]) => (hidden.has(k) ? [] : wordsOf(x)));
}

const isDeletion = (i: Refused) => i.kind === "remove" || (i.destroy?.length ?? 0) > 0;

function reason(i: Refused): string {
  const title = i.title?.trim() || t("noSubject");
  if (i.refused === changedElsewhere) return tw(isDeletion(i) ? "notDeleted" : "changedElsewhere", title);
  return i.refused === deletedElsewhere ? tw("deletedElsewhere", title) : tw("refusedWhy", title, i.refused ?? "");
}

/** Says which changes were refused, with what was written, until the person decides. */
export function Unsaved({ types }: { types: Kind[] }) {
  return (
    <>
      {types.flatMap(unsaved).map((i) => {
        const words = isDeletion(i) ? "" : wordsOf(Object.values((i.kind === "set" && i.create) || i.update || {})).join(" · ");
        return (
          <div class="notice unsaved" role="alert" key={i.key}>
            <span><b dir="auto">{reason(i)}</b>{words && <span class="quiet" dir="auto"> {tw("yours", words)}</span>}</span>
            <button class="button" onClick={() => void insist(i)}>{tw(isDeletion(i) ? "delete" : "save")}</button>
            <button class="button" onClick={() => void giveUp(i)}>{tw(isDeletion(i) ? "keep" : "discard")}</button>
          </div>
        );
      })}
    </>
  );
}
