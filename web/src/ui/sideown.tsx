// The person's labels and saved searches below the folders, and the colours of labels and folders.

import { show } from "../state/list";
import { place } from "../state/place";
import { openMenu, reading, say, selected, sheet, sideOpen, type MenuItem } from "../state/screen";
import { folderHue, hues, labels, own, setLabel, setOwn, type Hue, type Label } from "../state/own";
import { t } from "../text";
import { ta } from "../text/labels";
import { Icon } from "./icons";

interface Saved {
  name: string;
  text: string;
}

function saved(): Saved[] {
  try {
    const list = JSON.parse(own.value.get("searches") ?? "[]") as Saved[];
    return Array.isArray(list) ? list.filter((s) => typeof s?.name === "string" && typeof s.text === "string") : [];
  } catch {
    return [];
  }
}

/** Shows the reason why the server did not keep a setting. */
const told = (problem: string | undefined) => problem !== undefined && void say(problem === "offline" ? t("cannotReach") : t("refusedByServer", problem));

/** Asks for a name, and keeps the search that is shown under it. */
export function saveSearch(): void {
  const text = place.value.search.trim();
  if (!text) return;
  sheet.value = {
    kind: "ask", title: ta("saveSearch"), text: ta("searchName"), yes: t("save"), input: text,
    done: async (answer) => {
      const name = String(answer).trim() || text;
      const problem = await setOwn("searches", JSON.stringify([...saved().filter((s) => s.name !== name), { name, text }].slice(-50)));
      if (problem !== undefined) return problem === "offline" ? t("cannotReach") : t("refusedByServer", problem);
      say(ta("searchSaved"));
      return undefined;
    },
  };
}

const go = (search: string) => {
  sideOpen.value = false;
  selected.value = new Set();
  reading.value = null;
  void show({ mailbox: place.value.mailbox, search });
};

/** The colours to choose from, in a menu at the place of the one before. */
export function askHue(at: Element, now: Hue | undefined, set: (hue: Hue | undefined) => unknown): void {
  openMenu(at, [
    ...(Object.keys(hues) as Hue[]).map((h): MenuItem => ({ text: ta(h), icon: h === now ? "check" : "label", hue: hues[h], run: () => void set(h) })),
    { text: ta("noColour"), icon: now ? "label" : "check", run: () => void set(undefined) },
  ]);
}

export const askFolderHue = (at: Element, id: string) => askHue(at, folderHue(id), async (h) => told(await setOwn(`folder:${id}`, h ?? null)));

function labelMenu(at: Element, l: Label): void {
  openMenu(at, [
    { text: ta("colour"), icon: "label", run: () => askHue(at, l.hue, async (hue) => told(await setLabel({ ...l, hue }))) },
    { text: ta("removeLabel"), icon: "close", run: () => void setOwn(`label:${l.keyword}`, null).then(told) },
  ]);
}

/** A line of the side bar with a menu of its own. */
function Line({ icon, hue, text, current, run, more }: { icon: "label" | "search"; hue?: number | undefined; text: string; current: boolean; run: () => void; more: (at: Element) => void }) {
  return (
    <li>
      <button class={`folder ${hue === undefined ? "" : "hued"}`} aria-current={current} title={text} ref={(e: HTMLButtonElement | null) => { if (e && hue !== undefined) e.style.setProperty("--hue", String(hue)); }}
        onClick={run} onContextMenu={(e) => { e.preventDefault(); more(e.currentTarget); }}
        onKeyDown={(e) => {
          if (e.key !== "F2" && e.key !== "ContextMenu" && e.key !== "Delete") return;
          e.preventDefault();
          e.stopPropagation();
          more(e.currentTarget);
        }}>
        <Icon name={icon} /><span class="name">{text}</span>
      </button>
    </li>
  );
}

export function Own() {
  const searches = saved();
  const search = place.value.search.trim();
  return (
    <>
      {labels.value.length > 0 && (
        <>
          <div class="side-title">{ta("labels")}</div>
          <ul class="folders own-labels">{labels.value.map((l) => <Line key={l.keyword} icon="label" hue={l.hue && hues[l.hue]} text={l.name} current={search === `label:${l.keyword}`} run={() => go(`label:${l.keyword}`)} more={(at) => labelMenu(at, l)} />)}</ul>
        </>
      )}
      {searches.length > 0 && (
        <>
          <div class="side-title">{ta("searches")}</div>
          <ul class="folders own-searches">{searches.map((s) => <Line key={s.name} icon="search" text={s.name} current={search === s.text} run={() => go(s.text)} more={(at) => openMenu(at, [
            { text: ta("forgetSearch"), icon: "close", run: () => void setOwn("searches", JSON.stringify(saved().filter((x) => x.name !== s.name))).then(told) },
          ])} />)}</ul>
        </>
      )}
    </>
  );
}
