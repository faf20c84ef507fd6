// Figures as text, and the parts of the page that are made of text. Names go in as text only.
const sides = ["service", "network", "generator", "unattributed"];

const figure = (value) =>
  value === null || value === undefined
    ? "–"
    : value.toLocaleString("en", { maximumSignificantDigits: 3, useGrouping: true });
const whole = (value) => value.toLocaleString("en");
const percent = (part, all) => (all > 0 ? `${Math.round((100 * part) / all)} %` : "–");
const time = (ms) => (ms === null || ms === undefined ? "–" : `${figure(ms)} ms`);

const element = (tag, text, set = {}) => {
  const made = document.createElement(tag);
  made.textContent = text;
  const { shade, ...attributes } = set;
  if (shade) made.dataset.shade = shade;
  return Object.assign(made, attributes);
};

const sum = (parts) => sides.reduce((all, side) => all + parts[side], 0);

// One row of each endpoint, in the order in which they came: most requests first.
const endpointRow = (row) => {
  const line = document.createElement("tr");
  line.append(
    element("td", row.method, { className: "method" }),
    element("td", row.name, { className: "name" }),
    element("td", whole(row.requests)),
    element("td", whole(row.failures)),
    element("td", percent(row.matched, row.requests)),
  );
  for (const statistic of ["mean", "p95"]) {
    const parts = row[statistic];
    line.append(element("td", figure(row[`${statistic}_ms`])));
    for (const side of sides) {
      line.append(element("td", parts ? percent(parts[side], sum(parts)) : "–", { shade: side }));
    }
  }
  return line;
};

const tableHead = () => {
  const groups = document.createElement("tr");
  groups.append(
    element("th", "", { colSpan: 5 }),
    element("th", "all requests (mean)", { className: "group", colSpan: 5 }),
    element("th", "around p95", { className: "group", colSpan: 5 }),
  );
  const heads = document.createElement("tr");
  heads.append(
    element("th", "Method", { className: "method" }),
    element("th", "Name", { className: "name" }),
    ...["Requests", "Failures", "Matched"].map((text) => element("th", text)),
  );
  for (let statistic = 0; statistic < 2; statistic += 1) {
    heads.append(element("th", "ms"), ...sides.map((side) => element("th", side)));
  }
  return [groups, heads];
};

const factList = (now) => {
  const recent = now.recent;
  const unit = now.rate_unit === "tasks" ? " tasks/s" : "/s";
  const wanted = now.target_rate_per_s;
  const parts = recent.mean;
  const facts = [
    ["State", now.state],
    ["Users", whole(now.users)],
    ["Requests", whole(now.requests)],
    [
      wanted === null ? "Rate" : "Rate reached, of wanted",
      `${figure(now.reached_per_s)}${wanted === null ? "" : ` of ${figure(wanted)}`}${unit}`,
    ],
    ["Response time, mean", time(recent.mean_ms)],
    ["p50", time(recent.p50_ms)],
    ["p95", time(recent.p95_ms)],
    ["Generator's share", parts ? percent(parts.generator, sum(parts)) : "–"],
    ["With evidence of the service", percent(recent.matched, recent.requests)],
  ];
  return facts.map(([term, text]) => {
    const fact = document.createElement("div");
    fact.append(element("dt", term), element("dd", text));
    return fact;
  });
};
