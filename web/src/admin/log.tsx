import { useSignal } from "@preact/signals";
import { useEffect, useRef } from "preact/hooks";
import { Icon } from "../ui/icons";
import { Empty, Find, Head } from "./parts";
import { ta } from "./text";
import { run, type LogLine } from "./verbs";

const most = 1000;

const clock = (iso: string) => new Date(iso).toLocaleTimeString([], { hour: "2-digit", minute: "2-digit", second: "2-digit" });

export function LogLines({ lines }: { lines: LogLine[] }) {
  return (
    <ol class="log">{lines.map((l) => (
      <li key={l.seq} class={l.level.toLowerCase()}>
        <time dateTime={l.time} title={new Date(l.time).toLocaleString()}>{clock(l.time)}</time><span class="level">{l.level}</span><span class="said"><strong>{l.text}</strong> {l.attrs}</span>
      </li>
    ))}</ol>
  );
}

export function Log() {
  const text = useSignal("");
  const level = useSignal("info");
  const audit = useSignal(false);
  const following = useSignal(true);
  const lines = useSignal<LogLine[]>([]);
  const ready = useSignal(false);
  const box = useRef<HTMLDivElement>(null);
  useEffect(() => {
    let over = false;
    let last = 0;
    let timer: ReturnType<typeof setTimeout> | undefined;
    lines.value = [];
    const turn = async () => {
      try {
        if (!document.hidden && (following.value || last === 0)) {
          const got = await run<{ lines: LogLine[]; last: number }>("show log", { limit: most, level: level.value, ...(text.value ? { match: text.value } : {}), ...(audit.value ? { audit: true } : {}), ...(last ? { after: last } : {}) });
          if (over) return;
          // A server that was started anew counts from the beginning.
          if (got.last < last) lines.value = [];
          last = got.last < last ? 0 : got.last;
          ready.value = true;
          if (got.lines.length > 0) {
            lines.value = [...lines.value, ...got.lines].slice(-most);
            requestAnimationFrame(() => { if (following.value) box.current?.scrollTo(0, box.current.scrollHeight); });
          }
        }
      } catch {
        // the next turn may find the server again
      }
      if (!over) timer = setTimeout(() => void turn(), 1500);
    };
    void turn();
    return () => {
      over = true;
      clearTimeout(timer);
    };
  }, [text.value, level.value, audit.value]);
  return (
    <section class="pane whole" aria-label={ta("log")}>
      <Head title={ta("log")}>
        <span class={`live ${following.value ? "on" : ""}`}>{following.value ? ta("live") : ta("stopped")}</span>
        <button class="tool" aria-label={following.value ? ta("pause") : ta("resume")} title={following.value ? ta("pause") : ta("resume")} onClick={() => (following.value = !following.value)}><Icon name={following.value ? "pause" : "play"} /></button>
      </Head>
      <div class="tools">
        <Find text={text} hint={ta("searchLog")} />
        <label class="field tight"><span class="visually-hidden">{ta("level")}</span><select value={level.value} onChange={(e) => (level.value = e.currentTarget.value)}>
          <option value="debug">{ta("level_all")}</option><option value="info">{ta("level_info")}</option><option value="warn">{ta("level_warn")}</option><option value="error">{ta("level_error")}</option></select></label>
        <label class="check"><input type="checkbox" checked={audit.value} onChange={(e) => (audit.value = e.currentTarget.checked)} />{ta("auditOnly")}</label>
      </div>
      <div class="lines-box" ref={box} tabIndex={0} role="log" aria-label={ta("log")} aria-live="off">
        {ready.value && lines.value.length === 0 ? <Empty icon="log" title={text.value ? ta("nothingFound") : ta("nothing")} text={ta("logHint")} /> : <LogLines lines={lines.value} />}
      </div>
    </section>
  );
}
