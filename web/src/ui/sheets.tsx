import { lazy } from "./lazy";
import { useSignal } from "@preact/signals";
import { useEffect } from "preact/hooks";
import { messages, readMessages } from "../state/messages";
import { sheet } from "../state/screen";
import { account, attempt, client } from "../state/session";
import { t } from "../text";
import { Ask, Frame } from "./above";
import { Long } from "./plain";
import { Redirect } from "./redirect";

const Help = lazy(() => import("./palette").then((m) => m.Help));
const Palette = lazy(() => import("./palette").then((m) => m.Palette));
const Preview = lazy(() => import("./preview").then((m) => m.Preview));
const Scheduled = lazy(() => import("./later").then((m) => m.Scheduled));
const RuleFrom = lazy(() => import("./rulebook").then((m) => m.RuleFrom));
const Settings = lazy(() => import("./settings").then((m) => m.Settings));

export function Sheets() {
  const s = sheet.value;
  if (!s) return null;
  switch (s.kind) {
    case "settings": return <Frame title={t("settings")}><Settings /></Frame>;
    case "help": return <Help />;
    case "palette": return <Palette key={s.mode} mode={s.mode} />;
    case "source": return <Source id={s.id} />;
    case "ask": return <Ask s={s} />;
    case "preview": return <Preview key={`${s.of} ${s.at}`} of={s.of} at={s.at} />;
    case "redirect": return <Redirect id={s.id} />;
    case "rule": return <RuleFrom key={s.id} id={s.id} />;
    case "scheduled": return <Scheduled />;
  }
}

function Source({ id }: { id: string }) {
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
