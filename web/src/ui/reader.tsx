// The reading pane: the conversation of the message that is read.

import { useEffect } from "preact/hooks";
import { firstList } from "../state/list";
import { rows } from "../state/messages";
import { reading } from "../state/screen";
import { t } from "../text";
import { Domino } from "./icons";
import { lazy } from "./lazy";

const conversation = () => import("./conversation").then((m) => m.Conversation);
const Conversation = lazy(conversation);

export function Reader() {
  const id = reading.value;
  const row = id ? rows.value.get(id) : undefined;
  useEffect(() => {
    void firstList.then(conversation).catch(() => undefined);
    const timer = setTimeout(() => void import("./foreign").catch(() => undefined), 1500); // what the first message needs is there before
    return () => clearTimeout(timer);
  }, []);
  return (
    <section class="pane read" aria-label={t("readingPane")}>
      {id && row ? <Conversation id={id} row={row} /> : <div class="scroll"><div class="empty"><Domino of="doublet" size={72} /><p>{t("pickMessage")}</p></div></div>}
    </section>
  );
}
