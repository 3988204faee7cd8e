// The first start: a few questions, then the server runs. The address holds a token; the server's machine printed it.

import "../look/admin.css";
import { useSignal, type Signal } from "@preact/signals";
import type { ComponentChildren } from "preact";
import { useEffect, useRef } from "preact/hooks";
import { Records } from "../admin/domains";
import { Badge, Text } from "../admin/parts";
import { ta } from "../admin/text";
import { signIn } from "../state/session";
import { Toasts } from "../ui/above";
import { DominoFace, Icon } from "../ui/icons";

const token = location.hash.slice(1);

interface Door { name: string; address: string; problem?: string }
interface State { data: string; name: string; doors: Door[]; trial: Door[]; least_password: number }

async function ask<T>(path: string, body: object): Promise<T> {
  const response = await fetch(path, { method: "POST", headers: { "Content-Type": "application/json", "X-Setup-Token": token }, body: JSON.stringify(body) });
  const answer = (await response.json().catch(() => ({ error: response.statusText }))) as T & { error?: string };
  if (!response.ok) throw new Error(answer.error ?? response.statusText);
  return answer;
}

/** The steps of the page, each a domino with one pip more. */
function Steps({ at, of }: { at: number; of: number }) {
  return <p class="steps" role="img" aria-label={ta("step", at, of)}>{Array.from({ length: of }, (_, i) => <span class={i + 1 > at ? "ahead" : ""}><DominoFace a={Math.min(6, i + 1)} b={0} hue={168} size={30} /></span>)}</p>;
}

function Choice({ name, value, of, title, hint, children }: { name: string; value: Signal<string>; of: string; title: string; hint: string; children?: ComponentChildren }) {
  return (
    <div class="choice" data-on={value.value === of}>
      <label><input type="radio" name={name} checked={value.value === of} onChange={() => (value.value = of)} /><span><strong>{title}</strong><small>{hint}</small></span></label>
      {value.value === of && children}
    </div>
  );
}

const last = 5;

