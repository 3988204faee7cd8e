// The command palette: everything that the client can do, by its name; and the list of keys.

import { useSignal } from "@preact/signals";
import { useEffect, useRef } from "preact/hooks";
import { chosen, keyword, moveTo } from "../state/actions";
import { keywordOf } from "../state/keyword";
import { show } from "../state/list";
import { pathOf, sortedMailboxes } from "../state/mailboxes";
import { rows } from "../state/messages";
import { place } from "../state/place";
import { hues, labels, labelsOf, setLabel, type Label } from "../state/own";
import { reading, selected, sheet, typedAhead } from "../state/screen";
import { count, tc, type CommandText } from "../text";
import { ta } from "../text/labels";
import { Frame } from "./above";
import { commands, type Group } from "./commands";
import { Icon, type IconName } from "./icons";
import { roleName } from "./side";

export type Mode = "all" | "move" | "go" | "label";

interface Entry {
  text: string;
  icon: IconName | undefined;
  keys?: string;
  hue?: number | undefined;
  /** The text searched for the typed words, if it is not the entry's own. */
  name?: string;
  run: () => unknown;
}

const most = 50;
const fold = (s: string) => s.normalize("NFD").replace(/\p{M}/gu, "").toLowerCase();

function folders(mode: Mode): Entry[] {
  const all = sortedMailboxes.value.filter((m) => mode !== "move" || (m.id !== place.value.mailbox && m.myRights.mayAddItems));
  return all.map((m) => {
    const name = m.parentId ? pathOf(m) : roleName(m);
    if (mode === "move") return { text: tc("moveTo", name), icon: "folder", run: () => moveTo(m.id) };
    return {
      text: tc("goTo", name), icon: "folder",
      run: () => {
        reading.value = null;
        selected.value = new Set();
        void show({ mailbox: m.id, search: "" });
      },
    };
  });
}

/** The labels to set on what is chosen, or to take away; and a new one of the text. */
function labelEntries(text: string): Entry[] {
  const ids = chosen();
  const there = new Map(labels.value.map((l) => [l.keyword, l]));
  for (const row of rows.value.values()) for (const l of labelsOf(row.keywords)) there.set(l.keyword, l);
  const on = (l: Label) => ids.every((id) => rows.value.get(id)?.keywords[l.keyword]);
  const all = [...there.values()].sort((a, b) => a.name.localeCompare(b.name)).map((l): Entry => ({
    text: ta(on(l) ? "takeLabel" : "setLabel", l.name), icon: on(l) ? "check" : "label", hue: l.hue && hues[l.hue], name: l.name, run: () => keyword(l.keyword, !on(l), ids),
  }));
  const name = text.trim();
  const made = keywordOf(name);
  if (made && !there.has(made)) all.push({ text: ta("create", name), icon: "plus", name, run: () => { void setLabel({ keyword: made, name, hue: undefined }); void keyword(made, true, ids); } });
  return all;
}

/** The entries that have all words of a text; those that begin with it come first. */
function entries(mode: Mode, text: string): Entry[] {
  const all = mode === "label" ? labelEntries(text) : folders(mode);
  if (mode === "all") {
    all.unshift(...commands.filter((c) => c.name !== "palette").map((c): Entry => ({ text: tc(c.name), icon: c.icon, run: c.run, ...(c.keys[0] ? { keys: c.keys[0] } : {}) })));
  }
  const wanted = fold(text).trim();
  const words = wanted.split(/\s+/u);
  const found = all.filter((e) => words.every((w) => fold(e.name ?? e.text).includes(w)));
  found.sort((a, b) => Number(fold(b.name ?? b.text).startsWith(wanted)) - Number(fold(a.name ?? a.text).startsWith(wanted)));
  if (mode === "all" && wanted) found.push({ text: tc("searchFor", text.trim()), icon: "search", run: () => void show({ mailbox: place.value.mailbox, search: text.trim() }) });
  return found.slice(0, most);
}

export function Palette({ mode }: { mode: Mode }) {
  const text = useSignal("");
  const at = useSignal(0);
  const input = useRef<HTMLInputElement>(null);
  // Keys typed while this part was loaded count, up to the first Enter.
  useEffect(() => {
    const [words = "", ...rest] = typedAhead.keys.split("\n");
    typedAhead.keys = "";
    input.current!.value = text.value = words;
    input.current!.focus();
    if (rest.length > 0) take(entries(mode, words)[0]);
  }, []);
  const found = entries(mode, text.value);
  const title = tc(mode === "all" ? "palette" : mode === "move" ? "move" : mode === "label" ? "label" : "goFolder");
  const take = (e: Entry | undefined) => {
    if (!e) return;
    sheet.value = null;
    queueMicrotask(() => void e.run()); // behind the end of the sheet, which gives the focus back
  };
  const step = (by: number) => {
    at.value = (at.value + by + found.length) % Math.max(1, found.length);
    document.getElementById(`command-${at.value}`)?.scrollIntoView({ block: "nearest" });
  };
  return (
    <Frame title={title} small>
      <div class="palette">
        <input
          ref={input} type="text" {...({ role: "combobox" } as object)} aria-expanded="true" aria-controls="commands" aria-autocomplete="list" aria-label={title} autocomplete="off" spellcheck={false}
          placeholder={mode === "label" ? ta("pickLabel") : tc(mode === "all" ? "paletteHint" : "folderHint")} {...(found.length > 0 ? { "aria-activedescendant": `command-${at.value}` } : {})}
          onInput={(e) => { text.value = e.currentTarget.value; at.value = 0; }}
          onKeyDown={(e) => {
            if (e.key === "ArrowDown") step(1);
            else if (e.key === "ArrowUp") step(-1);
            else if (e.key === "Enter") take(found[at.value]);
            else return;
            e.preventDefault();
            e.stopPropagation();
          }}
        />
        <div role="listbox" id="commands" aria-label={title} tabIndex={-1}>
          {found.map((e, i) => (
            <div key={e.text} role="option" id={`command-${i}`} aria-selected={at.value === i} class="suggestion" ref={(x: HTMLDivElement | null) => { if (x && e.hue !== undefined) x.style.setProperty("--hue", String(e.hue)); }} onMouseMove={() => (at.value = i)} onClick={() => take(e)}>
              {e.icon ? <Icon name={e.icon} class={e.hue === undefined ? "" : "hued"} /> : <span class="icon" />}<span class="name">{e.text}</span>{e.keys && <kbd>{e.keys}</kbd>}
            </div>
          ))}
        </div>
        {found.length === 0 && <p class="quiet">{tc("noCommand")}</p>}
        <span class="visually-hidden" role="status">{tc("results", count(found.length))}</span>
      </div>
    </Frame>
  );
}

const groups: Group[] = ["groupMail", "groupSelect", "groupWrite", "groupGo", "groupApp"];

/** The list of keys. */
export function Help() {
  const line = (name: CommandText, keys: string[]) => (
    <div key={name}><span>{tc(name)}</span><span>{keys.map((k) => <kbd key={k}>{k.includes("Ctrl") ? k : k.split(" ").join(` ${tc("then")} `)}</kbd>)}</span></div>
  );
  return (
    <Frame title={tc("help")}>
      <div class="key-list" tabIndex={0}>
        {groups.map((g) => (
          <section key={g}>
            <h3>{tc(g)}</h3>
            <div class="keys">
              {commands.filter((c) => c.group === g && c.keys.length > 0).map((c) => line(c.name, c.keys))}
              {g === "groupWrite" && line("send", ["Ctrl+Enter"])}
            </div>
          </section>
        ))}
      </div>
    </Frame>
  );
}
