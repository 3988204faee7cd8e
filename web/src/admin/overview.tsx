import { useEffect } from "preact/hooks";
import { count, shortDate, size } from "../text";
import { Icon } from "../ui/icons";
import { LogLines } from "./log";
import { stats, watch } from "./measure";
import { Badge, Head, useLive } from "./parts";
import { One, views } from "./stats";
import { span, ta } from "./text";
import type { LogLine, Server, Task } from "./verbs";

export function Overview() {
  const server = useLive<Server>("show server", () => ({}), 10);
  const tasks = useLive<Task[]>("show tasks", () => ({}), 10);
  const health = useLive<{ state: string }>("health", () => ({}), 10);
  const audit = useLive<{ lines: LogLine[] }>("show log", () => ({ audit: true, limit: 8 }), 10);
  useEffect(watch, []);
  const s = server.value.value;
  const stat = (name: string) => stats.value.get(name)?.value ?? 0;
  const good = health.value.value?.state === "ok" && !health.error.value;
  const dead = stat("Mail.Dead");
  return (
    <section class="pane whole" aria-label={ta("overview")}>
      <Head title={s ? s.name : ta("overview")}>{(health.value.value || health.error.value) && <Badge kind={good ? "good" : "bad"}>{good ? ta("allGood") : health.error.value?.message ?? ta("notGood")}</Badge>}</Head>
      <div class="lines-box pad" tabIndex={0}>
        <ul class="headline">
          <li><b>{count(Math.round(stat("Server.Users.Active15Min")))}</b><span>{ta("activeUsers")}</span></li>
          <li><b>{count(stat("Mail.Delivered"))}</b><span>{ta("delivered")}</span></li>
          <li><b>{count(stat("Mail.Waiting"))}</b><span><a href="#/queue">{ta("waitingMail")}</a></span></li>
          <li class={dead > 0 ? "alarm" : ""}><b>{count(dead)}</b><span><a href="#/queue">{ta("deadMail")}</a></span></li>
          <li><b>{s?.free_space ? size(s.free_space) : "–"}</b><span>{ta("freeSpace")}</span></li>
          <li><b>{s?.started ? span((Date.now() - new Date(s.started).getTime()) / 1000) : "–"}</b><span>{ta("upSince")} {s?.started ? shortDate(s.started) : ""}</span></li>
        </ul>
        <div class="charts">{(["delivered", "commands", "requests", "memory"] as const).map((k) => <One key={k} view={views[k]()} />)}</div>
        <div class="columns">
          <section class="block"><h2>{ta("tasks")}</h2>
            <ul class="plain-list tight-list overview-tasks">{(tasks.value.value ?? []).map((x) => (
              <li key={x.name}><span class={`dot ${x.error ? "bad" : x.state === "running" ? "good" : ""}`} /><span class="what"><span>{x.name}</span><small>{x.error ? x.error : x.state === "running" ? ta("running") : x.next_run ? `${ta("nextRun")} ${shortDate(x.next_run)}` : ta("idle")}</small></span>{x.crashes > 0 ? <Badge kind="bad">{x.crashes} {ta("crashes")}</Badge> : x.failed > 0 && <Badge kind="warn">{x.failed} {ta("failed")}</Badge>}</li>
            ))}</ul></section>
          <section class="block"><h2>{ta("doors")}</h2>
            <ul class="plain-list tight-list overview-tasks">{(s?.doors ?? []).map((d) => <li key={d.name}><Icon name={d.tls === "TLS" ? "lock" : "globe"} /><span class="what"><span>{d.name}</span><small>{d.address}{d.tls ? ` · ${d.tls}` : ""}</small></span></li>)}</ul>
            {s && <p class="fine">Doublet {s.version} · {s.platform} · {s.data}</p>}</section>
        </div>
        <section class="block"><h2>{ta("whoDidWhat")}</h2>{(audit.value.value?.lines.length ?? 0) > 0 ? <LogLines lines={[...audit.value.value!.lines].reverse()} /> : <p class="quiet">{ta("nothing")}</p>}</section>
      </div>
    </section>
  );
}
