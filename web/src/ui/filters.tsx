// The tabs above a list: all, unread, flagged, with attachments; and how it is sorted.

import { show } from "../state/list";
import { place } from "../state/place";
import { openMenu, selected } from "../state/screen";
import { readView, writeView, type Only, type Order } from "../state/view";
import { tf } from "../text/sorting";
import { Icon } from "./icons";

const tabs: { only: Only; text: "all" | "unread" | "flagged" | "files" }[] = [{ only: "", text: "all" }, { only: "unread", text: "unread" }, { only: "flagged", text: "flagged" }, { only: "files", text: "files" }];
const sorts: { order: Order; text: "newest" | "oldest" | "from" | "subject" | "size" | "unreadFirst" }[] = [
  { order: "", text: "newest" }, { order: "oldest", text: "oldest" }, { order: "unread", text: "unreadFirst" }, { order: "from", text: "from" }, { order: "subject", text: "subject" }, { order: "size", text: "size" },
];

export function Filters() {
  const now = readView(place.value.view);
  const set = (change: Partial<typeof now>) => {
    selected.value = new Set();
    void show({ ...place.value, view: writeView({ ...now, ...change }) });
  };
  const sorted = sorts.find((s) => s.order === now.order)!;
  return (
    <div class="filters" role="toolbar" aria-label={tf("filters")}>
      {tabs.map(({ only, text }) => <button key={only} class="tab" aria-pressed={now.only === only} onClick={() => set({ only })}>{tf(text)}</button>)}
      <button class="tab sort" aria-label={tf("sortBy", tf(sorted.text))} title={tf("sortBy", tf(sorted.text))} onClick={(e) => openMenu(e.currentTarget, sorts.map((s) => ({ text: tf(s.text), icon: s === sorted ? "check" : "sort", run: () => set({ order: s.order }) })))}><Icon name="sort" />{now.order !== "" && tf(sorted.text)}</button>
    </div>
  );
}
