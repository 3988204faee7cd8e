import "./look/look.css";
import { render } from "preact";
import { applyPreferences } from "./state/prefs";
import { flush } from "./state/outbox";
import { sync } from "./state/sync";
import { online, outdated, start } from "./state/session";
import { App, page } from "./ui/app";
import { keepStyled } from "./ui/styled";

keepStyled();
applyPreferences();
render(<App />, document.getElementById("app")!);
if (page !== "setup") void start();

if (page === "mail") addEventListener("online", () => void sync().then(flush));
addEventListener("offline", () => (online.value = false));
document.addEventListener("visibilitychange", () => {
  // A tab that slept may have missed pushes, and its session may have ended.
  if (page === "mail" && document.visibilityState === "visible") void sync().then(flush);
});

if ("serviceWorker" in navigator && import.meta.env.PROD && (page === "mail" || page === "calendar" || page === "contacts")) {
  let had = navigator.serviceWorker.controller !== null;
  // A worker that takes the place of another brings a client that is newer than this page.
  navigator.serviceWorker.addEventListener("controllerchange", () => {
    outdated.value = outdated.value || had;
    had = true;
  });
  // A page that was loading when the worker claimed the others is asked for here.
  void navigator.serviceWorker.ready.then((r) => had || r.active?.postMessage("claim"));
  void navigator.serviceWorker.register("/sw.js").then((r) => {
    const look = () => void r.update().catch(() => undefined);
    setInterval(look, 3_600_000);
    document.addEventListener("visibilitychange", () => document.visibilityState === "visible" && look());
  }, () => undefined);
}
