"use strict";

// Draws the chart of the page and shows the tables of the endpoint that is chosen. Data come from
// the page itself; colours come from its style sheet, so that each theme is written down once.
(() => {
  const root = document.documentElement;
  window.addEventListener("error", (event) => {
    root.dataset.error = event.message;
  });

  const data = JSON.parse(document.getElementById("data").textContent);
  const canvas = document.getElementById("chart");
  const frame = canvas.closest(".chart");
  const description = canvas.getAttribute("aria-label");
  const select = document.getElementById("endpoint");
  const buttons = [...document.querySelectorAll("[data-view]")];
  const articles = [...document.querySelectorAll("[data-endpoint]")];
  const state = { endpoint: data.chosen, view: "ms" };

  const colour = (name) => getComputedStyle(root).getPropertyValue(`--${name}`).trim();

  // Three significant digits, as everywhere in the page.
  const figure = (value) => {
    if (value === 0) return "0";
    if (value < 0.001) return "<0.001";
    const rounded = Number(value.toPrecision(3));
    const decimals = Math.max(0, Math.min(3, 2 - Math.floor(Math.log10(rounded))));
    return rounded.toLocaleString("en", {
      minimumFractionDigits: decimals,
      maximumFractionDigits: decimals,
    });
  };

  const shown = () => data.endpoints[state.endpoint];

  const whole = (endpoint, point) =>
    endpoint.series.reduce((sum, series) => sum + series.values_ms[point], 0);

  const datasets = () => {
    const endpoint = shown();
    return endpoint.series.map((series) => ({
      label: series.label,
      grade: series.grade,
      values: series.values_ms,
      data: series.values_ms.map((value, point) => {
        if (state.view === "ms") return value;
        const sum = whole(endpoint, point);
        return sum > 0 ? (100 * value) / sum : 0;
      }),
      backgroundColor: colour(series.label.replace(".", "-")),
      hoverBackgroundColor: colour(series.label.replace(".", "-")),
    }));
  };

  // An objective is drawn where it does not flatten the bars.
  const lines = () => {
    if (state.view !== "ms") return [];
    const endpoint = shown();
    const largest = Math.max(0, ...endpoint.response_ms);
    return endpoint.lines.filter((line) => line.limit_ms <= 2 * largest);
  };

  // The limit across the chart, heavy over the percentile that it is about.
  const objectiveLines = {
    id: "objectiveLines",
    afterDatasetsDraw(chart) {
      const { ctx, chartArea: area, scales } = chart;
      for (const line of lines()) {
        const y = scales.y.getPixelForValue(line.limit_ms);
        const point = shown().percentiles.indexOf(line.percentile);
        ctx.save();
        ctx.strokeStyle = colour("text");
        ctx.lineWidth = 1;
        ctx.setLineDash([4, 4]);
        ctx.beginPath();
        ctx.moveTo(area.left, y);
        ctx.lineTo(area.right, y);
        ctx.stroke();
        if (point >= 0) {
          const bar = chart.getDatasetMeta(0).data[point];
          ctx.setLineDash([]);
          ctx.lineWidth = 3;
          ctx.beginPath();
          ctx.moveTo(bar.x - bar.width / 2 - 3, y);
          ctx.lineTo(bar.x + bar.width / 2 + 3, y);
          ctx.stroke();
        }
        ctx.font = `12px ${Chart.defaults.font.family}`;
        const width = ctx.measureText(line.text).width;
        ctx.fillStyle = colour("surface");
        ctx.fillRect(area.left + 4, y - 21, width + 8, 17);
        ctx.fillStyle = colour("text");
        ctx.textBaseline = "middle";
        ctx.fillText(line.text, area.left + 8, y - 12);
        ctx.restore();
      }
    },
    afterDraw() {
      root.dataset.ready = "true";
    },
  };

  const tooltip = () => ({
    mode: "index",
    intersect: false,
    filter: (item) => item.dataset.values[item.dataIndex] > 0,
    itemSort: (one, other) => other.datasetIndex - one.datasetIndex,
    callbacks: {
      title: ([item]) =>
        item ? `${item.label}: ${figure(shown().response_ms[item.dataIndex])} ms` : "",
      label: (item) => {
        const value = item.dataset.values[item.dataIndex];
        const percent = (100 * value) / whole(shown(), item.dataIndex);
        const share = percent < 1 ? "<1 %" : `${percent.toFixed(0)} %`;
        const grade = item.dataset.grade ? `, ${item.dataset.grade}` : "";
        return `${item.dataset.label}  ${figure(value)} ms  ${share}${grade}`;
      },
    },
    backgroundColor: colour("text"),
    titleColor: colour("surface"),
    bodyColor: colour("surface"),
    multiKeyBackground: colour("surface"),
    padding: 10,
    boxPadding: 4,
  });

  // Names under the bars, few enough to stand apart on a telephone.
  const named = ["p1", "p10", "p25", "p50", "p75", "p95", "p99", "p99.9"];

  const tick = (point) => {
    const percentile = shown().percentiles[point];
    return named.includes(percentile) ? percentile : "";
  };

  const scales = () => {
    const axis = { color: colour("muted") };
    const limits = lines().map((line) => line.limit_ms * 1.1);
    return {
      x: {
        stacked: true,
        grid: { display: false },
        border: { color: colour("line") },
        ticks: { ...axis, autoSkip: false, callback: (_, point) => tick(point) },
        title: { ...axis, display: true, text: "percentile of the response time" },
      },
      y: {
        stacked: true,
        beginAtZero: true,
        suggestedMax: limits.length ? Math.max(...limits) : undefined,
        max: state.view === "ms" ? undefined : 100,
        grid: { color: colour("line") },
        border: { display: false },
        ticks: axis,
        title: { ...axis, display: true, text: state.view === "ms" ? "ms" : "%" },
      },
    };
  };

  Chart.defaults.font.family = getComputedStyle(document.body).fontFamily;
  root.classList.add("script");
  const chart = new Chart(canvas, {
    type: "bar",
    data: { labels: shown().percentiles, datasets: datasets() },
    options: {
      animation: false,
      maintainAspectRatio: false,
      categoryPercentage: 0.8,
      barPercentage: 1,
      plugins: { legend: { display: false }, tooltip: tooltip() },
      scales: scales(),
    },
    plugins: [objectiveLines],
  });

  const draw = () => {
    chart.data = { labels: shown().percentiles, datasets: datasets() };
    chart.options.scales = scales();
    chart.options.plugins.tooltip = tooltip();
    chart.update("none");
  };

  const show = () => {
    for (const article of articles) {
      article.hidden = Number(article.dataset.endpoint) !== state.endpoint;
    }
    for (const button of buttons) {
      button.setAttribute("aria-pressed", String(button.dataset.view === state.view));
    }
    const empty = shown().percentiles.length === 0;
    frame.hidden = empty;
    canvas.setAttribute("aria-label", `${shown().title}. ${description}`);
    if (empty) root.dataset.ready = "true";
    else draw();
  };

  select?.addEventListener("change", () => {
    state.endpoint = Number(select.value);
    show();
  });
  for (const button of buttons) {
    button.addEventListener("click", () => {
      state.view = button.dataset.view;
      show();
    });
  }
  window.matchMedia("(prefers-color-scheme: dark)").addEventListener("change", draw);
  window.addEventListener("beforeprint", () => {
    root.dataset.theme = "light";
    draw();
  });
  window.addEventListener("afterprint", () => {
    delete root.dataset.theme;
    draw();
  });

  if (select) select.value = String(state.endpoint);
  show();
})();
