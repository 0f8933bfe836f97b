// Runs before the first paint, so that a page in the dark theme does not flash. Not a module: those run too late.
(function () {
  try {
    const kept = localStorage.getItem("holdfast.theme");
    if (kept === "light" || kept === "dark") document.documentElement.dataset.theme = kept;
  } catch {
    // A browser that keeps nothing follows the system.
  }
})();
