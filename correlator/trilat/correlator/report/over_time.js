
// Draws the charts over time: one line for each process, a common axis of seconds.
(() => {
  const root = document.documentElement;
  const data = JSON.parse(document.getElementById("data").textContent);
  const colour = (name) => getComputedStyle(root).getPropertyValue(`--${name}`).trim();
  const dashes = [[], [6, 3], [2, 2], [8, 3, 2, 3]];
  const longest = Math.max(
    0,
    ...data.time.flatMap((chart) => chart.curves.map((curve) => curve.elapsed_s.at(-1) ?? 0)),
  );
  const figure = (value) =>
    value.toLocaleString("en", { maximumSignificantDigits: 3, useGrouping: true });

  const lines = (chart) =>
    chart.curves.map((curve) => ({
      label: curve.label,
      data: curve.elapsed_s.map((x, point) => ({ x, y: curve.values[point] })),
      borderColor: colour(curve.shade),
      backgroundColor: colour(curve.shade),
      borderDash: dashes[curve.dash % dashes.length],
      borderWidth: 1.5,
      pointRadius: 0,
      pointHitRadius: 8,
    }));

  const options = (chart) => {
    const axis = { color: colour("muted") };
    return {
      animation: false,
      maintainAspectRatio: false,
      interaction: { mode: "nearest", axis: "x", intersect: false },
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
          min: 0,
          max: longest,
          grid: { display: false },
          border: { color: colour("line") },
          ticks: { ...axis, maxTicksLimit: 7, callback: (value) => `${figure(value)} s` },
        },
        y: {
          beginAtZero: true,
          grid: { color: colour("line") },
          border: { display: false },
          ticks: { ...axis, maxTicksLimit: 5 },
        },
      },
    };
  };

  const charts = [...document.querySelectorAll("[data-time]")].map((canvas) => {
    const chart = data.time[Number(canvas.dataset.time)];
    const drawn = new Chart(canvas, {
      type: "line",
      data: { datasets: lines(chart) },
      options: options(chart),
    });
    return [chart, drawn];
  });

  const redraw = () => {
    for (const [chart, drawn] of charts) {
      drawn.data = { datasets: lines(chart) };
      drawn.options = options(chart);
      drawn.update("none");
    }
  };
  window.matchMedia("(prefers-color-scheme: dark)").addEventListener("change", redraw);
  window.addEventListener("beforeprint", redraw);
  window.addEventListener("afterprint", redraw);
})();
