// Sending later: the time is chosen in the writer; what waits is shown with its time, and can be taken back.

import { useSignal } from "@preact/signals";
import { useEffect } from "preact/hooks";
import type { Message } from "../jmap/types";
import { cancelHeld, latest, offered, readHeld, type Held } from "../state/later";
import { readRow } from "../state/messages";
import { openMenu, say, sheet, type MenuItem } from "../state/screen";
import { attempt, client } from "../state/session";
import { nameOrAddress } from "../state/shown";
import { fullDate, refusal, shortTime, t } from "../text";
import { tl } from "../text/later";
import { Frame } from "./above";
import { write } from "./writing";

// Beside scheduled messages, in one part of the client: each part costs the first load its name and those of its parts.
export { Deleted, RecoverLink } from "./deleted";

/** Asks for the time at which a message is sent; more holds items for the end of the menu. */
export function askTime(button: Element, send: (at: Date) => unknown, more: MenuItem[]): void {
  const pick = () => {
    const end = latest()!;
    sheet.value = {
      kind: "ask", title: tl("later"), text: tl("pickAsk"), yes: tl("later"), input: "", type: "datetime-local",
      done: (text) => {
        const at = new Date(String(text));
        if (!(at > client.now() && at <= end)) return tl("badTime", fullDate(end.toISOString()));
        sheet.value = null;
        void send(at);
        return undefined;
      },
    };
  };
  openMenu(button, [
    ...offered().map((o) => ({ text: tl(o.name, shortTime(o.at)), icon: "clock", run: () => void send(o.at) })),
    { text: tl("pickTime"), icon: "clock", run: pick },
    { text: tl("scheduled"), icon: "sent", run: () => (sheet.value = { kind: "scheduled" }) },
    ...more,
  ]);
}

async function takeBack(h: Held): Promise<boolean> {
  let done: boolean | undefined;
  try {
    done = await attempt(() => cancelHeld(h));
  } catch (e) {
    say(refusal(e));
    return false;
  }
  if (done === undefined) return void say(t("cannotReach")), false;
  say(tl(done ? "takenBack" : "tooLate"));
  if (done && (await readRow(h.email))) void write({ kind: "draft", id: h.email });
  return done;
}

/** Shows the time at which a message in the reading pane will be sent. */
export function Waits({ m }: { m: Message }) {
  const held = useSignal<Held | null>(null);
  useEffect(() => {
    void attempt(() => readHeld(m.id)).then((list) => (held.value = list?.[0] ?? null), () => undefined);
  }, [m.id]);
  const h = held.value;
  if (!h) return null;
  return <div class="notice" role="note">{tl("willBeSent", fullDate(h.at))}<button class="button" onClick={() => void takeBack(h).then(() => (held.value = null))}>{tl("takeBack")}</button></div>;
}

/** The sheet of all messages that wait. */
export function Scheduled() {
  const list = useSignal<Held[] | null>(null);
  const problem = useSignal("");
  useEffect(() => {
    attempt(() => readHeld()).then((all) => (all ? (list.value = all) : (problem.value = t("cannotReach"))), (e: unknown) => (problem.value = refusal(e)));
  }, []);
  return (
    <Frame title={tl("scheduled")}>
      {problem.value ? <p class="said" role="alert">{problem.value}</p> : list.value === null ? <p class="quiet">{t("loading")}</p> : list.value.length === 0 && <p class="quiet">{tl("none")}</p>}
      <ul class="held">
        {(list.value ?? []).map((h) => (
          <li key={h.id}>
            <div><b>{h.subject || t("noSubject")}</b><div class="quiet">{tl("to", h.to.map(nameOrAddress).join(", "))}</div><div class="quiet">{fullDate(h.at)}</div></div>
            <button class="button" onClick={() => void takeBack(h).then((done) => { if (done) sheet.value = null; else list.value = list.value!.filter((x) => x !== h); })}>{tl("takeBack")}</button>
          </li>
        ))}
      </ul>
    </Frame>
  );
}
