addEventListener("beforeprint", function () {
  document.querySelectorAll("details").forEach(function (part) {
    if (!part.open) { part.open = true; part.dataset.unfolded = ""; }
  });
});
addEventListener("afterprint", function () {
  document.querySelectorAll("details[data-unfolded]").forEach(function (part) {
    part.open = false; delete part.dataset.unfolded;
  });
});
