// Runs before the first paint, so that a page in the dark theme does not flash. Not a module: those run too late.
(function () {
  let kept = null;
  try {
    kept = localStorage.getItem("holdfast.theme");
  } catch {
    // A browser that keeps nothing follows the system.
  }
  const dark = kept === "dark" || (kept !== "light" && matchMedia("(prefers-color-scheme: dark)").matches);
  document.documentElement.dataset.theme = dark ? "dark" : "light";
})();
