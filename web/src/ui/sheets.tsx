import { lazy } from "./lazy";
import { useSignal } from "@preact/signals";
import { useEffect } from "preact/hooks";
import { identities, messages, readMessages } from "../state/mail";
import { sheet, say } from "../state/screen";
import { account, attempt, client } from "../state/session";
import { t } from "../text";
import { Ask, Frame } from "./above";
import { keys } from "./shell";

const Settings = lazy(() => import("./settings").then((m) => m.Settings));

export function Sheets() {
  const s = sheet.value;
  if (!s) return null;
  switch (s.kind) {
    case "settings": return <Frame title={t("settings")}><Settings /></Frame>;
    case "help": return <Frame title={t("help")}><div class="keys">{keys.map(([k, text]) => <div><span>{text()}</span><kbd>{k}</kbd></div>)}</div></Frame>;
    case "source": return <Source id={s.id} />;
    case "ask": return <Ask s={s} />;
    case "redirect": return <Redirect id={s.id} />;
  }
}

function Source({ id }: { id: string }) {
  const text = useSignal("");
  useEffect(() => {
    void attempt(async () => {
      await readMessages([id]);
      const m = messages.value.get(id);
      if (m) text.value = (await (await client.fetch(client.blobURL(account.value, m.blobId, "message/rfc822", "message.eml"))).text()).slice(0, 2_000_000);
    });
  }, [id]);
  return <Frame title={t("source")}><pre class="source" tabIndex={0}>{text.value || t("loading")}</pre></Frame>;
}

/** Redirect: the message goes on as it is, to somebody else. */
function Redirect({ id }: { id: string }) {
  const to = useSignal("");
  const go = () => void attempt(async () => {
    const list = to.value.split(/[,;\s]+/u).filter(Boolean);
    const i = identities.value[0];
    if (!i || list.length === 0) return;
    const answer = await client.call("EmailSubmission/set", {
      accountId: account.value, create: { s: { emailId: id, identityId: i.id, envelope: { mailFrom: { email: i.email }, rcptTo: list.map((email) => ({ email })) } } },
    });
    const problem = (answer["notCreated"] as Record<string, { type: string; description?: string }> | null)?.["s"];
    say(problem ? t("refusedByServer", problem.description ?? problem.type) : t("sending"));
  });
  return (
    <Frame title={t("redirect")} small>
      <form onSubmit={(e) => { e.preventDefault(); sheet.value = null; go(); }}>
        <label class="field"><span>{t("resentTo")}</span><input type="text" inputMode="email" value={to.value} onInput={(e) => (to.value = e.currentTarget.value)} autofocus required /></label>
        <div class="ends"><button type="button" class="button" onClick={() => (sheet.value = null)}>{t("cancel")}</button><button class="button primary">{t("send")}</button></div>
      </form>
    </Frame>
  );
}
