// Asks for new figures while the page is seen, and draws them.
(() => {
  const root = document.documentElement;
  const id = (name) => document.getElementById(name);
  const EVERY_MS = 2000;
  const AT_REST_MS = 6000; // no run goes on
  const GOES_ON = ["spawning", "running", "cleanup", "stopping"];
  const series = { of: "", columns: [], points: [] };
  let rows = "";
  let statistic = "mean";
  let next = 0;

  window.addEventListener("error", (event) => {
    root.dataset.error = event.message;
  });

  const theme = () => {
    const dark = window.matchMedia("(prefers-color-scheme: dark)").matches;
    root.dataset.theme = localStorage.theme ?? (dark ? "dark" : "light"); // Locust's own choice
  };
  const colour = (name) => getComputedStyle(root).getPropertyValue(`--${name}`).trim();

  const column = (name) => {
    const at = series.columns.indexOf(name);
    return series.points.map((point) => ({ x: point[0], y: point[at] }));
  };
  const curve = (label, shade, name, set = {}) => ({
    label,
    data: column(name),
    borderColor: colour(shade),
    backgroundColor: colour(shade),
    borderWidth: 1.5,
    pointRadius: 0,
    pointHitRadius: 8,
    spanGaps: true,
    ...set,
  });
  const both = (what) => [
    curve("generator", "generator", `generator_${what}`),
    curve("service", "service", `service_${what}`),
  ];
  const charts = {
    parts: {
      unit: "ms",
      legend: "sides",
      stacked: true,
      curves: () =>
        sides.map((side, at) =>
          curve(side, side, `${statistic}_${side}_ms`, { fill: at ? "-1" : "origin", borderWidth: 0 }),
        ),
    },
    rate: {
      unit: "/s",
      legend: "rates",
      curves: () => [
        curve("reached", "service", "reached_per_s"),
        curve("wanted", "text", "wanted_per_s", { borderDash: [6, 3] }),
      ],
    },
    cpu: { unit: "%", legend: "cpus", curves: () => both("cpu_percent") },
    lag: { unit: "ms", legend: "lags", curves: () => both("lag_ms") },
  };

  const options = (chart) => {
    const ticks = { color: colour("muted") };
    return {
      animation: false,
      maintainAspectRatio: false,
      interaction: { mode: "index", intersect: false },
      plugins: {
        legend: { display: false },
        tooltip: {
          callbacks: {
            title: ([item]) => (item ? `${figure(item.parsed.x)} s` : ""),
            label: (item) => `${item.dataset.label}  ${figure(item.parsed.y)} ${chart.unit}`,
          },
          backgroundColor: colour("text"),
          titleColor: colour("surface"),
          bodyColor: colour("surface"),
          multiKeyBackground: colour("surface"),
        },
      },
      scales: {
        x: {
          type: "linear",
          grid: { display: false },
          border: { color: colour("line") },
          min: series.points[0]?.[0],
          max: series.points.at(-1)?.[0],
          ticks: { ...ticks, maxTicksLimit: 7, callback: (value) => `${figure(value)} s` },
        },
        y: {
          stacked: Boolean(chart.stacked),
          beginAtZero: true,
          suggestedMax: 1,
          grid: { color: colour("line") },
          border: { display: false },
          ticks: { ...ticks, maxTicksLimit: 5, callback: (value) => `${figure(value)} ${chart.unit}` },
        },
      },
    };
  };

  const draw = () => {
    for (const [name, chart] of Object.entries(charts)) {
      // What nothing is known of has no curve and no legend.
      const curves = chart.curves().filter((each) => each.data.some((point) => point.y !== null));
      chart.drawn ??= new Chart(id(name), { type: "line", data: { datasets: [] }, options: {} });
      chart.drawn.data = { datasets: curves };
      chart.drawn.options = options(chart);
      chart.drawn.update("none");
      const shades = { reached: "service", wanted: "text" };
      id(chart.legend).replaceChildren(
        ...curves.map(({ label }) => element("span", label, { shade: shades[label] ?? label })),
      );
    }
  };

  const take = ({ now, series: news, endpoints }) => {
    if (series.of !== news.of) series.points = [];
    series.of = news.of;
    series.columns = news.columns;
    series.points.length = Math.min(series.points.length, news.from);
    series.points.push(...news.points);
    id("facts").replaceChildren(...factList(now));
    if (endpoints) {
      rows = endpoints.version;
      id("head").replaceChildren(...tableHead());
      id("endpoints").replaceChildren(...endpoints.rows.map(endpointRow));
      const { length } = endpoints.rows;
      id("note").textContent =
        length < endpoints.endpoints
          ? `The ${whole(length)} endpoints with the most requests, of ${whole(endpoints.endpoints)}. The CSV has all.`
          : "Of the whole run up to now; attribution is two to three seconds behind.";
    }
    draw();
  };

  const ask = async () => {
    const known = new URLSearchParams({ of: series.of, known: series.points.length, rows });
    const answer = await fetch(`live?${known}`, { cache: "no-store" });
    if (!answer.ok || answer.redirected) throw new Error("Locust does not answer.");
    const news = await answer.json();
    id("live").hidden = news.run === null;
    id("message").hidden = news.run !== null;
    id("message").textContent = "No run yet.";
    if (news.run !== null) take(news);
    root.dataset.ready = String(news.run !== null);
    return GOES_ON.includes(news.now?.state) ? EVERY_MS : AT_REST_MS;
  };

  const look = async () => {
    clearTimeout(next);
    if (document.hidden) return;
    let wait = AT_REST_MS;
    try {
      wait = await ask();
    } catch (error) {
      id("message").hidden = false;
      id("message").textContent = `${error.message} Trying again.`;
    }
    clearTimeout(next);
    next = setTimeout(look, wait);
  };

  for (const button of document.querySelectorAll("[data-statistic]")) {
    button.addEventListener("click", () => {
      statistic = button.dataset.statistic;
      for (const each of document.querySelectorAll("[data-statistic]")) {
        each.setAttribute("aria-pressed", String(each === button));
      }
      draw();
    });
  }
  const recolour = () => {
    theme();
    if (series.points.length) draw();
  };
  window.addEventListener("storage", recolour);
  window.matchMedia("(prefers-color-scheme: dark)").addEventListener("change", recolour);
  document.addEventListener("visibilitychange", look);
  theme();
  look();
})();
