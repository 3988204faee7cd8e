// The source of a message.

import { useSignal } from "@preact/signals";
import { useEffect } from "preact/hooks";
import { messages, readMessages } from "../state/messages";
import { account, attempt, client } from "../state/session";
import { t } from "../text";
import { Frame } from "./above";
import { Long } from "./plain";

export function Source({ id }: { id: string }) {
  const text = useSignal("");
  useEffect(() => {
    void attempt(async () => {
      await readMessages([id]);
      const m = messages.value.get(id);
      if (m) text.value = (await (await client.fetch(client.blobURL(account.value, m.blobId, "message/rfc822", "message.eml"))).text()).replaceAll("\r\n", "\n");
    });
  }, [id]);
  return <Frame title={t("source")}><div class="source" tabIndex={0}><Long text={text.value || t("loading")} bare /></div></Frame>;
}
