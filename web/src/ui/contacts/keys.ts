// The keys of the contacts: one table for what they do and for the list of keys.

import { contactOf, mayChange } from "../../state/cards";
import { closeQuery, goQuery } from "../../state/route";
import { menu, sheet, toasts } from "../../state/screen";
import { t } from "../../text";
import { tn } from "../../text/contacts";
import type { KeyGroup } from "../keys";
import { cardKey, deleteContact, editKey, openCard, step } from "./open";

const opened = () => contactOf(cardKey.value);

export const keys: KeyGroup[] = [
  {
    title: () => tn("keysList"), keys: [
      { keys: ["j", "ArrowDown"], text: () => tn("next"), run: () => step(1) },
      { keys: ["k", "ArrowUp"], text: () => tn("previous"), run: () => step(-1) },
      { keys: ["Enter", "o"], text: () => tn("openKey"), run: () => { const key = (document.activeElement as HTMLElement | null)?.dataset["contact"]; if (key) openCard(key); } },
      { keys: ["n", "c"], text: () => tn("newContact"), run: () => goQuery({ edit: "new" }) },
      { keys: ["e"], text: () => tn("edit"), run: () => { const c = opened(); if (c && mayChange(c)) goQuery({ edit: c.key }); } },
      { keys: ["#", "Delete"], text: () => tn("deleteKey"), run: () => { const c = opened(); if (c && mayChange(c)) deleteContact(c); } },
      { keys: ["z"], text: () => tn("undoKey"), run: () => toasts.value.findLast((x) => x.action)?.action!.run() },
      { keys: ["Escape"], text: () => tn("closeKey"), run: () => { if (cardKey.value) closeQuery("card"); } },
    ],
  },
  {
    title: () => tn("keysPages"), keys: [
      { keys: ["/"], text: () => tn("search"), run: () => document.getElementById("search")?.focus() },
      { keys: ["g i"], text: () => tn("goMail"), run: () => location.assign("/mail/inbox") },
      { keys: ["g c"], text: () => tn("goCalendar"), run: () => location.assign("/calendar/") },
      { keys: ["?"], text: () => t("help"), run: () => (sheet.value = { kind: "help" }) },
    ],
  },
];

/** Reports if keys are for something that lies above the page. */
export const covered = (): boolean => !!sheet.value || !!menu.value || !!editKey.value;
