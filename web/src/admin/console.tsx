import { signal, useSignal } from "@preact/signals";
import { useEffect, useRef } from "preact/hooks";
import { Icon } from "../ui/icons";
import { Empty, go, Head } from "./parts";
import { ta } from "./text";
import { run, type LogLine, type Task } from "./verbs";

interface Said {
  kind: "typed" | "output" | "failed" | "logged";
  text: string;
}

interface Command {
  command: string;
  verb: string;
  usage?: string;
}

/** The lines kept on the page, and the commands kept for the arrow keys. */
const most = 2000;
const mostTyped = 200;

// They outlive the page, so that somebody can look at the queue and come back.
const said = signal<Said[]>([]);
const typed = signal<string[]>([]);
const following = signal(false);

function say(kind: Said["kind"], text: string): void {
  said.value = [...said.value, { kind, text: text.trimEnd() }].slice(-most);
}

/** Continues the line as far as all commands that begin with it agree; a space follows the only choice if it goes on. */
export function complete(line: string, commands: string[]): { longer: string; choices: string[] } {
  const begin = line.toLowerCase();
  const ends = new Set<string>();
  let goesOn = false;
  for (const x of commands) {
    if (!x.startsWith(begin)) continue;
    const space = x.indexOf(" ", begin.length);
    goesOn ||= space >= 0;
    ends.add(space >= 0 ? x.slice(0, space) : x);
  }
  const list = [...ends];
  let common = list[0] ?? begin;
  for (const x of list) while (!x.startsWith(common)) common = common.slice(0, -1);
  return { longer: line + common.slice(begin.length) + (list.length === 1 && goesOn ? " " : ""), choices: list.map((x) => x.slice(begin.lastIndexOf(" ") + 1)) };
}

async function send(command: string): Promise<void> {
  say("typed", command);
  typed.value = [...typed.value.filter((x) => x !== command), command].slice(-mostTyped);
  try {
    const out = await run<{ output: string; failed?: boolean }>("console", { command });
    say(out.failed ? "failed" : "output", out.output);
  } catch (e) {
    say("failed", e instanceof Error ? e.message : String(e));
  }
}

export function Console() {
  const line = useSignal("");
  const back = useSignal(0); // how far back in typed; 0 is the new line
  const busy = useSignal(false);
  const words = useSignal<string[]>([]);
  const box = useRef<HTMLDivElement>(null);
  useEffect(() => {
    void Promise.all([run<Command[]>("show commands"), run<Task[]>("show tasks")]).then(([commands, tasks]) => {
      words.value = commands.flatMap((x) => [x.command, ...(x.verb.startsWith("task ") && x.usage?.startsWith("NAME") ? tasks.map((t) => `${x.command} ${t.name.toLowerCase()}`) : [])]);
    }, () => undefined); // without them nothing is completed
  }, []);
  useEffect(() => {
    box.current?.scrollTo(0, box.current.scrollHeight);
  }, [said.value]);
  useEffect(() => {
    if (!following.value) return;
    let over = false;
    let last = -1;
    let timer: ReturnType<typeof setTimeout> | undefined;
    const turn = async () => {
      try {
        const got = await run<{ lines: LogLine[]; last: number }>("show log", last < 0 ? { limit: 1, level: "info" } : { limit: most, level: "info", after: last });
        if (over) return;
        if (last >= 0 && got.last >= last) for (const l of got.lines) say("logged", `${new Date(l.time).toLocaleTimeString()} ${l.level} ${l.text} ${l.attrs ?? ""}`);
        last = got.last;
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
  }, [following.value]);
  const onKey = (e: KeyboardEvent) => {
    if (e.key === "ArrowUp" || e.key === "ArrowDown") {
      const next = Math.min(Math.max(back.value + (e.key === "ArrowUp" ? 1 : -1), 0), typed.value.length);
      back.value = next;
      line.value = next === 0 ? "" : typed.value.at(-next)!;
    } else if (e.key === "Tab" && !e.shiftKey && line.value) {
      const { longer, choices } = complete(line.value, words.value);
      if (longer === line.value && choices.length < 2) return; // nothing to complete: the key goes on to the next control
      if (longer === line.value) say("output", choices.join("  "));
      line.value = longer;
    } else return;
    e.preventDefault();
  };
  return (
    <section class="pane whole" aria-label={ta("console")}>
      <Head title={ta("console")}>
        <label class="check"><input type="checkbox" checked={following.value} onChange={(e) => (following.value = e.currentTarget.checked)} />{ta("consoleFollow")}</label>
        <button class="tool" aria-label={ta("consoleClear")} title={ta("consoleClear")} onClick={() => (said.value = [])}><Icon name="clear" /></button>
      </Head>
      <div class="lines-box console" ref={box} tabIndex={0} role="log" aria-label={ta("console")}>
        {said.value.length === 0 ? <Empty icon="terminal" title={ta("console")} text={ta("consoleHint")} /> : said.value.map((s) => <pre class={s.kind}>{s.kind === "typed" ? `> ${s.text}` : s.text}</pre>)}
      </div>
      <form class="console-line" onSubmit={(e) => {
        e.preventDefault();
        const command = line.value.trim();
        if (!command || busy.value) return;
        line.value = "";
        back.value = 0;
        if (command === "exit") return go("overview");
        busy.value = true;
        void send(command).finally(() => (busy.value = false));
      }}>
        <label class="visually-hidden" for="console-line">{ta("consoleCommand")}</label>
        <input id="console-line" class="text-input" name="command" autocomplete="off" autocapitalize="none" spellcheck={false} placeholder={ta("consolePlaceholder")} value={line.value} onInput={(e) => (line.value = e.currentTarget.value)} onKeyDown={onKey} autofocus />
        <button class="button primary" disabled={busy.value}>{ta("consoleRun")}</button>
      </form>
    </section>
  );
}
