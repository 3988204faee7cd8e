// A message that is read whole, and the reason why it cannot be shown.

import { useSignal } from "@preact/signals";
import { useEffect } from "preact/hooks";
import type { Id, Message } from "../jmap/types";
import { messages, readMessages } from "../state/messages";
import { reachable } from "../state/session";
import { refusal, t } from "../text";

/** The message, once it is read; why says that it cannot be read, and again asks for it once more. */
export interface Whole {
  m: Message | undefined;
  why: string;
  again: () => void;
}

/** Reads a message while it is wanted, and once more when the server can be reached again. */
export function useWhole(id: Id, isWanted = true): Whole {
  const m = messages.value.get(id);
  const why = useSignal("");
  const again = () => {
    why.value = "";
    readMessages([id]).then(
      (isReached) => {
        if (isReached && !messages.value.has(id)) why.value = t("messageGone");
      },
      (e: unknown) => (why.value = refusal(e)),
    );
  };
  useEffect(() => {
    if (isWanted && !m) again();
  }, [id, isWanted, m, reachable.value]);
  return { m, why: why.value, again };
}

/** Stands where the message will be: says that it is being read, or why it cannot be. */
export function NotYet({ of }: { of: Whole }) {
  if (!of.why) return <div class="ghost" />;
  return <div class="notice" role="alert">{of.why}<button class="button" onClick={of.again}>{t("retry")}</button></div>;
}
