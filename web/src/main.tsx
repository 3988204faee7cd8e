import "./look/look.css";
import { render } from "preact";
import { applyPreferences } from "./state/prefs";
import { flush } from "./state/outbox";
import { sync } from "./state/mail";
import { online, start } from "./state/session";
import { App, page } from "./ui/app";

applyPreferences();
render(<App />, document.getElementById("app")!);
if (page !== "setup") void start();

if (page === "mail") addEventListener("online", () => void sync().then(flush));
addEventListener("offline", () => (online.value = false));
document.addEventListener("visibilitychange", () => {
  // A tab that slept may have missed pushes, and its session may have ended.
  if (page === "mail" && document.visibilityState === "visible") void sync().then(flush);
});

if ("serviceWorker" in navigator && import.meta.env.PROD && page === "mail") void navigator.serviceWorker.register("/sw.js").catch(() => undefined);
