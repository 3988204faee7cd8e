// A sender on the screen: the verdict on its domain, and ways to leave its list and to block it.

import { useSignal } from "@preact/signals";
import { useEffect } from "preact/hooks";
import type { Id, Message, Row } from "../jmap/types";
import { mailboxes } from "../state/mailboxes";
import { rows } from "../state/messages";
import { identities } from "../state/outgoing";
import { place } from "../state/place";
import { say, sheet } from "../state/screen";
import { account, home } from "../state/session";
import { atHand, block, blockable, blocked, leaveAtOnce, readBlocked, verdictOf, waysOf, type Way } from "../state/senders";
import { refusal, t } from "../text";
import { ts } from "../text/senders";
import { Icon } from "./icons";
import { mailto } from "./mailto";
import { write } from "./writing";

const isJunk = () => mailboxes.value.get(place.value.mailbox)?.role === "junk";
const own = () => new Set(identities.value.map((i) => i.email.toLowerCase()));

/** Leaves a list by a message that the person sends, or on a page of the list. */
function leaveByHand(w: Way | undefined): void {
  const asked = w?.kind === "mail" ? mailto(w.url) : undefined;
  if (asked?.kind === "new") return void write({ ...asked, subject: asked.subject || "unsubscribe" });
  if (w?.kind !== "page") return;
  sheet.value = {
    kind: "ask", title: t("unsubscribe"), text: t("unsubscribeAsk", new URL(w.url).host), yes: t("ok"),
    done: () => void window.open(w.url, "_blank", "noopener,noreferrer"),
  };
}

async function leaveByRequest(m: Message, host: string, others: Way[]): Promise<void> {
  const end = say(ts("leaving"), undefined, 30);
  try {
    const result = await leaveAtOnce(m.id);
    if (result === "left") say(ts("left", host));
    else if (result === "offline") say(t("cannotReach"));
    else leaveByHand(others[0]);
  } catch (e) {
    say(ts("notLeft", e instanceof Error ? e.message : ""));
    leaveByHand(others[0]);
  } finally {
    end();
  }
}

/** Returns what leaves the list of a message; null: it is of no list that can be left. */
function leaving(m: Message): (() => void) | null {
  if (isJunk() || account.value !== home.value) return null;
  const [first, ...others] = waysOf(m);
  if (!first) return null;
  if (first.kind !== "request") return () => leaveByHand(first);
  return () => (sheet.value = {
    kind: "ask", title: t("unsubscribe"), text: ts("oneClickAsk", first.host), yes: t("unsubscribe"),
    done: () => void leaveByRequest(m, first.host, others),
  });
}

/** Beside the author of an opened message: its verified domain, and the way out of its list. */
export function Sender({ m }: { m: Message }) {
  const verdict = verdictOf(m);
  const leave = leaving(m);
  return (
    <>
      {verdict?.result === "pass" && <span class="verified" title={ts("verifiedHint", verdict.domain)}><Icon name="check" />{ts("verified", verdict.domain)}</span>}
      {leave && <button class="chip" onClick={leave}>{t("unsubscribe")}</button>}
    </>
  );
}

/** Above the text of a message whose author could not be verified, though the domain asks for that. */
export function Unverified({ m }: { m: Message }) {
  const verdict = verdictOf(m);
  if (verdict?.result !== "fail") return null;
  return <div class="notice alarm" role="alert"><Icon name="warning" />{ts("failed", m.from?.[0]?.email ?? t("unknownSender"), verdict.domain)}</div>;
}

/** Over a row of the list: leaves the list of its message, as far as the message is at hand. */
export function LeaveTool({ id }: { id: Id }) {
  const m = useSignal<Message | undefined>(undefined);
  useEffect(() => {
    let there = true;
    void atHand(id).then((found) => {
      if (there) m.value = found;
    });
    return () => { there = false; };
  }, [id]);
  const leave = m.value && leaving(m.value);
  if (!leave) return null;
  return <button class="tool" tabIndex={-1} title={t("unsubscribe")} onClick={(e) => { e.stopPropagation(); leave(); }}><Icon name="leave" /></button>;
}

async function setBlocked(address: string, on: boolean): Promise<void> {
  try {
    if (!(await block(address, on))) return void say(t("cannotReach"));
  } catch (e) {
    return void say(refusal(e));
  }
  say(ts(on ? "blocked" : "unblocked", address), { text: t("undo"), run: () => void setBlocked(address, !on) });
}

/** Blocks the sender of a message, or ends that. */
export async function toggleBlock(id: Id): Promise<void> {
  const row: Row | undefined = rows.value.get(id);
  const address = account.value === home.value ? blockable(row?.from ?? null, own()) : "";
  if (!address) return;
  if (!blocked.value) await readBlocked();
  if (!blocked.value) return void say(t("cannotReach"));
  await setBlocked(address, !blocked.value.has(address));
}

/** The blocked senders, in the settings. */
export function Blocked() {
  const text = useSignal("");
  const problem = useSignal("");
  useEffect(() => {
    void readBlocked().catch(() => undefined);
  }, []);
  const add = async () => {
    const sender = text.value.trim().toLowerCase();
    if (!/^[^\s<>,@]*@[^\s<>,@]+$/u.test(sender)) return void (problem.value = ts("badSender", sender));
    try {
      if (!(await block(sender, true))) return void (problem.value = t("cannotReach"));
      text.value = "";
    } catch (e) {
      problem.value = refusal(e);
    }
  };
  const list = [...(blocked.value ?? [])].sort();
  return (
    <section class="blocked">
      <h3>{ts("blockedSenders")}</h3>
      <p class="quiet">{ts("blockedHint")}</p>
      {list.length === 0 && blocked.value && <p>{ts("none")}</p>}
      <ul class="picture-senders">
        {list.map((address) => (
          <li key={address}><span>{address}</span>
            <button class="tool" aria-label={ts("unblock", address)} title={ts("unblock", address)} onClick={() => void setBlocked(address, false)}><Icon name="close" /></button></li>
        ))}
      </ul>
      <form class="add" onSubmit={(e) => { e.preventDefault(); void add(); }}>
        <label class="field"><span>{ts("add")}</span><input value={text.value} onInput={(e) => { text.value = e.currentTarget.value; problem.value = ""; }} autocomplete="off" /></label>
        <button class="button">{ts("addButton")}</button>
      </form>
      {problem.value && <p class="said" role="alert">{problem.value}</p>}
    </section>
  );
}
