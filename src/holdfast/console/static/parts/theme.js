/**
 * Light, dark, or as the system is. Kept across visits. `data-theme` of the document is what is seen: /static/theme.js sets
 * it before the first paint.
 */
import { effect, signal } from "./html.js";

const KEPT = "holdfast.theme";
const system = matchMedia("(prefers-color-scheme: dark)");

/** @returns {"system" | "light" | "dark"} */
function kept() {
  try {
    const choice = localStorage.getItem(KEPT);
    return choice === "light" || choice === "dark" ? choice : "system";
  } catch {
    return "system";
  }
}

/** "system", "light" or "dark" */
export const chosen = signal(/** @type {string} */ (kept()));
/** What is seen: "light" or "dark". */
export const theme = signal("light");

function apply() {
  const choice = chosen.value;
  const seen = choice === "system" ? (system.matches ? "dark" : "light") : choice;
  document.documentElement.dataset["theme"] = seen;
  theme.value = seen;
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
