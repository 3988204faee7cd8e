// Menus of the writer: fonts, sizes, colours, and templates, which the server keeps.

import { openMenu, say, sheet, type MenuItem } from "../state/screen";
import { own, setOwn } from "../state/own";
import { t } from "../text";
import { tw } from "../text/format";
import type { Editor } from "./editor";
import type { IconName } from "./icons";
import type { TableCommand } from "./table";

const colours = { red: ["#b3261e", 2], orange: ["#a8421a", 20], green: ["#0b6152", 168], blue: ["#0b57a4", 210], violet: ["#6a1b9a", 280], grey: ["#5f6368", 0] } as const;
const sizes = { small: "2", normal: null, large: "5", huge: "6" } as const;
const changes: Record<TableCommand, IconName> = {
  rowAbove: "plus", rowBelow: "plus", columnBefore: "plus", columnAfter: "plus", headerRow: "bold", removeRow: "trash", removeColumn: "trash", removeTable: "trash",
};
const faces = { sans: null, serif: "Georgia, serif", mono: "Courier New, monospace" } as const;

export function colourMenu(at: Element, e: Editor): void {
  openMenu(at, [
    ...(Object.keys(colours) as (keyof typeof colours)[]).map((c): MenuItem => ({ text: tw(c), icon: "colour", hue: colours[c][1], run: () => e.font("color", colours[c][0]) })),
    { text: tw("noColour"), icon: "close", run: () => e.font("color", null) },
  ]);
}

export function fontMenu(at: Element, e: Editor): void {
  openMenu(at, [
    ...(Object.keys(sizes) as (keyof typeof sizes)[]).map((s): MenuItem => ({ text: tw(s), icon: "font", run: () => e.font("size", sizes[s]) })),
    ...(Object.keys(faces) as (keyof typeof faces)[]).map((f): MenuItem => ({ text: tw(f), icon: "font", run: () => e.font("face", faces[f]) })),
  ]);
}

/** Offers tables of some sizes, or the changes of the table that the cursor is in. */
export function tableMenu(at: Element, e: Editor): void {
  if (!e.inTable()) {
    const offered: [number, number][] = [[2, 2], [3, 3], [4, 3], [6, 4]];
    openMenu(at, offered.map(([rows, columns]): MenuItem => ({ text: tw("tableOf", rows, columns), icon: "table", run: () => e.insertTable(rows, columns) })));
    return;
  }
  openMenu(at, (Object.keys(changes) as TableCommand[]).map((c): MenuItem => ({ text: tw(c), icon: changes[c], run: () => e.changeTable(c) })));
}

interface Template {
  name: string;
  subject: string;
  html: string;
}

/** The most of a template, in characters, and how many there are at most. */
const longest = 50_000, most = 30;

function templates(): Template[] {
  const out: Template[] = [];
  for (const [key, value] of own.value) {
    if (!key.startsWith("template:")) continue;
    try {
      const { subject, html } = JSON.parse(value) as Partial<Template>;
      if (typeof html === "string") out.push({ name: key.slice(9), subject: typeof subject === "string" ? subject : "", html });
    } catch {
      // what cannot be read is as if it were not there
    }
  }
  return out.sort((a, b) => a.name.localeCompare(b.name));
}

const problemText = (problem: string) => (problem === "offline" ? t("cannotReach") : t("refusedByServer", problem));

/** Offers the templates, and to keep what is written as one. Pictures of the message are not part of it. */
export function templateMenu(at: Element, e: Editor, subject: () => string, setSubject: (s: string) => void): void {
  const list = templates();
  const save = () => (sheet.value = {
    kind: "ask", title: tw("templates"), text: tw("templateName"), yes: t("save"), input: subject(),
    done: async (answer) => {
      const name = String(answer).trim().slice(0, 60);
      if (!name) return undefined;
      const html = e.html().replace(/<img\b[^>]*>/giu, "");
      if (html.length > longest) return tw("templateLarge");
      const problem = await setOwn(`template:${name}`, JSON.stringify({ subject: subject(), html }));
      if (problem !== undefined) return problemText(problem);
      say(tw("templateSaved", name));
      return undefined;
    },
  });
  const remove = () => openMenu(at, list.map((x): MenuItem => ({ text: x.name, icon: "trash", run: () => void setOwn(`template:${x.name}`, null).then((p) => { if (p !== undefined) say(problemText(p)); }) })));
  openMenu(at, [
    ...list.map((x): MenuItem => ({
      text: x.name, icon: "template",
      run: () => {
        if (!subject() && x.subject) setSubject(x.subject);
        e.insert(x.html);
      },
    })),
    ...(list.length < most ? [{ text: tw("saveTemplate"), icon: "plus", run: save }] : []),
    ...(list.length > 0 ? [{ text: tw("removeTemplate"), icon: "trash", run: remove }] : []),
  ]);
}
