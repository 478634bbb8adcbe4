/* Runs before the page is read: with scripts, only the first part is shown; if a script breaks, all parts are. */
document.documentElement.className = "js";
window.addEventListener("error", function () {
  if (!document.documentElement.classList.contains("ready")) document.documentElement.className = "";
});
