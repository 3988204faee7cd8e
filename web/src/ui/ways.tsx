// The ways to sign in besides a password. They come after the page.

import { useSignal } from "@preact/signals";
import { useEffect } from "preact/hooks";
import { passkeyHost, signInWithPasskey, waysToSignIn } from "../state/passkeys";
import { t } from "../text";
import { ty } from "../text/passkeys";
import { Icon } from "./icons";

export function OtherWays({ stays, say }: { stays: () => boolean; say: (what: string) => void }) {
  const ways = useSignal<Awaited<ReturnType<typeof waysToSignIn>>>(undefined);
  const busy = useSignal(false);
  useEffect(() => void waysToSignIn().then((all) => (ways.value = all)), []);
  const provider = ways.value?.openid;
  const leave = () => location.assign(`${provider?.path ?? ""}?${new URLSearchParams({ to: location.pathname + location.search + location.hash, ...(stays() ? { keep: "1" } : {}) })}`);
  const enter = async () => {
    busy.value = true;
    const problem = await signInWithPasskey(stays());
    busy.value = false;
    if (!problem) return;
    if ("why" in problem) say(ty("notUsed"));
    else say(problem.error === "offline" ? t("cannotReach") : problem.error === "passkey" ? ty("refused") : problem.detail);
  };
  return (
    <>
      {passkeyHost(ways.value) && <button type="button" class="button" disabled={busy.value} onClick={() => void enter()}><Icon name="key" />{ty("signIn")}</button>}
      {provider && <button type="button" class="button" onClick={leave}>{ty("signInWith", provider.name)}</button>}
    </>
  );
}
