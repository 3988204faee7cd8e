import { useSignal } from "@preact/signals";
import { fullDate, shortDate } from "../text";
import { say } from "../state/screen";
import { Domino, Icon } from "../ui/icons";
import { ask, Badge, doing, Empty, Find, Head, useLive, usePages } from "./parts";
import { ta } from "./text";
import { run, type Done, type SessionOf } from "./verbs";

/** The program of a user agent in a word or two. */
function agent(text = ""): string {
  const system = /iPhone|iPad|Android|Windows|Mac OS X|Linux/u.exec(text)?.[0]?.replace(" OS X", "") ?? "";
  const name = /Firefox|Edg|OPR|HeadlessChrome|Chrome|Safari/u.exec(text)?.[0]?.replace("Edg", "Edge").replace("OPR", "Opera").replace("Headless", "") ?? text.slice(0, 30);
  return [name, system].filter(Boolean).join(" · ");
}

export function Sessions() {
  const text = useSignal("");
  const pages = usePages<SessionOf>("session list", () => (text.value ? { person: text.value } : {}));
  const bans = useLive<{ address: string; until: string }[]>("show bans", () => ({}), 10);
  const list = pages.items.value;
  return (
    <section class="pane whole" aria-label={ta("sessions")}>
      <Head title={ta("sessions")}>
        <button class="tool" aria-label={ta("refresh")} title={ta("refresh")} onClick={pages.reload}><Icon name="refresh" /></button>
        <button class="button danger" onClick={() => ask(ta("endAllAsk"), ta("endAllText"), ta("endAll"), () => void doing(async () => say((await run<Done>("session end", { all: true })).done)))}>{ta("endAll")}</button>
      </Head>
      <div class="tools"><Find text={text} hint={ta("searchSessions")} /></div>
      <div class="lines-box scroll-x" tabIndex={0}>
        {list.length === 0 && pages.state.value !== "loading" && <Empty icon="device" title={pages.state.value === "failed" ? ta("noPerson") : ta("nothing")} />}
        {list.length > 0 && <table class="table">
          <thead><tr><th>{ta("people")}</th><th>{ta("device")}</th><th>{ta("lastUsed")}</th><th class="extra">{ta("signedIn")}</th><th><span class="visually-hidden">{ta("endSession")}</span></th></tr></thead>
          <tbody>{list.map((s) => (
            <tr key={s.id}>
              <td><span class="with-face"><Domino of={s.person} size={28} />{s.person}</span></td>
              <td title={s.user_agent}>{agent(s.user_agent)}<small class="under">{s.address}{s.second_factor ? ` · ${ta("secondFactor")}` : ""}</small></td>
              <td title={fullDate(s.used)}>{shortDate(s.used)}</td><td class="extra">{fullDate(s.created)}</td>
              <td class="number"><button class="button" aria-label={`${ta("endSession")}: ${s.person}, ${agent(s.user_agent)}`} onClick={() => void doing(async () => { await run("session end", { id: s.id }); pages.reload(); }, ta("sessionEnded"))}>{ta("endSession")}</button></td>
            </tr>
          ))}</tbody>
        </table>}
        {pages.rest.value && <button class="button wide-button" onClick={pages.more}>{ta("more")}</button>}
        {(bans.value.value?.length ?? 0) > 0 && <section class="block pad"><h2>{ta("bans")}</h2>
          <ul class="plain-list">{bans.value.value!.map((b) => <li key={b.address}><Icon name="lock" /><span class="what"><span>{b.address} <Badge kind="warn">{ta("banUntil", shortDate(b.until))}</Badge></span></span>
            <button class="button" onClick={() => void doing(async () => { await run("ban remove", { address: b.address }); bans.reload(); }, ta("done"))}>{ta("banRemove")}</button></li>)}</ul></section>}
      </div>
    </section>
  );
}