export function Setup() {
  const state = useSignal<State | null>(null);
  const step = useSignal(1);
  const said = useSignal("");
  const busy = useSignal(false);
  const domain = useSignal("");
  const server = useSignal("");
  const use = useSignal("real");
  const person = useSignal("");
  const short = useSignal("");
  const password = useSignal("");
  const once = useSignal("");
  const certificates = useSignal("self");
  const certificate = useSignal("");
  const key = useSignal("");
  const email = useSignal("");
  const address = useSignal("");
  const form = useRef<HTMLFormElement>(null);

  useEffect(() => {
    if (!token) return;
    ask<State>("/setup/state", {}).then((s) => {
      state.value = s;
      server.value = s.name;
      if (s.doors.some((d) => d.problem)) use.value = "trial";
    }, (e: Error) => (said.value = e.message));
  }, []);
  useEffect(() => {
    document.title = ta("setupTitle");
  });
  useEffect(() => {
    // Each step begins at its first question, or where there is none at its title.
    (form.current?.querySelector<HTMLElement>("input:not([type=radio])") ?? form.current?.querySelector("h1"))?.focus();
  }, [step.value]);

  const make = async () => {
    busy.value = true;
    said.value = "";
    const real = use.value === "real";
    try {
      const answer = await ask<{ address: string }>("/setup/make", {
        domain: domain.value.trim(), name: real ? server.value.trim() : "", person: person.value.trim(), short: short.value.trim(), password: password.value, trial: !real,
        certificates: real ? certificates.value : "self", certificate: certificate.value, key: key.value, email: email.value,
      });
      address.value = answer.address;
      // The token is good for nothing now; what follows is asked for as the person.
      history.replaceState(null, "", "/setup");
      const problem = await signIn(answer.address, password.value, "", false);
      if (problem) throw new Error(problem.detail || problem.error);
      password.value = once.value = "";
      step.value = last;
    } catch (e) {
      said.value = e instanceof Error ? e.message : String(e);
    }
    busy.value = false;
  };
  const next = () => {
    said.value = "";
    if (step.value === 3 && password.value !== once.value) said.value = ta("passwordsDiffer");
    else if (step.value === 4) void make();
    else {
      if (step.value === 1 && !server.value) server.value = `mail.${domain.value.trim()}`;
      step.value += 1;
    }
  };
  const s = state.value;
  if (!token && step.value === 1) return <main class="gate"><div class="gate-card"><h1><DominoFace a={6} b={6} hue={168} size={40} />Doublet</h1><p role="alert">{ta("setupNoToken")}</p></div></main>;
  const real = use.value === "real";
  const doors = real ? s?.doors : s?.trial;
  const problems = (doors ?? []).filter((d) => d.problem);
  const why = (d: Door) => (d.problem === "denied" ? ta("portDenied", `${d.name} ${d.address}`) : d.problem === "taken" ? ta("portTaken", `${d.name} ${d.address}`) : `${d.name} ${d.address}: ${d.problem}`);
  return (
    <main class="gate setup">
      <form ref={form} class={`gate-card ${step.value === last ? "broad" : ""}`} onSubmit={(e) => { e.preventDefault(); next(); }}>
        <header class="row-of"><Steps at={step.value} of={last} /><span class="grow" /><small class="quiet" aria-hidden="true">{ta("step", step.value, last)}</small></header>
        {said.value && <p class="said" role="alert">{said.value}</p>}
        {step.value === 1 && <>
          <h1 tabIndex={-1}>{ta("setupTitle")}</h1>
          <p class="quiet">{ta("setupWelcome")} {s && ta("dataFolder", s.data)}</p>
          <Text label={ta("setupDomain")} value={domain} hint={ta("setupDomainHint")} placeholder="example.com" required name="domain" />
        </>}
        {step.value === 2 && <>
          <h1 tabIndex={-1}>{ta("setupPorts")}</h1>
          <Choice name="use" value={use} of="real" title={ta("setupReal")} hint={ta("setupRealHint")} />
          <Choice name="use" value={use} of="trial" title={ta("setupTrial")} hint={ta("setupTrialHint")} />
          {doors && (problems.length === 0 ? <p><Badge kind="good">{ta("portsGood")}</Badge></p> : <div class="said" role="status"><ul>{problems.map((d) => <li key={d.name}>{why(d)}</li>)}</ul><p>{ta("portsHelp")}</p></div>)}
          {real && <Text label={ta("setupServer")} value={server} hint={ta("setupServerHint")} placeholder="mail.example.com" required name="server" />}
        </>}
        {step.value === 3 && <>
          <h1 tabIndex={-1}>{ta("setupPerson")}</h1>
          <p class="quiet">{ta("setupPersonHint")}</p>
          <Text label={ta("fullName")} value={person} required name="person" autocomplete="name" />
          <Text label={ta("shortName")} value={short} required name="short" autocomplete="username" {...(short.value ? { hint: `${short.value}@${domain.value}` } : {})} />
          <div class="two">
            <Text label={ta("setupPassword")} type="password" value={password} required minLength={s?.least_password ?? 8} name="password" autocomplete="new-password" />
            <Text label={ta("setupAgain")} type="password" value={once} required name="again" autocomplete="new-password" />
          </div>
          <small class="quiet">{ta("passwordHint")}</small>
        </>}
        {step.value === 4 && <>
          <h1 tabIndex={-1}>{ta("setupCertificates")}</h1>
          <Choice name="certificates" value={certificates} of="self" title={ta("certSelf")} hint={ta("certSelfHint")} />
          {real && <Choice name="certificates" value={certificates} of="acme" title={ta("certACME")} hint={ta("certACMEHint")}><Text label={ta("email")} value={email} inputMode="email" /></Choice>}
          {real && <Choice name="certificates" value={certificates} of="files" title={ta("certFiles")} hint={ta("certFilesHint")}><Text label={ta("certFile")} value={certificate} required /><Text label={ta("keyFile")} value={key} required /></Choice>}
        </>}
        {step.value === last && <>
          <h1 tabIndex={-1}>{ta("made")}</h1>
          <p>{ta("madeText", address.value)}</p>
          {real ? <Records /> : <p class="quiet">{ta("setupTrialDNS")}</p>}
          <div class="ends"><a class="button" href="/admin/#/people"><Icon name="shared" />{ta("openAdmin")}</a><a class="button primary" href="/"><Icon name="inbox" />{ta("openMail")}</a></div>
        </>}
        {step.value < last && <div class="ends">
          {step.value > 1 && <button type="button" class="button" onClick={() => { said.value = ""; step.value -= 1; }}>{ta("back")}</button>}
          <button class="button primary" disabled={busy.value || !s}>{busy.value ? ta("making") : step.value === 4 ? ta("makeServer") : ta("next")}</button>
        </div>}
      </form>
      <Toasts />
    </main>
  );
}
