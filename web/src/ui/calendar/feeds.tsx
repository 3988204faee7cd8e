// The links of a calendar, and the feed of another server that it shows.

import { useSignal } from "@preact/signals";
import { useEffect } from "preact/hooks";
import { readCalendars, revision, type Shelf } from "../../state/calendars";
import { changeFeed, readFeed, type CalendarFeed } from "../../state/feeds";
import { say } from "../../state/screen";
import { t } from "../../text";
import { tk } from "../../text/calendar";
import { Frame } from "../above";
import { formatter } from "./view";

const kinds = [{ kind: "full", title: "feedFull", hint: "feedFullHint" }, { kind: "busy", title: "feedBusy", hint: "feedBusyHint" }] as const;

export function FeedSheet({ of, onClose }: { of: Shelf; onClose: () => void }) {
  const feed = useSignal<CalendarFeed | undefined>(undefined);
  const problem = useSignal("");
  // The switches that the person set, until the server has answered.
  const wanted = useSignal<{ full?: boolean; busy?: boolean }>({});
  const read = async () => {
    const answer = await readFeed(of.account, of.id);
    if (answer) feed.value = answer;
    else problem.value = tk("offlineChange");
  };
  useEffect(() => void read(), [revision.value]);
  const change = async (c: Parameters<typeof changeFeed>[2]) => {
    const why = await changeFeed(of.account, of.id, c);
    problem.value = why === undefined ? "" : why ? t("refusedByServer", why) : tk("offlineChange");
    await read();
    await readCalendars();
  };
  const turn = async (kind: "full" | "busy", on: boolean) => {
    wanted.value = { ...wanted.value, [kind]: on };
    await change({ [kind]: on || null });
    const { [kind]: _, ...left } = wanted.value;
    wanted.value = left;
  };
  const f = feed.value;
  return (
    <Frame title={tk("feedTitle", of.name)} onClose={onClose}>
      {f?.source && (
        <section class="feed-source">
          <h3>{tk("feedSource")}</h3>
          <p class="feed-link">{f.source}</p>
          <p class="quiet">{f.fetched ? tk("feedFetched", formatter({ dateStyle: "medium", timeStyle: "short" }).format(new Date(f.fetched))) : f.error ? "" : tk("feedNotYet")}</p>
          {f.error && <p class="said" role="alert">{tk("feedError", f.error)}</p>}
          <button type="button" class="button" onClick={() => void change({ refresh: true }).then(() => say(tk("feedAgainSaid")))}>{tk("feedAgain")}</button>
        </section>
      )}
      {f && !f.source && of.myRights.mayShare && kinds.map(({ kind, title, hint }) => (
        <section class="feed-kind" key={kind}>
          <label class="check"><input type="checkbox" checked={wanted.value[kind] ?? !!f[kind]} onChange={(e) => void turn(kind, e.currentTarget.checked)} />{tk(title)}</label>
          <p class="quiet">{tk(hint)}</p>
          {f[kind] && (
            <div class="feed-link">
              <input readOnly aria-label={tk(title)} value={f[kind]!} onFocus={(e) => e.currentTarget.select()} />
              <button type="button" class="button" onClick={() => void navigator.clipboard?.writeText(f[kind]!).then(() => say(tk("feedCopied")), () => undefined)}>{tk("feedCopy")}</button>
            </div>
          )}
        </section>
      ))}
      {f && !f.source && <p class="quiet">{tk("feedSecret")}</p>}
      {problem.value && <p class="said" role="alert">{problem.value}</p>}
      <div class="ends"><button type="button" class="button" onClick={onClose}>{t("close")}</button></div>
    </Frame>
  );
}
