// The task lists beside the calendar.

import { hues, type Hue } from "../../state/own";
import { colourOf } from "../../state/hue";
import { openMenu, say, sheet } from "../../state/screen";
import { home, offers } from "../../state/session";
import { mayWriteList, setLists, showList, taskLists, tasksCapability, type Listed } from "../../state/tasks";
import { t } from "../../text";
import { tk } from "../../text/calendar";
import { ta } from "../../text/labels";
import { tt } from "../../text/tasks";
import type { Problem } from "../../state/events";
import { Icon } from "../icons";
import { tell } from "./open";
import { listTakes } from "./taskdrag";

const words = (p: Problem | undefined) => (p ? (p.offline ? tk("offlineChange") : "text" in p ? t("refusedByServer", p.text) : tk("cannotMove")) : undefined);

export function TaskLists() {
  if (taskLists.value.length === 0 && !offers(tasksCapability)) return null;
  const owners = [...new Set(["", ...taskLists.value.map((l) => l.owner)])];
  return (
    <>
      {owners.map((owner) => (
        <>
          <div class="side-title">{owner ? `${tt("tasks")} · ${owner}` : tt("taskLists")}{owner === "" && <button class="tool" aria-label={tt("newList")} title={tt("newList")} onClick={newList}><Icon name="plus" /></button>}</div>
          <ul class="folders shelves">{taskLists.value.filter((l) => l.owner === owner).map((l) => <Line key={l.key} l={l} />)}</ul>
        </>
      ))}
    </>
  );
}

function Line({ l }: { l: Listed }) {
  return (
    <li class="shelf" {...listTakes(l)} style={{ "--hue": l.hue }}>
      <label><input type="checkbox" checked={l.isVisible} onChange={(e) => void showList(l, e.currentTarget.checked).then((p) => p && tell(p))} /><span class="name">{l.name}</span>{!mayWriteList(l) && <Icon name="lock" />}</label>
      {l.owner === "" && <button class="tool" aria-label={tt("listMenu", l.name)} title={tt("listMenu", l.name)} onClick={(e) => listMenu(e.currentTarget, l)}><Icon name="more" /></button>}
    </li>
  );
}

function newList(): void {
  sheet.value = {
    kind: "ask", title: tt("newList"), text: tt("listName"), yes: t("save"), input: "",
    done: (name) => typeof name === "string" && name.trim() && setLists(home.value, { create: { l: { name: name.trim() } } }).then(words),
  };
}

const change = (l: Listed, patch: object) => void setLists(l.account, { update: { [l.id]: patch } }).then((p) => p && say(words(p)!));

function listMenu(at: Element, l: Listed): void {
  openMenu(at, [
    { text: tt("renameList"), icon: "drafts", run: () => (sheet.value = {
      kind: "ask", title: tt("renameList"), text: tt("listName"), yes: t("save"), input: l.name,
      done: (name) => { if (typeof name === "string" && name.trim()) change(l, { name: name.trim() }); },
    }) },
    { text: `${tk("colour")} …`, icon: "label", run: () => openMenu(at, (Object.keys(hues) as Hue[]).map((h) => ({ text: ta(h), icon: "list", hue: hues[h], run: () => change(l, { color: colourOf(h) }) }))) },
    ...(l.role !== "inbox" && l.myRights.mayDelete ? [{ text: tt("deleteList"), icon: "trash", run: () => (sheet.value = {
      kind: "ask", title: tt("deleteList"), text: tt("deleteListAsk", l.name), yes: t("delete"), danger: true,
      done: () => setLists(l.account, { destroy: [l.id], onDestroyRemoveTasks: true }).then(words),
    }) }] : []),
  ]);
}
