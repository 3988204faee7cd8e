// The source of a message.

import { useSignal } from "@preact/signals";
import { useEffect } from "preact/hooks";
import { readPart } from "../state/messages";
import { attempt, reachable } from "../state/session";
import { refusal, t } from "../text";
import { Frame } from "./above";
import { Long } from "./plain";
import { NotYet, useWhole } from "./whole";

export function Source({ id }: { id: string }) {
  const whole = useWhole(id);
  const text = useSignal("");
  const why = useSignal("");
  const blobId = whole.m?.blobId;
  const read = () => {
    if (!blobId || text.value) return;
    why.value = "";
    attempt(() => readPart({ blobId, type: "message/rfc822", charset: null })).then((got) => (text.value = got ?? ""), (e: unknown) => (why.value = refusal(e)));
  };
  useEffect(read, [blobId, reachable.value]);
  return (
    <Frame title={t("source")}>
      {why.value || whole.why
        ? <NotYet of={why.value ? { ...whole, why: why.value, again: read } : whole} />
        : <div class="source" tabIndex={0}><Long text={text.value || t("loading")} bare /></div>}
    </Frame>
  );
}
