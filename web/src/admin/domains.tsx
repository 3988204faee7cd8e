import { useSignal } from "@preact/signals";
import { shortDate } from "../text";
import { Icon } from "../ui/icons";
import { Frame } from "../ui/above";
import { ask, Badge, doing, Empty, Ends, go, Head, leave, Opened, Text, Two, useLive, where } from "./parts";
import { CopyButton } from "./people";
import { ta } from "./text";
import { run, type DNSCheck, type DNSRecord } from "./verbs";

interface Domain { name: string; default?: boolean }

export function Domains() {
  const live = useLive<Domain[]>("domain list", () => ({}), 0);
  const adding = useSignal(false);
  const name = useSignal("");
  const id = where.value.item;
  const domains = live.value.value ?? [];
  return (
    <>
      <Two
        label={ta("domains")} onClose={() => go("domains")}
        title={<Head title={ta("domains")}><button class="button primary" onClick={() => (adding.value = true)}><Icon name="plus" /><span class="only-wide-text">{ta("addDomain")}</span></button></Head>}
        detail={id ? <One key={id} domain={id} isDefault={domains.find((d) => d.name === id)?.default ?? false} changed={live.reload} /> : null}
      >
        <div class="lines-box">
          {live.value.value && domains.length === 0 && <Empty icon="globe" title={ta("nothing")} />}
          <ul class="lines" aria-label={ta("domains")}>{domains.map((d) => (
            <li key={d.name}><button class="line" aria-current={id === d.name} onClick={() => go("domains", d.name)}>
              <span class="round"><Icon name="globe" /></span><span class="what"><strong>{d.name}</strong></span>{d.default && <Badge kind="plain">{ta("isDefault")}</Badge>}
            </button></li>
          ))}</ul>
        </div>
      </Two>
      {adding.value && <Frame title={ta("addDomain")} small onClose={() => (adding.value = false)}>
        <form class="form" onSubmit={(e) => {
          e.preventDefault();
          void doing(async () => { await run("domain add", { name: name.value.trim() }); adding.value = false; live.reload(); go("domains", name.value.trim().toLowerCase()); }, ta("personAdded", name.value));
        }}><Text label={ta("domain")} value={name} required autofocus /><Ends yes={ta("add")} onCancel={() => (adding.value = false)} /></form>
      </Frame>}
    </>
  );
}

function One({ domain, isDefault, changed }: { domain: string; isDefault: boolean; changed: () => void }) {
  return (
    <div class="detail">
      <Opened title={domain} sub={isDefault ? ta("isDefault") : undefined} face={<span class="round big"><Icon name="globe" /></span>} onClose={() => go("domains")}>
        {!isDefault && <button class="button" onClick={() => void doing(async () => { await run("domain set", { name: domain, default: true }); changed(); }, ta("saved"))}>{ta("makeDefault")}</button>}
      </Opened>
      <Records domain={domain} />
      {!isDefault && <section class="block"><div class="buttons"><button class="button danger" onClick={() => ask(ta("domainRemoveAsk", domain), ta("domainRemoveText"), ta("remove"), () => void doing(async () => { await run("domain remove", { name: domain }); changed(); leave("domains", domain); }, ta("removedSaid", domain)))}><Icon name="trash" />{ta("remove")}</button></div></section>}
    </div>
  );
}

/** The zone of records as a file. */
const zone = (list: DNSRecord[]) => list.map((r) => `${r.comment ? "; " : ""}${r.name}. IN ${r.type} ${r.data}`).join("\n");

/** The records of a domain to publish, and what is found of them, looked up again and again. */
export function Records({ domain }: { domain?: string }) {
  const args = () => (domain ? { domain } : {});
  const shown = useLive<DNSRecord[]>("dns show", args, 0);
  const found = useLive<DNSCheck[]>("dns check", args, 15);
  const list = shown.value.value ?? [];
  const checks = found.value.value;
  const badge = (r: DNSRecord) => {
    const own = (checks ?? []).filter((c) => c.name === r.name && (c.type === r.type || r.type === "A" && c.type === "AAAA"));
    const worst = own.find((c) => c.state === "wrong" || c.state === "missing") ?? own.find((c) => c.state === "unknown") ?? own[0];
    if (!worst) return { node: checks ? null : <Badge kind="plain">…</Badge>, check: undefined };
    const words = { ok: ["good", ta("recordOK")], missing: ["bad", ta("recordMissing")], wrong: ["bad", ta("recordWrong")], optional: ["plain", ta("recordOptional")], unknown: ["warn", ta("recordUnknown")] } as const;
    const [kind, word] = words[worst.state];
    return { node: <Badge kind={kind}>{word}</Badge>, check: worst };
  };
  const bad = (checks ?? []).filter((c) => c.state === "missing" || c.state === "wrong").length;
  return (
    <section class="block">
      <h2>{ta("records")}</h2>
      <p class="quiet">{ta("recordsHint")}</p>
      <p class="row-of" role="status">{checks && <Badge kind={bad > 0 ? "bad" : "good"}>{bad > 0 ? ta("recordsBad", bad) : ta("recordsGood")}</Badge>}{checks && <small class="quiet">{ta("checkedAt", shortDate(new Date().toISOString()))}</small>}<span class="grow" /><CopyButton text={zone(list)} label={ta("copyZone")} /></p>
      <ul class="records">{list.map((r) => {
        const { node, check } = badge(r);
        return (
          <li key={`${r.name} ${r.type} ${r.data}`}>
            <div class="row-of"><code class="type">{r.type}</code><strong>{r.name}</strong>{node}<span class="grow" />{!r.comment && <CopyButton text={r.data} />}</div>
            <code class="data">{r.data}</code>
            <small>{r.for}{r.optional ? ` (${ta("recordOptional")})` : ""}</small>
            {check && check.state !== "ok" && check.state !== "optional" && <small class="reply">{[check.found && `${ta("found")}: ${check.found}`, !check.do?.startsWith("publish: ") && check.do].filter(Boolean).join(" · ")}</small>}
          </li>
        );
      })}</ul>
    </section>
  );
}
