/* Draws the figures of a report when they come into sight, opens tabs, changes models, and draws all before printing. */
(function () {
  "use strict";
  const settings = JSON.parse(document.getElementById("settings").textContent);
  const coarse = window.matchMedia("(pointer: coarse)").matches;
  const NARROW = 560; // pixels: a phone
  const MEDIUM = 860; // paper, a tablet
  const PRINT_WIDTH = 680;
  const sets = new Map();
  let printing = false;

  function figuresOf(name) {
    if (!sets.has(name)) sets.set(name, JSON.parse(document.getElementById("set-" + name).textContent));
    return sets.get(name);
  }

  function isShown(element) {
    return element.getClientRects().length > 0;
  }

  function size(element) {
    return element.clientWidth < NARROW ? "narrow" : element.clientWidth < MEDIUM ? "medium" : "wide";
  }

  function layoutFor(element, figure) {
    const layout = Object.assign({}, figure.layout, { template: settings.template });
    const width = element.clientWidth;
    for (const [path, value] of Object.entries(figure[size(element)] || {})) {
      const [outer, inner] = path.split(".");
      if (inner) layout[outer] = Object.assign({}, layout[outer], { [inner]: value });
      else layout[outer] = value;
    }
    if (coarse) layout.dragmode = false; // a finger scrolls the page; the buttons still zoom
    if (printing) layout.width = width;
    return layout;
  }

  function draw(element) {
    const figure = element.id === "scatter" ? scatterFigure() : figuresOf(element.dataset.set)[element.dataset.figure];
    // plotly completes what it is given, so it gets its own copy
    const data = figure.data.map((trace) => Object.assign({}, trace));
    const small = element.closest(".panel") !== null;
    const config = Object.assign({}, settings.config, { displayModeBar: printing || small ? false : "hover" });
    const layout = layoutFor(element, figure);
    if (element.closest(".squares")) layout.height = Math.min(layout.height, Math.round(element.clientWidth * 1.05));
    element.style.height = layout.height + "px";
    Plotly.newPlot(element, data, layout, config);
    element.dataset.drawn = size(element);
  }

  function forget(element) {
    if (element.dataset.drawn) {
      Plotly.purge(element);
      delete element.dataset.drawn;
    }
  }

  const plots = Array.from(document.querySelectorAll(".plot"));
  const sight = new IntersectionObserver(
    (entries) => {
      for (const entry of entries) {
        if (entry.isIntersecting && !entry.target.dataset.drawn && !printing) draw(entry.target);
      }
    },
    { rootMargin: "250px" }
  );

  function refit() {
    for (const element of plots) {
      if (!element.dataset.drawn || !isShown(element)) continue;
      if (size(element) !== element.dataset.drawn) draw(element);
      else if (element._fullLayout && Math.abs(element._fullLayout.width - element.clientWidth) > 1) Plotly.Plots.resize(element);
    }
  }

  /* tabs */
  const tabs = Array.from(document.querySelectorAll("[role=tab]"));
  const panels = tabs.map((tab) => document.getElementById(tab.getAttribute("aria-controls")));

  function openTab(number, focus) {
    tabs.forEach((tab, at) => {
      const open = at === number;
      tab.setAttribute("aria-selected", String(open));
      tab.tabIndex = open ? 0 : -1;
      panels[at].classList.toggle("closed", !open);
    });
    if (focus) tabs[number].focus();
    const strip = tabs[number].parentElement; // on a phone it is wider than the screen; the page itself stays where it is
    strip.scrollLeft = Math.max(0, tabs[number].offsetLeft - (strip.clientWidth - tabs[number].offsetWidth) / 2);
    try {
      // not before the page is there: a browser that finds a part in the address begins at it, below the title
      if (document.documentElement.classList.contains("ready")) history.replaceState(null, "", tabs[number].getAttribute("href"));
    } catch (error) {
      /* a browser that allows no address changes for files: the tab is open all the same */
    }
    refit();
  }

  tabs.forEach((tab, at) => {
    tab.addEventListener("click", (event) => {
      event.preventDefault();
      openTab(at, false);
    });
    tab.addEventListener("keydown", (event) => {
      const to = { ArrowRight: at + 1, ArrowLeft: at - 1, Home: 0, End: tabs.length - 1 }[event.key];
      if (event.key === " ") {
        event.preventDefault();
        openTab(at, true);
      } else if (to !== undefined) {
        event.preventDefault();
        openTab((to + tabs.length) % tabs.length, true);
      }
    });
  });

  /* models */
  const articles = Array.from(document.querySelectorAll(".of-model"));
  const choosers = Array.from(document.querySelectorAll(".choose-model"));

  function chooseModel(value) {
    for (const chooser of choosers) chooser.value = value;
    for (const article of articles) {
      const other = article.dataset.model !== value;
      article.toggleAttribute("data-other", other);
      if (other) article.querySelectorAll(".plot").forEach(forget);
    }
    for (const name of Array.from(sets.keys())) {
      if (name.startsWith("model-") && name !== "model-" + value) sets.delete(name);
    }
    refit();
  }

  for (const chooser of choosers) chooser.addEventListener("change", () => chooseModel(chooser.value));
  document.querySelectorAll(".open-model").forEach((link) => {
    link.addEventListener("click", (event) => {
      event.preventDefault();
      const article = articles.find((one) => one.dataset.name === link.dataset.name);
      if (article) chooseModel(article.dataset.model);
      openTab(tabs.findIndex((tab) => tab.id === "tab-model"), true);
      window.scrollTo(0, document.querySelector(".tabs").offsetTop);
    });
  });

  /* two features of the reader's choice */
  const across = document.getElementById("feature-x");
  const upwards = document.getElementById("feature-y");

  function unescaped(text) {
    return text.replace(/&lt;/g, "<").replace(/&gt;/g, ">").replace(/&amp;/g, "&");
  }

  function scatterFigure() {
    const data = figuresOf("data");
    const x = data.columns[Number(across.value)];
    const y = data.columns[Number(upwards.value)];
    const marked = Object.keys(data.marked).map(Number);
    const others = data.sources.map((_, i) => i).filter((i) => !(i in data.marked));
    const trace = (which, symbol, size, colour, words) => ({
      type: "scatter",
      mode: "markers",
      showlegend: false,
      x: which.map((i) => x[i]),
      y: which.map((i) => y[i]),
      customdata: which.map((i) => [data.sources[i], words(i)]),
      marker: { symbol: symbol, size: size, color: colour, opacity: 0.8, line: { width: 0.5, color: "#fff" } },
      hovertemplate: "<b>%{customdata[0]}</b>%{customdata[1]}<br>%{x:.4g}, %{y:.4g}<extra></extra>",
    });
    return {
      data: [
        trace(others, "circle", 6, data.colours[0], () => ""),
        trace(marked, "diamond", 11, data.colours[1], (i) => "<br>" + data.marked[i]),
      ],
      layout: {
        height: 460,
        xaxis: { title: { text: data.features[Number(across.value)] } },
        yaxis: { title: { text: data.features[Number(upwards.value)] } },
      },
    };
  }

  figuresOf("data").features.forEach((name, at, all) => {
    across.add(new Option(unescaped(name), String(at), at === 0, at === 0));
    upwards.add(new Option(unescaped(name), String(at), at === Math.min(1, all.length - 1), at === Math.min(1, all.length - 1)));
  });
  for (const chooser of [across, upwards]) {
    chooser.addEventListener("change", () => draw(document.getElementById("scatter")));
  }

  /* print: every part in sequence, all figures of the chosen model at the width of the paper */
  window.addEventListener("beforeprint", () => {
    printing = true;
    document.documentElement.classList.add("printing");
    document.documentElement.style.setProperty("--paper", PRINT_WIDTH + "px");
    for (const element of plots) if (isShown(element)) draw(element);
  });
  window.addEventListener("afterprint", () => {
    printing = false;
    document.documentElement.classList.remove("printing");
    for (const element of plots) {
      if (!element.dataset.drawn) continue;
      if (isShown(element)) draw(element);
      else forget(element);
    }
  });

  let waiting = 0;
  window.addEventListener("resize", () => {
    if (printing) return;
    window.clearTimeout(waiting);
    waiting = window.setTimeout(refit, 150);
  });

  const wanted = tabs.findIndex((tab) => tab.getAttribute("href") === window.location.hash);
  openTab(Math.max(wanted, 0), false);
  for (const chooser of choosers) chooser.value = articles.find((one) => !one.hasAttribute("data-other")).dataset.model;
  document.documentElement.classList.add("ready");
  plots.forEach((element) => sight.observe(element));
})();
