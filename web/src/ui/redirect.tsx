// Redirect: a message goes on as it is to somebody else, who sees from whom it came and who sent it on.

import { useSignal } from "@preact/signals";
import type { Address, Id } from "../jmap/types";
import { dateField, mailbox } from "../state/fields";
import { messages, readMessages } from "../state/messages";
import { identities, outgoing } from "../state/outgoing";
import { intend, takeBack } from "../state/outbox";
import { preferences } from "../state/prefs";
import { say, sheet } from "../state/screen";
import { attempt, client, home } from "../state/session";
import { t } from "../text";
import { Frame } from "./above";
import { isAddress, Recipients } from "./recipients";

/** The fields of a resending (RFC 5322 §3.6.6), which go before the message's own. */
export function resentFields(from: Address, to: Address[], id: string, date: Date): string {
  return `Resent-From: ${mailbox(from)}\r\nResent-To: ${to.map(mailbox).join(",\r\n ")}\r\nResent-Date: ${dateField(date)}\r\nResent-Message-ID: ${id}\r\n`;
}

export function Redirect({ id }: { id: Id }) {
  const to = useSignal<Address[]>([]);
  const identity = useSignal(identities.value[0]?.id ?? "");
  const said = useSignal("");
  const go = async () => {
    const i = identities.value.find((x) => x.id === identity.value);
    await attempt(() => readMessages([id]));
    const m = messages.value.get(id);
    const bad = to.value.find((a) => !isAddress(a.email));
    const { drafts, sent } = outgoing.value;
    if (to.value.length === 0) return void (said.value = t("noRecipients"));
    if (bad) return void (said.value = t("badAddress", bad.email));
    if (!i || !m || !drafts || !sent) return void (said.value = t("cannotReach"));
    sheet.value = null;
    const resentID = `<${crypto.randomUUID()}@${i.email.split("@")[1] ?? "localhost"}>`;
    const seconds = preferences.value.undoSeconds;
    const intention = await intend({
      kind: "redirect", account: home.value, at: Date.now() + seconds * 1000, email: id, blob: m.blobId, identity: i.id, drafts, sent, resentID,
      fields: resentFields({ name: i.name || null, email: i.email }, to.value, resentID, client.now()),
      envelope: { mailFrom: { email: i.email }, rcptTo: [...new Map(to.value.map((a) => [a.email.toLowerCase(), { email: a.email }])).values()] },
    });
    if (seconds === 0) return void say(t("sending"));
    return void say(t("sendUndo", seconds), { text: t("undo"), run: () => void takeBack(intention.key).then((was) => was && say(t("sendTakenBack"))) }, seconds);
  };
  return (
    <Frame title={t("redirect")} small>
      <form class="redirect" onSubmit={(e) => { e.preventDefault(); void go(); }}>
        <p class="quiet">{t("redirectHint")}</p>
        {said.value && <p class="said" role="alert">{said.value}</p>}
        {identities.value.length > 1 && (
          <label class="field"><span>{t("from")}</span>
            <select value={identity.value} onChange={(e) => (identity.value = e.currentTarget.value)}>{identities.value.map((i) => <option value={i.id}>{i.name ? `${i.name} <${i.email}>` : i.email}</option>)}</select></label>
        )}
        <div class="fields"><Recipients id="redirect-to" label={t("resentTo")} list={to.value} set={(l) => (to.value = l)} /></div>
        <div class="ends"><button type="button" class="button" onClick={() => (sheet.value = null)}>{t("cancel")}</button><button class="button primary">{t("send")}</button></div>
      </form>
    </Frame>
  );
}
