/**
 * Light, dark, or as the system is. Kept across visits; set before the first paint by /static/theme.js.
 */
import { effect, signal } from "./html.js";

const KEPT = "holdfast.theme";
const system = matchMedia("(prefers-color-scheme: dark)");

/** "system", "light" or "dark" */
export const chosen = signal(document.documentElement.dataset["theme"] ?? "system");
/** What is seen: "light" or "dark". */
export const theme = signal("light");

function apply() {
  const choice = chosen.value;
  if (choice === "system") delete document.documentElement.dataset["theme"];
  else document.documentElement.dataset["theme"] = choice;
  theme.value = choice === "system" ? (system.matches ? "dark" : "light") : choice;
}

effect(() => {
  apply();
  try {
    localStorage.setItem(KEPT, chosen.value);
  } catch {
    // The choice holds for this visit.
  }
});
system.addEventListener("change", apply);

/** The next of the three. */
export function nextTheme() {
  chosen.value = { system: "light", light: "dark", dark: "system" }[chosen.value] ?? "system";
}
